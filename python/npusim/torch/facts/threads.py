"""What one thread finds of PyTorch and Python while it traces a model, and what no other thread finds then.

Tracing needs functions that are found under names of modules and classes, which all threads share. So what stands under
such a name asks which thread calls it. Of what has a context of its own in each thread (modes, PyTorch's settings of its
compiler) that is used. One thread of a process traces at a time: torch.export itself replaces functions of PyTorch."""

from __future__ import annotations

import builtins
import contextlib
import functools
import logging
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from threading import get_ident
from typing import Any

ASKER = 2  # frames up from what stands in a function's place: who called that. Between them is what asks for the thread.
_lock = threading.RLock()
_tracing: int | None = None  # the thread that traces


def _renew_lock() -> None:
    """Of the threads that held it when the process was forked, the child has only the one that forked."""
    global _lock, _tracing
    if _tracing != get_ident():
        _lock, _tracing = threading.RLock(), None
        if compiler := sys.modules.get("torch.compiler"):
            compiler._is_exporting_flag = False  # what torch.export tells all threads of its own


os.register_at_fork(after_in_child=_renew_lock)


def is_tracing() -> bool:
    """Whether this thread does."""
    return get_ident() == _tracing


is_tracing._dynamo_marked_constant = True  # type: ignore[attr-defined]  # dynamo asks it, and traces the way that is taken


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """While this is entered, this thread is the one that traces; another one waits."""
    global _tracing
    with _lock:
        before, _tracing = _tracing, get_ident()
        try:
            yield
        finally:
            _tracing = before


def only_here(value: Callable[..., Any], others: Callable[..., Any]) -> Callable[..., Any]:
    """What is one function in the thread that traces, and another one elsewhere."""

    def function(*args: Any, **kwargs: Any) -> Any:
        return (value if is_tracing() else others)(*args, **kwargs)

    return function if isinstance(others, type) else functools.wraps(others)(function)


def _not_implemented(*_: Any) -> Any:
    return NotImplemented


@contextlib.contextmanager
def replaced(of: Any, name: str, value: Callable[..., Any], others: Callable[..., Any] | None = None) -> Iterator[None]:
    """While this is entered, the thread that traces finds `value` under this name of a module or class. others: what other
    threads find; None: what they found before."""
    owned = vars(of).get(name)
    if others is None:  # what a class has not is not implemented
        others = getattr(of, name, None) or getattr(builtins, name, _not_implemented)
    setattr(of, name, only_here(value, others))
    try:
        yield
    finally:
        if owned is None:
            delattr(of, name)
        else:
            setattr(of, name, owned)


@contextlib.contextmanager
def replaced_item(of: dict[Any, Any], key: Any, value: Callable[..., Any]) -> Iterator[None]:
    """The same of what a dict has."""
    before = of[key]
    of[key] = only_here(value, before)
    try:
        yield
    finally:
        of[key] = before


class _AnyTextHere:
    """In the place of the pattern of a filter of warnings."""

    def match(self, text: str) -> bool:
        return is_tracing()


@contextlib.contextmanager
def without_warnings() -> Iterator[None]:
    """No warnings of the thread that traces: a filter which others do not meet. warnings.catch_warnings() would be for all
    threads, and put back what others have set meanwhile."""
    ours: Any = ("ignore", _AnyTextHere(), Warning, None, 0)
    filters = warnings.filters
    filters.insert(0, ours)  # type: ignore[attr-defined]
    try:
        yield
    finally:
        for listed in (filters, warnings.filters):  # another list where somebody has entered catch_warnings() since
            with contextlib.suppress(ValueError):
                listed.remove(ours)  # type: ignore[attr-defined]


@contextlib.contextmanager
def without_logs(*names: str) -> Iterator[None]:
    """Nothing but what is critical of these loggers, and of those below them that there are, in the thread that traces."""

    def passes(record: logging.LogRecord) -> bool:
        return record.levelno >= logging.CRITICAL or not is_tracing()

    known = [name for name in list(logging.root.manager.loggerDict) if name.startswith(tuple(f"{one}." for one in names))]
    loggers = [logging.getLogger(name) for name in (*names, *known)]
    for logger in loggers:
        logger.addFilter(passes)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(passes)
