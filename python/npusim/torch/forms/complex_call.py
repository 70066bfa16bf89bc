"""A call that takes or gives complex values, as calls of real ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from .pairs import Pair
from .ref import Complex, Parts, Ref, Refused


class Writer(Protocol):
    """What writes calls as nodes (writing/graph.py)."""

    def apply(self, name: str, function: Callable[..., Any], operands: Any) -> Any:
        """What a function of tensors gives for these operands, by the calls that it makes."""


@dataclass
class Call:
    """Writes the nodes that stand for one call."""

    graph: Writer
    node: torch.fx.Node
    op: torch._ops.OpOverload

    def apply(self, function: Callable[..., Any], *operands: Any) -> Any:
        """What a function of tensors gives, of Parts for complex values. A pair that it gives is a complex value."""
        found = self.graph.apply(self.node.name, function, operands)
        return Complex(*found) if isinstance(found, tuple) else found

    def result(self) -> torch.Tensor:
        return self.node.meta["val"]

    def dtype(self) -> torch.dtype:
        """Of the parts of a complex result."""
        return real_dtype(self.result().dtype)

    def pointwise(self, function: Callable[..., Any], *operands: Any, dtype: torch.dtype | None = None) -> Any:
        """A function of pairs of this dtype, that of the result's parts if none is given: what is real, or a number, has an
        imaginary part of 0. PyTorch computes with that 0 too: it makes NaN beside infinities."""
        shape, parts = list(self.result().shape), dtype or self.dtype()

        def run(*values: Any) -> Any:
            found = function(*(pair(value, parts) for value in values))
            return tuple(ended(x, shape, self.dtype()) for x in found) if isinstance(found, tuple) else found

        return self.apply(run, *operands)

    def common_dtype(self, *operands: Any) -> torch.dtype:
        """Of the parts of what operands are compared in."""
        found = operands[0]
        for other in operands[1:]:
            found = torch.empty([], dtype=torch.result_type(as_meta(found), as_meta(other)))
        return real_dtype(as_meta(found).dtype)

    def part_by_part(self, args: Any, kwargs: Any) -> Any:
        """What moves numbers, or adds them, does the same to the parts. What has no imaginary part has zeros."""
        names = [arg.name for arg in self.op._schema.arguments]
        given = {**dict(zip(names, args, strict=False)), **{k: real_dtype(v) for k, v in kwargs.items()}}
        whole = pytree.tree_leaves(self.node.meta["val"])[0]
        count, dtype = (2, real_dtype(whole.dtype)) if whole.is_complex() else (1, None)

        def of(name: str, value: Any, part: int) -> Any:
            if isinstance(value, (list, tuple)) and not isinstance(value, Parts):
                return [of(name, element, part) for element in value]
            if isinstance(value, (Tensor, Parts)) and name not in INDICES:
                return pair(value, dtype or torch.float32)[part]
            if isinstance(value, (int, float, complex)) and name in VALUES:
                return (value.real, value.imag)[part]
            if isinstance(value, complex):
                raise Refused(f"has no form with a complex number for '{name}'")
            return value

        def run(values: dict[str, Any]) -> Any:
            parts = ({name: of(name, value, part) for name, value in values.items()} for part in range(count))
            return [self.op(**part) for part in parts]

        found = self.apply(run, given)
        if count == 1:
            return found[0]
        if isinstance(found[0], (list, tuple)):
            return [Complex(*both) for both in zip(*found, strict=True)]
        return Complex(*found)


# Arguments that say where, and numbers that are written there.
INDICES = {"index", "indices", "mask", "condition", "repeats"}
VALUES = {"value", "fill_value", "self", "other"}


def pair(value: Any, dtype: torch.dtype) -> Pair:
    """Of a pair, a real tensor or a number."""
    if isinstance(value, Parts):
        return value.re.to(dtype), value.im.to(dtype)
    if isinstance(value, Tensor):
        return value.to(dtype), torch.zeros([], dtype=dtype).expand(value.shape)
    number = complex(value)
    return torch.full([], number.real, dtype=dtype), torch.full([], number.imag, dtype=dtype)


def ended(x: Tensor, shape: list[int], dtype: torch.dtype) -> Tensor:
    return x.to(dtype).expand(shape)


def as_meta(value: Any) -> Any:
    """A tensor of a value's shape and dtype."""
    if not isinstance(value, (Ref, Complex)):
        return value
    part = value.re if isinstance(value, Complex) else value
    dtype = getattr(torch, part.tensor["dtype"])
    return torch.empty(
        part.tensor["shape"], dtype=dtype.to_complex() if isinstance(value, Complex) else dtype, device="meta"
    )


def real_dtype(value: Any) -> Any:
    """The dtype of a complex dtype's parts; anything else as it is."""
    return value.to_real() if isinstance(value, torch.dtype) and value.is_complex else value


def nonzero(value: Any) -> Tensor:
    return (value.re != 0) | (value.im != 0) if isinstance(value, Parts) else value != 0


def converted(value: Any, dtype: torch.dtype) -> Any:
    """In another dtype: what has no place for the imaginary part loses it, and truth is of both."""
    if dtype.is_complex:
        return pair(value, dtype.to_real())
    return nonzero(value) if dtype == torch.bool else (value.re if isinstance(value, Parts) else value).to(dtype)
