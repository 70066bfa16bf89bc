"""`float(s)` of a number that a tensor holds, and functions of `math` that the model's source has under names of its own, as
numbers that go on as tensors.

Python lets `float()` give nothing but a number of its own. While such a model is traced its source therefore finds something
else under the name: where that source uses it to make numbers and to ask what is one, and for nothing else."""

from __future__ import annotations

import ast
import builtins
import contextlib
import functools
import linecache
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, TypeVar

import torch
from torch.fx.experimental.sym_node import SymNode

from .torch_arithmetic import FUNCTIONS, is_held, of_numbers, replaced
from .torch_told import is_of_a_library

Result = TypeVar("Result")


class _Again(BaseException):
    """Ends a trace that is to begin again: a model that catches what it raises must not go on."""

    def __init__(self, names: dict[str, Any], forms: dict[str, Any]) -> None:
        super().__init__()
        self.names, self.forms = names, forms  # of a module, and what is to be found there


class _Type(type):
    def __call__(cls, *given: Any) -> Any:  # type: ignore[override]
        if len(given) != 1 or not is_held(given[0]):
            return builtins.float(*given)
        number = given[0].item() if isinstance(given[0], torch.Tensor) else given[0]
        return torch.sym_float(number)

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, (builtins.float, torch.SymFloat))

    def __subclasscheck__(cls, of: type) -> bool:
        return issubclass(of, builtins.float)


class Float(metaclass=_Type):
    """In the place of `float`."""


def traced_with_forms(trace: Callable[[], Result]) -> Result:
    """What a function traces, which is called again for each module of the model that needs other functions."""
    done: set[int] = set()
    with contextlib.ExitStack() as entered:
        while True:
            try:
                with _asking(done):
                    return trace()
            except _Again as again:
                done.add(id(again.names))
                for name, form in again.forms.items():
                    entered.enter_context(_found(again.names, name, form))


@contextlib.contextmanager
def _asking(done: set[int]) -> Iterator[None]:
    """Ends the trace where a number that a tensor holds becomes one of Python's in a module that may have other functions."""

    def asking(plain: Callable[..., Any]) -> Callable[..., Any]:
        def guarded(self: SymNode, file: str, line: int) -> Any:
            frame = None if self.expr.is_number else _caller()
            if frame is not None and id(frame.f_globals) not in done and (forms := _forms(frame)):
                raise _Again(frame.f_globals, forms)
            return plain(self, file, line)

        return guarded

    with replaced(SymNode, "guard_float", asking(SymNode.guard_float)):
        with replaced(SymNode, "guard_int", asking(SymNode.guard_int)):  # which Python asks for where a fraction is none
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


def _forms(frame: FrameType) -> dict[str, Any]:
    """What the module of a call is to find under which names, if the line calls one of them."""
    plain = {id(function): of_numbers(function, form) for function, form in FUNCTIONS.items()}
    forms = {name: plain[id(value)] for name, value in frame.f_globals.items() if id(value) in plain}
    tree = _parsed("".join(linecache.getlines(frame.f_code.co_filename, frame.f_globals)))
    if frame.f_globals.get("float", builtins.float) is builtins.float and _is_plain(tree, "float"):
        forms["float"] = Float
    called = {
        node.func.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        if node.lineno <= frame.f_lineno <= (node.end_lineno or node.lineno)
    }
    return forms if called & forms.keys() else {}


@functools.lru_cache(maxsize=16)
def _parsed(source: str) -> ast.Module:
    """Of a source that cannot be read nothing."""
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError):
        return ast.Module(body=[], type_ignores=[])


def _is_plain(tree: ast.Module, name: str) -> bool:
    """Whether a module only calls it, asks what is an instance of it, and annotates with it."""
    fine: set[int] = set()
    for node in ast.walk(tree):
        allowed: list[ast.AST | None] = []
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            allowed = [node.func, *(node.args[1:2] if node.func.id == "isinstance" else ())]
        elif isinstance(node, (ast.arg, ast.AnnAssign)):
            allowed = [node.annotation]
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            allowed = [node.returns]
        fine |= {id(inner) for part in allowed if part is not None for inner in ast.walk(part)}
    return all(id(node) in fine for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == name)
