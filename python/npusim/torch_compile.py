"""The backend of torch.compile by the name that users import, npusim.torch_compile.backend."""

from __future__ import annotations

from .torch.compile import backend

__all__ = ["backend"]
