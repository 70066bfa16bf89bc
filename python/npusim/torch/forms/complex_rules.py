"""What each operator does to complex numbers: the same to both parts, or what its rule says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from . import pairs
from .complex_call import Call, as_meta, converted, nonzero, pair, real_dtype
from .fourier import FOURIER
from .pairs import Pair
from .ref import Complex, Parts, Ref, Refused

aten = torch.ops.aten

# What moves numbers without looking at them, and sums.
PART_BY_PART = {
    "alias", "alias_copy", "as_strided", "as_strided_scatter", "cat", "chunk", "clone", "concat", "constant_pad_nd", "contiguous", "cumsum", "detach",
    "detach_copy", "diag", "diag_embed", "diagonal", "diagonal_copy", "diagonal_scatter", "expand", "expand_as", "expand_copy",
    "flatten", "flip", "gather", "im2col", "index", "index_copy", "index_fill", "index_put", "index_select",
    "lift_fresh", "lift_fresh_copy", "masked_fill", "masked_scatter", "movedim", "mT", "nan_to_num", "narrow",
    "narrow_copy", "neg", "pad", "permute", "permute_copy", "pixel_shuffle", "pixel_unshuffle", "reflection_pad1d",
    "reflection_pad2d", "reflection_pad3d", "repeat", "repeat_interleave", "replication_pad1d", "replication_pad2d",
    "replication_pad3d", "reshape", "reshape_as", "resolve_neg", "roll", "rot90", "scatter_add", "select", "select_copy",
    "select_scatter", "slice", "slice_copy", "slice_scatter", "split", "split_with_sizes", "squeeze", "squeeze_copy",
    "stack", "sum", "swapaxes", "swapdims", "t", "take", "trace", "transpose", "transpose_copy", "tril", "triu", "unbind",
    "unflatten", "unfold", "unfold_copy", "unsqueeze", "unsqueeze_copy", "view_as", "view_copy", "where",
}  # fmt: skip


# ---- making complex values, and leaving them


def _view_as_complex(call: Call, x: Ref) -> Complex:
    return call.apply(lambda x: (x.select(-1, 0), x.select(-1, 1)), x)


def _view(call: Call, z: Any, *args: Any, **kwargs: Any) -> Any:
    """view() in another shape, or of the same memory in another dtype."""
    if call.op._overloadname != "dtype":
        return call.part_by_part((z, *args), kwargs)
    dtype, given = call.result().dtype, as_meta(z).dtype
    if dtype == given:
        return z
    if dtype.is_complex and given == dtype.to_real():
        return call.apply(lambda x: tuple(x.unflatten(-1, (-1, 2)).unbind(-1)), z)
    if given.is_complex and dtype == given.to_real():
        return call.apply(lambda z: torch.stack(z, -1).flatten(-2), z)
    raise Refused(f"shows {given} as {dtype}")


def _to(call: Call, z: Any, *_: Any, **__: Any) -> Any:
    return call.apply(lambda value: converted(value, call.result().dtype), z)


def _filled(call: Call, *args: Any, **kwargs: Any) -> Complex:
    """zeros, ones, full and their like, and scalar_tensor."""
    name = call.op._opname.removeprefix("new_").removesuffix("_like")
    given = [kwargs.get(at, args[i] if i < len(args) else None) for i, at in enumerate(("size", "fill_value"))]
    value = {"ones": 1, "full": given[1], "scalar_tensor": args[0] if args else kwargs.get("s")}.get(name, 0)
    if call.op._opname == "new_full":
        value = kwargs.get("fill_value", args[2] if len(args) > 2 else None)
    if isinstance(value, (Ref, Complex)):
        return call.pointwise(lambda z: z, value)
    number, shape = complex(value), list(call.result().shape)
    return call.apply(lambda: tuple(torch.full(shape, x, dtype=call.dtype()) for x in (number.real, number.imag)))


def _eye(call: Call, *sizes: int, **_: Any) -> Complex:
    dtype = call.dtype()

    def run() -> Pair:
        ones = torch.eye(*sizes, dtype=dtype)
        return ones, torch.zeros_like(ones)

    return call.apply(run)


def _linspace(call: Call, start: Any, end: Any, steps: int, **_: Any) -> Complex:
    dtype = call.dtype()

    def run(start: Any, end: Any) -> Pair:
        held = any(isinstance(value, (Tensor, Parts)) for value in (start, end))
        ends = [pair(value, dtype) if held else (complex(value).real, complex(value).imag) for value in (start, end)]
        return tuple(torch.linspace(first, last, steps, dtype=dtype) for first, last in zip(*ends))  # type: ignore[return-value]

    return call.apply(run, start, end)


def _copy(call: Call, to: Any, value: Any, *_: Any) -> Any:
    shape = list(call.result().shape)

    def run(value: Any) -> Any:
        found = converted(value, call.result().dtype)
        return tuple(x.expand(shape) for x in found) if isinstance(found, tuple) else found.expand(shape)

    return call.apply(run, value)


def _scatter(call: Call, *args: Any, **kwargs: Any) -> Complex:
    if "reduce" in [arg.name for arg in call.op._schema.arguments]:
        raise Refused("has a reduction, with complex numbers")
    return call.part_by_part(args, kwargs)


def _index_add(call: Call, self: Any, dim: int, index: Any, source: Any, alpha: Any = 1) -> Any:
    """Real multiples are those of both parts."""
    if not isinstance(alpha, complex):
        return call.part_by_part((self, dim, index, source), {"alpha": alpha})
    dtype = call.dtype()
    scaled = call.apply(lambda value: pairs.multiply(pair(alpha, dtype), pair(value, dtype)), source)
    return call.part_by_part((self, dim, index, scaled), {})


# ---- arithmetic


def _of_pairs(function: Callable[..., Any]) -> Callable[..., Any]:
    """Of as many operands as the call has."""
    return lambda call, *operands, **named: call.pointwise(function, *operands, *named.values())


def _add(call: Call, a: Any, b: Any, alpha: Any = 1) -> Any:
    return call.pointwise(pairs.add, a, b, alpha)


def _sub(call: Call, a: Any, b: Any, alpha: Any = 1) -> Any:
    return _add(call, a, b, -alpha)


def _div(call: Call, a: Any, b: Any, rounding_mode: str | None = None) -> Complex:
    return call.pointwise(pairs.divide, a, b)


POWERS: dict[complex, Callable[[Pair], Pair]] = {  # that PyTorch computes by other means
    0: lambda z: (torch.ones_like(z[0]), torch.zeros_like(z[0])),
    1: lambda z: z,
    2: pairs.square,
    3: lambda z: pairs.multiply(pairs.square(z), z),
    0.5: pairs.sqrt,
    -0.5: pairs.rsqrt,
    -1: pairs.reciprocal,
    -2: lambda z: pairs.reciprocal(pairs.square(z)),
}


def _pow(call: Call, base: Any, exponent: Any) -> Complex:
    if not isinstance(exponent, (Ref, Complex)) and complex(exponent) in POWERS:
        return call.pointwise(POWERS[complex(exponent)], base)
    if not isinstance(base, (Ref, Complex)) and complex(base) == 1:
        return call.pointwise(POWERS[0], exponent)
    return call.pointwise(pairs.power, base, exponent)


def _add_product(function: Callable[[Pair, Pair], Pair]) -> Callable[..., Any]:
    def rule(call: Call, self: Any, a: Any, b: Any, value: Any = 1) -> Any:
        def run(self: Pair, a: Pair, b: Pair, value: Pair) -> Pair:
            re, im = function(pairs.multiply(value, a), b)
            return self[0] + re, self[1] + im

        return call.pointwise(run, self, a, b, value)

    return rule


def _lerp(call: Call, start: Any, end: Any, weight: Any) -> Any:
    def run(start: Pair, end: Pair, weight: Pair) -> Pair:
        way = end[0] - start[0], end[1] - start[1]
        near, far = pairs.multiply(weight, way), pairs.multiply(way, (1 - weight[0], -weight[1]))
        small = weight[0] * weight[0] + weight[1] * weight[1] < 0.25
        parts = zip(start, end, near, far, strict=True)
        return tuple(torch.where(small, s + n, e - f) for s, e, n, f in parts)  # type: ignore[return-value]

    return call.pointwise(run, start, end, weight)


def _product(call: Call, a: Any, b: Any) -> Any:
    """(a + bi)(c + di) of matrices and vectors; of matrices as one real product, of parts side by side."""
    dtype = call.dtype()

    def run(a: Any, b: Any) -> Pair:
        (ar, ai), (br, bi) = pair(a, dtype), pair(b, dtype)
        if min(ar.dim(), br.dim()) > 1:
            left = torch.cat([ar, ai], -1)
            right = torch.cat([torch.cat([br, bi], -1), torch.cat([-bi, br], -1)], -2)
            return tuple(call.op(left, right).chunk(2, -1))  # type: ignore[return-value]
        return call.op(ar, br) - call.op(ai, bi), call.op(ar, bi) + call.op(ai, br)

    return call.apply(run, a, b)


def _convolution(call: Call, x: Any, weight: Any, bias: Any = None, *args: Any, **kwargs: Any) -> Any:
    dtype = call.dtype()

    def run(x: Any, weight: Any, bias: Any) -> Pair:
        def of(a: Tensor, b: Tensor) -> Tensor:
            return call.op(a, b, None, *args, **kwargs)

        (xr, xi), (wr, wi) = pair(x, dtype), pair(weight, dtype)
        re, im = of(xr, wr) - of(xi, wi), of(xr, wi) + of(xi, wr)
        if bias is None:
            return re, im
        br, bi = (part.reshape(-1, *[1] * (wr.dim() - 2)) for part in pair(bias, dtype))
        return re + br, im + bi

    return call.apply(run, x, weight, bias)


# ---- reductions, and questions


def _mean(call: Call, z: Any, *args: Any, **kwargs: Any) -> Any:
    """The sum, divided by a complex number: that makes NaN beside an infinity."""
    parts = call.dtype()
    whole, mean = as_meta(z).numel(), call.result().numel()

    def run(value: Any) -> Any:
        of = "dim_IntList" if call.op._overloadname == "dim" else "default"
        re, im = (getattr(aten.sum, of)(part, *args, **kwargs) for part in pair(value, parts))
        count = torch.full_like(re, whole / mean if mean else 1.0)
        return pairs.divide((re, im), (count, torch.zeros_like(count)))

    kwargs.pop("dtype", None)
    return call.apply(run, z)


def _by_size(call: Call, z: Any, *args: Any, **kwargs: Any) -> Ref:
    """Norms, which are of absolute values."""
    kwargs = {name: real_dtype(value) for name, value in kwargs.items()}
    args = tuple(map(real_dtype, args))
    return call.apply(lambda z: call.op(pairs.absolute(z), *args, **kwargs), z)


def _variance(call: Call, z: Any, *args: Any, **kwargs: Any) -> Any:
    """The sum of both parts'."""
    name, overload = call.op._opname, call.op._overloadname
    var = getattr(aten.var, overload)

    def run(z: Pair) -> Any:
        found = var(z[0], *args, **kwargs) + var(z[1], *args, **kwargs)
        if name.endswith("_mean"):
            means = (getattr(aten.var_mean, overload)(part, *args, **kwargs)[1] for part in z)
            return [found if name == "var_mean" else found.sqrt(), *means]
        return found if name == "var" else found.sqrt()

    found = call.apply(run, z)
    return [found[0], Complex(*found[1:])] if isinstance(found, list) else found


