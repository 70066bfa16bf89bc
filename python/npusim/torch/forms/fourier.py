"""Fourier transforms, of complex numbers as pairs of real tensors: one operator along one dimension, which PyTorch knows as
torch.ops.npusim.fourier and npusim compiles."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from .pairs import Pair

if TYPE_CHECKING:
    from .complex_call import Call


def fourier(re: Tensor, im: Tensor | None, dim: int, inverse: bool, bins: int, scale: float) -> Pair:
    """The first `bins` of scale · Σ z[n] e^(∓2πi n k / size) along a dimension, of z = re + i im; im None: of real numbers."""
    if im is None and not inverse and bins == re.shape[dim] // 2 + 1:
        found = torch.fft.rfft(re, dim=dim)
    else:
        z = re if im is None else torch.complex(re, im)
        found = torch.fft.ifft(z, dim=dim, norm="forward") if inverse else torch.fft.fft(z, dim=dim)
        found = found.narrow(dim, 0, bins)
    if scale != 1:
        found = found * scale
    # Each in memory of its own, as is said of an operator's results where it is given real tensors.
    return _apart(found.real), _apart(found.imag)


def _fourier(re: Tensor, im: Tensor | None, dim: int, inverse: bool, bins: int, scale: float) -> Pair:
    return _with_extent(re, dim, bins), _with_extent(re, dim, bins)


def fourier_signal(re: Tensor, im: Tensor, dim: int, size: int, scale: float) -> Tensor:
    """The real signal of `size` elements, times scale · size, of the first half of its spectrum. What is imaginary in the bins
    that are real does not count."""
    found = torch.fft.irfft(torch.complex(re, im), size, dim, norm="forward")
    return found if scale == 1 else found * scale


def _fourier_signal(re: Tensor, im: Tensor, dim: int, size: int, scale: float) -> Tensor:
    return _with_extent(re, dim, size)


def _apart(part: Tensor) -> Tensor:
    return part.clone(memory_format=torch.contiguous_format)


def _with_extent(like: Tensor, dim: int, extent: int) -> Tensor:
    shape = list(like.shape)
    shape[dim] = extent
    return like.new_empty(shape)


def _transforms(z: Pair, dims: list[int], inverse: bool, scale: float) -> Pair:
    """Along several dimensions, the scale with the last of them."""
    for dim in dims:
        of_last = scale if dim == dims[-1] else 1.0
        z = torch.ops.npusim.fourier(*z, dim, inverse, z[0].shape[dim], of_last)
    return z


def _mirrored(z: Pair, dim: int, size: int) -> Pair:
    """A whole spectrum of its first half: that of a real signal."""
    inner = (size - 1) // 2
    re, im = (part.narrow(dim, 1, inner).flip(dim) for part in z)
    return torch.cat([z[0], re], dim), torch.cat([z[1], -im], dim)


def _c2c(call: Call, z: Any, dims: list[int], normalization: int, forward: bool) -> Any:
    def run(z: Pair) -> Pair:
        return _transforms((z[0], z[1]), dims, not forward, _scale(z[0], dims, normalization))

    return call.apply(run, z)


def _r2c(call: Call, x: Any, dims: list[int], normalization: int, onesided: bool) -> Any:
    def run(x: Tensor) -> Pair:
        *others, last = dims
        scale, size = _scale(x, dims, normalization), x.shape[last]
        found = torch.ops.npusim.fourier(x, None, last, False, size // 2 + 1, 1.0 if others else scale)
        if not onesided:
            found = _mirrored(found, last, size)
        return _transforms(found, others, False, scale)

    return call.apply(run, x)


def _c2r(call: Call, z: Any, dims: list[int], normalization: int, size: int) -> Any:
    def run(z: Pair) -> Tensor:
        *others, last = dims
        whole = math.prod(z[0].shape[dim] for dim in others) * size
        re, im = (part.narrow(last, 0, size // 2 + 1) for part in _transforms((z[0], z[1]), others, True, 1.0))
        return torch.ops.npusim.fourier_signal(re, im, last, size, _normalized(whole, normalization))

    return call.apply(run, z)


def _scale(x: Tensor, dims: list[int], normalization: int) -> float:
    return _normalized(math.prod(x.shape[dim] for dim in dims), normalization)


def _normalized(size: int, normalization: int) -> float:
    """normalization: 0 of nothing, 1 by the root of the size, 2 by the size."""
    return (1.0, 1 / math.sqrt(size), 1 / size)[normalization]


FOURIER: dict[str, Callable[..., Any]] = {"_fft_c2c": _c2c, "_fft_c2r": _c2r, "_fft_r2c": _r2c}


# Last of all: an import that is interrupted is made again, and what it had registered is still there and works.
LIBRARY = torch.library.Library("npusim", "FRAGMENT")
SCHEMAS = {
    "fourier": "(Tensor re, Tensor? im, int dim, bool inverse, SymInt bins, float scale) -> (Tensor, Tensor)",
    "fourier_signal": "(Tensor re, Tensor im, int dim, SymInt size, float scale) -> Tensor",
}
for name, schema in SCHEMAS.items():
    if not torch._C._jit_get_schemas_for_operator(f"npusim::{name}"):
        LIBRARY.define(name + schema)
for name, key, function in (
    ("fourier", "CompositeExplicitAutograd", fourier),
    ("fourier", "Meta", _fourier),
    ("fourier_signal", "CompositeExplicitAutograd", fourier_signal),
    ("fourier_signal", "Meta", _fourier_signal),
):
    if not torch._C._dispatch_has_kernel_for_dispatch_key(f"npusim::{name}", key):
        LIBRARY.impl(name, function, key)
