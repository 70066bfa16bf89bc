"""Images in uint8, resized as PyTorch does: weights in 16 bits, one dimension after the other, rounded to uint8 after each."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

LINEAR, CUBIC = 2, 4  # taps of a filter that enlarges


def _filter(x: float, taps: int, antialias: bool) -> float:
    x = abs(x)
    if taps == LINEAR:
        return max(1 - x, 0.0)
    a = -0.5 if antialias else -0.75
    if x < 1:
        return ((a + 2) * x - (a + 3)) * x * x + 1
    return (((x - 5) * x + 8) * x - 4) * a if x < 2 else 0.0


def _taps(size: int, out: int, scale: float, taps: int, antialias: bool, corners: bool) -> list[dict[int, float]]:
    """Of each output element, the weights of the elements of the input."""
    rows: list[dict[int, float]] = []
    for i in range(out):
        row: dict[int, float] = {}
        if antialias:
            support = taps / 2 * max(scale, 1.0)
            center = scale * (i + 0.5)
            first = max(int(center - support + 0.5), 0)
            last = min(int(center + support + 0.5), size, first + math.ceil(support) * 2 + 1)
            row = {x: _filter((x - center + 0.5) / max(scale, 1.0), taps, True) for x in range(first, last)}
            total = sum(row.values())
            row = {x: w / total if total else w for x, w in row.items()}
        else:
            at = scale * i if corners else scale * (i + 0.5) - 0.5
            at = at if corners or taps == CUBIC else max(at, 0.0)
            element = min(math.floor(at), size - 1)
            rest = min(max(at - element, 0.0), 1.0)
            for j in range(taps):
                x = min(max(element - taps // 2 + 1 + j, 0), size - 1)
                row[x] = row.get(x, 0.0) + _filter(j + 1 - taps // 2 - rest, taps, False)
        rows.append(row)
    return rows


def _weights(size: int, out: int, factor: float | None, taps: int, antialias: bool, corners: bool) -> Any:
    """For one dimension the [out, taps] elements and their weights, and how many bits of these are a fraction."""
    scale = size / out if not factor else 1 / factor
    if corners:
        scale = (size - 1) / (out - 1) if out > 1 else 0.0
    rows = _taps(size, out, scale, taps, antialias, corners)
    largest = max(w for row in rows for w in row.values())
    bits = next((b for b in range(22) if int(0.5 + largest * (1 << (b + 1))) >= 1 << 15), 22)
    width = max(map(len, rows))
    padded = [[*row.items(), *[(0, 0.0)] * (width - len(row))] for row in rows]
    whole = [[int(math.copysign(abs(w) * (1 << bits) + 0.5, w)) for _, w in row] for row in padded]
    return torch.tensor([[x for x, _ in row] for row in padded]), torch.tensor(whole, dtype=torch.int32), bits


def resize(
    x: Tensor, size: Any, corners: bool, factors: Any, taps: int, antialias: bool
) -> tuple[Callable[..., Tensor], list[Tensor]]:
    """How the last two dimensions of a tensor like x are resized: a function of it and of these constants. A dimension that
    stays as long as it is is left alone, whatever its factor."""
    sizes = [int(n * f) for n, f in zip(x.shape[-2:], factors, strict=True)] if size is None else size
    constants: list[Tensor] = []
    bits: dict[int, int] = {}
    for axis in (1, 0):
        if x.shape[2 + axis] != sizes[axis]:
            factor = factors[axis] if factors else None
            places, weights, bits[axis] = _weights(x.shape[2 + axis], sizes[axis], factor, taps, antialias, corners)
            constants += [places, weights]

    def run(x: Tensor, *constants: Tensor) -> Tensor:
        found, left = x.to(torch.int32), list(constants)
        for axis, fraction in bits.items():
            places, weights = left.pop(0), left.pop(0)
            found = found.transpose(2 + axis, 3)
            found = (found[..., places] * weights).sum(-1, dtype=torch.int32)
            found = ((found + (1 << (fraction - 1))) >> fraction).clamp(0, 255).transpose(2 + axis, 3)
        return found.to(torch.uint8)

    return run, constants


Form = Callable[..., tuple[Callable[..., Tensor], list[Tensor]]]


def _forms(taps: int, antialias: bool) -> tuple[Form, Form]:
    """Of an operator and of its overload "vec"."""

    def plain(x: Tensor, size: Any, corners: bool, high: float | None = None, wide: float | None = None) -> Any:
        return resize(x, size, corners, (high, wide), taps, antialias)

    def vec(x: Tensor, size: Any, corners: bool, factors: Any = None) -> Any:
        return resize(x, size, corners, factors, taps, antialias)

    return plain, vec


BYTES: dict[str, Form] = {}  # by operator, where the first argument is uint8
for _name, _of in {
    "upsample_bilinear2d": (LINEAR, False),
    "upsample_bicubic2d": (CUBIC, False),
    "_upsample_bilinear2d_aa": (LINEAR, True),
    "_upsample_bicubic2d_aa": (CUBIC, True),
}.items():
    BYTES[f"aten.{_name}.default"], BYTES[f"aten.{_name}.vec"] = _forms(*_of)
