"""Dataclasses among a model's arguments and results, which torch.export takes apart where it has been told of them."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree


@contextlib.contextmanager
def dataclasses_told(model: torch.nn.Module, args: Any, kwargs: Any, strict: bool) -> Iterator[None]:
    """PyTorch is told of the dataclasses that are given and, as it traces, of those that the model returns. strict: not of
    these, for dynamo takes them or does not before a model has returned."""
    tell((args, kwargs))
    if strict:
        yield
        return
    hook = model.register_forward_hook(lambda _model, _args, result: tell(result))
    try:
        yield
    finally:
        hook.remove()


def tell(values: Any) -> None:
    """Registers every dataclass among these values, and what is in them, once and for all."""
    for leaf in pytree.tree_leaves(values):
        if dataclasses.is_dataclass(leaf) and not isinstance(leaf, type):
            torch.export.register_dataclass(type(leaf))
            tell(leaf)
