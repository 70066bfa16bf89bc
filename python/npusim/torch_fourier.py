"""Fourier transforms of any length, of complex numbers as pairs of real tensors: products with matrices of cosines and sines.

A length n = n1 · n2 is n1 · n2 transforms of n2 and of n1 elements, with a turn between them (Cooley and Tukey), so that
matrices stay small; a long length without such divisors is a convolution of a length that has them (Bluestein). The matrices
are computed in float64 and exact where an angle is a whole number of quarter turns."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from .torch_pairs import Pair, multiply

if TYPE_CHECKING:
    from .torch_complex_call import Call

WHOLE = 256  # elements: up to here one product with a whole matrix
FACTOR = 64  # of a longer length that is transformed by one product
PRIME = 1024  # without factors: one product up to here


def _turns(numerator: Tensor, size: int) -> Pair:
    """Cosine and sine of 2π · numerator / size in float64, of whole numbers in [0, size)."""

    def sine(quarters: Tensor) -> Tensor:  # of π/2 · quarters / size, of numbers in [0, 5 size)
        quarters = quarters % (4 * size)
        down = quarters > 2 * size
        quarters = torch.where(down, 4 * size - quarters, quarters)
        near = torch.minimum(quarters, 2 * size - quarters).to(torch.float64)  # from the closest zero
        found = (near * (math.pi / 2 / size)).sin()
        return torch.where(down, -found, found)

    return sine(4 * numerator + size), sine(4 * numerator)


def _matrix(rows: int, columns: int, size: int, dtype: torch.dtype) -> Pair:
    """Cosines and sines of 2π r c / size."""
    turned = torch.arange(rows).unsqueeze(1) * torch.arange(columns) % size
    cos, sin = _turns(turned, size)
    return cos.to(dtype), sin.to(dtype)


def _divisor(size: int) -> int:
    """Of two factors the one to begin with: as near to the root as one product may be; 1 where there is none."""
    limit = min(FACTOR, math.isqrt(size))
    return next(n for n in range(limit, 0, -1) if size % n == 0)


def transform(z: Pair, sign: int) -> Pair:
    """Σ z[n] e^(sign · 2πi n k / size) along the last dimension."""
    size, dtype = z[0].shape[-1], z[0].dtype
    first = 1 if size <= WHOLE else _divisor(size)
    if first == 1:
        if size > max(WHOLE, PRIME):
            return _by_convolution(z, sign)
        cos, sin = _matrix(size, size, size, dtype)
        return _turned_sum(z, lambda part: part @ cos, lambda part: part @ sin, sign)
    return _by_factors(lambda cos, sin: _turned_sum(z, *_from_left(first, cos, sin), sign), first, size, sign, dtype)


def _turned_sum(z: Pair, cos: Callable[[Tensor], Tensor], sin: Callable[[Tensor], Tensor], sign: int) -> Pair:
    re, im = z
    if sign > 0:
        return cos(re) - sin(im), cos(im) + sin(re)
    return cos(re) + sin(im), cos(im) - sin(re)


def _from_left(first: int, cos: Tensor, sin: Tensor) -> tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]:
    """Products with rows of `first` elements that lie apart."""
    return (lambda part: cos @ part.unflatten(-1, (first, -1))), (lambda part: sin @ part.unflatten(-1, (first, -1)))


def _by_factors(
    begin: Callable[[Tensor, Tensor], Pair], first: int, size: int, sign: int, dtype: torch.dtype
) -> Pair:
    """begin: the transforms of `first` elements, with this matrix. Gives element k1 + first · k2 of [k1, k2]."""
    second = size // first
    begun = begin(*_matrix(first, first, first, dtype))
    cos, sin = _matrix(first, second, size, dtype)
    re, im = transform(multiply(begun, (cos, sin if sign > 0 else -sin)), sign)
    return re.transpose(-1, -2).flatten(-2), im.transpose(-1, -2).flatten(-2)


def _by_convolution(z: Pair, sign: int) -> Pair:
    """k n = (k² + n² − (k − n)²) / 2: the signal, turned by n²/2, with a filter of turns by −n²/2."""
    size, dtype = z[0].shape[-1], z[0].dtype
    length = _smooth(2 * size - 1)
    place = torch.arange(size)
    cos, sin = _turns(place * place % (2 * size), 2 * size)
    cos, sin = cos, sin if sign > 0 else -sin
    filters = [torch.cat([part, part.new_zeros(length - 2 * size + 1), part[1:].flip(0)]) for part in (cos, -sin)]
    filtered = transform((filters[0], filters[1]), -1)  # in float64
    turn = cos.to(dtype), sin.to(dtype)
    re, im = (torch.nn.functional.pad(part, (0, length - size)) for part in multiply(z, turn))
    spectrum = multiply(transform((re, im), -1), (filtered[0].to(dtype), filtered[1].to(dtype)))
    re, im = (part.narrow(-1, 0, size) / length for part in transform(spectrum, 1))
    return multiply((re, im), turn)


def _smooth(size: int) -> int:
    """The next length that is a product of 2, 3 and 5."""
    while True:
        rest = size
        for prime in (2, 3, 5):
            while rest % prime == 0:
                rest //= prime
        if rest == 1:
            return size
        size += 1


def _of_real(x: Tensor) -> Pair:
    """The first half of a real signal's spectrum. The first bin, and of an even size the last, is real."""
    size, dtype = x.shape[-1], x.dtype
    half, inner = size // 2 + 1, (size - 1) // 2
    first = 1 if size <= WHOLE else _divisor(size)
    if first > 1:
        re, im = _by_factors(
            lambda cos, sin: tuple(f(x) for f in _from_left(first, cos, -sin)),  # type: ignore[arg-type, return-value]
            first,
            size,
            -1,
            dtype,
        )
        re, im = re.narrow(-1, 0, half), im.narrow(-1, 1, inner)
    elif size > max(WHOLE, PRIME):
        re, im = _by_convolution((x, torch.zeros_like(x)), -1)
        re, im = re.narrow(-1, 0, half), im.narrow(-1, 1, inner)
    else:
        cos, sin = _matrix(size, half, size, dtype)
        re = x @ cos
        if not inner:
            return re, torch.zeros_like(re)
        im = x @ -sin.narrow(-1, 1, inner)
    return re, torch.nn.functional.pad(im, (1, half - 1 - inner))


