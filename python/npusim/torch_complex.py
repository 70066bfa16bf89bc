"""Complex numbers as two real values each: IR has real numbers only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from .torch_fourier import decomposed, fourier
from .torch_ref import Complex, Ref, Refused, is_index

if TYPE_CHECKING:
    from .torch_graph import Graph

aten = torch.ops.aten
CHECKS = {"_assert_tensor_metadata"}
VIEWS_IN_PLACE = {"squeeze_", "swapaxes_", "swapdims_", "t_", "transpose_", "unsqueeze_"}  # they write no memory


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
                lambda v: self.whole(v)[part] if isinstance(v, Ref) and not is_index(v) else _part(v, part),  # noqa: B023
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
    "alias", "cat", "chunk", "clone", "concat", "contiguous", "detach", "diagonal", "diagonal_scatter",
    "expand", "expand_as", "flatten", "flip", "gather", "index", "index_put", "index_select", "lift_fresh_copy", "mean",
    "movedim", "mT", "narrow", "neg", "permute", "repeat", "repeat_interleave", "reshape", "reshape_as", "resolve_neg",
    "roll", "select", "select_scatter", "slice", "slice_scatter", "split", "split_with_sizes", "squeeze",
    "stack", "sum", "swapaxes", "swapdims", "t", "transpose", "unbind", "unflatten", "unfold", "unsqueeze", "view",
    "view_as",
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


def _fill(call: Call, z: Any, value: Any) -> Complex:
    return Complex(*(_expanded(call, part, like) for part, like in zip(call.parts(value), call.whole(z), strict=True)))


def _expanded(call: Call, value: Any, like: Ref) -> Ref:
    if not isinstance(value, Ref):
        return call(aten.full_like.default, like, value)
    return call(aten.expand.default, value, like.tensor["shape"])


def _copy(call: Call, to: Any, value: Any, *_: Any) -> Any:
    if not call.node.meta["val"].is_complex():  # the imaginary part has no place
        return call(call.op, to, value.re)
    return call.part_by_part((to, value), {})


def _scatter(call: Call, z: Any, dim: int, index: Ref, given: Any, reduce: str | None = None) -> Complex:
    if reduce is not None:
        raise Refused("has a reduction, with complex numbers")
    values = call.whole(given) if isinstance(given, (Ref, Complex)) else call.parts(given)
    return Complex(*(call(call.op, part, dim, index, v) for part, v in zip(call.whole(z), values, strict=True)))


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


RULES: dict[str, Callable[..., Any]] = {
    "_conj": _conj,
    "_conj_physical": _conj,
    "_fft_c2c": decomposed,
    "_fft_c2r": decomposed,
    "_fft_r2c": decomposed,
    "_to_copy": _to,
    "abs": _abs,
    "add": _add(1),
    "angle": lambda call, z: call(aten.atan2.default, z.im, z.re),
    "bmm": _product,
    "complex": lambda call, re, im: Complex(re, im),
    "conj": _conj,
    "conj_physical": _conj,
    "copy": _copy,
    "div": _div,
    "exp": _exp,
    "fill": _fill,
    "full": _filled,
    "full_like": _filled,
    "imag": lambda call, z: z.im,
    "masked_fill": lambda call, z, mask, value: _where(call, mask, value, z),
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
    "scatter": _scatter,
    "sub": _add(-1),
    "to": _to,
    "where": _where,
    "view_as_complex": _view_as_complex,
    "view_as_real": _view_as_real,
    "zeros": _filled,
    "zeros_like": _filled,
    **{f"fft_{kind}{suffix}": fourier(kind, dims)
       for kind in ("fft", "ifft", "rfft", "irfft") for suffix, dims in (("", 1), ("2", 2), ("n", 0))},
}  # fmt: skip
