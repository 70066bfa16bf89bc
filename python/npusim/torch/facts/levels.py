"""Values inside transformations of torch.func (vmap): the tracer keeps them behind the end of the transformation, when
PyTorch computes nothing with them. And what a thread is within: transformations, forward AD, autocast."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch.autograd import forward_ad
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


@contextlib.contextmanager
def levels_kept() -> Iterator[None]:
    """At the end the thread is within what it was within before. A graph of a tracer enters and leaves transformations, forward
    AD, modes of gradients and autocast by calls one after the other: what ends in the middle has left none."""
    functorch, autograd = torch._C._functorch, torch._C._autograd
    depth, in_forward_ad, of_python = functorch.get_dynamic_layer_stack_depth(), _is_in_forward_ad(), forward_ad._current_level
    forward, gradients = torch._C._is_fwd_grad_enabled(), torch.is_grad_enabled()
    writes, hooks = functorch.get_inplace_requires_grad_allowed(), autograd._saved_tensors_hooks_get_disabled_error_message()
    regions, casts = _autocast_depth(), [(device, *_autocast(device)) for device in ("cpu", "cuda")]
    cached = torch.is_autocast_cache_enabled()
    try:
        yield
    finally:
        if functorch.get_dynamic_layer_stack_depth() > depth:
            functorch.pop_dynamic_layer_stack_and_undo_to_depth(depth)
        if _is_in_forward_ad() and not in_forward_ad:
            torch._C._exit_dual_level(level=0)
        forward_ad._current_level = of_python
        torch._C._set_fwd_grad_enabled(forward)
        torch._C._set_grad_enabled(gradients)
        functorch.set_inplace_requires_grad_allowed(writes)
        if autograd._saved_tensors_hooks_get_disabled_error_message() != hooks:
            autograd._saved_tensors_hooks_enable() if hooks is None else autograd._saved_tensors_hooks_disable(hooks)
        while _autocast_depth() > regions:
            torch.autocast_decrement_nesting()
        for device, enabled, dtype in casts:
            torch.set_autocast_enabled(device, enabled)
            torch.set_autocast_dtype(device, dtype)
        torch.set_autocast_cache_enabled(cached)


def _is_in_forward_ad() -> bool:
    """PyTorch has one level of it at most, which it does not tell."""
    try:
        level = torch._C._enter_dual_level()
    except RuntimeError:
        return True
    torch._C._exit_dual_level(level=level)
    return False


def _autocast_depth() -> int:
    torch.autocast_increment_nesting()
    return torch.autocast_decrement_nesting()


def _autocast(device: str) -> tuple[bool, torch.dtype]:
    return torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)
