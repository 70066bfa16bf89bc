"""The memory of a tensor read in another dtype, `x.view(torch.int32)`, by arithmetic: IR has values, no bits.

NaN loses its payload."""

from __future__ import annotations

import torch
from torch import Tensor

# Bits of the exponent and of the fraction.
WIDTHS = {torch.float16: (5, 10), torch.bfloat16: (8, 7), torch.float32: (8, 23), torch.float64: (11, 52)}
WHOLE = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # by bytes


def loses_bits(one: torch.dtype, other: torch.dtype) -> bool:
    """Whether numbers of one dtype may not stand for the bits of another in the same memory."""
    kinds = {dtype.to_real() if dtype.is_complex else dtype for dtype in (one, other)}
    return len(kinds) > 1 and any(dtype in WIDTHS or dtype == torch.bool for dtype in kinds)


def view_dtype(self: Tensor, dtype: torch.dtype) -> Tensor:
    """Where sizes differ the last dimension has as many elements more or fewer."""
    found = _bits(self) if self.dtype in WIDTHS else self
    size, wanted = self.dtype.itemsize, dtype.itemsize
    if size > wanted:
        found = _signed((found.to(torch.int64).unsqueeze(-1) >> _places(size, wanted)) & _all(wanted), wanted).flatten(-2)
    elif size < wanted:
        parts = (found.to(torch.int64) & _all(size)).unflatten(-1, (-1, wanted // size))
        found = _signed((parts << _places(wanted, size)).sum(-1), wanted)
    return _number(found, dtype) if dtype in WIDTHS else found.to(dtype)


def _all(size: int) -> int:
    """The bits of as many bytes, fewer than eight."""
    return 2 ** (8 * size) - 1


def _places(large: int, small: int) -> Tensor:
    """Where the parts of a number begin: its lowest bytes come first."""
    return torch.arange(large // small) * (8 * small)


def _signed(bits: Tensor, size: int) -> Tensor:
    """Whole numbers of as many bytes as they are with a sign."""
    whole = torch.where(bits > _all(size) // 2, bits - 2 ** (8 * size), bits) if size < 8 else bits
    return whole.to(WHOLE[size])


def _power(n: Tensor) -> Tensor:
    """2^n in float64 for n in [−1074, 1023], by squares: an exponential need not be exact."""
    found = torch.ones_like(n, dtype=torch.float64)
    for bit in range(11):
        up, down = (torch.full([], 2.0**e if e < 1024 else 0.0, dtype=torch.float64) for e in (2**bit, -(2**bit)))
        found = found * torch.where((n.abs() >> bit) & 1 == 0, 1.0, torch.where(n < 0, down, up))
    return found


def _bits(x: Tensor) -> Tensor:
    exponent_bits, fraction_bits = WIDTHS[x.dtype]
    bias = 2 ** (exponent_bits - 1) - 1
    least = 1 - bias
    size = x.to(torch.float64).abs()
    finite = torch.where((size > 0) & size.isfinite(), size, 1.0)

    def part(exponent: Tensor) -> Tensor:  # in [1, 2), below 1 where the number is subnormal
        return finite / _power(exponent)

    guess = finite.log2().floor().to(torch.int64).clamp(least, bias)  # the logarithm may be a step off
    guess = torch.where(part(guess) >= 2, guess + 1, guess)
    exponent = torch.where(part(guess) < 1, guess - 1, guess).clamp(least, bias)
    bits = (exponent - least) * 2**fraction_bits + (part(exponent) * 2.0**fraction_bits).round().to(torch.int64)
    infinity = (2 * bias + 1) * 2**fraction_bits
    bits = torch.where(size == 0, 0, torch.where(size.isinf(), infinity, bits))
    bits = torch.where(size.isnan(), infinity + 2 ** (fraction_bits - 1), bits)
    sign = -(2 ** (exponent_bits + fraction_bits))
    return torch.where(x.signbit(), bits + sign, bits).to(WHOLE[x.dtype.itemsize])


def _number(bits: Tensor, dtype: torch.dtype) -> Tensor:
    exponent_bits, fraction_bits = WIDTHS[dtype]
    bias = 2 ** (exponent_bits - 1) - 1
    bits = bits.to(torch.int64)
    exponent = (bits >> fraction_bits) & (2 * bias + 1)
    fraction = bits & (2**fraction_bits - 1)
    whole = torch.where(exponent == 0, fraction, fraction + 2**fraction_bits).to(torch.float64)
    power = exponent.clamp(1, 2 * bias) - bias
    size = whole * 2.0**-fraction_bits * _power(power)
    size = torch.where(exponent == 2 * bias + 1, torch.where(fraction == 0, float("inf"), float("nan")), size)
    return torch.where((bits >> (exponent_bits + fraction_bits)) & 1 != 0, -size, size).to(dtype)
