"""Which calls of a torch.fx graph an output depends on, through memory that is written in place too."""

from __future__ import annotations

import operator
from typing import Any

import torch

from .torch_complex import VIEWS_IN_PLACE, is_complex

# Conditions on values that have no form in IR. What they hold for is the caller's to know, as with other assertions.
CONDITIONS = {
    "aten._assert_scalar.default",
    "aten.sym_constrain_range.default",
    "aten.sym_constrain_range_for_size.default",
}


Memory = dict[torch.fx.Node, set[torch.fx.Node]]


def find_memory(graph: torch.fx.Graph) -> Memory:
    """For each node those whose memory its results may be in: its own, and that of operands where its schema says so or
    where it is made of other operators, of which the schema says nothing."""
    memory: Memory = {}
    for node in graph.nodes:
        found = memory[node] = {node}
        if not isinstance(node.target, torch._ops.OpOverload):
            shared = node.all_input_nodes
        else:
            silent = torch._C._dispatch_has_kernel_for_dispatch_key(node.target.name(), "CompositeImplicitAutograd")
            shared = []
            for arg, value in _arguments(node):
                if (arg.alias_info is not None or silent) and not is_conversion(node):
                    torch.fx.node.map_arg(value, shared.append)
        for value in shared:
            found |= memory[value]
    return memory


def find_needed(graph: torch.fx.Graph, memory: Memory) -> set[torch.fx.Node]:
    """All nodes but those whose results nobody reads: calls that torch.export keeps because they write (the initial
    values of a layer whose weights are then replaced) or draw random numbers, and conditions on numbers."""
    needed: set[torch.fx.Node] = set()
    read = {node for node in graph.nodes if node.op == "placeholder"}  # whose memory is read later on, or by the caller
    for node in reversed(graph.nodes):
        changed = {root for value in written(node) for root in memory[value]}
        if not _has_results(node) or needed.intersection(node.users) or read & changed:
            needed.add(node)
            for value in node.all_input_nodes:
                read |= memory[value]
    return needed


def find_complex_writes(graph: torch.fx.Graph, memory: Memory) -> list[torch.fx.Node]:
    """Calls that write complex numbers, or memory which complex numbers are in too: as two values they would not see it."""
    return [
        node
        for node in graph.nodes
        if getattr(node.target, "_opname", "") not in VIEWS_IN_PLACE
        and any(
            is_complex(found.meta.get("val"))
            for value in written(node)
            for found in (*memory[value], *node.all_input_nodes)
        )
    ]


def _has_results(node: torch.fx.Node) -> bool:
    """Whether it is done for its results, or for what it writes, and for nothing else."""
    if isinstance(node.target, torch._ops.OpOverload):
        return bool(node.target._schema.returns) or str(node.target) in CONDITIONS
    return node.op == "call_function" and (node.target is operator.getitem or is_number_call(node))


def is_number_call(node: torch.fx.Node) -> bool:
    """Whether it computes with numbers."""
    return node.op == "call_function" and node.target in _NUMBERS


_NUMBERS = {
    *(operator.ge, operator.le, operator.gt, operator.lt, operator.eq, operator.ne, operator.and_, operator.or_),
    *(operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod, operator.neg),
    *(torch.sym_ite, torch.sym_not, torch.sym_max, torch.sym_min, torch.sym_int, torch.sym_float),
}


def is_conversion(node: torch.fx.Node) -> bool:
    """Whether it is a copy in another dtype: `to`, of which the schema says that it may give the operand itself."""
    if getattr(node.target, "_opname", "") not in ("to", "type_as"):
        return False
    value, given = node.meta.get("val"), node.args[0].meta.get("val")
    return isinstance(value, torch.Tensor) and isinstance(given, torch.Tensor) and value.dtype != given.dtype


def _arguments(node: torch.fx.Node) -> list[tuple[Any, Any]]:
    """The schema's arguments with the values that a call gives them."""
    schema = node.target._schema.arguments  # type: ignore[union-attr]
    return [
        (arg, node.kwargs.get(arg.name, node.args[i] if i < len(node.args) else None)) for i, arg in enumerate(schema)
    ]


def written(node: torch.fx.Node) -> list[torch.fx.Node]:
    """The operands that a call writes."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return []
    found: list[torch.fx.Node] = []
    for arg, value in _arguments(node):
        if arg.alias_info is not None and arg.alias_info.is_write:
            torch.fx.node.map_arg(value, found.append)
    return found
