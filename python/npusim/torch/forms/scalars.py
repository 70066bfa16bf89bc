"""Calls that are given numbers which tensors hold: overloads that take a tensor there, and forms for operators that have
none."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ...machine import is_op_supported

ATEN = torch.ops.aten
OpOverload = torch._ops.OpOverload
Number = Any  # of Python, or a symbol of one
TENSOR, NUMBER = "Tensor", "number"  # kinds of arguments in schemas
SYMBOLS = (torch.SymInt, torch.SymFloat, torch.SymBool)
# What makes a tensor of one number: which argument is that.
FILLS = {
    ATEN.full.default: "fill_value",
    ATEN.full_like.default: "fill_value",
    ATEN.new_full.default: "fill_value",
    ATEN.scalar_tensor.default: "s",
    ATEN.fill.Scalar: "value",
}


def arguments(op: OpOverload, args: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
    """What a call gives, by name."""
    names = [arg.name for arg in op._schema.arguments]
    return dict(zip(names, args, strict=False)) | kwargs


def with_tensors(op: OpOverload, names: set[str]) -> OpOverload | None:
    """An overload that takes a tensor wherever `op` takes these numbers, and else what `op` takes, or tensors for other
    numbers too; itself where it does."""
    kinds = _kinds(op)
    for other in (op, *(getattr(op._overloadpacket, name) for name in op._overloadpacket.overloads())):
        others = _kinds(other)
        alike = others.keys() == kinds.keys() and all(
            others[name] == kinds[name] or (kinds[name] == NUMBER and others[name] == TENSOR) for name in kinds
        )
        if alike and all(others[name] == TENSOR for name in names) and is_op_supported(other):
            return other
    return None


def made_tensors(op: OpOverload, other: OpOverload, given: dict[str, Any]) -> set[str]:
    """Which of the given arguments one overload takes as numbers and the other as tensors."""
    kinds, others = _kinds(op), _kinds(other)
    return {name for name in given if kinds[name] == NUMBER and others[name] == TENSOR and given[name] is not None}


def given_numbers(op: OpOverload, args: Any, kwargs: dict[str, Any], is_symbol: Callable[[Any], bool]) -> set[str]:
    """The arguments of a call that are numbers, not sizes, and that tensors hold."""
    if not any(map(is_symbol, (*args, *kwargs.values()))):
        return set()
    kinds, given = _kinds(op), arguments(op, args, kwargs)
    return {name for name, value in given.items() if is_symbol(value) and kinds[name] in (TENSOR, NUMBER)}


def is_symbol(value: Any) -> bool:
    return isinstance(value, SYMBOLS)


def arguments_of(op: OpOverload, given: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """A call's arguments by name as it takes them."""
    first: list[Any] = []
    for arg in op._schema.arguments:
        if arg.kwarg_only or arg.name not in given:
            break
        first.append(given[arg.name])
    names = [arg.name for arg in op._schema.arguments[len(first) :]]
    return tuple(first), {name: given[name] for name in names if name in given}


@functools.cache
def _kinds(op: OpOverload) -> dict[str, str]:
    types = ((arg.name, arg.type) for arg in op._schema.arguments)
    return {name: str(kind.getElementType() if isinstance(kind, torch._C.OptionalType) else kind) for name, kind in types}


# ---- without such an overload


def add(self: Tensor, other: Tensor, alpha: Number = 1) -> Tensor:
    return torch.add(self, other.to(torch.result_type(self, other)) * alpha)


def sub(self: Tensor, other: Tensor, alpha: Number = 1) -> Tensor:
    return torch.sub(self, other.to(torch.result_type(self, other)) * alpha)


def rsub(self: Tensor, other: Any, alpha: Number = 1) -> Tensor:
    return other - self.to(torch.result_type(self, other)) * alpha


def scaled(product: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    """beta * input + alpha * product: without the input, whatever it holds, where beta is the number 0."""

    def form(self: Tensor, first: Tensor, second: Tensor, beta: Number = 1, alpha: Number = 1) -> Tensor:
        found = product(first, second) * alpha
        return found if not is_symbol(beta) and beta == 0 else self * beta + found

    return form


def scatter(self: Tensor, dim: int, index: Tensor, value: Number) -> Tensor:
    return self.scatter(dim, index, torch.full(index.shape, value, dtype=self.dtype, device=self.device))


FORMS: dict[OpOverload, Callable[..., Tensor]] = {
    ATEN.add.Tensor: add,
    ATEN.sub.Tensor: sub,
    **dict.fromkeys((ATEN.rsub.Tensor, ATEN.rsub.Scalar), rsub),
    **dict.fromkeys((ATEN.addmm.default, ATEN.addmv.default, ATEN.baddbmm.default), scaled(torch.matmul)),
    ATEN.addbmm.default: scaled(lambda first, second: torch.bmm(first, second).sum(0)),
    ATEN.addr.default: scaled(torch.outer),
    ATEN.scatter.value: scatter,
}
