"""Arguments that are part of the program: what is computed of them alone is computed while the model is traced."""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
from collections.abc import Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from ...errors import Problem, UnsupportedError
from .contents import Contents
from .packed import packed_form


@contextlib.contextmanager
def holding(
    model: torch.nn.Module, held: dict[str, Any], strict: bool, packs: bool, names: dict[str, str]
) -> Iterator[None]:
    """With a forward() that has these keywords already, and in which the lengths of sequences that it packs are known where
    they are numbers. strict: what is computed of them is traced, as all else: dynamo sees what it may know. names: gets what
    forward() changes in containers among them."""
    if not held and (strict or not packs):
        yield
        return
    before = vars(model).get("forward")
    plain = model.forward
    partial = functools.partial(plain, **held)

    def known(*args: Any, **kwargs: Any) -> Any:
        with _disable_current_modes():
            fresh = copy.deepcopy(held)  # the model may change them
        contents = Contents(model, names, [])
        contents.begin((), fresh)
        with _Known(fresh) as mode:
            found = plain(*args, **kwargs, **fresh)
        contents.end(found, strict=True)
        return pytree.tree_map(mode.current, found)

    known.__signature__ = inspect.signature(partial)  # type: ignore[attr-defined]
    model.forward = partial if strict else known
    try:
        yield
    finally:
        if before is None:
            del model.forward
        else:
            model.forward = before


# Calls of numbers alone whose results are known too: lists of numbers, ranges.
NUMBERS = {torch.tensor, torch.as_tensor, torch.arange}
# Whose result may be in the memory of an operand, for all that another operand is none that is known.
VIEWS = {"to", "type_as", "expand_as", "view_as", "reshape_as", "broadcast_tensors", "meshgrid"}


class _Known(TorchFunctionMode):
    """Calls of known tensors alone are made at once, and what they give is known: numbers among it may decide shapes. In
    all other calls a known tensor is a constant."""

    def __init__(self, held: dict[str, Any]) -> None:
        super().__init__()
        self.known: dict[int, torch.Tensor] = {}  # by id; kept alive, so that no other has it
        self.constants: dict[tuple[int, int], torch.Tensor] = {}  # what traced calls read: by id and version
        self.shared: set[int] = set()  # memory that results of traced calls may be in
        self.traced: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # by id: what was known, and what it is now
        self.add(held)

    def add(self, values: Any) -> None:
        self.known |= {id(value): value for value in _tensors(values)}

    def __torch_function__(self, call: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args, kwargs = pytree.tree_map(self.current, (args, kwargs or {}))
        leaves = pytree.tree_leaves((args, kwargs))
        tensors = _tensors(leaves)
        written = set(map(id, _written(call, args, kwargs)))
        self.add([value for value in tensors if _is_attribute(value) and id(value) not in written])
        known = [value for value in tensors if id(value) in self.known]
        numbers = call in NUMBERS and not any(isinstance(leaf, (torch.SymInt, torch.SymFloat)) for leaf in leaves)
        if len(known) == len(tensors) and (known or numbers):
            state, versions = torch.get_rng_state(), [value._version for value in known]
            with _disable_current_modes():
                result = call(*args, **kwargs)
                drawn = not torch.equal(torch.get_rng_state(), state)
            changed = [value for value, version in zip(known, versions, strict=True) if value._version != version]
            if any(_memory(value) in self.shared for value in changed):
                raise _refused(
                    call, "changes what is computed of fixed arguments, and another tensor may be in its memory"
                )
            if not drawn:
                self.add(result)
                return result
            torch.set_rng_state(state)
        if form := packed_form(call):
            found = form(self, *args, **kwargs)
            if found is not NotImplemented:
                return found
        if not known:
            return call(*args, **kwargs)
        if changed := [value for value in known if id(value) in written]:
            for value in changed:
                self.forget(value, call)
            return self.__torch_function__(call, types, args, kwargs)
        if _name(call) in VIEWS:
            self.shared |= {_memory(value) for value in known}
        return call(*pytree.tree_map(self.constant, args), **pytree.tree_map(self.constant, kwargs))

    def forget(self, value: torch.Tensor, call: Any) -> None:
        """A known tensor is a traced one from here on: a call writes into it what is not known."""
        memory = _memory(value)
        if memory in self.shared or any(
            _memory(other) == memory for other in self.known.values() if other is not value
        ):
            raise _refused(
                call, "writes into what is computed of fixed arguments, and another tensor may be in its memory"
            )
        self.traced[id(value)] = value, self.constant(value).clone()
        del self.known[id(value)]

    def current(self, value: Any) -> Any:
        """A tensor as it is now."""
        return self.traced.get(id(value), (None, value))[1] if isinstance(value, torch.Tensor) else value

    def is_known(self, value: torch.Tensor) -> bool:
        return id(value) in self.known

    def number(self, numbers: list[int]) -> torch.Tensor:
        """A known tensor."""
        with _disable_current_modes():
            value = torch.tensor(numbers)
        self.add(value)
        return value

    def constant(self, value: Any) -> Any:
        """What a traced call reads in the place of a known tensor: that may change afterwards."""
        if not isinstance(value, torch.Tensor) or id(value) not in self.known:
            return value
        key = (id(value), value._version)
        if key not in self.constants:
            with _disable_current_modes():
                self.constants[key] = value.clone()
        return self.constants[key]


def _is_attribute(value: torch.Tensor) -> bool:
    """Whether it is one of whole numbers that a model has as a plain attribute, as lengths: no input, parameter or buffer."""
    whole = not value.dtype.is_floating_point and not value.dtype.is_complex
    return type(value) is torch.Tensor and whole and not torch._is_functional_tensor(value)


def _tensors(values: Any) -> list[torch.Tensor]:
    return [value for value in pytree.tree_leaves(values) if isinstance(value, torch.Tensor)]


def _memory(value: torch.Tensor) -> int:
    return value.untyped_storage()._cdata


def _name(call: Any) -> str:
    return getattr(call, "__name__", str(call))


def _written(call: Any, args: Any, kwargs: Any) -> list[torch.Tensor]:
    """What a call writes: its first argument, or `out`."""
    name = _name(call)
    in_place = name.endswith("_") and not name.endswith("__")
    in_place |= name in ("__setitem__", "__set__") or kwargs.get("inplace") is True
    in_place |= name.startswith("__i") and name not in ("__index__", "__int__", "__invert__")
    return _tensors([kwargs.get("out"), args[:1] if in_place else ()])


def _refused(call: Any, what: str) -> UnsupportedError:
    return UnsupportedError([Problem(f"call of '{_name(call)}'", what)])
