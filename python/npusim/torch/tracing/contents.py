"""What forward() leaves in the containers among its arguments: a tensor in the place of another comes back as that argument
does, and all else that is not as it was is told."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any, NamedTuple

import torch
from torch.utils import _pytree as pytree

from ...errors import Problem, UnsupportedError
from ..facts.aliases import place_of, shows_twice
from ..facts.messages import NAMED
from .kept import NOTHING, SLOTS, Change, Kept

LONGEST = 40  # characters of what a warning shows of a value


class Held(Kept):
    """What arguments hold, by names as Python has them: `cache['k']`, `cache.layers[0]`."""

    def note_tensor(self, value: torch.Tensor) -> None:
        """Their values are the program's matter."""

    def note_object(self, where: str, value: Any) -> list[tuple[str, Any]]:
        attributes = getattr(value, "__dict__", None)
        found = [(f"{where}.", attributes)] if isinstance(attributes, dict) else []
        return found + self.note(f"{where}.", value, *SLOTS)

    def name(self, where: str, _container: Any, key: Any) -> str:
        return f"{where}{key}" if where.endswith(".") else f"{where}[{key!r}]"


class Given(NamedTuple):
    """The arguments of a call, as it begins."""

    held: Held
    leaves: dict[Any, Any]  # by path
    structure: pytree.TreeSpec
    args: Any


class Contents:
    """What a call of a model finds in the containers among its arguments, and leaves there. names: gets what no program
    gives, by names, each with what it was and is."""

    def __init__(self, model: torch.nn.Module, names: dict[str, str], shared: list[str]) -> None:
        self.model = model
        self.names = names
        self.shared = shared
        self.given: Given | None = None

    def begin(self, args: Any, kwargs: Any) -> None:
        named = arguments_of(self.model, args, kwargs)
        self.given = Given(Held(*named.items()), _leaves((args, kwargs)), pytree.tree_structure((args, kwargs)), (args, kwargs))

    def end(self, output: Any, strict: bool = False) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Tensors that were given, each with the one of its shape and dtype in its place, of which it is to have the values.
        Notes all else; strict: these too. Raises UnsupportedError where a container that stands in two places is changed."""
        if self.given is None:
            return []
        changes = [*self.given.held.changes()]
        if again := [one.name for one in changes if any(_is_in(one.name, name) for name in self.shared)]:
            what = "is changed by forward(), and is in a container that the example has in two places: give each its own"
            raise UnsupportedError([Problem(f"argument {name}", what) for name in again])
        pairs = list(self.pairs()) if changes and not strict else []
        settled = {(id(before), id(now)) for before, now in pairs}
        whole = self.comes_back(settled)

        def is_known(one: Change) -> bool:
            return _comes_back(one.before, one.now, settled) or (whole and _has_tensors(one.now))

        self.tell([one for one in changes if not is_known(one)], output)
        return pairs

    def comes_back(self, settled: set[tuple[int, int]]) -> bool:
        """Whether all that the tracer takes apart does, however containers were exchanged."""
        assert self.given is not None
        if pytree.tree_structure(self.given.args) != self.given.structure:
            return False
        return _comes_back([*self.given.leaves.values()], pytree.tree_leaves(self.given.args), settled)

    def pairs(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        assert self.given is not None
        now = _leaves(self.given.args)
        for path, before in self.given.leaves.items():
            after = now.get(path)
            if isinstance(before, torch.Tensor) and isinstance(after, torch.Tensor) and _is_another(before, after):
                yield before, after

    def tell(self, changes: list[Change], output: Any) -> None:
        """Notes changes, but of what is returned."""
        returned = Held(("", output)).seen if changes else {}
        for one in changes:
            is_tensor = isinstance(one.now, torch.Tensor)
            if id(one.container) in returned or (is_tensor and (id(one.now) in returned or _is_one(one.before, one.now))):
                continue
            before, now = _shown(one.before), _shown(one.now)
            self.names[one.name] = f"{one.name} (was {before}, is {'another' if is_tensor and now == before else now})"

    def put_back(self) -> None:
        """What a class of containers hands on as it is, is the caller's own."""
        if self.given is not None:
            self.given.held.put_back()
            self.given = None