def _of_real_parts(call: Call, z: Any, *args: Any) -> Any:
    """In a real dtype, which is taken before anything is computed."""
    dtype = call.result().dtype
    return call.apply(lambda z: call.op(converted(z, dtype), *args), z)


def _times_one(z: Pair) -> Pair:
    return pairs.multiply((torch.ones_like(z[0]), torch.zeros_like(z[0])), z)


def _prod(call: Call, z: Any, dim: int | None = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """By halves: the product of the first with the second half, of these again, and so on. As PyTorch's begins with 1, so
    does each number here: that makes NaN beside an infinity."""
    if not call.result().is_complex():
        return _of_real_parts(call, z, dim, keepdim) if dim is not None else _of_real_parts(call, z)
    parts = call.dtype()

    def run(value: Any) -> Pair:
        z = _times_one(pair(value, parts))
        if dim is None:
            z = z[0].flatten(), z[1].flatten()
        at = -1 if dim is None else dim
        if z[0].dim() == 0:
            return z
        if z[0].shape[at] == 0:
            z = torch.ones_like(z[0].sum(at, keepdim=True)), torch.zeros_like(z[0].sum(at, keepdim=True))
        while (size := z[0].shape[at]) > 1:
            half = size // 2
            first, second = (tuple(part.narrow(at, start, half) for part in z) for start in (0, half))
            product = pairs.multiply(first, second)  # type: ignore[arg-type]
            rest = [part.narrow(at, size - 1, 1) for part in z] if size % 2 else []
            z = tuple(torch.cat([p, r], at) for p, r in zip(product, rest)) if rest else product  # type: ignore[assignment]
        return z if keepdim and dim is not None else (z[0].squeeze(at), z[1].squeeze(at))

    return call.apply(run, z)


def _cumprod(call: Call, z: Any, dim: int, *, dtype: Any = None) -> Any:
    """Each times the one 1, 2, 4, … before it; from the first that is not finite on as one after the other has them."""
    if not call.result().is_complex():
        return _of_real_parts(call, z, dim)
    parts = call.dtype()

    def run(value: Any) -> Pair:
        given = pair(value, parts)
        if given[0].dim() == 0 or given[0].shape[dim] == 0:
            return given
        z, step, size = given, 1, given[0].shape[dim]
        while step < size:
            head = tuple(part.narrow(dim, 0, step) for part in z)
            before, after = (tuple(part.narrow(dim, s, size - step) for part in z) for s in (0, step))
            product = pairs.multiply(before, after)  # type: ignore[arg-type]
            z = tuple(torch.cat([h, p], dim) for h, p in zip(head, product))  # type: ignore[assignment]
            step *= 2
        return _endless(z, given, dim)

    return call.apply(run, z)


def _endless(products: Pair, given: Pair, dim: int) -> Pair:
    """Products with those behind an infinity or NaN one after the other: the second has NaN in a part, and all that follow in
    both."""
    endless = ~(given[0].isfinite() & given[1].isfinite())
    since = (endless.to(torch.int64).cumsum(dim) > 0).to(torch.int64).cumsum(dim)  # 1 at the first
    one = tuple(torch.full_like(part.narrow(dim, 0, 1), x) for part, x in zip(given, (1.0, 0.0), strict=True))
    for place in (1, 2):
        before = tuple(torch.cat([o, p.narrow(dim, 0, p.shape[dim] - 1)], dim) for o, p in zip(one, products, strict=True))
        after = pairs.multiply(before, given)  # type: ignore[arg-type]
        products = tuple(torch.where(since == place, a, p) for a, p in zip(after, products, strict=True))  # type: ignore[assignment]
    return tuple(torch.where(since > 2, torch.nan, p) for p in products)  # type: ignore[return-value]


def _equal(unequal: bool) -> Callable[..., Any]:
    def rule(call: Call, a: Any, b: Any) -> Any:
        def run(a: Pair, b: Pair) -> Tensor:
            if unequal:
                return (a[0] != b[0]) | (a[1] != b[1])
            return (a[0] == b[0]) & (a[1] == b[1])

        return call.pointwise(run, a, b, dtype=call.common_dtype(a, b))

    return rule


def _is_close(
    call: Call, a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Any:
    def run(a: Pair, b: Pair) -> Tensor:
        close = (a[0] == b[0]) & (a[1] == b[1])
        if equal_nan:
            close = close | ((a[0].isnan() | a[1].isnan()) & (b[0].isnan() | b[1].isnan()))
        distance = pairs.absolute((a[0] - b[0], a[1] - b[1]))
        return close | (distance.isfinite() & (distance <= atol + pairs.absolute(b) * rtol))

    return call.pointwise(run, a, b, dtype=call.common_dtype(a, b))


def _truth(call: Call, *args: Any, **kwargs: Any) -> Any:
    """What only asks which numbers are 0."""
    return call.apply(lambda args: call.op(*map(_as_truth, args), **kwargs), args)


def _as_truth(value: Any) -> Any:
    return nonzero(value) if isinstance(value, Parts) else value


def _of_parts(function: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Any]:
    return lambda call, z: call.apply(lambda z: function(*z), z)


RULES: dict[str, Callable[..., Any]] = {
    **{name: _of_pairs(function) for name, function in pairs.UNARY.items()},
    **dict.fromkeys(("_conj", "_conj_physical", "conj", "conj_physical"), lambda call, z: Complex(z.re, call.apply(torch.neg, z.im))),
    **dict.fromkeys(("_to_copy", "to", "type_as"), _to),
    **dict.fromkeys(("abs", "absolute"), _of_parts(torch.hypot)),
    **dict.fromkeys(("all", "any", "count_nonzero", "logical_and", "logical_not", "logical_or", "logical_xor"), _truth),
    **dict.fromkeys(("bmm", "dot", "matmul", "mm", "mv"), _product),
    **dict.fromkeys(
        ("convolution", *(f"conv{kind}{n}d" for kind in ("", "_transpose") for n in (1, 2, 3))), _convolution
    ),
    **dict.fromkeys(("linalg_vector_norm", "norm"), _by_size),
    **dict.fromkeys(("std", "std_mean", "var", "var_mean"), _variance),
    **{
        f"{new}{name}{like}": _filled
        for name in ("empty", "full", "ones", "zeros") for new, like in (("", ""), ("new_", ""), ("", "_like"))
    },
    "_functional_assert_async": lambda call, held, why, z: Complex(call.apply(lambda h, x: call.op(h, why, x), held, z.re), z.im),
    "_neg_view": lambda call, z: call.part_by_part((z,), {}),
    "add": _add,
    "addcdiv": _add_product(pairs.divide),
    "addcmul": _add_product(pairs.multiply),
    "angle": _of_parts(lambda re, im: torch.atan2(im, re)),
    "complex": _of_pairs(lambda re, im: (re[0], im[0])),
    "copy": _copy,
    "cumprod": _cumprod,
    "div": _div,
    "eq": _equal(False),
    "eye": _eye,
    "fill": lambda call, z, value: call.pointwise(lambda v: v, value),
    "imag": lambda call, z: z.im,
    "index_add": _index_add,
    "isclose": _is_close,
    "isfinite": _of_parts(lambda re, im: re.isfinite() & im.isfinite()),
    "isinf": _of_parts(lambda re, im: re.isinf() | im.isinf()),
    "isnan": _of_parts(lambda re, im: re.isnan() | im.isnan()),
    "isreal": _of_parts(lambda re, im: im == 0),
    "lerp": _lerp,
    "linspace": _linspace,
    "logaddexp": _of_pairs(pairs.logaddexp),
    "mean": _mean,
    "mul": _of_pairs(pairs.multiply),
    "ne": _equal(True),
    "polar": _of_pairs(lambda length, angle: pairs.polar(length[0], angle[0])),
    "pow": _pow,
    "prod": _prod,
    "real": lambda call, z: z.re if isinstance(z, Complex) else z,
    "resolve_conj": lambda call, z: z,
    "rsub": lambda call, a, b, alpha=1: _sub(call, b, a, alpha),
    "scalar_tensor": _filled,
    "scatter": _scatter,
    "sub": _sub,
    "view": _view,
    "view_as_complex": _view_as_complex,
    "view_as_real": lambda call, z: call.apply(lambda z: torch.stack(z, -1), z),
    "zero": _filled,
    **FOURIER,
}  # fmt: skip
