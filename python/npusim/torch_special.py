"""Special functions that npusim has no operator for, composed of others, most of them in float64."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

SHIFT = 10  # series in 1/w are for large w: recurrences lead up to them
# z(z + 1)…(z + 9) is this polynomial of z(z + 9), whose factors are z(z + 9) + k(9 − k); and its derivative.
RISING = (0.0, 40320.0, 12176.0, 1308.0, 60.0, 1.0)
RISING_SLOPE = tuple(n * term for n, term in enumerate(RISING))[1:]
# Of sin(πu) / u and cos(πu) in powers of u².
SINE = tuple((-1) ** n * math.pi ** (2 * n + 1) / math.factorial(2 * n + 1) for n in range(12))
COSINE = tuple((-1) ** n * math.pi ** (2 * n) / math.factorial(2 * n) for n in range(12))
# Of the digamma function, in powers of 1/w², and of the logarithm of the gamma function, in odd ones of 1/w.
DIGAMMA = (-1 / 12, 1 / 120, -1 / 252, 1 / 240, -1 / 132, 691 / 32760)
LGAMMA = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360)

# Of normal quantiles (M. J. Wichura, algorithm AS 241), in ascending powers: numerator and denominator.
MIDDLE = (
    (3.3871328727963666080, 1.3314166789178437745e2, 1.9715909503065514427e3, 1.3731693765509461125e4,
     4.5921953931549871457e4, 6.7265770927008700853e4, 3.3430575583588128105e4, 2.5090809287301226727e3),
    (1.0, 4.2313330701600911252e1, 6.8718700749205790830e2, 5.3941960214247511077e3, 2.1213794301586595867e4,
     3.9307895800092710610e4, 2.8729085735721942674e4, 5.2264952788528545610e3),
)  # fmt: skip
TAIL = (
    (1.42343711074968357734, 4.63033784615654529590, 5.76949722146069140550, 3.64784832476320460504,
     1.27045825245236838258, 2.41780725177450611770e-1, 2.27238449892691845833e-2, 7.74545014278341407640e-4),
    (1.0, 2.05319162663775882187, 1.67638483018380384940, 6.89767334985100004550e-1, 1.48103976427480074590e-1,
     1.51986665636164571966e-2, 5.47593808499534494600e-4, 1.05075007164441684324e-9),
)  # fmt: skip
FAR_TAIL = (
    (6.65790464350110377720, 5.46378491116411436990, 1.78482653991729133580, 2.96560571828504891230e-1,
     2.65321895265761230930e-2, 1.24266094738807843860e-3, 2.71155556874348757815e-5, 2.01033439929228813265e-7),
    (1.0, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2, 7.86869131145613259100e-4,
     1.84631831751005468180e-5, 1.42151175831644588870e-7, 2.04426310338993978564e-15),
)  # fmt: skip

# Of erfinv(y) / y, in powers of v + 1 of v = log(1 − y²), and where that is −5.5 and less of v + 10.5; at −∞ it is +∞.
# The coefficients are those of floats, each chosen for the roundings of those before it.
NEAR = (1.1273744106292725, -0.24783293902873993, 0.004250511061400175, 0.002376578515395522, 0.00010055697930511087,
        -3.82266916858498e-05, -4.554144197754795e-06, 4.3946553773821506e-07, 1.2362175993985147e-07,
        7.381490529922985e-09)  # fmt: skip
FAR = (3.0742058753967285, -0.15509870648384094, -0.003562428057193756, -0.00015549288946203887, -7.601626748510171e-06,
       -3.0914645776647376e-07, -2.482257288605183e-09, 1.990373643678822e-09, 4.309093915022544e-10,
       4.107976112055489e-11, 7.465960358624124e-13, -6.928543161291781e-14)  # fmt: skip


def in_float64(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    def call(self: Tensor) -> Tensor:
        real = self.dtype if self.is_floating_point() else torch.get_default_dtype()
        return function(self.to(torch.float64)).to(real)

    return call


def _series(terms: tuple[float, ...], x: Tensor) -> Tensor:
    total = torch.full_like(x, terms[-1])
    for term in reversed(terms[:-1]):
        total = total * x + term
    return total


def _shifted(z: Tensor) -> tuple[Tensor, Tensor]:
    """Where the series are exact enough, and whether that is beyond z."""
    near = z < 2 * SHIFT
    return torch.where(near, z + SHIFT, z), near


def lgamma(x: Tensor) -> Tensor:
    z = torch.where(x < 0.5, 1 - x, x)
    w, near = _shifted(z)
    rising = _series(RISING, z * (z + 9))
    up = (w - 0.5) * w.log() - w + 0.5 * math.log(2 * math.pi) + _series(LGAMMA, 1 / (w * w)) / w
    found = up - torch.where(near, rising, 1.0).log()
    apart = x - x.round()
    reflected = math.log(math.pi) - (_series(SINE, apart * apart) * apart).abs().log() - found
    return torch.where(x.isinf(), math.inf, torch.where(x < 0.5, reflected, found))


def digamma(x: Tensor) -> Tensor:
    z = torch.where(x < 0.5, 1 - x, x)
    w, near = _shifted(z)
    t = z * (z + 9)
    falling = (2 * z + 9) * _series(RISING_SLOPE, t) / _series(RISING, t)
    square = 1 / (w * w)
    found = w.log() - 0.5 / w + square * _series(DIGAMMA, square) - torch.where(near, falling, 0.0)
    apart = x - x.round()
    part = apart * apart
    cotangent = _series(COSINE, part) / (_series(SINE, part) * torch.where(apart == 0, math.nan, apart))
    reflected = found - math.pi * cotangent
    at_zero = torch.copysign(torch.full_like(x, math.inf), -x)
    return torch.where(x == 0, at_zero, torch.where(x == math.inf, x, torch.where(x < 0.5, reflected, found)))


def _ratio(terms: tuple[tuple[float, ...], tuple[float, ...]], x: Tensor) -> Tensor:
    return _series(terms[0], x) / _series(terms[1], x)


def erfinv(y: Tensor) -> Tensor:
    """Through the quantiles of a normal distribution: in the middle, and in two parts of the tails."""
    size = y.abs()
    middle = y / 2 * _ratio(MIDDLE, 0.180625 - y * y / 4)
    root = (-((1 - size) / 2).log()).sqrt()
    tail = torch.where(root <= 5, _ratio(TAIL, root - 1.6), _ratio(FAR_TAIL, root - 5))
    x = torch.where(size <= 0.85, middle.abs(), tail) * math.sqrt(0.5)
    return torch.copysign(torch.where(size == 1, math.inf, torch.where(size > 1, math.nan, x)), y)


def erfinv_of_single(y: Tensor) -> Tensor:
    v = ((1 - y) * (1 + y)).log()
    return y * torch.where(v > -5.5, _series(NEAR, v + 1), _series(FAR, v + 10.5))


def _erfinv(self: Tensor) -> Tensor:
    real = self.dtype if self.is_floating_point() else torch.get_default_dtype()
    return erfinv(self.to(real)) if real == torch.float64 else erfinv_of_single(self.to(torch.float32)).to(real)


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
    **{f"aten.{name}.default": _erfinv for name in ("erfinv", "special_erfinv")},
}