def changed_text(found: list[str], strict: bool) -> str:
    """The warning of what forward() leaves in containers and a program does not give; "" where there is nothing to say."""
    if not found:
        return ""
    listed = [*found[:NAMED], *([f"{len(found) - NAMED} others"] if len(found) > NAMED else [])]
    text = f"forward() changes its arguments: {', '.join(listed)}. The program does not give what is there then: return it"
    return f"{text}; with strict=False a tensor in the place of one of its shape comes back as NAME_next" if strict else text


def arguments_of(model: torch.nn.Module, args: Any, kwargs: Any) -> dict[str, Any]:
    """The arguments by the names that forward() has for them."""
    try:
        bound = inspect.signature(model.forward).bind_partial(*args, **kwargs)
    except (TypeError, ValueError):
        return {**{f"args[{i}]": value for i, value in enumerate(args)}, **kwargs}
    found: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        kind = bound.signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            found |= {f"{name}[{i}]": one for i, one in enumerate(value)}
        elif kind is inspect.Parameter.VAR_KEYWORD:
            found |= value
        else:
            found[name] = value
    return found


def held_twice(model: torch.nn.Module, args: Any, kwargs: Any) -> list[str]:
    """The names of containers that stand in two places, which the tracer takes for two."""
    names: dict[int, list[str]] = {}

    def note(where: str, value: Any) -> None:
        if isinstance(value, (list, MutableMapping)) or dataclasses.is_dataclass(value):
            names.setdefault(id(value), []).append(where)
        if len(names.get(id(value), ())) > 1:
            return
        for key, one in value.items() if isinstance(value, Mapping) else ():
            note(f"{where}[{key!r}]", one)
        for at, one in enumerate(value) if isinstance(value, (list, tuple)) else ():
            note(f"{where}[{at}]", one)
        for field in dataclasses.fields(value) if dataclasses.is_dataclass(value) else ():
            note(f"{where}.{field.name}", getattr(value, field.name, None))

    for name, value in arguments_of(model, args, kwargs).items():
        note(name, value)
    return [name for found in names.values() if len(found) > 1 for name in found]


def _leaves(given: Any) -> dict[Any, Any]:
    return dict(pytree.tree_flatten_with_path(given)[0])


def _is_another(before: torch.Tensor, now: torch.Tensor) -> bool:
    """Whether it is another tensor, which an input of the shape and dtype of the one before can be."""
    kinds = [(value.layout, value.dtype, value.device) for value in (before, now)]
    if before is now or kinds[0] != kinds[1] or not _is_static(now) or before.shape != now.shape:
        return False
    return not shows_twice(before) and not _is_one(before, now)


def _comes_back(before: Any, now: Any, settled: set[tuple[int, int]]) -> bool:
    """Whether all that is another is a tensor that comes back as an argument does."""
    first, then = pytree.tree_flatten(before), pytree.tree_flatten(now)
    if first[1] != then[1]:
        return False
    pairs = zip(first[0], then[0], strict=True)
    return all(a is b or (id(a), id(b)) in settled or (_is_number(a) and type(a) is type(b) and a == b) for a, b in pairs)


def _has_tensors(value: Any) -> bool:
    return any(isinstance(leaf, torch.Tensor) for leaf in pytree.tree_leaves(value))


def _is_number(value: Any) -> bool:
    return value is None or isinstance(value, (bool, int, float, str))


def _is_one(before: Any, now: torch.Tensor) -> bool:
    """Whether both show one memory alike, as `x.detach()` does x."""
    return isinstance(before, torch.Tensor) and _is_static(now) and place_of(before) == place_of(now)


def _is_static(value: torch.Tensor) -> bool:
    laid_out = (*value.stride(), value.storage_offset()) if value.layout is torch.strided else ()
    return all(isinstance(number, int) for number in (*value.shape, *laid_out))


def _is_in(name: str, container: str) -> bool:
    return name.startswith(container) and name[len(container) :][:1] in ("", ".", "[")


def _shown(value: Any) -> str:
    if value is NOTHING:
        return "nothing"
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    if _is_number(value):
        text = repr(value)
        return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return "a number that depends on values"
    kind = type(value).__name__
    return f"a {kind} of {len(value)}" if isinstance(value, (list, tuple, dict, set)) else f"a {kind}"
