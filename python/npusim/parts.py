"""Parts of the package that need PyTorch, which are loaded when they are asked for; and where all its files are."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

from .errors import UsageError

PACKAGE = Path(__file__).parent  # whose files are npusim's own, however deep they lie


def level_of_caller() -> int:
    """`stacklevel` of a warning that is the caller's of npusim, for whoever asks."""
    level, frame = 1, sys._getframe(1)
    while PACKAGE in Path(frame.f_code.co_filename).parents and frame.f_back is not None:
        level, frame = level + 1, frame.f_back
    return level


def torch_part(name: str) -> ModuleType:
    """The module of this name in npusim.torch. UsageError: what it needs is not installed."""
    try:
        return importlib.import_module(f".torch.{name}", __package__)
    except ModuleNotFoundError as error:
        if error.name not in ("torch", "transformers"):
            raise
        raise UsageError(f"exporting needs {error.name}, which is not installed: pip install {error.name}") from error
