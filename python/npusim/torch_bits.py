"""The memory of a tensor read in another dtype of the same size, `x.view(torch.int32)`, by arithmetic: IR has values, no bits.

NaN loses its payload."""

from __future__ import annotations

import torch
from torch import Tensor

WIDTHS = {torch.float16: (5, 10), torch.bfloat16: (8, 7), torch.float32: (8, 23), torch.float64: (11, 52)}  # of exponent, fraction
WHOLE = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # by bytes


def view_dtype(self: Tensor, dtype: torch.dtype) -> Tensor:
    if self.dtype.itemsize != dtype.itemsize:
        raise ValueError("has another number of elements")
    found = _bits(self) if self.dtype in WIDTHS else self
    return _number(found, dtype) if dtype in WIDTHS else found.to(dtype)


def _powers(exponent: int) -> Tensor:
    """2^n for n from −2 · exponent on: an exponential need not be exact."""
    return torch.tensor([2.0**n if n >= -1074 else 0.0 for n in range(-2 * exponent, exponent + 1)], dtype=torch.float64)


def _bits(x: Tensor) -> Tensor:
    exponent_bits, fraction_bits = WIDTHS[x.dtype]
    bias = 2 ** (exponent_bits - 1) - 1
    powers, least = _powers(bias), 1 - bias
    size = x.to(torch.float64).abs()
    finite = torch.where((size > 0) & size.isfinite(), size, 1.0)

    def part(exponent: Tensor) -> Tensor:  # in [1, 2), below 1 where the number is subnormal
        return finite / powers[exponent + 2 * bias]

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
    size = whole * 2.0**-fraction_bits * _powers(bias)[power + 2 * bias]
    size = torch.where(exponent == 2 * bias + 1, torch.where(fraction == 0, float("inf"), float("nan")), size)
    return torch.where((bits >> (exponent_bits + fraction_bits)) & 1 != 0, -size, size).to(dtype)
