"""Which calls of a graph an output depends on."""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Iterable
from typing import Any

import torch

# Conditions on values that have no form in IR. What they hold for is the caller's to know, as with other assertions.
CONDITIONS = {
    "aten._assert_scalar.default",
    "aten.sym_constrain_range.default",
    "aten.sym_constrain_range_for_size.default",
}


def find_needed(graph: torch.fx.Graph, conditions: Iterable[torch.fx.Node] = ()) -> set[torch.fx.Node]:
    """All nodes but those whose results nobody reads: calls that draw random numbers (the initial values of a layer whose
    weights are then replaced), and conditions on numbers. conditions: those of them that are needed."""
    needed = set(conditions)
    for node in reversed(graph.nodes):
        if not _has_results(node) or needed.intersection(node.users):
            needed.add(node)
    return needed


def _has_results(node: torch.fx.Node) -> bool:
    """Whether it is done for its results and for nothing else."""
    if isinstance(node.target, torch._ops.OpOverload):
        if node.target._schema.is_mutable or _updates_statistics(node):
            return False
        return bool(node.target._schema.returns) or str(node.target) in CONDITIONS
    return node.op == "call_function" and (node.target is operator.getitem or is_number_call(node))


def _updates_statistics(node: torch.fx.Node) -> bool:
    """Whether it is a norm in training, which writes its running statistics though its schema does not say so."""
    target: Any = node.target
    arguments = target._schema.arguments
    given = {argument.name: value for argument, value in zip(arguments, node.args, strict=False)} | node.kwargs
    training = given.get("training", given.get("use_input_stats", False))
    return "functional" not in target._opname and given.get("running_mean") is not None and training is not False


def is_number_call(node: torch.fx.Node) -> bool:
    """Whether it computes with numbers."""
    return node.op == "call_function" and node.target in _NUMBERS


_NUMBERS = {
    *(operator.ge, operator.le, operator.gt, operator.lt, operator.eq, operator.ne, operator.and_, operator.or_),
    *(operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod, operator.neg, operator.truediv),
    *(operator.pow, operator.abs, operator.pos, operator.xor, operator.lshift, operator.rshift),
    *(builtins.round, math.floor, math.ceil, math.trunc),
    *(torch.sym_ite, torch.sym_not, torch.sym_max, torch.sym_min, torch.sym_int, torch.sym_float),
}
