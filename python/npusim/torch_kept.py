"""A model stays as it was when it is traced: whatever forward() sets in modules, and in what they hold, is put back."""

from __future__ import annotations

import contextlib
import types
from collections import deque
from collections.abc import Callable, Iterator, MutableMapping
from typing import Any

import torch
from torch._subclasses import FakeTensor

# What tracing changes, or what holds no values of a model.
OPAQUE = (torch.Tensor, type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType)
OWN = ("_parameters", "_buffers", "_modules")  # a module's own, whose changes the program has
WEIGHTS_OF_RNN = "_flat_weights"  # PyTorch's recurrent layers have theirs in a list too
MADE = 1 << 9  # of a type's flags: it was made while Python ran
PLAIN = (bool, int, float, str, type(None))


class Kept:
    """Everything that can be reached from a model, as it is now."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.dicts: list[tuple[str, MutableMapping[Any, Any], dict[Any, Any]]] = []  # where, what, and its items
        self.lists: list[tuple[str, Any, list[Any]]] = []
        self.sets: list[tuple[set[Any], set[Any]]] = []
        self.tensors: list[tuple[torch.Tensor, int, torch.Tensor]] = []  # no weights: with a version and a copy
        self.seen: set[int] = set()
        waiting: list[tuple[str, Any]] = [("", model)]
        while waiting:
            where, value = waiting.pop()
            if id(value) not in self.seen:
                self.seen.add(id(value))
                waiting += self.add(where, value)

    def add(self, where: str, value: Any) -> list[tuple[str, Any]]:
        """Notes a value; gives what it holds."""
        if isinstance(value, torch.Tensor) and not isinstance(value, torch.nn.Parameter) and not value.is_inference():
            self.tensors.append((value, value._version, value.detach().clone()))
        if isinstance(value, types.MethodType):
            return [(where, value.__self__)]
        if isinstance(value, types.FunctionType) and not _is_of_the_machine(value):
            return [(where, held) for cell in value.__closure__ or () for held in _contents(cell)]
        if isinstance(value, OPAQUE):
            return []
        if isinstance(value, MutableMapping):
            items = dict(value.items())
            self.dicts.append((where, value, items))
            weights = where.endswith(("._parameters", "._buffers"))  # tracing has others in their place
            return [] if weights else [(_of(where, key), element) for key, element in items.items()]
        if isinstance(value, (list, deque)):
            self.lists.append((where, value, list(value)))
            return [(f"{where}[{i}]", element) for i, element in enumerate(value)]
        if isinstance(value, set):
            self.sets.append((value, set(value)))
            return []
        if isinstance(value, tuple):
            return [(f"{where}[{i}]", element) for i, element in enumerate(value)]
        held = getattr(value, "__dict__", None)
        return [(where, held)] if isinstance(held, dict) and not _is_of_the_machine(value) else []

    def changed(self) -> list[str]:
        """Attributes that hold what is being traced, and did not, and those that had another number, truth or text."""
        found = [
            _of(where, key)
            for where, value, items in self.dicts
            if not where.endswith(OWN)
            for key, element in value.items()
            if (key not in items or items[key] is not element) and key != WEIGHTS_OF_RNN
            if _is_traced(element) or (key in items and _is_other(items[key], element))
        ]
        for where, value, elements in self.lists:
            if len(value) != len(elements) or any(a is not b for a, b in zip(value, elements)):
                found += [where] if any(map(_is_traced, value)) and not where.endswith(WEIGHTS_OF_RNN) else []
        return [name.removeprefix(".") for name in found]

    def put_back(self) -> None:
        for _, value, items in self.dicts:
            if list(value) != list(items) or any(value[key] is not element for key, element in items.items()):
                value.clear()
                value.update(items)
        for _, listed, elements in self.lists:
            if len(listed) != len(elements) or any(a is not b for a, b in zip(listed, elements)):
                listed.clear()
                listed.extend(elements)
        for value, elements in self.sets:
            if value != elements:
                value.clear()
                value.update(elements)
        with torch.no_grad():
            for tensor, version, copy in self.tensors:
                if tensor._version != version and tensor.shape == copy.shape:
                    tensor.copy_(copy)


def _of(where: str, key: Any) -> str:
    """The name of what a dict holds; those of modules and parameters are not shown."""
    inner = where.removesuffix("._modules").removesuffix("._parameters").removesuffix("._buffers")
    return f"{inner}.{key}" if isinstance(key, str) and key.isidentifier() or inner != where else f"{where}[{key!r}]"


def _contents(cell: types.CellType) -> list[Any]:
    """Of a function's closure; nothing where it has no value yet."""
    try:
        return [cell.cell_contents]
    except ValueError:
        return []


def _is_of_the_machine(value: Any) -> bool:
    """Whether it is an object of Python or of PyTorch that is no part of a model: locks, loggers, streams. What is made where
    no module has a name, as by exec(), is said to be of builtins."""
    if isinstance(value, torch.nn.Module):
        return False
    of = value if isinstance(value, types.FunctionType) else type(value)
    module = (of.__module__ or "builtins").partition(".")[0]
    if module == "builtins":
        return isinstance(of, type) and not of.__flags__ & MADE
    return module in ("logging", "threading", "_thread", "functools", "torch")


def _is_other(before: Any, now: Any) -> bool:
    return type(now) in PLAIN and (type(before) is not type(now) or before != now)


def _is_traced(value: Any) -> bool:
    return any(isinstance(leaf, FakeTensor) for leaf in torch.utils._pytree.tree_leaves(value))


@contextlib.contextmanager
def kept(model: torch.nn.Module) -> Iterator[Callable[[], list[str]]]:
    """Puts everything back at the end, the generator of random numbers too. Gives a function that says, while forward() has
    just been traced, which attributes hold what it computed."""
    before = Kept(model)
    with torch.random.fork_rng(devices=[]):
        try:
            yield before.changed
        finally:
            before.put_back()
