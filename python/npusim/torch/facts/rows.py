"""What a program does with some rows of a tensor, whose number depends on values: the same, done with all rows.

Rows that a mask chooses lie along one dimension, in the place of the mask's; those of a piece along the first. A shape
that depends on values has no form in IR; what is done with all rows has none. Each row is computed by itself, so that
those which nobody wants disturb no other."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from .levels import levels_of

ATEN = torch.ops.aten
COPIES = {ATEN.clone.default, ATEN.to.dtype, ATEN.to.dtype_layout, ATEN._to_copy.default, ATEN.detach.default}
# Along dimensions of a row: the position of these among the arguments.
ALONG = {
    **dict.fromkeys((ATEN.mean.dim, ATEN.sum.dim_IntList, ATEN.amax.default, ATEN.amin.default), 1),
    **dict.fromkeys((ATEN.softmax.int, ATEN._softmax.default, ATEN.log_softmax.int, ATEN._log_softmax.default), 1),
}
# Of the last dimensions: how many.
LAST: dict[Any, Callable[[torch.fx.Node], int]] = {
    ATEN.linear.default: lambda node: 1,
    ATEN.layer_norm.default: lambda node: len(node.args[1]),
    ATEN.rms_norm.default: lambda node: len(node.args[1]),
}
# Of part of a row: the position of the dimension among the arguments, and what it is where it is not given.
PARTS = {
    **dict.fromkeys((ATEN.slice.Tensor, ATEN.select.int), (1, 0)),
    **dict.fromkeys((ATEN.chunk.default, ATEN.split.Tensor, ATEN.split_with_sizes.default), (2, 0)),
}
PRODUCTS = {ATEN.matmul.default, ATEN.mm.default}
RESHAPES = {ATEN.reshape.default, ATEN.view.default, ATEN._unsafe_view.default}
SHAPED = {*RESHAPES, ATEN.unsqueeze.default, ATEN.squeeze.dim}
# Integers of them stop a run in a row that nobody wants: by a zero there.
DIVIDING = {"div", "floor_divide", "remainder", "fmod", "pow"}
# What only asks about a tensor.
QUESTIONS = {ATEN.sym_size.int, ATEN._assert_tensor_metadata.default}


def find_chain(
    values: torch.fx.Node, place: int, is_source: Callable[[torch.fx.Node], bool | None]
) -> list[torch.fx.Node] | None:
    """The nodes that compute `values`, row by row along dimension `place`, in their order, from the sources; None where
    something else is done. is_source: whether a node is the rows of one, or None where it must not be met."""
    found: dict[torch.fx.Node, None] = {}
    waiting = [(values, False)]  # with whether what it is computed of is there: a chain may be longer than Python recurs
    while waiting:
        node, ready = waiting.pop()
        if node in found:
            continue
        if ready:
            found[node] = None
            continue
        source = is_source(node)
        if source is None or (not source and not _is_by_row(node, place)):
            return None
        waiting.append((node, True))
        if not source:
            waiting += [(arg, False) for arg in reversed(node.all_input_nodes) if depends_on_values(arg)]
    return list(found)


def _is_by_row(node: torch.fx.Node, place: int) -> bool:
    """Whether each row of its result is computed of the same row of its operands, and of nothing else that has rows."""
    if node.op != "call_function":
        return False
    if node.target is operator.getitem:
        return node.args[0].target in PARTS
    if node.target in PARTS:
        return _is_part_of_row(node, place)
    if not isinstance(node.meta.get("val"), torch.Tensor):
        return False
    if node.target in PRODUCTS:  # with a matrix
        rows, other = node.args
        return place == rows.meta["val"].dim() - 2 and not depends_on_values(other) and other.meta["val"].dim() == 2
    if node.target in SHAPED:
        before, after = node.args[0].meta["val"].shape, node.meta["val"].shape
        return is_same_shape(before[: place + 1], after[: place + 1]) and _is_static(after[place + 1 :])
    row = node.meta["val"].dim() - place - 1  # dimensions of a row
    if node.target in ALONG or node.target in LAST:
        rows, *others = node.all_input_nodes
        row = rows.meta["val"].dim() - place - 1
        if rows is not node.args[0] or any(depends_on_values(other) for other in others):
            return False
        if node.target in LAST:
            return 0 < LAST[node.target](node) <= row
        return len(node.args) > 1 and bool(dims := _dims(node)) and all(-row <= dim < 0 for dim in dims)
    if not _is_pointwise(node):
        return False
    for arg in node.all_input_nodes:
        value = arg.meta.get("val")
        if not isinstance(value, torch.Tensor):
            return False
        if value.dim() != node.meta["val"].dim() if depends_on_values(arg) else value.dim() > row:
            return False
    return True


def _is_part_of_row(node: torch.fx.Node, place: int) -> bool:
    at, default = PARTS[node.target]
    dim = node.args[at] if len(node.args) > at else node.kwargs.get("dim", default)
    numbers = pytree.tree_leaves((node.args[1:], node.kwargs))
    rank = node.args[0].meta["val"].dim()
    return place < dim % rank and not any(isinstance(number, torch.fx.Node) for number in numbers)


def is_same_shape(a: Sequence[Any], b: Sequence[Any]) -> bool:
    """Whether two shapes are known to be one, whatever the values."""
    return [str(extent) for extent in a] == [str(extent) for extent in b]


def _is_static(shape: torch.Size) -> bool:
    return all(isinstance(extent, int) for extent in shape)


def _dims(node: torch.fx.Node) -> list[int]:
    """Along which it goes, from the end."""
    given = node.args[ALONG[node.target]]
    rank = node.args[0].meta["val"].dim()
    return [dim if dim < 0 else dim - rank for dim in ([given] if isinstance(given, int) else given or [])]


def _is_pointwise(node: torch.fx.Node) -> bool:
    op = node.target
    if not isinstance(op, torch._ops.OpOverload) or (op not in COPIES and torch.Tag.pointwise not in op.tags):
        return False
    if torch.Tag.nondeterministic_seeded in op.tags:
        return False
    value = node.meta["val"]
    whole = not value.dtype.is_floating_point and not value.dtype.is_complex
    return not (whole and op._schema.name.removeprefix("aten::") in DIVIDING)


def compute_whole(
    graph: torch.fx.Graph, chain: list[torch.fx.Node], all_rows: Callable[[torch.fx.Node], torch.fx.Node | None]
) -> dict[torch.fx.Node, torch.fx.Node] | None:
    """For each node of a chain the same of all rows; None where a dtype would be another. all_rows: makes, for a source, the
    tensor that has them all, and gives None for other nodes."""
    whole: dict[torch.fx.Node, torch.fx.Node] = {}
    for node in chain:
        with graph.inserting_before(node):
            if (found := all_rows(node)) is None:
                args = list(torch.fx.node.map_arg(node.args, lambda n: whole.get(n, n)))
                if node.target in ALONG:
                    at = ALONG[node.target]
                    args[at] = _dims(node)[0] if isinstance(args[at], int) else _dims(node)
                if node.target in RESHAPES:
                    found = _reshaped(graph, node, args[0])
                else:
                    found = call(graph, node.target, *args, **node.kwargs)
        if _dtype(found) != _dtype(node):
            return None
        whole[node] = found
    return whole


def _reshaped(graph: torch.fx.Graph, node: torch.fx.Node, whole: torch.fx.Node) -> torch.fx.Node:
    """Rows of another shape: the dimensions up to theirs are those of the operand."""
    shape = node.meta["val"].shape
    place = next(d for d, extent in enumerate(shape) if not isinstance(extent, int))
    return call(graph, ATEN.reshape.default, whole, [*whole.meta["val"].shape[: place + 1], *shape[place + 1 :]])


def _dtype(node: torch.fx.Node) -> torch.dtype:
    return pytree.tree_leaves(node.meta["val"])[0].dtype


def forget(graph: torch.fx.Graph, chain: list[torch.fx.Node]) -> None:
    """Takes what casts in a chain ask of their operands out of the graph: it holds of all rows too."""
    for node in chain:
        for user in list(node.users):
            if user.target == ATEN._assert_tensor_metadata.default:
                graph.erase_node(user)


def depends_on_values(node: torch.fx.Node) -> bool:
    """Whether its shape does, or that of one in its list."""
    values = pytree.tree_leaves(node.meta.get("val"))
    return any(isinstance(value, torch.Tensor) and not _is_static(value.shape) for value in values)


def call(graph: torch.fx.Graph, op: torch._ops.OpOverload, *args: Any, **kwargs: Any) -> torch.fx.Node:
    """A new node, with its value's shape and dtype."""
    node = graph.call_function(op, args, kwargs)
    values = torch.fx.node.map_arg((args, kwargs), lambda n: n.meta["val"])
    with levels_of(values):
        node.meta["val"] = op(*values[0], **values[1])
    return node


def argument(node: torch.fx.Node, name: str) -> Any:
    """An argument of a call, as it gives it, or its default."""
    for i, arg in enumerate(node.target._schema.arguments):  # type: ignore[union-attr]
        if arg.name == name:
            return node.kwargs.get(name, node.args[i] if i < len(node.args) else arg.default_value)
    return None
