"""Tensors that operators are given, and the dtypes and numbers that they are drawn from."""

import math
from dataclasses import dataclass, field

import numpy as np
import torch

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTEGERS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]
DTYPES = [torch.float32] * 4 + FLOATS + INTEGERS + [torch.int64, torch.bool]
EXTENTS = [0, 1, 1, 2, 2, 3, 3, 4, 5, 7, 17]
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, math.inf, -math.inf, math.nan, 1e-3, 100.0]


@dataclass
class Operand:
    """A dense tensor, and the view of it that the operator is given: (operator, attributes)."""

    base: torch.Tensor
    views: list[tuple[str, dict]] = field(default_factory=list)

    def tensor(self, base: torch.Tensor | None = None) -> torch.Tensor:
        value = self.base if base is None else base
        for op, attrs in self.views:
            packet, overload = op.split(".")
            value = getattr(getattr(torch.ops.aten, packet), overload)(value, **attrs)
        return value


def values(shape, dtype, kind, seed) -> torch.Tensor:
    """As `kind` says: normal, special (infinities, NaN, zeros), whole, positive, below:N (indices)."""
    random = np.random.default_rng(seed)
    if kind.startswith("below:"):
        limit = int(kind[6:])
        drawn = random.integers(0, max(limit, 1), shape)
    elif dtype == torch.bool:
        return torch.from_numpy(np.asarray(random.random(shape) < 0.5))
    elif not dtype.is_floating_point:
        low, high = (0, 9) if dtype == torch.uint8 or kind == "positive" else (-8, 9)
        if kind == "special":  # the smallest divided by -1 ends PyTorch
            info = torch.iinfo(dtype)
            drawn = random.choice(np.array([info.min + 1, info.max, 0, 1, 2], "int64"), shape)
        else:
            drawn = random.integers(low, high, shape)
    elif kind == "special":
        drawn = random.choice(np.array(SPECIAL), shape)
    elif kind == "whole":
        drawn = random.integers(-3, 4, shape)
    elif kind == "positive":
        drawn = random.random(shape) * 0.98 + 0.01
    else:
        drawn = random.standard_normal(shape) * 2
    return torch.from_numpy(np.asarray(drawn)).to(dtype)
