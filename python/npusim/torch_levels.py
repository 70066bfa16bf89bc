"""Values inside transformations of torch.func (vmap): the tracer keeps them behind the end of the transformation, when
PyTorch computes nothing with them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch._functorch.predispatch import _remove_batch_dim as remove_level
from torch.utils import _pytree as pytree


def is_inside(value: Any) -> bool:
    """Whether it is a value of one element of what a transformation goes over."""
    return isinstance(value, torch.Tensor) and torch._C._functorch.is_functorch_wrapped_tensor(value)


def innermost(value: torch.Tensor) -> torch.Tensor:
    """The tensor that has the memory of a value: one inside a transformation has none of its own."""
    while is_inside(value):
        value = torch._C._functorch.get_unwrapped(value)
    return value


def without_level(value: torch.Tensor, level: int, count: int, dim: int) -> torch.Tensor:
    """A value of each element as one of all, which have the dimension dim: the tracer follows only the first."""
    return remove_level(value, level, count, 0).movedim(0, dim)


@contextlib.contextmanager
def levels_of(values: Any) -> Iterator[None]:
    """Within as many transformations as these values are in, so that PyTorch computes with them. Levels are numbered from
    outside; how many elements one has decides nothing but how often it draws random numbers."""
    inside = [value for value in pytree.tree_leaves(values) if is_inside(value)]
    depth = max((torch._C._functorch.maybe_get_level(value) for value in inside), default=0)
    with contextlib.ExitStack() as entered:
        for _ in range(depth):
            torch._C._functorch._vmap_increment_nesting(1, "same")
            entered.callback(torch._C._functorch._vmap_decrement_nesting)
        yield
