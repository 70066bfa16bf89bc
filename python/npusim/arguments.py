"""Arguments of the package's functions, checked: what is of another kind is a UsageError that names the argument."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .errors import UsageError


def refused(name: str, expected: str, found: Any) -> UsageError:
    """The error for an argument of another kind or out of its range."""
    shown = repr(found)
    return UsageError(f"{name}: expected {expected}, found {shown if len(shown) <= 80 else type(found).__name__}")


def integer(name: str, value: Any, low: int, high: int) -> int:
    """An integer from low to high, of whatever type has integers' meaning, NumPy's among them. True and False are
    none."""
    expected = f"an integer from {low} to {high}"
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None or not low <= number <= high:
        raise refused(name, expected, value)
    return number


def number(name: str, value: Any) -> float:
    """A number; its range is checked where it is used."""
    if isinstance(value, (str, bytes, bool)) or not hasattr(value, "__float__") and not hasattr(value, "__index__"):
        raise refused(name, "a number", value)
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise refused(name, "a number", value) from None


def integers(name: str, values: Any, low: int, high: int) -> list[int]:
    """A sequence of integers."""
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        raise refused(name, "a sequence of integers", values)
    return [integer(f"{name}[{i}]", value, low, high) for i, value in enumerate(values)]


def text(name: str, value: Any) -> str:
    """A str."""
    if not isinstance(value, str):
        raise refused(name, "a str", value)
    return value


def flag(name: str, value: Any) -> bool:
    """True or False."""
    if not isinstance(value, bool):
        raise refused(name, "True or False", value)
    return value


def path(name: str, value: Any) -> str:
    """The name of a file or folder, which is not empty."""
    try:
        found = os.fspath(value)
    except TypeError:
        found = ""
    if not isinstance(found, str) or not found:
        raise refused(name, "a path", value)
    return found


def texts(name: str, values: Any) -> set[str]:
    """Names: one, or several."""
    if isinstance(values, str):
        return {values}
    if isinstance(values, (bytes, Mapping)) or not isinstance(values, Iterable):
        raise refused(name, "a name or names", values)
    return {text(name, value) for value in values}


def function(name: str, value: Any) -> Callable[..., Any] | None:
    """A function, or None."""
    if value is not None and not callable(value):
        raise refused(name, "a function", value)
    return value
