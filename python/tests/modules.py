"""Functions as modules, which is what PyTorch exports."""

from collections.abc import Callable
from typing import Any

import torch


class Calls(torch.nn.Module):
    """Of its inputs."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


class CallsWithSelf(torch.nn.Module):
    """Of the module, which has these buffers, and its inputs."""

    def __init__(self, function: Callable[..., Any], **buffers: torch.Tensor) -> None:
        super().__init__()
        self.function = function
        for name, value in buffers.items():
            self.register_buffer(name, value)

    def forward(self, *args):
        return self.function(self, *args)
