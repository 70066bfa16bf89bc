"""What npusim raises: one class for each kind of error, with a list of problems."""

from __future__ import annotations

from typing import NamedTuple


class Problem(NamedTuple):
    """One thing that is wrong."""

    where: str  # "node 'relu_3' (aten.relu.default)", "weight fc.bias", a file; empty: nowhere in particular
    reason: str

    def __str__(self) -> str:
        from . import _core  # which raises these itself

        return _core.printable(readable(f"{self.where}: {self.reason}" if self.where else self.reason))


def readable(text: str) -> str:
    """The text, in which what no UTF-8 can spell stands escaped: bytes of a file's name as \\xff."""
    try:
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode()


class Error(Exception):
    """What npusim raises. `problems` has at least one Problem; the text has a line for each."""

    kind = "internal"

    def __init__(self, problems: str | list[Problem]) -> None:
        listed = [Problem("", problems)] if isinstance(problems, str) else problems
        self.problems = [Problem(readable(where), readable(reason)) for where, reason in listed]
        super().__init__("\n".join(map(str, self.problems)))

    def __reduce__(self) -> tuple[type[Error], tuple[list[Problem]]]:
        return type(self), (self.problems,)


class UsageError(Error):
    """The call: an unknown name, an option out of range, an array of another shape or dtype."""

    kind = "usage"


class BadInputError(Error):
    """A file or text: missing, malformed, damaged, or not fitting the program."""

    kind = "bad_input"


class UnsupportedError(Error):
    """Well-formed, but not something npusim can do."""

    kind = "unsupported"


class DeviceError(Error):
    """The device: not there, out of memory, lost."""

    kind = "device"


class InternalError(Error):
    """A bug in npusim."""

    kind = "internal"


class CancelledError(Error):
    """It was asked to stop: Session.cancel()."""

    kind = "cancelled"


CLASSES = {
    c.kind: c for c in (UsageError, BadInputError, UnsupportedError, DeviceError, InternalError, CancelledError)
}


def of_kind(kind: str, problems: list[tuple[str, str]]) -> Error:
    """The exception for an error of the library."""
    return CLASSES[kind]([Problem(*problem) for problem in problems])
