"""A model stays as it was when it is traced: whatever forward() sets in modules, and in what they hold, is put back."""

from __future__ import annotations

import array
import contextlib
import dis
import types
from collections import deque
from collections.abc import Callable, Iterator, MutableMapping
from typing import Any, NamedTuple

import numpy as np
import torch

from ..facts.levels import levels_kept
from .dataclasses import registrations_kept
from .dtypes import defaults, defaults_kept, set_since

# What tracing changes, or what holds no values of a model.
OPAQUE = (torch.Tensor, type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType)
OWN = ("_parameters", "_buffers", "_modules")  # a module's own, whose changes the program has
# What npusim and PyTorch set of a model that they trace.
HOOKS = ("_forward_hooks", "_forward_pre_hooks")
TRACED = (".forward", *(f".{hooks}{how}" for hooks in HOOKS for how in ("", "_with_kwargs", "_always_called")))
WEIGHTS_OF_RNN = ("_flat_weights", "_flat_weight_refs")  # PyTorch's recurrent layers have theirs in lists too
SETTING = {dis.opmap["STORE_GLOBAL"], dis.opmap["DELETE_GLOBAL"]}
MADE = 1 << 9  # of a type's flags: it was made while Python ran


def _write_dict(value: MutableMapping[Any, Any], items: dict[Any, Any]) -> None:
    value.clear()
    value.update(items)


def _write_list(value: Any, items: dict[int, Any]) -> None:
    value.clear()
    value.extend(items.values())


def _write_set(value: set[Any], items: dict[Any, Any]) -> None:
    value.clear()
    value.update(items)


def _read_array(value: np.ndarray) -> dict[Any, Any]:
    return dict(enumerate(value.flat)) if value.dtype.hasobject else {"": value.tobytes()}


def _write_array(value: np.ndarray, items: dict[Any, Any]) -> None:
    if value.dtype.hasobject:
        for at, element in items.items():
            value.flat[at] = element
    elif len(items[""]) == value.nbytes and value.flags.writeable:
        value[...] = np.frombuffer(items[""], value.dtype).reshape(value.shape)


def _write_numbers(value: array.array[Any], items: dict[Any, Any]) -> None:
    del value[:]
    value.frombytes(items[""])


def _write_bytes(value: bytearray, items: dict[Any, Any]) -> None:
    value[:] = items[""]


def _set_by(code: types.CodeType) -> set[str]:
    """The names of its module that code sets or deletes, and the functions within it."""
    names = set[str]()
    if not SETTING.isdisjoint(code.co_code[::2]):  # which is read sooner than all instructions are
        names = {str(step.argval) for step in dis.get_instructions(code) if step.opcode in SETTING}
    return names.union(*(_set_by(inner) for inner in code.co_consts if isinstance(inner, types.CodeType)))


def _read_global(place: tuple[dict[str, Any], str]) -> dict[Any, Any]:
    names, name = place
    return {"": names[name]} if name in names else {}


def _write_global(place: tuple[dict[str, Any], str], items: dict[Any, Any]) -> None:
    names, name = place
    if items:
        names[name] = items[""]
    else:
        names.pop(name, None)


def _read_cell(value: types.CellType) -> dict[Any, Any]:
    """Of a function's closure; nothing where it has no value yet."""
    try:
        return {"": value.cell_contents}
    except ValueError:
        return {}


def _write_cell(value: types.CellType, items: dict[Any, Any]) -> None:
    if items:
        value.cell_contents = items[""]
    else:
        del value.cell_contents


def _read_class(value: type) -> dict[Any, Any]:
    return {name: held for name, held in vars(value).items() if not name.startswith("__") and name != "_abc_impl"}


def _write_class(value: type, items: dict[Any, Any]) -> None:
    now = _read_class(value)
    for name in now.keys() - items.keys():
        type.__delattr__(value, name)
    for name, held in items.items():
        if name not in now or now[name] is not held:
            type.__setattr__(value, name, held)


def _slots(value: Any) -> dict[str, Any]:
    """The descriptors of the attributes that an object has outside a dict."""
    return {
        name: slot
        for kind in _classes(value)
        for name, slot in vars(kind).items()
        if isinstance(slot, types.MemberDescriptorType) and not name.startswith("__")
    }


def _read_slots(value: Any) -> dict[Any, Any]:
    found = {}
    for name, slot in _slots(value).items():
        with contextlib.suppress(AttributeError):
            found[name] = slot.__get__(value)
    return found


def _write_slots(value: Any, items: dict[Any, Any]) -> None:
    for name, slot in _slots(value).items():
        if name in items:
            slot.__set__(value, items[name])
        else:
            with contextlib.suppress(AttributeError):
                slot.__delete__(value)


