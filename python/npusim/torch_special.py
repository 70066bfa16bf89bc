"""Special functions that npusim has no operator for, composed of others in float64."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

SHIFT = 10  # series in 1/w are for large w: recurrences lead up to them
# Of the digamma function, in powers of 1/w², and of the logarithm of the gamma function, in odd ones of 1/w.
DIGAMMA = (-1 / 12, 1 / 120, -1 / 252, 1 / 240, -1 / 132, 691 / 32760)
LGAMMA = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360)


def in_float64(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    def call(self: Tensor) -> Tensor:
        real = self.dtype if self.is_floating_point() else torch.get_default_dtype()
        return function(self.to(torch.float64)).to(real)

    return call


def _series(terms: tuple[float, ...], x: Tensor) -> Tensor:
    total = torch.zeros_like(x)
    for term in reversed(terms):
        total = total * x + term
    return total


def _shifted(z: Tensor) -> tuple[Tensor, Tensor]:
    """Where the series are exact enough, and whether that is beyond z."""
    near = z < 2 * SHIFT
    return torch.where(near, z + SHIFT, z), near


def lgamma(x: Tensor) -> Tensor:
    z = torch.where(x < 0.5, 1 - x, x)
    w, near = _shifted(z)
    rising = torch.ones_like(z)
    for k in range(SHIFT):
        rising = rising * (z + k)
    up = (w - 0.5) * w.log() - w + 0.5 * math.log(2 * math.pi) + _series(LGAMMA, 1 / (w * w)) / w
    found = up - torch.where(near, rising, 1.0).log()
    reflected = math.log(math.pi) - (math.pi * (x - x.round())).sin().abs().log() - found
    return torch.where(x.isinf(), math.inf, torch.where(x < 0.5, reflected, found))


def digamma(x: Tensor) -> Tensor:
    z = torch.where(x < 0.5, 1 - x, x)
    w, near = _shifted(z)
    falling = torch.zeros_like(z)
    for k in range(SHIFT):
        falling = falling + 1 / (z + k)
    square = 1 / (w * w)
    found = w.log() - 0.5 / w + square * _series(DIGAMMA, square) - torch.where(near, falling, 0.0)
    apart = x - x.round()
    reflected = found - math.pi / (math.pi * torch.where(apart == 0, math.nan, apart)).tan()
    at_zero = torch.copysign(torch.full_like(x, math.inf), -x)
    return torch.where(x == 0, at_zero, torch.where(x == math.inf, x, torch.where(x < 0.5, reflected, found)))


def erfinv(y: Tensor) -> Tensor:
    """A first guess in closed form, and three steps of Halley's method."""
    size = y.abs()
    log = torch.log1p(-y * y)
    half = 2 / (math.pi * 0.147) + log / 2
    x = ((half * half - log / 0.147).sqrt() - half).clamp(min=0).sqrt()
    for _ in range(3):
        off = torch.where(size < 0.5, x.erf() - size, (1 - size) - x.erfc())  # each is exact where it is taken
        step = off * (math.sqrt(math.pi) / 2) * (x * x).exp()
        x = x - step / (1 + x * step)
    return torch.copysign(torch.where(size == 1, math.inf, torch.where(size > 1, math.nan, x)), y)


def erfcx(x: Tensor) -> Tensor:
    """exp(x²) erfc(x): for large x a continued fraction, for others as it stands there."""
    down = x
    for k in range(8, 0, -1):
        down = x + 0.5 * k / down
    return torch.where(x < 10, (x * x).exp() * x.erfc(), 1 / (math.sqrt(math.pi) * down))


SPECIAL = {
    **{f"aten.{name}.default": in_float64(lgamma) for name in ("lgamma", "special_gammaln")},
    **{f"aten.{name}.default": in_float64(digamma) for name in ("digamma", "special_digamma", "special_psi")},
    "aten.special_erfcx.default": in_float64(erfcx),
    **{f"aten.{name}.default": in_float64(erfinv) for name in ("erfinv", "special_erfinv")},
}
