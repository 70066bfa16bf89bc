"""Operators that give their operand's memory back, or views of it, and do not say so in their schema (type_as of the same
dtype, broadcast_tensors, meshgrid, dropout that drops nothing, …), as views that say so, where that memory is written:
PyTorch's functionalisation takes their results for new, and what is written there, or was, for lost."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import torch

from ...errors import Problem, UnsupportedError
from ..facts.aliases import copied, memory_of, owner_of, parts_of, rebuilt, written_memories
from ..facts.levels import innermost

ATEN = torch.ops.aten
CONSTANTS = {ATEN.lift_fresh.default, ATEN.lift_fresh_copy.default}
Node = torch.fx.Node


def with_views_shown(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """The program with a view in place of each such result; the program itself where there is none."""
    if not any(True for _ in _not_shown(program.graph_module)):
        return program
    module = copied(program.graph_module)
    spent: dict[Node, None] = {}  # whose results are told now; of others that nothing reads, effects may be wanted
    for node, source in list(_not_shown(module)):
        if node.target is operator.getitem:
            spent[node.args[0]] = None  # type: ignore[index]
        _tell(node, source)
    for node in spent:
        if not node.users:
            node.graph.erase_node(node)
    module.recompile()
    return rebuilt(program, module)


def _not_shown(module: torch.fx.GraphModule) -> Iterator[tuple[Node, Node]]:
    """Results that are written memory of an operand's, and the operand."""
    parts = parts_of(module)
    written = {memory for part in parts for node in part.graph.nodes for memory in written_memories(node)}
    for node in (node for part in parts for node in part.graph.nodes):
        made_by = node.args[0] if node.target is operator.getitem else node
        value = node.meta.get("val")
        if not isinstance(made_by, Node) or not _is_silent(made_by.target) or not isinstance(value, torch.Tensor):
            continue
        memory = _memory(value)
        if made_by.target in CONSTANTS:
            _check_constant(made_by, written)
        elif memory in written:
            for source in made_by.all_input_nodes:
                if isinstance(source.meta.get("val"), torch.Tensor) and _memory(source.meta["val"]) == memory:
                    yield node, source
                    break


def _check_constant(node: Node, written: set[int]) -> None:
    """That no tensor which the model computes is given as a constant that each run makes anew, and is written: the tracer
    takes for a copy what shows it."""
    source = node.args[0]
    if source.op == "call_function" and written & {_memory(one.meta["val"]) for one in (node, source)}:  # type: ignore[union-attr]
        what = "is of constants alone, and here of a tensor that is written; what helps: clone(), or the tensor itself"
        raise UnsupportedError([Problem(f"node '{node.name}' (aten.lift_fresh.default)", what)])


def _tell(node: Node, source: Node) -> None:
    value, given = innermost(node.meta["val"]), innermost(source.meta["val"])
    alike = [(v.dtype, v.shape, v.stride(), v.storage_offset()) for v in (value, given)]
    if alike[0] == alike[1]:
        node.target, node.args, node.kwargs = ATEN.alias.default, (source,), {}
        return
    owner = owner_of(source)
    size, strides, first = list(value.shape), list(value.stride()), value.storage_offset()
    known = all(isinstance(number, int) for number in (*size, *strides, first))
    if known and innermost(owner.meta["val"]).dtype == value.dtype:
        node.target, node.args, node.kwargs = ATEN.as_strided.default, (owner, size, strides, first), {}


def _is_silent(target: Any) -> bool:
    """Whether an operator's schema says of no result whose memory it is."""
    if not isinstance(target, torch._ops.OpOverload) or target._schema.is_mutable:
        return False
    return all(result.alias_info is None for result in target._schema.returns)


def _memory(value: torch.Tensor) -> int:
    return memory_of(innermost(value))
