"""Complex numbers as two real values each: IR has real numbers only."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from .torch_ref import Ref, Refused

if TYPE_CHECKING:
    from .torch_graph import Graph

aten = torch.ops.aten
CHECKS = {"_assert_tensor_metadata"}
VIEWS_IN_PLACE = {"squeeze_", "swapaxes_", "swapdims_", "t_", "transpose_", "unsqueeze_"}  # they write no memory
LONGEST = 4096  # elements of a Fourier transform: it is a product with a matrix


@dataclass
class Complex:
    """A complex value."""

    re: Ref
    im: Ref


def is_complex(value: Any) -> bool:
    """Whether it is a complex value, or has one in it."""
    if isinstance(value, (list, tuple)):
        return any(map(is_complex, value))
    if isinstance(value, dict):
        return any(map(is_complex, value.values()))
    if isinstance(value, torch.Tensor):
        return value.is_complex()
    return isinstance(value, (Complex, complex)) or (isinstance(value, torch.dtype) and value.is_complex)


def concerns_complex(op: torch._ops.OpOverload, args: Any, kwargs: Any, value: Any) -> bool:
    """Whether a call takes or gives complex values, or has them on its way."""
    return op._opname.startswith(("fft_", "_fft_")) or any(map(is_complex, (args, kwargs, value)))


def has_form(op: torch._ops.OpOverload) -> bool:
    """Whether call_complex() may have one for it."""
    return op._opname in {*PART_BY_PART, *RULES, *CHECKS, *VIEWS_IN_PLACE}


def call_complex(graph: Graph, node: torch.fx.Node, op: torch._ops.OpOverload, args: Any, kwargs: Any) -> Any:
    """A call that takes or gives complex values. Throws Refused where it has no form here."""
    if op._opname in VIEWS_IN_PLACE:
        op = _out_of_place(op)
    if op._schema.is_mutable:
        raise Refused("writes complex numbers in place")
    name = op._opname
    if name in CHECKS:
        return None
    call = Call(graph, node, op)
    if name in PART_BY_PART:
        return call.part_by_part(args, kwargs)
    if name not in RULES:
        raise Refused("has no form for complex numbers")
    return RULES[name](call, *args, **kwargs)


def _out_of_place(op: torch._ops.OpOverload) -> torch._ops.OpOverload:
    packet = getattr(aten, op._opname[:-1])
    overloads = [getattr(packet, name) for name in packet.overloads()]
    wanted = [arg.name for arg in op._schema.arguments]
    return next(other for other in overloads if [arg.name for arg in other._schema.arguments] == wanted)


@dataclass
class Call:
    """Writes the nodes that stand for one call."""

    graph: Graph
    node: torch.fx.Node
    op: torch._ops.OpOverload

    def __call__(self, op: torch._ops.OpOverload, *args: Any, **kwargs: Any) -> Any:
        return self.graph.emit(self.node.name, op, *args, **kwargs)

    def parts(self, value: Any) -> tuple[Any, Any]:
        """Real and imaginary part of a value or number; the second is the number 0 where it is real."""
        if isinstance(value, Complex):
            return value.re, value.im
        if isinstance(value, complex):
            return value.real, value.imag
        return value, 0

    def part_by_part(self, args: Any, kwargs: Any) -> Any:
        """What moves numbers, or adds them, does the same to the parts."""
        kwargs = {k: real_dtype(v) for k, v in kwargs.items()}
        results = []
        for part in range(2):
            taken = torch.utils._pytree.tree_map(
                lambda v: self.whole(v)[part] if isinstance(v, Ref) and not _is_index(v) else _part(v, part),  # noqa: B023
                (list(args), kwargs),
                is_leaf=lambda v: isinstance(v, (Ref, Complex)),
            )
            results.append(self(self.op, *taken[0], **taken[1]))
        re, im = results
        if isinstance(re, (list, tuple)):
            return [Complex(r, i) for r, i in zip(re, im, strict=True)]
        return Complex(re, im)

    def whole(self, value: Any) -> tuple[Ref, Ref]:
        """Both parts as values."""
        if isinstance(value, Complex):
            return value.re, value.im
        return value, self(aten.zeros_like.default, value)

    # Of numbers and values, with the zeros of what is real left out.

    def add(self, a: Any, b: Any, sign: int = 1) -> Any:
        if _is_zero(b):
            return a
        if _is_zero(a):
            return b if sign > 0 else self.negative(b)
        if not isinstance(a, Ref) and not isinstance(b, Ref):
            return a + sign * b
        if not isinstance(a, Ref):
            return self.add(b if sign > 0 else self.negative(b), a)
        return self((aten.add if sign > 0 else aten.sub).Tensor, a, b)

    def multiply(self, a: Any, b: Any) -> Any:
        if _is_zero(a) or _is_zero(b):
            return 0
        if not isinstance(a, Ref) and not isinstance(b, Ref):
            return a * b
        return self(aten.mul.Tensor, a, b) if isinstance(a, Ref) else self(aten.mul.Tensor, b, a)

    def negative(self, a: Any) -> Any:
        return self(aten.neg.default, a) if isinstance(a, Ref) else -a

    def bilinear(self, a: Any, b: Any, product: Callable[[Any, Any], Any]) -> Complex:
        """(a + bi)(c + di) for any product."""
        (ar, ai), (br, bi) = self.parts(a), self.parts(b)

        def of(x: Any, y: Any) -> Any:
            return 0 if _is_zero(x) or _is_zero(y) else product(x, y)

        re = self.add(of(ar, br), of(ai, bi), -1)
        im = self.add(of(ar, bi), of(ai, br))
        return self.made(re, im)

    def made(self, re: Any, im: Any) -> Complex:
        """Of parts of which one may be a number; both have the shape of the node's result."""
        like = re if isinstance(re, Ref) else im
        values = [v if isinstance(v, Ref) else self(aten.full_like.default, like, v) for v in (re, im)]
        shape = list(self.node.meta["val"].shape)
        return Complex(*(v if v.tensor["shape"] == shape else self(aten.expand.default, v, shape) for v in values))


