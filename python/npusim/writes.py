"""Writes to weights that a session has made ready, those that PyTorch does not count too, and tensors that took their place."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from . import _core
from .arguments import instance
from .arrays import is_torch, not_dense
from .errors import Problem, UsageError

WORDS_OF_ONE, WORDS_OF_ALL = 8, 1024  # of 8 bytes, that a check reads
MODULES = "_modules"


class Place(NamedTuple):
    """What a module has by a name, a weight or a module with some. It keeps nothing alive."""

    owner: weakref.ref[Any]
    dict: str  # its attribute: "_parameters", "_buffers", MODULES
    key: str
    module: weakref.ref[Any] | None  # that was there; None: a tensor was
    tensor: int  # id() of what was there, and
    address: int  # its memory
    weight: str  # its name, or that of one in the module


@dataclass
class Held:
    """Where models have the weights of a program. What is pickled or copied belongs to no model."""

    places: list[Place] = field(default_factory=list)  # those of an owner one behind the other
    # Tensors of which weights are copies, as the parts of complex ones are.
    sources: dict[str, Any] = field(default_factory=dict)

    def __reduce__(self) -> tuple[Any, ...]:
        return Held, ()

    def __add__(self, other: Held) -> Held:
        return Held(self.places + other.places, self.sources | other.sources)


def check_held(held: Any) -> None:
    instance("held", held, Held, "what export() found")


class Written(UsageError):
    """A session's weights are not what they were."""


class Writes:
    """Whether the weights of these names are what they were when this was made: each tensor of PyTorch in its module (`held`)
    and in its memory, with the count of writes that PyTorch had for it, and some words of each, bit by bit."""

    def __init__(self, weights: Any, names: Iterable[str], held: Held | None = None) -> None:
        given = {name: weights[name] for name in sorted(names) if name in weights} if isinstance(weights, Mapping) else {}
        sources = {} if held is None else held.sources
        self._found = {name: sources.get(name, value) for name, value in given.items()}
        self._names = list(self._found)
        numbers = {name: number for number, name in enumerate(self._names)}
        tensors = {name: value for name, value in self._found.items() if is_torch(value)}
        places = [] if held is None else [place for place in held.places if place.weight in tensors]
        # A weight that somebody gave another value by hand is not the model's.
        others = {p.weight for p in places if p.module is None and p.address != tensors[p.weight].data_ptr()}
        self._places = [place for place in places if place.weight not in others]
        self._watch = _core.Watch(
            sys.modules["torch"].Tensor if tensors else None,
            _looked_at(self._found),
            [(p.owner, p.dict, p.key, p.module, p.tensor, numbers[p.weight]) for p in self._places],
        )

    def check(self) -> None:
        """Raises UsageError naming what was written or replaced."""
        changed = self._watch.first_changed(0)
        while changed >= 0:  # as long as it is no other memory
            if changed >= len(self._places):
                raise Written([self._written(self._names[changed - len(self._places)])])
            self._check_place(changed)
            changed = self._watch.first_changed(changed + 1)

    def _written(self, first: str) -> Problem:
        names, number = {first: None}, len(self._places)
        while (number := self._watch.first_changed(number) + 1) > 0:
            names[self._names[number - 1 - len(self._places)]] = None
        others = f", one of {len(names)} that were" if len(names) > 1 else ""
        what = f"was changed after this session was made{others}: make a new Session, which has the new values"
        return Problem(f"weight '{min(names)}'", what)

    def _check_place(self, number: int) -> None:
        """What is at a place now may be another tensor over the same memory, or a module around the one that was there."""
        place = self._places[number]
        found = vars(place.owner()).get(place.dict, {}).get(place.key)
        before = place.module and place.module()
        if before is not None and found is not None and any(one is before for one in found.modules()):
            self._watch.forget(number)
            return
        if place.module is None and is_torch(found):
            if not _has_values(found):  # a tracer's, for a moment, or one of device meta: nothing that could be computed with
                return
            if _is_same(found, self._found[place.weight]):
                if self._watch.first_changed(number) != number:  # a tracer's was there for a moment
                    return
                if not found.is_inference() and found._version > 0:  # the count of a tensor that was not seen before
                    raise Written([self._written(place.weight)])
                self._watch.accept(number, found, _NO_MEMORY)
                return
            own = self._found[place.weight]
            if own.data_ptr() == place.address and _has_same_values(found, own):  # as a table that forward() makes anew
                self._watch.accept(number, found, _lies(found.detach(), _words_of_one(len(self._names))))
                return
        what = "is not the model's any more, which has another tensor or other memory in its place: compile the model again"
        raise Written([Problem(f"weight '{place.weight}'", what)])


_NO_MEMORY = (0, (), (), 0, False, 0)


def _looked_at(found: Mapping[str, Any]) -> list[tuple[Any, Any]]:
    """For each weight a tensor that nobody else has, if it is PyTorch's, and the memory whose words are compared."""
    step, most = -(-len(found) // WORDS_OF_ALL), _words_of_one(len(found))
    listed: list[tuple[Any, Any]] = []
    for number, value in enumerate(found.values()):
        own = value.detach() if is_torch(value) else None
        listed.append((own, _NO_MEMORY if number % step else _lies(value if own is None else own, most)))
    return listed


def _words_of_one(weights: int) -> int:
    return max(1, min(WORDS_OF_ONE, WORDS_OF_ALL // max(1, weights)))


def _lies(value: Any, most: int) -> tuple[Any, ...]:
    """The memory of a weight, of which so many words are compared."""
    array = as_it_lies(value) if is_torch(value) else value
    if not isinstance(array, np.ndarray):
        return _NO_MEMORY
    return array.ctypes.data, array.shape, array.strides, array.itemsize, array.flags.forc, most


def as_it_lies(tensor: Any) -> np.ndarray | None:
    """The memory of a tensor as an array, in its order; None where the host cannot read it."""
    import torch

    if not tensor.is_cpu or not_dense(tensor) or tensor.is_conj() or tensor.is_neg():
        return None
    numbers = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # NumPy has not all dtypes
    plain = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    return plain.view(numbers[plain.element_size()]).numpy()


def _has_values(tensor: Any) -> bool:
    try:
        return not tensor.is_meta and (tensor.numel() == 0 or tensor.data_ptr() != 0)
    except RuntimeError:  # of a tracer's
        return False


def _has_same_values(tensor: Any, other: Any) -> bool:
    import torch

    same = tensor.dtype == other.dtype and tensor.device == other.device and tensor.shape == other.shape
    return bool(same and torch.equal(tensor, other))


def _is_same(tensor: Any, other: Any) -> bool:
    """Whether two tensors are the same numbers in the same memory."""
    return bool(tensor.dtype == other.dtype and tensor.device == other.device and tensor.is_set_to(other))
