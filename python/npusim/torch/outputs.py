"""What a graph of torch.compile gives, made of what its program gives: constants, one tensor twice, complex numbers, and
tensors that share memory as the graph's do."""

from __future__ import annotations

import collections
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ..errors import UnsupportedError
from .facts.aliases import memory_of
from .facts.bits import loses_bits

Placed = tuple[list[str], torch.Tensor]  # a program's outputs by name, and the traced tensor that they are


class Outputs:
    """given: what is to be given, as passes have left it; traced: the same as it was traced, whose values say where each lies
    in memory."""

    def __init__(self, given: Sequence[Any], traced: Sequence[Any]) -> None:
        self.listed: list[Placed | Any] = []  # what stands in the program's outputs, or a constant
        self.same: dict[int, int] = {}  # those that are one tensor with an earlier one
        self.shared: dict[int, int] = {}  # memories that are not one output's alone: how many bytes
        first: dict[torch.fx.Node, int] = {}
        for position, (value, node) in enumerate(zip(given, traced, strict=True)):
            if not isinstance(value, torch.fx.Node):
                self.listed.append(value)
            elif first.setdefault(node, position) != position:
                self.same[position] = first[node]
                self.listed.append(None)
            else:
                value = node.meta.get("val")
                parts = ("", "_imag") if isinstance(value, torch.Tensor) and value.is_complex() else ("",)
                self.listed.append(([f"output_{position}{part}" for part in parts], value))

    def placed(self) -> dict[int, Placed]:
        """Those that the program gives, by position."""
        return {position: out for position, out in enumerate(self.listed) if isinstance(out, tuple)}

    def settle(self) -> None:
        """Finds what shares memory, where all that the program is to give is a tensor. Raises UnsupportedError for memory in
        several dtypes."""
        traced = [value for _, value in self.placed().values()]
        _check_one_kind(traced)
        self.shared = _shared_memories(traced)

    def made(self, found: Mapping[str, torch.Tensor]) -> list[Any]:
        """As the graph gives them. found: what the program has given, by name."""
        places = {memory_of(value): value.device for _, value in self.placed().values()}
        memories = {
            place: torch.zeros(nbytes, dtype=torch.uint8, device=places[place]).untyped_storage()
            for place, nbytes in self.shared.items()
        }
        results = [*self.listed]
        for position, (names, traced) in self.placed().items():
            parts = [found[name].to(traced.device) for name in names]
            whole = torch.complex(*parts) if len(parts) > 1 else parts[0]
            results[position] = _tensor(whole, traced, memories.get(memory_of(traced)))
        self.set_bases(results, memories)
        for position, first in self.same.items():
            results[position] = results[first]
        return results

    def set_bases(self, results: list[Any], memories: Mapping[int, torch.UntypedStorage]) -> None:
        """Of outputs that share memory, one that has all of it is what the others are views of, as PyTorch knows them."""
        bases: dict[int, tuple[int, torch.Tensor]] = {}
        for position, (_, traced) in self.placed().items():
            if (place := memory_of(traced)) not in memories or place in bases:
                continue
            if _is_dense(traced) and traced.numel() * traced.element_size() == self.shared[place]:
                whole = torch.empty(0, dtype=traced.dtype, device=traced.device)
                bases[place] = position, whole.set_(memories[place], 0, traced.shape, traced.stride())
        for position, (_, traced) in self.placed().items():
            if memory_of(traced) not in bases:
                continue
            first, base = bases[memory_of(traced)]
            if position == first:
                results[position] = _seen(base, traced)
            elif traced.dtype == base.dtype:
                results[position] = _seen(base.as_strided(traced.shape, traced.stride(), traced.storage_offset()), traced)


def _shared_memories(outputs: list[torch.Tensor]) -> dict[int, int]:
    """The bytes of the memories that are not one output's alone from its first element on: those who see such an output
    may see the rest too."""
    counts = collections.Counter(map(memory_of, outputs))
    return {
        memory_of(traced): int(traced.untyped_storage().nbytes())
        for traced in outputs
        if counts[memory_of(traced)] > 1 or traced.storage_offset() != 0
    }


def _check_one_kind(outputs: list[torch.Tensor]) -> None:
    """That no two outputs show one memory in dtypes of which one does not keep the bits that the other needs."""
    kinds: dict[int, torch.dtype] = {}
    for traced in outputs:
        if loses_bits(kinds.setdefault(memory_of(traced), traced.dtype), traced.dtype):
            raise UnsupportedError("it returns one memory in several dtypes")


def _tensor(tensor: torch.Tensor, traced: torch.Tensor, memory: torch.UntypedStorage | None) -> torch.Tensor:
    """An output as the graph's, with its dtype and strides, in this memory or in its own. Elements that share memory are
    equal."""
    kind: Any = {"dtype": traced.dtype, "device": tensor.device}
    if memory is None:
        if tensor.dtype == traced.dtype and tensor.stride() == traced.stride():
            return tensor
        if _is_dense(traced):
            return torch.empty_strided(traced.shape, traced.stride(), **kind).copy_(tensor)
    places = torch.full(traced.shape, int(traced.storage_offset()), dtype=torch.int64, device=tensor.device)
    for dim, (extent, stride) in enumerate(zip(traced.shape, traced.stride(), strict=True)):
        steps = torch.arange(extent, device=tensor.device) * stride
        places += steps.reshape(-1, *[1] * (traced.dim() - 1 - dim))
    if memory is None:
        flat = torch.zeros(int(places.max()) + 1 if places.numel() else 0, **kind)
    else:
        flat = torch.empty(0, **kind).set_(memory)
        tensor = _seen(tensor, traced)
    flat[places.reshape(-1)] = tensor.to(traced.dtype).reshape(-1)
    found = flat.as_strided(traced.shape, traced.stride(), traced.storage_offset())
    return found if memory is None else _seen(found, traced)


def _seen(stored: torch.Tensor, traced: torch.Tensor) -> torch.Tensor:
    """What memory holds as a conjugated or negated view shows it; and the other way round."""
    stored = stored.conj() if traced.is_conj() else stored
    return torch._neg_view(stored) if traced.is_neg() else stored


def _is_dense(traced: torch.Tensor) -> bool:
    """Whether each element has its own memory, and none lies between them."""
    elements = 1
    for stride, extent in sorted(zip(traced.stride(), traced.shape, strict=True)):
        if extent > 1 and stride != elements:
            return traced.numel() == 0
        elements *= extent
    return True
