"""Writes of elements that a mask chooses, `x[m] = f(y[m])`: every element is computed, and the mask decides which to keep.

What a mask chooses has a shape that depends on values, which IR has no form for; what is done with all of it has none."""

from __future__ import annotations

import copy
from typing import Any

import torch

ATEN = torch.ops.aten
PUTS = {ATEN.index_put_.default, ATEN.index_put.default}
COPIES = {ATEN.clone.default, ATEN.to.dtype, ATEN.to.dtype_layout, ATEN._to_copy.default, ATEN.detach.default}
VIEWS = {ATEN.slice.Tensor, ATEN.select.int, ATEN.unsqueeze.default, ATEN.alias.default}
# Integers of them stop a run where the mask does not choose: by a zero there.
DIVIDING = {"div", "floor_divide", "remainder", "fmod", "pow"}


def spell_out_masks(graph: torch.fx.Graph) -> torch.fx.Graph:
    """The graph without such writes, a copy where it has some; others stay as they are."""
    if not any(node.target in PUTS and _mask_of(node.args[1]) for node in graph.nodes):
        return graph
    graph = copy.deepcopy(graph)
    for node in list(graph.nodes):
        if node.op == "call_function" and node.target in PUTS and _mask_of(node.args[1]):
            _replace(graph, node)
    return graph


def _mask_of(indices: Any) -> tuple[int, torch.fx.Node] | None:
    """The only index, a mask, and its place among the dimensions."""
    given = [(i, index) for i, index in enumerate(indices) if index is not None]
    if len(given) != 1 or not isinstance(given[0][1], torch.fx.Node):
        return None
    value = given[0][1].meta.get("val")
    return given[0] if isinstance(value, torch.Tensor) and value.dtype == torch.bool else None


def _replace(graph: torch.fx.Graph, node: torch.fx.Node) -> None:
    x, indices, values = node.args[:3]
    accumulate = node.args[3] if len(node.args) > 3 else node.kwargs.get("accumulate", False)
    place, mask = _mask_of(indices)
    if not isinstance(values, torch.fx.Node) or not _depends_on_values(values):
        return
    shape = x.meta["val"].shape
    chain = _chain(values, place, mask, shape)
    if chain is None or values.meta["val"].dtype != x.meta["val"].dtype:
        return
    masks = {mask, *(_mask_of(n.args[1])[1] for n in chain if n.target == ATEN.index.Tensor)}
    if _are_changed(masks, node):
        return
    whole: dict[torch.fx.Node, torch.fx.Node] = {}
    for chosen in chain:  # each where it stands: what it reads may change afterwards
        with graph.inserting_before(chosen):
            if chosen.target == ATEN.index.Tensor:
                whole[chosen] = _call(graph, ATEN.clone.default, chosen.args[0])
            else:
                args = torch.fx.node.map_arg(chosen.args, lambda n: whole.get(n, n))
                whole[chosen] = _call(graph, _functional(chosen.target), *args, **chosen.kwargs)
        if whole[chosen].meta["val"].dtype != chosen.meta["val"].dtype:
            return  # what is in place does not promote
    with graph.inserting_before(node):
        for _ in range(len(shape) - place - mask.meta["val"].dim()):
            mask = _call(graph, ATEN.unsqueeze.default, mask, -1)
        value = _call(graph, ATEN.add.Tensor, x, whole[values]) if accumulate else whole[values]
        value = _call(graph, ATEN.where.self, mask, value, x)
        if node.target == ATEN.index_put_.default:
            value = _call(graph, ATEN.copy_.default, x, value)
    node.replace_all_uses_with(value)
    graph.erase_node(node)
    for chosen in chain:
        for user in list(chosen.users):
            if user.target == ATEN._assert_tensor_metadata.default:  # of casts; it holds of all elements too
                graph.erase_node(user)


def _chain(values: torch.fx.Node, place: int, mask: torch.fx.Node, shape: torch.Size) -> list[torch.fx.Node] | None:
    """The nodes that compute `values` from what the same mask chooses of tensors of `shape`, in their order; None where
    something else is done with it."""
    found: dict[torch.fx.Node, None] = {}

    def visit(node: torch.fx.Node) -> bool:
        if node in found:
            return True
        if node.op != "call_function" or node.kwargs.keys() & {"out"}:
            return False
        if node.target == ATEN.index.Tensor:
            other = _mask_of(node.args[1])
            same = other is not None and other[0] == place and _same(other[1], mask)
            if not same or node.args[0].meta["val"].shape != shape:
                return False
        else:
            if not _is_pointwise(node):
                return False
            for arg in node.all_input_nodes:
                if _depends_on_values(arg):
                    if not visit(arg):
                        return False
                elif not isinstance(arg.meta.get("val"), torch.Tensor) or arg.meta["val"].dim() > 0:
                    return False
        found[node] = None
        return True

    return list(found) if visit(values) else None


