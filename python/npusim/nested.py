"""Inputs as forward() takes them, in lists, tuples, dicts and dataclasses, told apart as they were when it was exported."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from .errors import Problem, UsageError


class Key(NamedTuple):
    """A step from a container to what it holds."""

    kind: str  # "item" of a list or tuple, "key" of a dict, "name" of an attribute
    of: Any


class Leaf(NamedTuple):
    """What is no container in forward()'s arguments."""

    path: tuple[Key, ...]  # its first step is to the argument: an item, or a key where it is given by keyword
    input: str  # of the program; "" where it is part of it
    value: Any  # of what is part of it
    argument: str = ""  # forward()'s name for it, where it is an argument itself


def nested_inputs(leaves: Sequence[Leaf], given: Sequence[Any]) -> dict[str, Any] | None:
    """The inputs by name, where `given` are arguments of which some are containers; None where they are arrays."""
    arguments: dict[Key, list[Leaf]] = {}
    for leaf in leaves:
        arguments.setdefault(leaf.path[0], []).append(leaf)
    constants = {leaf.argument: leaf for leaf in leaves if not leaf.input and len(leaf.path) == 1}
    if len(given) == 1 and isinstance(given[0], Mapping):
        inputs = {leaf.input for leaf in leaves}
        if given[0].keys() <= inputs:
            return None
        if given[0].keys() <= inputs | constants.keys():
            return _without_constants(constants, given[0])
    nested = any(len(leaf.path) > 1 for leaf in leaves) and any(map(_is_container, given))
    if not nested and not _has_constants(list(arguments.values()), given):
        _check_count(leaves, list(constants.values()), len(arguments), len(given))
        return None
    if len(given) < len(arguments):  # without those that are part of the program
        arguments = {key: held for key, held in arguments.items() if any(leaf.input for leaf in held)}
    if len(given) != len(arguments):
        raise UsageError(f"expected {len(arguments)} arguments, as forward() takes them, found {len(given)}")
    found: dict[str, Any] = {}
    problems: list[Problem] = []
    for held, value in zip(arguments.values(), given, strict=True):
        where = _where(held[0])
        _take(held, 1, value, where, found, problems)
    if problems:
        raise UsageError(problems)
    return found


def _has_constants(arguments: list[list[Leaf]], given: Sequence[Any]) -> bool:
    """Whether these are forward()'s arguments with what is part of the program where it has it, or can be nothing else."""
    if len(given) != len(arguments):
        return False
    held = [(leaves[0].value, value) for leaves, value in zip(arguments, given, strict=True) if not leaves[0].input]
    if len(given) > sum(bool(leaf.input) for leaves in arguments for leaf in leaves):
        return bool(held)
    return bool(held) and all(type(value) is type(constant) for constant, value in held)


def _check_count(leaves: Sequence[Leaf], constants: list[Leaf], arguments: int, given: int) -> None:
    """Raises UsageError for more than there are inputs, where some of forward()'s arguments are none."""
    inputs = [leaf.input for leaf in leaves if leaf.input]
    if given > len(inputs) and constants:
        fixed = ", ".join(f"{leaf.argument or _where(leaf)}={leaf.value!r}" for leaf in constants)
        of = f"or {arguments} arguments as forward() takes them, of which {fixed} are part of the program"
        raise UsageError(f"expected {len(inputs)} inputs ({', '.join(inputs) or 'none'}), {of}: found {given}")


def _without_constants(constants: Mapping[str, Leaf], given: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments by their names, without those that are part of the program. Raises UsageError where one is another."""
    problems: list[Problem] = []
    for name in given.keys() & constants.keys():
        _take([constants[name]], 1, given[name], _where(constants[name]), {}, problems)
    if problems:
        raise UsageError(problems)
    return {name: value for name, value in given.items() if name not in constants}


def _where(leaf: Leaf) -> str:
    """The argument that it is in."""
    key = leaf.path[0]
    return f"argument {key.of}{f' ({leaf.argument})' if leaf.argument else ''}" if key.kind == "item" else f"argument '{key.of}'"


def _is_container(value: Any) -> bool:
    return isinstance(value, (list, tuple, Mapping)) or dataclasses.is_dataclass(value)


def _take(
    leaves: list[Leaf], depth: int, value: Any, where: str, found: dict[str, Any], problems: list[Problem]
) -> None:
    """Takes what is below a container, at that depth of these leaves' paths."""
    if len(leaves) == 1 and len(leaves[0].path) == depth:
        name, constant = leaves[0].input, leaves[0].value
        if name:
            found[name] = value
        elif type(value) is not type(constant) or value != constant:
            expected, found_there = _shown(constant), _shown(value)
            if type(value) is not type(constant) and constant is not None:
                expected += f" ({type(constant).__name__})"
            problems.append(Problem(where, f"is part of the program: expected {expected}, found {found_there}"))
        return
    inside: dict[Key, list[Leaf]] = {}
    for leaf in leaves:
        inside.setdefault(leaf.path[depth], []).append(leaf)
    if expected := _unlike(list(inside), value):
        problems.append(Problem(where, f"expected {expected} as in the example, found {_described(value)}"))
        return
    for key, held in inside.items():
        part = getattr(value, key.of) if key.kind == "name" else value[key.of]
        at = f".{key.of}" if key.kind == "name" else f"[{key.of!r}]"
        _take(held, depth + 1, part, where + at, found, problems)


def _unlike(keys: list[Key], value: Any) -> str:
    """What was expected in the place of a value; "" where it has these keys and no others."""
    kind = keys[0].kind
    if kind == "item":
        fits = isinstance(value, (list, tuple)) and len(value) == len(keys)
        return "" if fits else f"a list or tuple of {len(keys)}"
    names = [key.of for key in keys]
    if kind == "key":
        fits = isinstance(value, Mapping) and set(value) == set(names)
        return "" if fits else f"a dict of {', '.join(map(repr, names))}"
    return "" if all(hasattr(value, name) for name in names) else f"what has {', '.join(names)}"


def _shown(value: Any) -> str:
    """A number or a text as Python has it; of arrays, which may be large, the kind."""
    return f"a {type(value).__name__}" if hasattr(value, "shape") and hasattr(value, "dtype") else repr(value)


def _described(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"a dict of {', '.join(map(repr, value)) or 'nothing'}"
    return f"a {type(value).__name__}{f' of {len(value)}' if isinstance(value, (list, tuple)) else ''}"
