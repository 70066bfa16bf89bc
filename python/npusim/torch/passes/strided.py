"""What addresses memory, as_strided and its kind, as what it reads or replaces of a value: IR has values, in row-major order,
and no strides."""

from __future__ import annotations

import math

import torch

from ...errors import Problem, UnsupportedError
from ..facts.addresses import addresses, places_at, strides_of
from ..facts.rows import argument, call

ATEN = torch.ops.aten
READ, PUT = ATEN.as_strided.default, ATEN.as_strided_scatter.default
# In the order of their first operand, which IR's reader knows of those at indices where all operands are row-major; in
# row-major order.
AT_INDICES = {ATEN.index_put.default, ATEN.index_copy.default}
PARTIAL = {PUT, ATEN.slice_scatter.default, ATEN.select_scatter.default, *AT_INDICES}
MADE = {ATEN.zeros.default, ATEN.ones.default, ATEN.full.default, ATEN.empty.memory_format}


def spell_out_strides(graph: torch.fx.Graph) -> None:
    """Gives such calls the strides that they have in a row-major copy. Raises UnsupportedError for memory that no value of
    the graph shows."""
    for node in [node for node in graph.nodes if node.target in (READ, PUT)]:
        _replace(graph, node)


def _replace(graph: torch.fx.Graph, node: torch.fx.Node) -> None:
    base = _owner(node.args[0]) if node.target == READ else node.args[0]
    value = base.meta["val"]
    size, strides = argument(node, "size"), argument(node, "stride")
    first = argument(node, "storage_offset")
    first = node.args[0].meta["val"].storage_offset() if first is None else first
    numbers = [*size, *strides, first, *value.shape, *value.stride(), value.storage_offset()]
    if not all(isinstance(number, int) for number in numbers):
        raise _refused(node, "addresses memory at places that depend on values")
    if not math.prod(size):
        return
    # As memory has them: places go up with addresses, as strides of IR do.
    order = sorted(range(value.dim()), key=lambda d: -value.stride(d))
    places = places_at(value.permute(order), addresses(size, strides, first))
    if places is None:
        raise _refused(node, f"addresses memory that '{base.name}' does not show")
    strided = strides_of(places)
    if strided is None:
        raise _refused(node, f"addresses '{base.name}' in an order that its dimensions do not have")
    others, at = strided
    with graph.inserting_before(node):
        found = _in_memory_order(graph, base, order)
        source = [node.args[1]] if node.target == PUT else []
        found = call(graph, node.target, found, *source, list(size), others, at)
        if source and order != sorted(order):
            found = call(graph, ATEN.permute.default, found, [order.index(d) for d in range(len(order))])
    node.replace_all_uses_with(found)
    graph.erase_node(node)


def _in_memory_order(graph: torch.fx.Graph, node: torch.fx.Node, order: list[int]) -> torch.fx.Node:
    """The value with its dimensions in this order, row-major."""
    if order == sorted(order):
        return row_major(graph, node)
    transposed = call(graph, ATEN.permute.default, node, order)
    return call(graph, ATEN.clone.default, transposed, memory_format=torch.contiguous_format)


def row_major(graph: torch.fx.Graph, node: torch.fx.Node) -> torch.fx.Node:
    """The value in memory of that order, a copy where IR's reader may take it for another."""
    of, writes = node, []
    while of.target in PARTIAL:
        writes += [of] if of.target in AT_INDICES else []
        of = of.args[0]
    if _is_row_major(of):
        for write in writes:
            with graph.inserting_before(write):
                others = torch.fx.node.map_arg(write.args[1:], lambda arg: _row_major_copy(graph, arg))
            write.args = (write.args[0], *others)
        return node
    return call(graph, ATEN.clone.default, node, memory_format=torch.contiguous_format)


def _is_row_major(node: torch.fx.Node) -> bool:
    """Whether IR's reader knows a value's order as that."""
    is_copy = node.target == ATEN.clone.default and node.kwargs.get("memory_format") == torch.contiguous_format
    return node.op == "placeholder" or node.target in MADE or is_copy


def _row_major_copy(graph: torch.fx.Graph, node: torch.fx.Node) -> torch.fx.Node:
    return node if _is_row_major(node) else call(graph, ATEN.clone.default, node, memory_format=torch.contiguous_format)


def _owner(node: torch.fx.Node) -> torch.fx.Node:
    """What a view is one of."""
    while isinstance(node.target, torch._ops.OpOverload) and node.target._schema.returns[0].alias_info is not None:
        node = node.args[0]
    return node


def _refused(node: torch.fx.Node, why: str) -> UnsupportedError:
    return UnsupportedError([Problem(f"node '{node.name}' ({node.target})", why)])
