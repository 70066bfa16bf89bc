"""Arguments of the package's functions, checked: what is of another kind is a UsageError that names the argument."""

from __future__ import annotations

import operator
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from .errors import UsageError


def refused(name: str, expected: str, found: Any) -> UsageError:
    """The error for an argument of another kind or out of its range."""
    try:
        shown = repr(found)
    except Exception:  # of a class of the caller's
        shown = ""
    kind = type(found).__name__
    return UsageError(f"{name}: expected {expected}, found {shown if 0 < len(shown) <= 80 else kind}")


def instance(name: str, value: Any, kind: type, expected: str) -> Any:
    """A value of a class."""
    if not isinstance(value, kind):
        raise refused(name, expected, value)
    return value


def mapping(name: str, value: Any, expected: str) -> Mapping[str, Any]:
    """A dict by names."""
    if not isinstance(value, Mapping):
        raise refused(name, expected, value)
    for key in value:
        text(f"a key of {name}", key)
    return value


def sequence(name: str, value: Any, expected: str) -> Sequence[Any]:
    """A list or tuple."""
    if not isinstance(value, (list, tuple)):
        raise refused(name, expected, value)
    return value


def integer(name: str, value: Any, low: int, high: int) -> int:
    """An integer from low to high, of whatever type has integers' meaning, NumPy's among them. True and False are
    none."""
    number = _index(value)
    if number is None or not low <= number <= high:
        raise refused(name, f"an integer from {low} to {high}", value)
    return number


def thread_count(value: Any) -> int:
    """A number of threads, whose bounds the library knows: what no machine word holds is out of them too."""
    count = _index(value)
    if count is None:
        raise refused("threads", "an integer", value)
    return max(-(2**63), min(count, 2**63 - 1))


def _index(value: Any) -> int | None:
    try:
        return operator.index(value) if _may_be_number(value) else None
    except Exception:  # of another kind, or of a class of the caller's
        return None


def _may_be_number(value: Any) -> bool:
    """Whether it is one value, neither text nor a truth: arrays and tensors of one element give Python numbers whatever
    their dimensions, and some whatever they hold."""
    if isinstance(value, (str, bytes, bytearray, bool)):
        return False
    dtype = getattr(value, "dtype", None)
    return getattr(value, "ndim", 0) == 0 and (dtype is None or _NUMERIC.match(str(dtype)) is not None)


_NUMERIC = re.compile(r"(torch\.)?(u?int|b?float)\d")


def budget(max_bytes: Any, max_flops: Any) -> dict[str, int]:
    """What a program may need, 0 for any; whole floats such as 1e9 are taken."""
    limits = {"max_bytes": max_bytes, "max_flops": max_flops}
    whole = {n: int(v) if isinstance(v, float) and v.is_integer() else v for n, v in limits.items()}
    return {name: integer(name, value, 0, 2**64 - 1) for name, value in whole.items()}


def number(name: str, value: Any) -> float:
    """A number; its range is checked where it is used."""
    try:
        if _may_be_number(value):
            return float(value)
    except Exception:  # of another kind, or of a class of the caller's
        pass
    raise refused(name, "a number", value)


def _listed(name: str, values: Any, expected: str) -> list[Any]:
    """What one iterates over, but for text, bytes and mappings."""
    if isinstance(values, (str, bytes, bytearray, memoryview, Mapping)) or not isinstance(values, Iterable):
        raise refused(name, expected, values)
    try:
        return list(values)
    except Exception:  # of an array of no dimensions, which has __iter__ nevertheless, or of a class of the caller's
        raise refused(name, expected, values) from None


def integers(name: str, values: Any, low: int, high: int) -> list[int]:
    """A sequence of integers: a set has no order."""
    if isinstance(values, (set, frozenset)):
        raise refused(name, "a sequence of integers", values)
    found = _listed(name, values, "a sequence of integers")
    return [integer(f"{name}[{i}]", value, low, high) for i, value in enumerate(found)]


def text(name: str, value: Any) -> str:
    """A str that UTF-8 can spell: half a surrogate pair is none."""
    if not isinstance(value, str):
        raise refused(name, "a str", value)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise refused(name, "a str that UTF-8 can spell", value) from None
    return value


def flag(name: str, value: Any) -> bool:
    """True or False."""
    if not isinstance(value, bool):
        raise refused(name, "True or False", value)
    return value


def path(name: str, value: Any) -> str:
    """The name of a file or folder, which is not empty. Bytes of it that are no UTF-8 stand in it as os.fsdecode() has
    them."""
    try:
        found = os.fspath(value)
    except Exception:  # of another kind, or of a class of the caller's
        found = ""
    if not isinstance(found, str) or not found:
        raise refused(name, "a path", value)
    if "\0" in found:
        raise refused(name, "a path without a NUL character", value)
    try:
        os.fsencode(found)
    except UnicodeEncodeError:
        raise refused(name, "a path that the system can spell", value) from None
    return found


def optional_text(name: str, value: Any) -> str | None:
    """A str, or None."""
    return None if value is None else text(name, value)


def texts(name: str, values: Any) -> set[str]:
    """Names: one, or several."""
    if isinstance(values, str):
        return {text(name, values)}
    return {text(name, value) for value in _listed(name, values, "a name or names")}


def function(name: str, value: Any) -> Callable[..., Any] | None:
    """A function, or None."""
    if value is not None and not callable(value):
        raise refused(name, "a function", value)
    return value