def _is_zero(value: Any) -> bool:
    return not isinstance(value, Ref) and value == 0


def _is_index(value: Ref) -> bool:
    return value.tensor["dtype"].startswith(("int", "bool", "uint"))


def _part(value: Any, part: int) -> Any:
    if isinstance(value, Complex):
        return (value.re, value.im)[part]
    if isinstance(value, complex):
        return (value.real, value.imag)[part]
    return real_dtype(value)


def real_dtype(value: Any) -> Any:
    """The dtype of a complex dtype's parts; anything else as it is."""
    return value.to_real() if isinstance(value, torch.dtype) and value.is_complex else value


# What moves numbers without looking at them, and sums.
PART_BY_PART = {
    "alias", "cat", "chunk", "clone", "concat", "contiguous", "detach", "diagonal", "expand", "expand_as", "flatten", "flip",
    "gather", "mT", "index", "index_select", "lift_fresh_copy", "mean", "movedim", "narrow", "neg", "permute", "repeat",
    "repeat_interleave", "reshape", "reshape_as", "resolve_neg", "roll", "select", "slice", "split", "split_with_sizes",
    "squeeze", "stack", "sum", "swapaxes", "swapdims", "t", "transpose", "unbind", "unflatten", "unsqueeze", "view", "view_as",
}  # fmt: skip


# ---- making complex values, and leaving them


def _view_as_complex(call: Call, x: Ref) -> Complex:
    return Complex(call(aten.select.int, x, -1, 0), call(aten.select.int, x, -1, 1))


def _view_as_real(call: Call, z: Complex) -> Ref:
    return call(aten.stack.default, [z.re, z.im], -1)


def _polar(call: Call, length: Ref, angle: Ref) -> Complex:
    return Complex(
        *(call(aten.mul.Tensor, length, call(f, angle)) for f in (aten.cos.default, aten.sin.default))
    )  # fmt: skip


def _to(call: Call, z: Any, *_: Any, **__: Any) -> Any:
    wanted = call.node.meta["val"].dtype
    if not wanted.is_complex:
        return call(aten.to.dtype, z.re, wanted)
    return Complex(*(call(aten.to.dtype, part, wanted.to_real()) for part in call.whole(z)))


def _real(call: Call, z: Any) -> Ref:
    return z.re if isinstance(z, Complex) else z


def _abs(call: Call, z: Complex) -> Ref:
    return call(aten.hypot.default, z.re, z.im)


def _filled(call: Call, *args: Any, **kwargs: Any) -> Complex:
    """zeros, ones, full and their like."""
    value = {"zeros": 0, "ones": 1}.get(call.op._opname.removesuffix("_like"))
    if value is None:
        value = args[1]
    dtype, shape = call.node.meta["val"].dtype.to_real(), list(call.node.meta["val"].shape)
    return Complex(*(call(aten.full.default, shape, part, dtype=dtype) for part in call.parts(value)))


# ---- arithmetic


def _add(sign: int) -> Callable[..., Complex]:
    def rule(call: Call, a: Any, b: Any, alpha: Any = 1) -> Complex:
        if alpha != 1:
            raise Refused("has a factor, with complex numbers")
        (ar, ai), (br, bi) = call.parts(a), call.parts(b)
        return call.made(call.add(ar, br, sign), call.add(ai, bi, sign))

    return rule


