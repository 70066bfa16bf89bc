"""What models do with numbers that they read from tensors: functions of such a number, and of a tensor beside it."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from math import exp as exponential
from math import sqrt
from typing import Any

import torch
import torch.nn.functional as F

I = torch.arange(12).reshape(3, 4)
UNARY = ("sin", "cos", "tan", "sinh", "cosh", "tanh", "asinh", "atan", "exp", "exp2", "expm1", "erf", "erfc", "fabs", "degrees")
POSITIVE = ("sqrt", "log", "log2", "log10", "log1p", "lgamma", "acosh")
math_of = {name: getattr(math, name) for name in (*UNARY, *POSITIVE) if hasattr(math, name)}  # not looked up in `math`

# Of a number s, which is a Python number where nothing is traced.
VALUES: dict[str, Callable[[Any], Any]] = {
    "s ** 2": lambda s: s**2,
    "s ** -1": lambda s: s**-1,
    "abs(s) ** 0.5": lambda s: abs(s) ** 0.5,
    "2 ** s": lambda s: 2 ** (s * 0.5),
    "abs(s) ** s": lambda s: abs(s) ** (s * 1.0),
    "abs": abs,
    "-s": lambda s: -s,
    "+s": lambda s: +s,
    "s - 1": lambda s: 1 - (s - 1),
    "round": round,
    "round to digits": lambda s: round(s * 1.0, 1),
    "float": lambda s: float(s),
    "float of float": lambda s: float(float(s) * 2),
    "int": lambda s: int(s),
    "int of float": lambda s: int(float(s) * 2) + int(s * 0.5),
    "what is a float": lambda s: float(s) if isinstance(float(s), float) else 100,
    "math.sqrt": lambda s: math.sqrt(abs(s)),
    "sqrt": lambda s: sqrt(abs(s)),
    "exponential": lambda s: exponential(s * 0.1),
    "math.log with a base": lambda s: math.log(abs(s), 3),
    "math.log of a float": lambda s: math.log(float(abs(s))),
    "math.atan2": lambda s: math.atan2(s, 0.5) + math.hypot(s, 3.0) + math.copysign(2.0, s),
    "math.pow": lambda s: math.pow(s, 2),
    "math.floor": lambda s: math.floor(s) + math.ceil(s) + math.trunc(s),
    "math.radians": lambda s: math.radians(s),
    "s // 0.7": lambda s: s // 0.7,
    "5.5 // s": lambda s: 5.5 // s,
    "s % 0.7": lambda s: s % 0.7,
    "divmod": lambda s: sum(divmod(s, 0.7)),
    "max": lambda s: max(s * 1.0, 1.0),
    "min": lambda s: min(1.0, s * 1.0),
    "max of three": lambda s: max(s * 1.0, 0.5, s * -2.0),
    "max of a list": lambda s: max([s * 1.0, 0.25]) - min((s * 1.0, 0.25)),
    "clamped": lambda s: min(max(s * 1.0, -1.0), 2.0),
    "compared": lambda s: s > 1,
    "a sum": lambda s: sum([s, s * 2, 1]),
    "a polynomial": lambda s: sum(c * s**k for k, c in enumerate((1.0, 2.0, 0.5))),
}


def alone(x: torch.Tensor, write: Callable[[torch.Tensor], Any]) -> torch.Tensor:
    y = x.clone()
    write(y)
    return y


# Of a tensor x [3, 4] of fractions and a number s.
CALLS: dict[str, Callable[[torch.Tensor, Any], Any]] = {
    "operators": lambda x, s: (s - x) * s + x / (abs(s) + 1) - s / (x.abs() + 1),
    "powers": lambda x, s: (x.abs() + 1) ** s + torch.pow(abs(s) + 0.5, x),
    "remainders": lambda x, s: x % (abs(s) + 0.37) + torch.remainder(s, x.abs() + 1.3) + x // (abs(s) + 0.37),
    "add alpha": lambda x, s: torch.add(x, x + 1, alpha=s),
    "add alpha of whole numbers": lambda x, s: torch.add(x, I, alpha=s),
    "add_ alpha": lambda x, s: x.clone().add_(x + 1, alpha=s),
    "sub alpha": lambda x, s: torch.sub(x, x + 1, alpha=s),
    "rsub alpha": lambda x, s: torch.rsub(x, x + 1, alpha=s),
    "addmm": lambda x, s: torch.addmm(x, x[:, :3], x, beta=s, alpha=s),
    "addmm without the input": lambda x, s: torch.addmm(x / 0, x[:, :3], x, beta=0, alpha=s),
    "addmv": lambda x, s: torch.addmv(x[:, 0], x, x[0], alpha=s),
    "baddbmm": lambda x, s: torch.baddbmm(x[None], x[None, :, :3], x[None], alpha=s),
    "addbmm": lambda x, s: torch.addbmm(x, x[None, :, :3], x[None], beta=s),
    "addr": lambda x, s: torch.addr(x, x[:, 0], x[0], alpha=s),
    "addcmul": lambda x, s: torch.addcmul(x, x, x + 1, value=s),
    "addcdiv": lambda x, s: torch.addcdiv(x, x, x.abs() + 1, value=s),
    "lerp": lambda x, s: torch.lerp(x, x + 1, s),
    "lerp_": lambda x, s: x.clone().lerp_(x + 1, s),
    "leaky_relu": lambda x, s: F.leaky_relu(x, s),
    "elu": lambda x, s: F.elu(x, s),
    "softplus": lambda x, s: F.softplus(x, abs(s) + 0.1),
    "threshold": lambda x, s: F.threshold(x, s, s + 1),
    "hardtanh": lambda x, s: F.hardtanh(x, -abs(s) - 1, abs(s)),
    "softshrink": lambda x, s: F.softshrink(x, abs(s)),
    "clamp": lambda x, s: x.clamp(s, s + 1) + x.clamp(max=s) + x.clamp_min(s) + torch.clip(x, -1, s),
    "fill": lambda x, s: torch.fill(x, s),
    "fill_": lambda x, s: x.clone().fill_(s),
    "y[i] = s": lambda x, s: alone(x, lambda y: y.__setitem__(1, s)),
    "y[:, i] = s": lambda x, s: alone(x, lambda y: y.__setitem__((slice(None), 1), s)),
    "y[mask] = s": lambda x, s: alone(x, lambda y: y.__setitem__(y > 0, s)),
    "y[indices] = s": lambda x, s: alone(x, lambda y: y.__setitem__(torch.tensor([0, 2]), s)),
    "whole numbers[i] = s": lambda x, s: alone(I, lambda y: y.__setitem__(1, s)),
    "masked_fill": lambda x, s: x.masked_fill(x > 0, s),
    "where": lambda x, s: torch.where(x > 0, x, s) + torch.where(x > 0, s, 1.0),
    "full": lambda x, s: (torch.full((2, 3), s), torch.full_like(x, s), x.new_full((2,), s)),
    "full of whole numbers": lambda x, s: torch.full((2, 3), s, dtype=torch.int32),
    "tensor": lambda x, s: torch.tensor([[s, 1.0], [2 * s, 0.5]]) @ x[:2],
    "scatter": lambda x, s: x.scatter(0, torch.zeros(1, 4, dtype=torch.int64), s),
    "index_fill": lambda x, s: x.index_fill(0, torch.tensor([0, 2]), s),
    "fill_diagonal_": lambda x, s: x.clone().fill_diagonal_(s),
    "comparisons": lambda x, s: (x == s, x > s, s <= x, x * (s > 1)),
    "linspace": lambda x, s: torch.linspace(s, 1.0, 5),
    "xlogy": lambda x, s: torch.xlogy(x, abs(s) + 1),
    "copysign": lambda x, s: torch.copysign(x, s),
    "whole numbers": lambda x, s: (I * s, I + s, I // (abs(s) + 0.37), (x > 0) * s),
    "renorm": lambda x, s: x.renorm(2, 0, abs(s) + 0.1),
    "returned": lambda x, s: (x * 2, s, {"s": abs(s) + 1}),
}


def chosen(holds: Callable[[Any], Any]) -> Callable[[torch.Tensor, Any], Any]:
    return lambda x, v: x * 2 if holds(v) else x * 3


# Of a tensor and its sum v: what algebra says of them is not so for every fraction.
NOT_ALGEBRA: dict[str, Callable[[torch.Tensor, Any], Any]] = {
    "v - v": lambda x, v: x + (v - v),
    "v * 0": lambda x, v: x + v * 0,
    "0 / v": lambda x, v: x + 0.0 / (v + 1.0),
    "v + 1e16 - 1e16": lambda x, v: x * ((v + 1e16) - 1e16),
    "1e16 - (1e16 - v)": lambda x, v: x * (1e16 - (1e16 - v)),
    "(v * 1e308) * 1e-308": lambda x, v: x * ((v * 1e308) * 1e-308),
    "v / 3 * 3 - v": lambda x, v: x * (v / 3 * 3 - v + 1),
    "a whole number beside it": lambda x, v: x * (x.argmax().item() + v) - v * x.argmax().item() / 3,
    "v != v": chosen(lambda v: v != v),
    "v == v": chosen(lambda v: v == v),
    "abs(v) < inf": chosen(lambda v: abs(v) < math.inf),
    "abs(v) + 1 == inf": chosen(lambda v: abs(v) + 1 == math.inf),
    "v + 1 > v": chosen(lambda v: v + 1 > v),
    "v * v >= 0": chosen(lambda v: v * v >= 0),
    "abs(v) >= 0": chosen(lambda v: abs(v) >= 0),
    "v - v == 0": chosen(lambda v: v - v == 0),
    "v + 1e16 - 1e16 == v": chosen(lambda v: (v + 1e16) - 1e16 == v),
    "0 < v < 5": chosen(lambda v: 0.0 < v < 5.0),
    "v < 2 or v > 5": chosen(lambda v: v < 2 or v > 5),
    "a float": chosen(lambda v: isinstance(v, float)),
    "no int": chosen(lambda v: isinstance(v, int)),
    "a number": chosen(lambda v: isinstance(v, (str, numbers.Number))),
    "a list of kinds": lambda x, v: x * sum(3.0 for one in (v, 1.0, 2) if isinstance(one, float)),
}
