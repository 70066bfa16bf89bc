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

# Of the logarithm of the gamma function by (z − 1)(z − 2), z from 0.5 to 2.5, in powers of z − 0.5: numerator and
# denominator.
LGAMMA_BETWEEN = (
    (0.7631532572329333, 4.846999330921002, 12.206026370812488, 15.608127912160557, 10.808959908971698,
     4.018533373130705, 0.7511789341041631, 0.06107244411316858, 0.001548582252050006, 2.598329695961595e-06),
    (1.0, 7.115133552618746, 20.488517833321087, 30.78344334244324, 26.00527747273638,
     12.452694510124342, 3.260083069506769, 0.4285688677479152, 0.023886680416648265, 0.00037967092297359965),
)  # fmt: skip

# Of erfinv(y) / y, in powers of v + shift of v = log(1 − y²): a bound of v, shift and terms above it, shift and terms
# below, where at −∞ the sum is +∞. Those for floats are floats, each chosen for the roundings of those before it.
SINGLE = (
    -5.5,
    (1, (1.1273744106292725, -0.24783293902873993, 0.004250511061400175, 0.002376578515395522, 0.00010055697930511087,
         -3.82266916858498e-05, -4.554144197754795e-06, 4.3946553773821506e-07, 1.2362175993985147e-07,
         7.381490529922985e-09)),
    (10.5, (3.0742058753967285, -0.15509870648384094, -0.003562428057193756, -0.00015549288946203887,
            -7.601626748510171e-06, -3.0914645776647376e-07, -2.482257288605183e-09, 1.990373643678822e-09,
            4.309093915022544e-10, 4.107976112055489e-11, 7.465960358624124e-13, -6.928543161291781e-14)),
)  # fmt: skip
DOUBLE = (
    -7,
    (2, (1.3772152115148184, -0.2497680688707508, -0.001968143541780075, 0.0016921483697708293,
         0.00021593778927263377, -7.581550375581294e-06, -4.874470685902151e-06, -3.1694288259011494e-07,
         6.906213566825541e-08, 1.2896040355071812e-08, -2.563211582279572e-10, -2.939135889644192e-10,
         -2.1237209864089454e-11, 4.3278416802266926e-12, 8.458256556349608e-13, -1.612219597485648e-14,
         -1.967872227585722e-14, -1.4875730495344723e-15, 2.7660193568403765e-16, 5.955814097617868e-17,
         1.1483460483634025e-18, -9.389389501907478e-19, -1.4366915707805663e-19, -9.360232103343291e-21,
         -2.4398127312804498e-22)),
    (16, (3.8397837974115534, -0.1261866566556787, -0.0019519813966964942, -5.930216902657999e-05,
          -2.224873049961709e-06, -9.202341205874326e-08, -3.944074412310563e-09, -1.635186187991397e-10,
          -5.706077117917327e-12, -8.223548989258638e-14, 1.185837933018071e-14, 1.7243170382947986e-15,
          1.5640057090225543e-16, 1.1497052435912804e-17, 7.235346846314908e-19, 3.9232523814223724e-20,
          1.7724887010988845e-21, 5.631893640391536e-23, -1.2963680502831182e-25, -1.9600286684841527e-25,
          -1.765622313173526e-26, -1.1223717122720833e-27, -7.73837159221387e-29, -6.0418447867947626e-30,
          -3.6229490537470376e-31, -9.723508356830834e-33, 4.642862576919865e-34, 6.251026324012807e-35,
          3.268448816013857e-36, 1.0211577941734086e-37, 1.987143313740576e-39, 2.2406584533595074e-41,
          1.1262474729060472e-43)),
)  # fmt: skip


# Of (a + 1/2) exp(a²) erfc(a), a from 0 to infinity, in powers of (a − 4) / (a + 4).
ERFCX = (
    0.6164975593127763, -0.0698105584202786, 0.007689826051305236, 0.03404852712710987, -0.050519533017932654,
    0.04686641750538871, -0.03316518291015577, 0.01858375769317973, -0.008098866990727597, 0.002515985501149442,
    -0.0003788868535319125, -9.963047657520589e-05, 7.531154860009314e-05, -1.2193895428795274e-05,
    -5.612550937829589e-06, 2.844768866151408e-06, 1.4900676901515666e-07, -4.0100968832610424e-07,
    3.557668900292652e-08, 4.6476461389869754e-08, -8.185889881783484e-09, -3.4963063406699e-09,
    7.869141887096018e-10,
)  # fmt: skip


