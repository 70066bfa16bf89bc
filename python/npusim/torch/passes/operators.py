"""Python's operators of numbers that tensors hold, as calls of tensors of one."""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..facts.rows import call

ATEN = torch.ops.aten
Node = torch.fx.Node
# Of tensors as of numbers.
OF_TENSORS: dict[Any, Any] = {
    **{getattr(operator, name): getattr(ATEN, name).Tensor for name in ("eq", "ne", "lt", "le", "gt", "ge", "mul")},
    operator.add: ATEN.add.Tensor,
    operator.sub: ATEN.sub.Tensor,
    operator.floordiv: ATEN.floor_divide.default,
    operator.mod: ATEN.remainder.Tensor,
    operator.neg: ATEN.neg.default,
    operator.abs: ATEN.abs.default,
    operator.and_: ATEN.bitwise_and.Tensor,  # of truths the logical ones
    operator.or_: ATEN.bitwise_or.Tensor,
    operator.xor: ATEN.bitwise_xor.Tensor,
    operator.lshift: ATEN.bitwise_left_shift.Tensor,
    operator.rshift: ATEN.bitwise_right_shift.Tensor,
    torch.sym_not: ATEN.logical_not.default,
    torch.sym_ite: ATEN.where.self,
    torch.sym_max: ATEN.maximum.default,
    torch.sym_min: ATEN.minimum.default,
}
WHOLE = {math.floor: ATEN.floor.default, math.ceil: ATEN.ceil.default, math.trunc: ATEN.trunc.default}
CASTS = {torch.sym_float: torch.float64, torch.sym_int: torch.int64}
ROOTS = ("sqrt", "cos", "cosh", "sin", "sinh", "tan", "tanh", "asin", "acos", "atan", "log2")
# Of fractions, whatever they are given.
OF_FRACTIONS: dict[Any, Any] = {
    operator.truediv: ATEN.div.Tensor,
    **{getattr(torch, f"_sym_{name}"): getattr(ATEN, name).default for name in ROOTS},
}


def as_call(graph: torch.fx.Graph, target: Any, given: Sequence[Any]) -> Node | None:
    """What Python's operator gives of tensors of one and of numbers; None where it has no form, or no tensor is given."""
    if not any(isinstance(arg, Node) for arg in given):
        return None
    if target in SPELLED:
        return SPELLED[target](graph, *given)
    if target in CASTS:
        return to_dtype(graph, given[0], CASTS[target])
    if target in WHOLE:
        real = given[0].meta["val"].dtype.is_floating_point
        return to_dtype(graph, call(graph, WHOLE[target], given[0]), torch.int64) if real else given[0]
    tensors = [arg if isinstance(arg, Node) else constant(graph, arg) for arg in given]
    if target in OF_FRACTIONS:
        return call(graph, OF_FRACTIONS[target], *(to_dtype(graph, arg, torch.float64) for arg in tensors))
    return call(graph, OF_TENSORS[target], *tensors) if target in OF_TENSORS else None


def constant(graph: torch.fx.Graph, number: Any) -> Node:
    dtype = torch.bool if isinstance(number, bool) else torch.int64 if isinstance(number, int) else torch.float64
    return call(graph, ATEN.full.default, [], number, dtype=dtype, device=torch.device("cpu"))


def to_dtype(graph: torch.fx.Graph, tensor: Node, dtype: torch.dtype) -> Node:
    return tensor if tensor.meta["val"].dtype == dtype else call(graph, ATEN.to.dtype, tensor, dtype)


def _power(graph: torch.fx.Graph, base: Any, exponent: Any) -> Node:
    """Of whole numbers a whole one: that the exponent is not negative has been asked."""
    tensors = [arg if isinstance(arg, Node) else constant(graph, arg) for arg in (base, exponent)]
    if any(tensor.meta["val"].dtype.is_floating_point for tensor in tensors):
        tensors = [to_dtype(graph, tensor, torch.float64) for tensor in tensors]
    return call(graph, ATEN.pow.Tensor_Tensor, *tensors)


def _rounded(graph: torch.fx.Graph, number: Node, digits: Any = None) -> Node | None:
    if not number.meta["val"].dtype.is_floating_point:
        return number if digits is None else None
    if digits is None:
        return to_dtype(graph, call(graph, ATEN.round.default, number), torch.int64)
    return call(graph, ATEN.round.decimals, number, decimals=digits) if isinstance(digits, int) else None


def _same(graph: torch.fx.Graph, number: Node) -> Node:
    return number


SPELLED: dict[Any, Callable[..., Node | None]] = {
    operator.pow: _power,
    builtins.round: _rounded,
    operator.pos: _same,
}