def _mul(call: Call, a: Any, b: Any) -> Complex:
    return call.bilinear(a, b, call.multiply)


def _div(call: Call, a: Any, b: Any) -> Complex:
    br, bi = call.parts(b)
    if not isinstance(b, Complex) and not isinstance(b, complex):
        ar, ai = call.parts(a)
        return call.made(call(aten.div.Tensor, ar, b), 0 if _is_zero(ai) else call(aten.div.Tensor, ai, b))
    square = call.add(call.multiply(br, br), call.multiply(bi, bi))
    above = call.bilinear(a, Complex(br, call.negative(bi)) if isinstance(b, Complex) else b.conjugate(), call.multiply)
    return Complex(*(call(aten.div.Tensor, part, square) for part in (above.re, above.im)))


def _where(call: Call, condition: Ref, a: Any, b: Any) -> Complex:
    real = call.node.meta["val"].dtype.to_real()

    def parts(value: Any) -> list[Ref]:
        found = call.whole(value) if isinstance(value, Ref) else call.parts(value)
        return [v if isinstance(v, Ref) else call(aten.full.default, [], v, dtype=real) for v in found]

    return Complex(*(call(aten.where.self, condition, x, y) for x, y in zip(parts(a), parts(b), strict=True)))


def _product(call: Call, a: Any, b: Any) -> Complex:
    return call.bilinear(a, b, lambda x, y: call(call.op, x, y))


def _exp(call: Call, z: Complex) -> Complex:
    return _polar(call, call(aten.exp.default, z.re), z.im)


def _conj(call: Call, z: Complex) -> Complex:
    return Complex(z.re, call.negative(z.im))


# ---- Fourier transforms


def _matrix(call: Call, rows: int, columns: int, size: int, dtype: torch.dtype, function: Any) -> Ref:
    """function(2 pi r c / size), the angle reduced while it is whole."""
    r = call(aten.arange.default, rows)
    c = call(aten.arange.default, columns)
    turn = call(aten.remainder.Scalar, call(aten.mul.Tensor, call(aten.unsqueeze.default, r, 1), c), size)
    angle = call(aten.mul.Tensor, call(aten.to.dtype, turn, torch.float64), 2 * math.pi / size)
    return call(aten.to.dtype, call(function, angle), dtype)


def _along(call: Call, x: Ref, dim: int, matrix: Ref) -> Ref:
    moved = call(aten.matmul.default, call(aten.transpose.int, x, dim, -1), matrix)
    return call(aten.transpose.int, moved, dim, -1)


def _sized(call: Call, z: Any, dim: int, size: int) -> Any:
    """Cut, or with zeros behind it."""
    if isinstance(z, Complex):
        return Complex(_sized(call, z.re, dim, size), _sized(call, z.im, dim, size))
    shape = z.tensor["shape"]
    if shape[dim] >= size:
        return z if shape[dim] == size else call(aten.slice.Tensor, z, dim, 0, size)
    zeros = [*shape]
    zeros[dim] = size - shape[dim]
    more = call(aten.zeros.default, zeros, dtype=getattr(torch, z.tensor["dtype"]))
    return call(aten.cat.default, [z, more], dim)


