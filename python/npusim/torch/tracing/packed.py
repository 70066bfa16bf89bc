"""Packed sequences of known lengths: packing and unpacking are gathers, and the sequences of one length are a batch of
their own, which a recurrent layer runs over as over any other.

In a packed sequence, of lengths that do not grow, row `first[t] + b` is step t of sequence b."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor, _VF

from ...errors import Problem, UnsupportedError

Result = TypeVar("Result")


def has_packed(model: torch.nn.Module) -> bool:
    """Whether it has layers that take packed sequences."""
    return any(isinstance(module, torch.nn.RNNBase) for module in model.modules())


class Packs(BaseException):
    """Ends a trace that is to begin again, with lengths known: a model that catches what it raises must not go on."""


def traced_with_lengths(model: torch.nn.Module, trace: Callable[[bool], Result]) -> Result:
    """What a function traces, which is told whether the model packs sequences."""
    try:
        return trace(has_packed(model))
    except Packs:
        return trace(True)


def packs(call: Any) -> bool:
    return call in (_VF._pack_padded_sequence, _VF._pad_packed_sequence)


def packed_form(call: Any) -> Callable[..., Any] | None:
    """What a call of PyTorch's packing and recurrent functions is; it gives NotImplemented for one of no packed sequence.
    It takes, beside the arguments, what a traced call reads in the place of a known tensor."""
    return FORMS.get(call)


def _numbers(lengths: Tensor, is_known: Callable[[Tensor], bool]) -> list[int]:
    if not is_known(lengths):
        raise UnsupportedError(
            [
                Problem(
                    "call of 'pack_padded_sequence'",
                    "its lengths are not known: give them as numbers, or say that the argument is part of the program "
                    "(export(…, fixed=[NAME]))",
                )
            ]
        )
    return lengths.tolist()


def _firsts(batch_sizes: list[int]) -> list[int]:
    return [0, *itertools.accumulate(batch_sizes)]


def _pack(known: Any, input: Tensor, lengths: Tensor, batch_first: bool) -> tuple[Tensor, Tensor]:
    numbers = _numbers(lengths, known.is_known)
    steps = max(numbers)
    sizes = [sum(length > t for length in numbers) for t in range(steps)]
    input = known.constant(input)
    wide = input.shape[1] if batch_first else input.shape[0]
    batch = len(numbers)
    rows = [b * wide + t if batch_first else t * batch + b for t in range(steps) for b in range(sizes[t])]
    return input.flatten(0, 1).index_select(0, torch.tensor(rows)), known.number(sizes)


def _pad(
    known: Any, data: Tensor, batch_sizes: Tensor, batch_first: bool, padding_value: float, total_length: int
) -> tuple[Tensor, Tensor]:
    sizes = _numbers(batch_sizes, known.is_known)
    first, steps, batch = _firsts(sizes), max(total_length, len(sizes)), sizes[0]
    data = known.constant(data)
    padded = torch.cat([data, data.new_full((1, *data.shape[1:]), padding_value)])
    rows = [
        first[t] + b if t < len(sizes) and b < sizes[t] else first[-1] for t in range(steps) for b in range(batch)
    ]
    found = padded.index_select(0, torch.tensor(rows)).unflatten(0, (steps, batch))
    lengths = [sum(size > b for size in sizes) for b in range(batch)]
    return (found.transpose(0, 1) if batch_first else found), known.number(lengths)


def _run(
    call: Callable[..., Any], known: Any, data: Tensor, batch_sizes: Tensor, hx: Any, weights: Any, *how: Any
) -> Any:
    """A layer over a packed sequence: over each batch of one length."""
    sizes = _numbers(batch_sizes, known.is_known)
    first, batch = _firsts(sizes), sizes[0]
    lengths = [sum(size > b for size in sizes) for b in range(batch)]
    data, weights = known.constant(data), [known.constant(weight) for weight in weights]
    states = [known.constant(state) for state in (hx if isinstance(hx, (tuple, list)) else [hx])]
    outputs, ends, rows = [], [], []
    for length in sorted(set(lengths), reverse=True):
        members = [b for b in range(batch) if lengths[b] == length]
        places = [first[t] + b for t in range(length) for b in members]
        rows += places
        steps = data.index_select(0, torch.tensor(places)).unflatten(0, (length, len(members)))
        begin = [state.narrow(1, members[0], len(members)) for state in states]
        output, *end = call(steps, begin if isinstance(hx, (tuple, list)) else begin[0], weights, *how, False)
        outputs.append(output.flatten(0, 1))
        ends.append(end)
    back = torch.tensor(sorted(range(len(rows)), key=rows.__getitem__))
    found = torch.cat(outputs).index_select(0, back)
    return (found, *(torch.cat(parts, 1) for parts in zip(*ends, strict=True)))


def _layer(call: Callable[..., Any], at: int) -> Callable[..., Any]:
    """at: the argument that is no tensor where the sequence is not packed."""

    def form(known: Any, *args: Any) -> Any:
        return _run(call, known, *args) if isinstance(args[at], Tensor) else NotImplemented

    return form


FORMS: dict[Any, Callable[..., Any]] = {
    _VF._pack_padded_sequence: _pack,
    _VF._pad_packed_sequence: _pad,
    _VF.lstm: _layer(_VF.lstm, 1),
    _VF.gru: _layer(_VF.gru, 2),
    _VF.rnn_tanh: _layer(_VF.rnn_tanh, 2),
    _VF.rnn_relu: _layer(_VF.rnn_relu, 2),
}
