"""Fourier transforms of complex numbers as two real values each: products with matrices of cosines and sines."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from .torch_ref import Complex, Ref, Refused, is_index

if TYPE_CHECKING:
    from .torch_complex import Call

aten = torch.ops.aten
LONGEST = 4096  # elements


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


def fourier(kind: str, dims: int) -> Callable[..., Any]:
    """fft, ifft, rfft or irfft; dims: 1, 2, or 0 for any number."""
    inverse = kind.startswith("i")

    def rule(call: Call, z: Any, size: Any = None, dim: Any = None, norm: str | None = None, **named: Any) -> Any:
        size, dim = named.get("n", named.get("s", size)), named.get("dim", dim)
        re, _ = call.parts(z)
        if is_index(re):
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


def decomposed(call: Call, z: Any, dims: list[int], normalization: int, last: Any) -> Any:
    """_fft_c2c, _fft_r2c and _fft_c2r; the last argument: forward, one half of the spectrum, the last size."""
    kind = {"_fft_c2c": "fft" if last else "ifft", "_fft_r2c": "rfft" if last else "fft"}.get(call.op._opname, "irfft")
    shape = call.parts(z)[0].tensor["shape"]
    at = [d % len(shape) for d in dims]
    sizes = [shape[d] for d in at[:-1]] + [last if kind == "irfft" else shape[at[-1]]]
    return _transforms(call, kind, z, at, sizes, normalization / 2)