def _real(x: Tensor) -> torch.dtype:
    return x.dtype if x.is_floating_point() else torch.get_default_dtype()


def in_float64(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    def call(self: Tensor) -> Tensor:
        return function(self.to(torch.float64)).to(_real(self))

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


def lgamma(self: Tensor) -> Tensor:
    x = self.to(torch.float64)
    z = torch.where(x < 0.5, 1 - x, x)
    w, near = _shifted(z)
    rising = _series(RISING, z * (z + 9))
    up = (w - 0.5) * w.log() - w + 0.5 * math.log(2 * math.pi) + _series(LGAMMA, 1 / (w * w)) / w
    found = up - torch.where(near, rising, 1.0).log()
    apart = x - x.round()
    size, sine = apart.abs(), _series(SINE, apart * apart)
    if _real(self) == torch.float64:  # which has digits to lose beside the zeros 1 and 2, and below normal numbers
        sines = sine.log() + size.log()
        above, below = (_series(terms, z - 0.5) for terms in LGAMMA_BETWEEN)
        found = torch.where(z <= 2.5, (z - 1) * (z - 2) * above / below, found)
    else:
        sines = (sine * size).log()
        # Where less than this is left of the sum: no other float is so near to one of them.
        found = torch.where(found.abs() < 1e-12, 0.0, found)
    reflected = math.log(math.pi) - sines - found
    endless = (x <= -(2.0**52)) | (x == math.inf)  # below 0 they all are whole
    return torch.where(endless, math.inf, torch.where(x < 0.5, reflected, found)).to(_real(self))


def digamma(x: Tensor) -> Tensor:
    z = torch.where(x < 0.5, 1 - x, x)
    w, near = _shifted(z)
    t = z * (z + 9)
    falling = (2 * z + 9) * _series(RISING_SLOPE, t) / _series(RISING, t)
    inverse = 1 / w.clamp(max=1e100)
    square = inverse * inverse
    found = w.log() - 0.5 * inverse + square * _series(DIGAMMA, square) - torch.where(near, falling, 0.0)
    apart = x - x.round()
    part = apart.abs().clamp(min=1e-60).square()
    cotangent = _series(COSINE, part) / (_series(SINE, part) * torch.where(apart == 0, math.nan, apart))
    reflected = found - math.pi * cotangent
    at_zero = torch.copysign(torch.full_like(x, math.inf), -x)
    return torch.where(x == 0, at_zero, torch.where(x == math.inf, x, torch.where(x < 0.5, reflected, found)))


def erfinv(self: Tensor) -> Tensor:
    double = _real(self) == torch.float64
    bound, (near, near_terms), (far, far_terms) = DOUBLE if double else SINGLE
    y = self.to(torch.float64 if double else torch.float32)
    v = ((1 - y) * (1 + y)).log()
    return (y * torch.where(v > bound, _series(near_terms, v + near), _series(far_terms, v + far))).to(_real(self))


def erfcx(x: Tensor) -> Tensor:
    """exp(x²) erfc(x): of |x| by a polynomial, of which below 0 it is what is missing to 2 exp(x²)."""
    bounded = x.clamp(min=-30)  # where it is infinite
    size, below = bounded.abs(), bounded.clamp(max=0)
    found = _series(ERFCX, 1 - 8 / (size + 4)) / (size + 0.5)
    return torch.where(x < 0, 2 * (below * below).exp() - found, found)


SPECIAL = {
    **{f"aten.{name}.default": lgamma for name in ("lgamma", "special_gammaln")},
    **{f"aten.{name}.default": in_float64(digamma) for name in ("digamma", "special_digamma", "special_psi")},
    "aten.special_erfcx.default": in_float64(erfcx),
    **{f"aten.{name}.default": erfinv for name in ("erfinv", "special_erfinv")},
}
