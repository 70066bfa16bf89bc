"""`float(s)` and `int(s)` of a number that a tensor holds, and functions that the model's source has under names of its own,
as numbers that go on as tensors.

Python lets `float()` and `int()` give nothing but a number of its own. While such a model is traced its source therefore
finds something else under the name: where that source uses it to make numbers and to ask what is one, and for nothing else."""

from __future__ import annotations

import ast
import builtins
import contextlib
import functools
import linecache
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any, TypeVar

import torch
from torch.fx.experimental.sym_node import SymNode

from ..facts.threads import is_tracing, replaced
from ..facts.messages import is_of_a_library
from .arithmetic import NAMED_FUNCTIONS, is_held, whole
from .branches import AS_INT
from .swallowed import noted, raising_swallowed

Result = TypeVar("Result")


class _Again(BaseException):
    """Ends a trace that is to begin again."""

    def __init__(self, names: dict[str, Any], forms: dict[str, Any]) -> None:
        super().__init__()
        self.names, self.forms = names, forms  # of a module, and what is to be found there


class _Form(type):
    """Of what stands in the place of one of Python's numbers."""

    plain: type
    traced: type

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, (cls.plain, cls.traced))

    def __subclasscheck__(cls, of: type) -> bool:
        return issubclass(of, cls.plain)

    def __getattr__(cls, name: str) -> Any:
        return getattr(cls.plain, name)


class _FloatForm(_Form):
    def __call__(cls, *given: Any) -> Any:  # type: ignore[override]
        if not is_tracing() or len(given) != 1 or not is_held(given[0]):
            return builtins.float(*given)
        number = given[0].item() if isinstance(given[0], torch.Tensor) else given[0]
        return torch.sym_float(number)


class _IntForm(_Form):
    def __call__(cls, *given: Any, **base: Any) -> Any:  # type: ignore[override]
        if not is_tracing() or len(given) != 1 or base or not (is_held(given[0]) or isinstance(given[0], torch.SymBool)):
            return builtins.int(*given, **base)
        return whole(given[0])


class Float(metaclass=_FloatForm):
    """In the place of `float`."""

    plain, traced = builtins.float, torch.SymFloat


class Int(metaclass=_IntForm):
    """In the place of `int`."""

    plain, traced = builtins.int, torch.SymInt


CONVERSIONS: dict[str, type] = {"float": Float, "int": Int}


@dataclass
class Forms:
    """What a model's modules find while it is traced."""

    follow_int: bool = True
    followed_int: bool = False  # whether a module has had another `int`


def traced_with_forms(trace: Callable[[], Result], forms: Forms) -> Result:
    """What a function traces, which is called again for each module of the model that needs other functions."""
    done: set[int] = set()
    with contextlib.ExitStack() as entered:
        while True:
            try:
                with _asking(done, forms):
                    return raising_swallowed(trace)
            except _Again as again:
                done.add(id(again.names))
                forms.followed_int |= "int" in again.forms
                for name, form in again.forms.items():
                    entered.enter_context(_found(again.names, name, form))


@contextlib.contextmanager
def _asking(done: set[int], known: Forms) -> Iterator[None]:
    """Ends the trace where a number that a tensor holds becomes one of Python's in a module that may have other functions."""

    def asking(plain: Callable[..., Any]) -> Callable[..., Any]:
        def guarded(self: SymNode, file: str, line: int) -> Any:
            frame = None if self.expr.is_number else _caller()
            if frame is None:
                return plain(self, file, line)
            tree = _parsed("".join(linecache.getlines(frame.f_code.co_filename, frame.f_globals)))
            forms = _forms(tree, frame, known)
            called = _called_in(tree, frame.f_lineno) if tree.body else set(frame.f_code.co_names)
            if id(frame.f_globals) not in done and called & forms.keys():
                raise noted(_Again(frame.f_globals, forms))
            token = AS_INT.set(known.follow_int and "int" in called - forms.keys())
            try:
                return plain(self, file, line)
            except Exception as error:
                noted(error)
                raise
            finally:
                AS_INT.reset(token)

        return guarded

    with contextlib.ExitStack() as entered:
        for name in ("guard_float", "guard_int", "guard_bool"):  # Python asks for the latter two where a number is none
            entered.enter_context(replaced(SymNode, name, asking(getattr(SymNode, name))))
        yield


@contextlib.contextmanager
def _found(names: dict[str, Any], name: str, form: Any) -> Iterator[None]:
    before = {name: names[name]} if name in names else {}
    names[name] = form
    try:
        yield
    finally:
        del names[name]
        names |= before


def _caller() -> FrameType | None:
    """The model's own call that is being traced."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_of_a_library(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def _forms(tree: ast.Module, frame: FrameType, known: Forms) -> dict[str, Any]:
    """What the module of a call is to find under which names."""
    plain = {id(function): form for function, form in NAMED_FUNCTIONS.items()}
    forms = {name: plain[id(value)] for name, value in frame.f_globals.items() if id(value) in plain}
    for name, form in CONVERSIONS.items():
        has = frame.f_globals.get(name, form) in (form.plain, form)  # type: ignore[attr-defined]
        if has and _is_plain(tree, name) and (known.follow_int or name != "int"):
            forms[name] = form
    return forms


@functools.lru_cache(maxsize=256)
def _called_in(tree: ast.Module, line: int) -> set[str]:
    """What is called by name in a line."""
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.lineno <= line <= (node.end_lineno or 0))
    return {name.id for node in calls for name in _called(node)}


@functools.lru_cache(maxsize=16)
def _parsed(source: str) -> ast.Module:
    """Of a source that cannot be read nothing."""
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError):
        return ast.Module(body=[], type_ignores=[])


def _called(call: ast.Call) -> Iterator[ast.Name]:
    """What it calls by name, itself or through map()."""
    maps = isinstance(call.func, ast.Name) and call.func.id == "map"
    yield from (one for one in (call.func, *(call.args[:1] if maps else ())) if isinstance(one, ast.Name))


@functools.lru_cache(maxsize=64)
def _is_plain(tree: ast.Module, name: str) -> bool:
    """Whether the functions of a module only call it, let map() call it, ask what it has and what is an instance of it, and
    annotate with it. What stands outside of them has been run."""
    fine: set[int] = set()
    inside: set[int] = set()
    for node in ast.walk(tree):
        allowed: list[ast.AST | None] = []
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            fine |= {id(called) for called in _called(node)}
            allowed = node.args[1:2] if node.func.id == "isinstance" else []
        elif isinstance(node, ast.Attribute):
            fine.add(id(node.value))
        elif isinstance(node, (ast.arg, ast.AnnAssign)):
            allowed = [node.annotation]
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            allowed = [node.returns]
        fine |= {id(inner) for part in allowed if part is not None for inner in ast.walk(part)}
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            body = node.body if isinstance(node.body, list) else [node.body]
            inside |= {id(inner) for part in body for inner in ast.walk(part)}
    names = (node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == name)
    return all(id(node) in fine or id(node) not in inside for node in names)