def _to_real(z: Pair, size: int) -> Tensor:
    """The signal, times its size, of a half of a spectrum: what is imaginary in the bins that are real does not count."""
    half, inner = size // 2 + 1, (size - 1) // 2
    re, im = z[0].narrow(-1, 0, half), z[1].narrow(-1, 1, inner)
    if size <= WHOLE:  # every bin but those stands for two
        cos, sin = _matrix(half, size, size, re.dtype)
        weights = torch.nn.functional.pad(re.new_full((inner, 1), 2.0), (0, 0, 1, half - 1 - inner), value=1.0)
        signal = re @ (cos * weights)
        return signal - im @ (2.0 * sin.narrow(0, 1, inner)) if inner else signal
    im = torch.nn.functional.pad(im, (1, half - 1 - inner))
    back = [part.narrow(-1, 1, inner).flip(-1) for part in (re, im)]
    return transform((torch.cat([re, back[0]], -1), torch.cat([im, -back[1]], -1)), 1)[0]


def _mirrored(z: Pair, size: int) -> Pair:
    """A whole spectrum of its first half: that of a real signal."""
    inner = (size - 1) // 2
    re, im = (part.narrow(-1, 1, inner).flip(-1) for part in z)
    return torch.cat([z[0], re], -1), torch.cat([z[1], -im], -1)


def _along(z: Any, dim: int, function: Callable[[Any], Any]) -> Any:
    """A function of the last dimension, of another one; of a tensor or a pair."""

    def moved(value: Any) -> Any:
        return tuple(moved(part) for part in value) if isinstance(value, tuple) else value.transpose(dim, -1)

    return moved(function(moved(z)))


def _c2c(call: Call, z: Any, dims: list[int], normalization: int, forward: bool) -> Any:
    def run(z: Pair) -> Pair:
        found: Pair = (z[0], z[1])
        for dim in dims:
            found = _along(found, dim, lambda part: transform(part, -1 if forward else 1))
        return _scaled(found, math.prod(z[0].shape[d] for d in dims), normalization)

    return call.apply(run, z)


def _r2c(call: Call, x: Any, dims: list[int], normalization: int, onesided: bool) -> Any:
    def run(x: Tensor) -> Pair:
        found = _along(x, dims[-1], _of_real)
        if not onesided:
            found = _along(found, dims[-1], lambda half: _mirrored(half, x.shape[dims[-1]]))
        for dim in dims[:-1]:
            found = _along(found, dim, lambda part: transform(part, -1))
        return _scaled(found, math.prod(x.shape[d] for d in dims), normalization)

    return call.apply(run, x)


def _c2r(call: Call, z: Any, dims: list[int], normalization: int, last: int) -> Any:
    def run(z: Pair) -> Tensor:
        found: Pair = (z[0], z[1])
        for dim in dims[:-1]:
            found = _along(found, dim, lambda part: transform(part, 1))
        signal = _along(found, dims[-1], lambda half: _to_real(half, last))
        return _scaled((signal,), math.prod(z[0].shape[d] for d in dims[:-1]) * last, normalization)[0]

    return call.apply(run, z)


def _scaled(z: Any, size: int, normalization: int) -> Any:
    """normalization: 0 of nothing, 1 by the root of the size, 2 by the size."""
    factor = (1.0, 1 / math.sqrt(size), 1 / size)[normalization]
    return z if factor == 1 else tuple(part * factor for part in z)


FOURIER: dict[str, Callable[..., Any]] = {"_fft_c2c": _c2c, "_fft_c2r": _c2r, "_fft_r2c": _r2c}
