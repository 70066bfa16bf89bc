"""Weights: a file, arrays by name, or a set of tensors that sessions share."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Union

from . import _core
from .arguments import mapping
from .arguments import path as _path
from .arguments import text as _text
from .arrays import as_array, memory_of

# The path of a .safetensors file or of an index of shards, which is mapped and must not change while a session uses it
# (one that is cut shorter ends the process; read_weights() takes such files); arrays or tensors by name, which must not change while a
# session uses them; None: the program has no weights, or its own.
Weights = Union[str, "os.PathLike[str]", Mapping[str, Any], _core.TensorSet, None]


def open_weights(weights: Weights) -> _core.TensorSet | None:
    """The set of tensors, over the memory or file that has them. Raises BadInputError naming the file."""
    if weights is None or isinstance(weights, _core.TensorSet):
        return weights
    if isinstance(weights, Mapping):
        return _core.make_tensors(named(weights))
    return _core.open_tensors(_path("weights", weights))


def read_weights(path: str | os.PathLike[str]) -> _core.TensorSet:
    """The same files as a path names, read into memory instead of mapped: they may change or vanish afterwards."""
    return _core.read_tensors(_path("path", path))


def save_weights(path: str | os.PathLike[str], weights: Mapping[str, Any]) -> None:
    """Writes arrays or tensors by name to a .safetensors file, whole or not at all."""
    _core.write_safetensors(_path("path", path), named(mapping("weights", weights, "arrays by name")))


def checked_weights(weights: Any) -> Weights:
    """What open_weights() takes, not opened yet."""
    if weights is None or isinstance(weights, (_core.TensorSet, Mapping)):
        return weights
    return _path("weights", weights)


def named(weights: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """Arrays by name as _core takes them."""
    arrays = []
    for name, value in weights.items():
        where = f"weight '{_text('the name of a weight', name)}'"
        arrays.append((name, *memory_of(as_array(value, where=where), where)))
    return arrays
