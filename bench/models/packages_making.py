"""How models of packages are made."""

import importlib
from collections.abc import Callable
from typing import Any

import torch
from case import Made
from torch import nn


def of(path: str, *args: Any, **kwargs: Any) -> nn.Module:
    """Makes `package.module.Class`."""
    module, _, kind = path.rpartition(".")
    return getattr(importlib.import_module(module), kind)(*args, **kwargs)


def ids(*shape: int, below: int = 64) -> torch.Tensor:
    return torch.randint(0, below, shape)


def plain(path: str, inputs: Callable[[], tuple[torch.Tensor, ...]], *args: Any, **kwargs: Any) -> Callable[[], Made]:
    return lambda: (of(path, *args, **kwargs), inputs(), {})


def rows(*shape: int) -> Callable[[], tuple[torch.Tensor, ...]]:
    return lambda: (torch.randn(shape),)


class Method(nn.Module):
    """A method of a module as its forward()."""

    def __init__(self, module: nn.Module, name: str, *rest: Any) -> None:
        super().__init__()
        self.module, self.name, self.rest = module, name, rest

    def forward(self, *args: torch.Tensor) -> Any:
        return getattr(self.module, self.name)(*args, *self.rest)


class Function(nn.Module):
    """A function as a module; what it has weights of."""

    def __init__(self, function: Callable[..., Any], *parts: nn.Module) -> None:
        super().__init__()
        self.function, self.parts = function, nn.ModuleList(parts)

    def forward(self, *args: torch.Tensor) -> Any:
        return self.function(*args)