def _transform(call: Call, z: Any, dim: int, size: int, inverse: bool, half: str = "") -> Any:
    """Along one dimension, without a factor. half: "out" gives the first half of a real signal's spectrum, "in" takes it
    and gives the signal."""
    if size > LONGEST:
        raise Refused(f"is a Fourier transform of {size} elements: at most {LONGEST}")
    z = _sized(call, z, dim, size // 2 + 1 if half == "in" else size)
    re, im = call.parts(z)
    dtype = getattr(torch, re.tensor["dtype"])
    rows = re.tensor["shape"][dim]
    columns = size // 2 + 1 if half == "out" else size
    cos = _matrix(call, rows, columns, size, dtype, aten.cos.default)
    sin = _matrix(call, rows, columns, size, dtype, aten.sin.default)
    if half == "in":  # every bin but the first, and the last of an even size, stands for two
        weights = call(aten.full.default, [rows, 1], 2.0, dtype=dtype)
        ends = [0, rows - 1] if size % 2 == 0 and rows > 1 else [0]
        ones = call(aten.full.default, [1, 1], 1.0, dtype=dtype)
        for row in ends:
            weights = call(aten.slice_scatter.default, weights, ones, 0, row, row + 1)
        cos, sin = (call(aten.mul.Tensor, m, weights) for m in (cos, sin))
        return call.add(_along(call, re, dim, cos), _along(call, im, dim, sin), -1)
    sign = 1 if inverse else -1
    if not isinstance(im, Ref):
        result = _along(call, re, dim, sin)
        return Complex(_along(call, re, dim, cos), result if inverse else call.negative(result))
    return Complex(
        call.add(_along(call, re, dim, cos), _along(call, im, dim, sin), -sign),
        call.add(_along(call, im, dim, cos), _along(call, re, dim, sin), sign),
    )


def _fourier(kind: str, dims: int) -> Callable[..., Any]:
    """fft, ifft, rfft or irfft; dims: 1, 2, or 0 for any number."""
    inverse = kind.startswith("i")

    def rule(call: Call, z: Any, size: Any = None, dim: Any = None, norm: str | None = None, **named: Any) -> Any:
        size, dim = named.get("n", named.get("s", size)), named.get("dim", dim)
        re, _ = call.parts(z)
        if _is_index(re):
            re = z = call(aten.to.dtype, re, torch.get_default_dtype())
        shape = re.tensor["shape"]
        if dims == 1:
            at = [-1 if dim is None else dim]
            sizes = [size]
        else:
            if dim is None:
                dim = [-2, -1] if dims == 2 else list(range(-len(size), 0)) if size else list(range(len(shape)))
            at, sizes = list(dim), list(size) if size else [None] * len(dim)
        at = [d % len(shape) for d in at]
        sizes = [shape[d] if n is None or n < 0 else n for n, d in zip(sizes, at, strict=True)]
        if kind == "irfft":
            sizes[-1] = call.node.meta["val"].shape[at[-1]]
        norms = {"ortho": 0.5, "backward" if inverse else "forward": 1.0}
        return _transforms(call, kind, z, at, sizes, norms.get(norm or "backward", 0.0))

    return rule


def _transforms(call: Call, kind: str, z: Any, at: list[int], sizes: list[int], power: float) -> Any:
    """Along several dimensions, divided by a power of how many elements they have."""
    if kind == "rfft":  # the last dimension first, while the signal is real
        z = _transform(call, z, at[-1], sizes[-1], False, "out")
    for d, n in zip(at[:-1] if "r" in kind else at, sizes, strict=False):
        z = _transform(call, z, d, n, kind.startswith("i"))
    if kind == "irfft":
        z = _transform(call, z if isinstance(z, Complex) else Complex(*call.whole(z)), at[-1], sizes[-1], True, "in")
    factor = math.prod(sizes) ** -power
    if factor == 1:
        return z
    parts = [call.multiply(part, factor) for part in call.parts(z) if isinstance(part, Ref)]
    return parts[0] if len(parts) == 1 else Complex(*parts)


def _decomposed(call: Call, z: Any, dims: list[int], normalization: int, last: Any) -> Any:
    """_fft_c2c, _fft_r2c and _fft_c2r; the last argument: forward, one half of the spectrum, the last size."""
    kind = {"_fft_c2c": "fft" if last else "ifft", "_fft_r2c": "rfft" if last else "fft"}.get(call.op._opname, "irfft")
    shape = call.parts(z)[0].tensor["shape"]
    at = [d % len(shape) for d in dims]
    sizes = [shape[d] for d in at[:-1]] + [last if kind == "irfft" else shape[at[-1]]]
    return _transforms(call, kind, z, at, sizes, normalization / 2)


RULES: dict[str, Callable[..., Any]] = {
    "_conj": _conj,
    "_conj_physical": _conj,
    "_fft_c2c": _decomposed,
    "_fft_c2r": _decomposed,
    "_fft_r2c": _decomposed,
    "_to_copy": _to,
    "abs": _abs,
    "add": _add(1),
    "angle": lambda call, z: call(aten.atan2.default, z.im, z.re),
    "bmm": _product,
    "complex": lambda call, re, im: Complex(re, im),
    "conj": _conj,
    "conj_physical": _conj,
    "div": _div,
    "exp": _exp,
    "full": _filled,
    "full_like": _filled,
    "imag": lambda call, z: z.im,
    "matmul": _product,
    "mm": _product,
    "mul": _mul,
    "ones": _filled,
    "ones_like": _filled,
    "polar": _polar,
    "real": _real,
    "reciprocal": lambda call, z: _div(call, 1.0, z),
    "rsub": lambda call, a, b: _add(-1)(call, b, a),
    "resolve_conj": lambda call, z: z,
    "sub": _add(-1),
    "to": _to,
    "where": _where,
    "view_as_complex": _view_as_complex,
    "view_as_real": _view_as_real,
    "zeros": _filled,
    "zeros_like": _filled,
    **{f"fft_{kind}{suffix}": _fourier(kind, dims)
       for kind in ("fft", "ifft", "rfft", "irfft") for suffix, dims in (("", 1), ("2", 2), ("n", 0))},
}  # fmt: skip