# How what a container holds is read and put back, and whether its name is told.
CONTAINERS: tuple[tuple[Any, tuple[Any, Any, bool]], ...] = (
    (MutableMapping, (lambda value: dict(value.items()), _write_dict, False)),
    ((list, deque), (lambda value: dict(enumerate(value)), _write_list, True)),
    (set, (dict.fromkeys, _write_set, True)),
    (np.ndarray, (_read_array, _write_array, True)),
    (bytearray, (lambda value: {"": bytes(value)}, _write_bytes, True)),
    (array.array, (lambda value: {"": value.tobytes()}, _write_numbers, True)),
)
PLAIN = (dict, list, set, deque, np.ndarray)  # of a module's containers those that are noted, of so many elements at most
MOST_HELD = 1000
GLOBAL = (_read_global, _write_global, True)
CELL = (_read_cell, _write_cell, True)
CLASS = (_read_class, _write_class, False)
SLOTS = (_read_slots, _write_slots, False)


class Noted(NamedTuple):
    """A container as it was: how what it holds is read by keys, and put back."""

    where: str
    value: Any
    items: dict[Any, Any]
    read: Callable[[Any], dict[Any, Any]]
    write: Callable[[Any, dict[Any, Any]], None]
    whole: bool  # whether its name is told, and not those of its items


NOTHING = object()  # is held where nothing is


class Change(NamedTuple):
    """What a container holds in a place, before and now: NOTHING where it holds nothing there."""

    name: str
    container: Any
    before: Any
    now: Any


class Kept:
    """Everything that can be reached from a model, as it is now: what its modules and objects hold, what these hold, the
    attributes of their classes and what their functions have from around them; of their modules the names that they set, and
    the containers that they name, not what these hold."""

    def __init__(self, *roots: tuple[str, Any]) -> None:
        self.noted: list[Noted] = []
        self.tensors: list[tuple[torch.Tensor, int, torch.Tensor]] = []  # no weights: with a version and a copy
        self.classes: set[type] = set()
        self.seen: dict[int, Any] = {}  # by identity
        waiting = [*roots]
        while waiting:
            where, value = waiting.pop()
            if id(value) not in self.seen:
                self.seen[id(value)] = value
                waiting += self.add(where, value)

    def add(self, where: str, value: Any) -> list[tuple[str, Any]]:
        """Notes a value; gives what it holds."""
        if isinstance(value, torch.Tensor):
            self.note_tensor(value)
        if isinstance(value, (staticmethod, classmethod)):
            return [(where, value.__func__)]
        if isinstance(value, types.MethodType):
            return [(where, value.__self__), (where, value.__func__)]
        if isinstance(value, types.FunctionType) and not _is_of_the_machine(value):
            self.note_globals(value)
            cells = zip(value.__code__.co_freevars, value.__closure__ or ())
            return [found for name, cell in cells for found in self.note(f"{name} of {where or value.__name__}", cell, *CELL)]
        if isinstance(value, OPAQUE):
            return []
        if isinstance(value, tuple):
            return [(f"{where}[{i}]", element) for i, element in enumerate(value)]
        found = []
        for kind, how in CONTAINERS:
            if isinstance(value, kind):
                held = self.note(where, value, *how)
                found += [] if where.endswith(("._parameters", "._buffers")) else held  # tracing has others in their place
        return found if _is_of_the_machine(value) else found + self.note_object(where, value)

    def note_tensor(self, value: torch.Tensor) -> None:
        if not isinstance(value, torch.nn.Parameter) and not value.is_inference():
            self.tensors.append((value, value._version, value.detach().clone()))

    def note_globals(self, function: types.FunctionType) -> None:
        """Names of its module that it sets, and containers of it that it reads, as they are: not what these hold."""
        names = function.__globals__
        for name in _set_by(function.__code__):
            self.note(f"{name} of {function.__module__}", (names, name), *GLOBAL)
        for name in function.__code__.co_names:
            held = names.get(name)
            if type(held) not in PLAIN or id(held) in self.seen:
                continue
            if (held.size if isinstance(held, np.ndarray) else len(held)) > MOST_HELD:
                continue
            for kind, how in CONTAINERS:
                if isinstance(held, kind):
                    self.note(f"{name} of {function.__module__}", held, *how[:2], True)

    def note_object(self, where: str, value: Any) -> list[tuple[str, Any]]:
        held = getattr(value, "__dict__", None)
        found = [(where, held)] if isinstance(held, dict) else []
        for kind in _classes(value):
            if kind not in self.classes:
                self.classes.add(kind)
                found += self.note(kind.__name__, kind, *CLASS)
        return found + self.note(where, value, *SLOTS)

    def note(self, where: str, value: Any, read: Any, write: Any, whole: bool) -> list[tuple[str, Any]]:
        items = read(value)
        self.noted.append(Noted(where, value, items, read, write, whole))
        return [(where if whole and not isinstance(key, int) else self.name(where, value, key), one) for key, one in items.items()]

    def name(self, where: str, _container: Any, key: Any) -> str:
        """Of what a container holds."""
        return _of(where, key)

    def changes(self) -> Iterator[Change]:
        """What is not as it was, place by place."""
        for where, value, items, read, _, whole in self.noted:
            now = read(value)
            for key in {**items, **now}:
                if _differ(items, now, key):
                    name = where if whole and not isinstance(key, int) else self.name(where, value, key)
                    yield Change(name, value, items.get(key, NOTHING), now.get(key, NOTHING))

    def changed(self) -> list[str]:
        """What is not as it was, but weights and buffers, by names."""
        found: list[str] = []
        for where, value, items, read, _, whole in self.noted:
            if where.endswith((*OWN, *WEIGHTS_OF_RNN)) or where in TRACED:
                continue
            now = read(value)
            others = [key for key in {**items, **now} if key not in WEIGHTS_OF_RNN and _differ(items, now, key)]
            found += ([where] if others else []) if whole else [_of(where, key) for key in others]
        return [name.removeprefix(".") for name in dict.fromkeys(found) if name not in TRACED]

    def put_back(self) -> None:
        for _, value, items, read, write, _ in self.noted:
            now = read(value)
            if len(now) != len(items) or not all(map(_is_identical, (*now, *now.values()), (*items, *items.values()))):
                write(value, items)
        with torch.no_grad():
            for tensor, version, copy in self.tensors:
                if tensor._version != version and tensor.shape == copy.shape:
                    tensor.copy_(copy)


