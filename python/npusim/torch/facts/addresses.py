"""Addresses of elements in memory, as strides say them, and which elements of a value stand there."""

from __future__ import annotations

from collections.abc import Sequence

import torch


def addresses(size: Sequence[int], strides: Sequence[int], first: int) -> torch.Tensor:
    """Of each element."""
    found = torch.full(tuple(size), first, dtype=torch.int64)
    for d, (extent, stride) in enumerate(zip(size, strides, strict=True)):
        found += (torch.arange(extent) * stride).reshape([-1, *[1] * (len(size) - d - 1)])
    return found


def places_at(value: torch.Tensor, asked: torch.Tensor) -> torch.Tensor | None:
    """Which elements of a value, in row-major order, stand at these addresses; None where some stand at none."""
    own = addresses(value.shape, value.stride(), value.storage_offset()).flatten()
    if not own.numel() or int(asked.min()) < 0:
        return None
    element = torch.full((max(int(own.max()), int(asked.max())) + 1,), -1)
    element[own] = torch.arange(own.numel())
    found = element[asked]
    return found if bool((found >= 0).all()) else None


def strides_of(places: torch.Tensor) -> tuple[list[int], int] | None:
    """The strides and the first place with which as_strided gives these places; None where there are none. Of no place it is
    not asked."""
    at = int(places.flatten()[0])
    strides = [int(places.select(d, 1).flatten()[0]) - at if n > 1 else 0 for d, n in enumerate(places.shape)]
    return (strides, at) if torch.equal(addresses(places.shape, strides, at), places) else None