def _is_pointwise(node: torch.fx.Node) -> bool:
    op = _functional(node.target)
    if op is None or (op not in COPIES and torch.Tag.pointwise not in op.tags) or op._schema.is_mutable:
        return False
    if torch.Tag.nondeterministic_seeded in op.tags:
        return False
    if (
        op != node.target
        and len(node.args[0].users) > 1
        and any(user not in (node,) and user.target != ATEN.sym_size.int for user in node.args[0].users)
    ):
        return False  # somebody else sees what it writes
    value = node.meta["val"]
    whole = not value.dtype.is_floating_point and not value.dtype.is_complex
    return not (whole and op._schema.name.removeprefix("aten::") in DIVIDING)


def _functional(op: Any) -> torch._ops.OpOverload | None:
    """The operator, or for one that writes its first operand the one that does not."""
    if not isinstance(op, torch._ops.OpOverload) or op.namespace != "aten" or not op._schema.is_mutable:
        return op if isinstance(op, torch._ops.OpOverload) else None
    name = op._schema.name.removeprefix("aten::")
    packet = getattr(ATEN, name.removesuffix("_"), None) if name.endswith("_") else None
    return getattr(packet, op._overloadname, None) if packet else None


def _depends_on_values(node: torch.fx.Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and not all(isinstance(extent, int) for extent in value.shape)


def _are_changed(masks: set[torch.fx.Node], put: torch.fx.Node) -> bool:
    """Whether something is written, between the first mask and the write, that decides what a mask is."""
    read: set[torch.fx.Node] = set()
    waiting = list(masks)
    while waiting:
        node = waiting.pop()
        if node not in read:
            read.add(node)
            if len(masks) > 1 and _is_part(node):  # one mask is what it was, whatever becomes of its operands
                waiting += node.all_input_nodes
    memory = {_root(node) for node in read}
    order = {node: i for i, node in enumerate(put.graph.nodes)}
    first = min(order[mask] for mask in masks)
    return any(
        first < order[node] < order[put] and any(_root(written) in memory for written in _written(node))
        for node in order
    )


def _written(node: torch.fx.Node) -> list[torch.fx.Node]:
    if not isinstance(node.target, torch._ops.OpOverload):
        return list(node.all_input_nodes) if node.op == "call_function" and "wrap" in str(node.target) else []
    found = []
    for arg, value in zip(node.target._schema.arguments, node.args):
        if arg.alias_info is not None and arg.alias_info.is_write:
            torch.fx.node.map_arg(value, found.append)
    return found


def _root(node: torch.fx.Node) -> torch.fx.Node:
    """Whose memory it is."""
    while isinstance(node.target, torch._ops.OpOverload) and node.target._schema.returns and node.args:
        if node.target._schema.returns[0].alias_info is None or not isinstance(node.args[0], torch.fx.Node):
            break
        node = node.args[0]
    return node


def _is_part(node: torch.fx.Node) -> bool:
    """Of a mask that is computed twice."""
    return node.target in VIEWS or (
        isinstance(node.target, torch._ops.OpOverload) and torch.Tag.pointwise in node.target.tags
    )


def _same(a: Any, b: Any) -> bool:
    """Whether two values are one, or computed alike of the same."""
    if a is b:
        return True
    if isinstance(a, torch.fx.Node) and isinstance(b, torch.fx.Node):
        if a.op != "call_function" or a.target != b.target or not _is_part(a):
            return False
        return not a.target._schema.is_mutable and _same(a.args, b.args) and _same(a.kwargs, b.kwargs)
    if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)):
        return len(a) == len(b) and all(_same(x, y) for x, y in zip(a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    return not isinstance(a, torch.fx.Node) and not isinstance(b, torch.fx.Node) and type(a) is type(b) and a == b


def _call(graph: torch.fx.Graph, op: torch._ops.OpOverload, *args: Any, **kwargs: Any) -> torch.fx.Node:
    node = graph.call_function(op, args, kwargs)
    values = torch.fx.node.map_arg((args, kwargs), lambda n: n.meta["val"])
    node.meta["val"] = op(*values[0], **values[1])
    return node