def _of(where: str, key: Any) -> str:
    """The name of what a dict holds; those of modules and parameters are not shown."""
    inner = where.removesuffix("._modules").removesuffix("._parameters").removesuffix("._buffers")
    return f"{inner}.{key}" if isinstance(key, str) and key.isidentifier() or inner != where else f"{where}[{key!r}]"


def _classes(value: Any) -> list[type]:
    """The classes of an object that are a model's."""
    return [kind for kind in type(value).__mro__ if not _is_of_the_machine(kind)]


def _is_of_the_machine(value: Any) -> bool:
    """Whether it is an object of Python or of PyTorch that is no part of a model: locks, loggers, streams. What is made where
    no module has a name, as by exec(), is said to be of builtins."""
    if isinstance(value, torch.nn.Module):
        return False
    of = value if isinstance(value, (types.FunctionType, type)) else type(value)
    module = (of.__module__ or "builtins").partition(".")[0]
    if module == "builtins":
        return isinstance(of, type) and not of.__flags__ & MADE
    return module in ("logging", "threading", "_thread", "functools", "torch")


def _is_identical(one: Any, other: Any) -> bool:
    """Whether they are one thing; places and bytes are made anew when they are read."""
    return one is other or (type(one) in (int, bytes) and type(one) is type(other) and one == other)


def _differ(before: dict[Any, Any], now: dict[Any, Any], key: Any) -> bool:
    return key not in before or key not in now or _is_other(before[key], now[key])


def _is_other(before: Any, now: Any, within: tuple[Any, ...] = ()) -> bool:
    """Whether a run that begins with the one could differ from one that begins with the other. What a container that stays
    holds is no matter of its own: it is noted too."""
    if before is now or any(before is one for one in within):
        return False
    if type(before) is not type(now) or isinstance(now, (torch.Tensor, type, types.FunctionType)):
        return True
    within = (*within, before)
    if isinstance(now, np.ndarray):
        return before.dtype != now.dtype or before.shape != now.shape or before.tobytes() != now.tobytes()
    if isinstance(now, (list, tuple, deque)):
        return len(before) != len(now) or any(_is_other(a, b, within) for a, b in zip(before, now, strict=True))
    if isinstance(now, MutableMapping):
        return list(before) != list(now) or any(_is_other(before[key], now[key], within) for key in now)
    parts = [] if _is_of_the_machine(now) else [getattr(one, "__dict__", {}) | _read_slots(one) for one in (before, now)]
    if any(parts):  # not by what it is equal to, which may ask for values that are being traced
        return _is_other(*parts, within)
    with contextlib.suppress(Exception):
        return not (before == now or (before != before and now != now))
    return True


@contextlib.contextmanager
def kept(model: torch.nn.Module) -> Iterator[Callable[[], list[str]]]:
    """Puts everything back at the end, the generator of random numbers and PyTorch's defaults too, and leaves what was entered.
    Gives a function that says, while forward() has just been traced, what it set."""
    before, default = Kept(("", model)), defaults()
    names: set[str] = set()  # PyTorch puts some of it back before this ends

    def changed() -> list[str]:
        found = before.changed()
        names.update(found)
        return found + set_since(default)

    with torch.random.fork_rng(devices=[]), levels_kept(), defaults_kept():
        try:
            with registrations_kept(lambda: bool(names or before.changed())):
                yield changed
        finally:
            before.put_back()
