"""Parts of the package that need PyTorch, which are loaded when they are asked for."""

from __future__ import annotations

import importlib
from types import ModuleType

from .errors import UsageError


def torch_part(name: str) -> ModuleType:
    """The package's module of this name. UsageError: what it needs is not installed."""
    try:
        return importlib.import_module(f".{name}", __package__)
    except ModuleNotFoundError as error:
        if error.name not in ("torch", "transformers"):
            raise
        raise UsageError(f"exporting needs {error.name}, which is not installed: pip install {error.name}") from error
