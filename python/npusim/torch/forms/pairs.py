"""Functions of complex numbers as functions of pairs of real tensors, real and imaginary part.

They give infinities, NaN and signed zeros where PyTorch on the CPU does, whichever of its loops takes the call, and do not
overflow where the result does not. Elementary functions of complex64 compute in float64, where squares neither overflow nor
vanish and cancellation costs no digit of float32; `wide` says which."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import torch
from torch import Tensor

Pair = tuple[Tensor, Tensor]
LARGE = 80.0  # beyond it cosh and sinh are e^|x| / 2 in float32, and before it they are finite
HUGE = 1e300  # beyond it lengths may overflow in float64
HALF_PI = math.pi / 2


def wide(function: Callable[..., Pair]) -> Callable[..., Pair]:
    """The function, computed in float64."""

    @functools.wraps(function)
    def call(*pairs: Pair) -> Pair:
        dtype = pairs[0][0].dtype
        re, im = function(*((re.to(torch.float64), im.to(torch.float64)) for re, im in pairs))
        return re.to(dtype), im.to(dtype)

    return call


def _rotated(function: Callable[[Pair], Pair]) -> Callable[[Pair], Pair]:
    """−i f(iz) of an odd function, which changes the parts before and after it: sin of sinh, asinh of asin, and so on."""

    def call(z: Pair) -> Pair:
        re, im = function((z[1], z[0]))
        return im, re

    return call


def _over_zero(x: Tensor, y: Tensor) -> Tensor:
    """x y, in which a zero is one beside infinity and NaN too."""
    product = x * y
    zero, other = torch.where(x == 0, x, y), torch.where(x == 0, y, x)
    zero = torch.where(other < 0, -zero, zero)
    return torch.where(((x == 0) | (y == 0)) & product.isnan(), zero, product)


# ---- arithmetic


def add(a: Pair, b: Pair, alpha: Pair) -> Pair:
    """With the product that PyTorch computes for a factor of 1 too: it makes NaN beside an infinity."""
    re, im = multiply(b, alpha)
    return a[0] + re, a[1] + im


def multiply(a: Pair, b: Pair) -> Pair:
    return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]


def _multiply_without_end(a: Pair, b: Pair) -> Pair:
    """The product in which infinity stays one, as in C (ISO/IEC 9899, annex G)."""
    re, im = multiply(a, b)

    def boxed(z: Pair, infinite: Tensor) -> Pair:
        return tuple(  # type: ignore[return-value]
            torch.where(infinite, torch.copysign(x.isinf().to(x.dtype), x), x) for x in z
        )

    def without_nan(z: Pair, where: Tensor) -> Pair:
        return tuple(  # type: ignore[return-value]
            torch.where(where & x.isnan(), torch.copysign(torch.zeros_like(x), x), x) for x in z
        )

    a_infinite, b_infinite = a[0].isinf() | a[1].isinf(), b[0].isinf() | b[1].isinf()
    a = without_nan(boxed(a, a_infinite), b_infinite)
    b = without_nan(boxed(b, b_infinite), a_infinite)
    lost = re.isnan() & im.isnan() & (a_infinite | b_infinite)
    whole = multiply(a, b)
    return torch.where(lost, math.inf * whole[0], re), torch.where(lost, math.inf * whole[1], im)


def divide(a: Pair, b: Pair) -> Pair:
    """Scaled by the larger part of the divisor: no square overflows. By zero both parts are."""
    (ar, ai), (br, bi) = a, b
    flat = br.abs() >= bi.abs()
    large, small = torch.where(flat, br, bi), torch.where(flat, bi, br)
    ratio = small / large
    divisor = large + small * ratio
    re = torch.where(flat, ar + ai * ratio, ar * ratio + ai) / divisor
    im = torch.where(flat, ai - ar * ratio, ai * ratio - ar) / divisor
    nothing = (br == 0) & (bi == 0)
    zero = torch.zeros_like(large)
    return torch.where(nothing, ar / zero, re), torch.where(nothing, ai / zero, im)


def reciprocal(z: Pair) -> Pair:
    return divide((torch.ones_like(z[0]), torch.zeros_like(z[0])), z)


def square(z: Pair) -> Pair:
    return multiply(z, z)


def absolute(z: Pair) -> Tensor:
    return torch.hypot(*z)


def sgn(z: Pair) -> Pair:
    size = absolute(z)
    nothing = size == 0
    return torch.where(nothing, 0.0, z[0] / size), torch.where(nothing, 0.0, z[1] / size)


def polar(length: Tensor, angle: Tensor) -> Pair:
    return length * angle.cos(), length * angle.sin()


# ---- roots, logarithms, powers


@wide
def sqrt(z: Pair) -> Pair:
    """The root with Re ≥ 0; on the cut, Re z < 0 and Im z = ±0, the sign of the zero says on which side."""
    x, y = z
    large = torch.maximum(x.abs(), y.abs()) > HUGE
    scale = torch.where(large, 0.25, 1.0)
    up = ((torch.hypot(x * scale, y * scale) + x.abs() * scale) * 0.5).sqrt() / scale.sqrt()
    along = y.abs() / (2 * up)
    re = torch.where(x >= 0, up, along)
    im = torch.where(x >= 0, along, up)
    nothing = (x == 0) & (y == 0)
    re, im = torch.where(nothing, 0.0, re), torch.where(nothing, 0.0, im)
    # Infinite: Im decides first, then Re.
    flat = x.isinf() & ~y.isinf()
    re = torch.where(flat, torch.where(x > 0, x, torch.where(y.isnan(), y, 0.0)), re)
    im = torch.where(flat, torch.where(x > 0, torch.where(y.isnan(), y, 0.0), -x), im)
    re, im = torch.where(y.isinf(), math.inf, re), torch.where(y.isinf(), math.inf, im)
    return re, torch.copysign(im, y)


def rsqrt(z: Pair) -> Pair:
    return reciprocal(sqrt(z))


@wide
def log(z: Pair) -> Pair:
    x, y = z
    large, small = torch.maximum(x.abs(), y.abs()), torch.minimum(x.abs(), y.abs())
    size = torch.hypot(x, y)
    near = (size > 0.5) & (size < 2.0)  # where the logarithm is small
    excess = torch.where(near, (large - 1) * (large + 1) + small * small, 0.0)
    # Of the largest numbers the length overflows, which its half does not.
    length = torch.where(large > HUGE, torch.hypot(x * 0.5, y * 0.5).log() + math.log(2), size.log())
    return torch.where(near, 0.5 * torch.log1p(excess), length), torch.atan2(y, x)


def _scaled_log(base: float) -> Callable[[Pair], Pair]:
    @wide
    def call(z: Pair) -> Pair:
        re, im = log(z)
        return re / math.log(base), im / math.log(base)

    return call


@wide
def log1p(z: Pair) -> Pair:
    x, y = z
    near = torch.hypot(x, y) < 0.5
    small = 0.5 * torch.log1p(torch.where(near, x * (x + 2) + y * y, 0.0))
    small = torch.where((x == 0) & (y == 0), x, small)
    re, im = log((x + 1, y))
    # Of NaN it is NaN, also beside infinity, where the logarithm is infinite.
    return torch.where(near, small, torch.where(x.isnan() | y.isnan(), math.nan, re)), im


def exp(z: Pair) -> Pair:
    """In two halves: e^Re may overflow where the result does not."""
    x, y = z
    half = (x * 0.5).exp()
    re, im = half * y.cos() * half, torch.where(y == 0, y, half * y.sin() * half)
    re = torch.where(y == 0, x.exp(), re)
    lost = x.isinf() & ~y.isfinite()  # of an infinite length no direction is known, of none it does not matter
    re = torch.where(lost, torch.where(x > 0, x, 0.0), re)
    return re, torch.where(lost, torch.where(x > 0, math.nan, torch.copysign(torch.zeros_like(y), y)), im)


def exp2(z: Pair) -> Pair:
    return wide(lambda w: exp((w[0] * math.log(2), w[1] * math.log(2))))(z)


@wide
def expm1(z: Pair) -> Pair:
    x, y = z
    half = (y * 0.5).sin()
    re = torch.expm1(x) * y.cos() - 2 * half * half
    return re, x.exp() * y.sin()


@wide
def power(z: Pair, exponent: Pair) -> Pair:
    return exp(_multiply_without_end(exponent, log(z)))


# ---- circular and hyperbolic functions


def _grown(x: Tensor, function: Callable[[Tensor], Tensor], factor: Tensor, sign: Tensor | float) -> Tensor:
    """sinh x or cosh x times a factor of at most 1."""
    far = x.abs() > LARGE
    half = (torch.where(far, x.abs(), 0.0) * 0.5).exp()
    near = _over_zero(function(torch.where(far, 0.0, x)), factor)
    return torch.where(far, _over_zero(_over_zero(sign * half * 0.5, factor), half), near)


def sinh(z: Pair) -> Pair:
    x, y = z
    sign = torch.copysign(torch.ones_like(x), x)
    re, im = _grown(x, torch.sinh, y.cos(), sign), _grown(x, torch.cosh, y.sin(), 1.0)
    lost = ~y.isfinite()  # an angle that is none
    re = torch.where(lost, torch.where(x.isinf(), math.inf, torch.where(x == 0, x, math.nan)), re)
    return re, torch.where(lost, math.nan, im)


def cosh(z: Pair) -> Pair:
    x, y = z
    sign = torch.copysign(torch.ones_like(x), x)
    re, im = _grown(x, torch.cosh, y.cos(), 1.0), _grown(x, torch.sinh, y.sin(), sign)
    lost = ~y.isfinite()
    re = torch.where(lost, torch.where(x.isinf(), math.inf, math.nan), re)
    return re, torch.where(lost, torch.where(x == 0, 0.0, math.nan), im)


@wide
def tanh(z: Pair) -> Pair:
    x, y = z
    far = x.abs() > 20.0  # Re is ±1 in float64
    inner = torch.where(far, 0.0, x)
    sinh, cosh = inner.sinh(), inner.cosh()
    sin, cos = y.sin(), y.cos()
    below = sinh * sinh + cos * cos
    sign = torch.copysign(torch.ones_like(x), x)
    re = torch.where(far, sign, sinh * cosh / below)
    tail = 4 * sin * cos * (-2 * x.abs()).exp()
    im = torch.where(far, tail, torch.where(y == 0, y, sin * cos / below))
    lost = ~y.isfinite()
    re = torch.where(lost & ~x.isinf(), math.nan, re)
    zero = torch.where(y < 0, torch.full_like(y, -0.0), 0.0)
    return torch.where(x == 0, x, re), torch.where(lost, torch.where(x.isinf(), zero, math.nan), im)


def cos(z: Pair) -> Pair:
    return cosh((-z[1], z[0]))


# Their inverses, after W. Kahan, "Branch Cuts for Complex Elementary Functions"; of what is infinite the angle.


def _is_infinite(z: Pair) -> Tensor:
    return z[0].isinf() | z[1].isinf()


def _with_length(found: Tensor, z: Pair) -> Tensor:
    """What is an area sine of a product, for z whose product overflows: the logarithm of 2z has its size."""
    huge = torch.maximum(z[0].abs(), z[1].abs()) > HUGE
    return torch.where(huge, torch.copysign(log(z)[0] + math.log(2), found), found)


@wide
def acosh(z: Pair) -> Pair:
    x, y = z
    (br, bi), (ar, ai) = sqrt((x - 1, y)), sqrt((x + 1, y))
    re, im = _with_length(torch.asinh(br * ar + bi * ai), z), 2 * torch.atan2(bi, ar)
    im = torch.where(x == 0, torch.copysign(torch.full_like(y, HALF_PI), y), im)
    far = _is_infinite(z)
    return torch.where(far, math.inf, re), torch.where(far, torch.atan2(y, x), im)


@wide
def acos(z: Pair) -> Pair:
    x, y = z
    (br, bi), (ar, ai) = sqrt((1 - x, -y)), sqrt((1 + x, y))
    re, im = 2 * torch.atan2(br, ar), _with_length(torch.asinh(ar * bi - ai * br), z)
    re = torch.where(x == 0, HALF_PI, re)
    far = _is_infinite(z)
    endless = torch.copysign(torch.full_like(y, math.inf), -y)
    return torch.where(far, torch.atan2(y.abs(), x), re), torch.where(far, endless, im)


@wide
def asin(z: Pair) -> Pair:
    x, y = z
    (br, bi), (ar, ai) = sqrt((1 - x, -y)), sqrt((1 + x, y))
    re, im = torch.atan2(x, br * ar - bi * ai), _with_length(torch.asinh(br * ai - bi * ar), z)
    re = torch.where(x == 0, x, re)
    far = _is_infinite(z)
    endless = torch.copysign(torch.full_like(y, math.inf), y)
    return torch.where(far, torch.atan2(x, y.abs()), re), torch.where(far, endless, im)


@wide
def atanh(z: Pair) -> Pair:
    x, y = z
    side = x.abs()
    away = torch.hypot(1 - side, y)  # from ±1, where it has no end
    near = away < 1e-8  # whose square may vanish
    re = torch.log1p(4 * side / torch.where(near, 1.0, away) ** 2) * 0.25
    re = torch.where(near, 0.5 * (math.log(2) - away.log()), re)
    im = torch.atan2(2 * y, (1 - x) * (1 + x) - y * y) * 0.5
    far = _is_infinite(z) | (torch.maximum(side, y.abs()) > 1e150)  # 1/z in place of its logarithm
    re = torch.where(far, reciprocal((side * 0.25, y * 0.25))[0] * 0.25, re)
    re = torch.where(_is_infinite(z), 0.0, re)
    re = torch.where(x == 0, x, torch.copysign(re, x))
    quarter = torch.where(y.isnan(), math.nan, torch.copysign(torch.full_like(y, HALF_PI), y))
    return re, torch.where(far, quarter, im)


sin, tan, asinh, atan = _rotated(sinh), _rotated(tanh), _rotated(asin), _rotated(atanh)


# ---- compositions


@wide
def logaddexp(a: Pair, b: Pair) -> Pair:
    """The larger real part is taken out before anything overflows, but where both are infinite: of no length the angle does
    not matter, and of an infinite one it decides."""
    first = a[0].isnan() | a[1].isnan() | (~(b[0].isnan() | b[1].isnan()) & (a[0] < b[0]))
    low, high = ((torch.where(w, a[0], b[0]), torch.where(w, a[1], b[1])) for w in (first, ~first))
    re, im = log1p(exp((low[0] - high[0], low[1] - high[1])))
    re, im = re + high[0], im + high[1]
    even, (er, ei) = low[0].isinf() & (low[0] == high[0]), _log_of_sum(low, high)
    re, im = (torch.where(even, torch.where(low[0] < 0, l, e), f) for l, e, f in zip(low, (er, ei), (re, im), strict=True))
    lost = low[0].isnan() | low[1].isnan()
    return torch.where(lost, math.nan, re), torch.where(lost, math.nan, im)


def _log_of_sum(a: Pair, b: Pair) -> Pair:
    (ar, ai), (br, bi) = exp(a), exp(b)
    return log((ar + br, ai + bi))


@wide
def sigmoid(z: Pair) -> Pair:
    re, im = exp((-z[0], -z[1]))
    return reciprocal((re + 1, im))


def sinc(z: Pair) -> Pair:
    rotated = z[0] * math.pi - z[1] * 0.0, z[1] * math.pi + z[0] * 0.0
    re, im = divide(sin(rotated), rotated)
    nothing = (z[0] == 0) & (z[1] == 0)
    return torch.where(nothing, 1.0, re), torch.where(nothing, 0.0, im)


UNARY: dict[str, Callable[[Pair], Pair]] = {
    "acos": acos, "acosh": acosh, "asin": asin, "asinh": asinh, "atan": atan, "atanh": atanh,
    "cos": cos, "cosh": cosh, "exp": exp, "exp2": exp2, "expm1": expm1, "special_exp2": exp2, "special_expm1": expm1,
    "log": log, "log10": _scaled_log(10), "log1p": log1p, "log2": _scaled_log(2), "special_log1p": log1p,
    "reciprocal": reciprocal, "rsqrt": rsqrt, "sgn": sgn, "sigmoid": sigmoid, "sin": sin, "sinc": sinc, "sinh": sinh,
    "special_sinc": sinc, "sqrt": sqrt, "square": square, "tan": tan, "tanh": tanh,
}  # fmt: skip
