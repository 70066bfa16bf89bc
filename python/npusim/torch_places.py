"""Elements and slices at places that are read from tensors: gathered by index, and written back by it.

`x[i]`, `x[:, i : i + 4]` and `torch.narrow(x, 0, i, 4)` with a number i that is read from a tensor decide no shape, so that
the program holds for every i. As views of x they have no form in IR, whose views lie where they are told at compile time:
what is read of them is a copy, made where nothing writes x before its last use, and what is written to them goes to x."""

from __future__ import annotations

import operator
from dataclasses import dataclass

import torch

from .torch_needed import find_memory, written
from .torch_rows import call

ATEN = torch.ops.aten


@dataclass
class Place:
    """A view of `base` along `dim` from the number `start` on: one element, without the dimension, or `count` of them."""

    base: torch.fx.Node
    dim: int
    start: torch.fx.Node
    count: int | None


def find_place(node: torch.fx.Node) -> Place | None:
    """What the view is, if a number says where and none says how long it is."""
    if node.target not in (ATEN.select.int, ATEN.slice.Tensor, ATEN.narrow.default) or node.kwargs:
        return None
    base, dim, start = [*node.args, 0, None][:3]
    if not isinstance(start, torch.fx.Node) or not isinstance(dim, int):
        return None
    dim %= base.meta["val"].dim()
    if not isinstance(base.meta["val"].shape[dim], int):
        return None
    if node.target == ATEN.select.int:
        return Place(base, dim, start, None)
    if node.target == ATEN.narrow.default:
        return Place(base, dim, start, node.args[3]) if isinstance(node.args[3], int) else None
    end = node.args[3] if len(node.args) == 4 else None
    if not isinstance(end, torch.fx.Node) or end.target is not operator.add or start not in end.args:
        return None
    count = end.args[1] if end.args[0] is start else end.args[0]
    return Place(base, dim, start, count) if isinstance(count, int) and count > 0 else None


def settle_place(
    graph: torch.fx.Graph, node: torch.fx.Node, place: Place, start: torch.fx.Node
) -> list[torch.fx.Node] | None:
    """Puts a copy in the place of a view, and after each call that writes it the copy into what it is a view of. Gives
    conditions on `start`, a tensor of one that is the number; None, and changes nothing, where something else writes
    that memory before the last use of the view."""
    writers = _writers(graph, node)
    if writers is None:
        return None
    with graph.inserting_before(node):
        index = start if start.meta["val"].dtype == torch.int64 else call(graph, ATEN.to.dtype, start, torch.int64)
        conditions = []
        if place.count is None:  # one index counts from the end where it is negative, as select does
            part = call(graph, ATEN.index.Tensor, place.base, [None] * place.dim + [index])
        else:
            last = place.base.meta["val"].shape[place.dim] - place.count
            conditions = [call(graph, ATEN.ge.Scalar, index, 0), call(graph, ATEN.le.Scalar, index, last)]
            steps = call(graph, ATEN.arange.default, place.count, device=torch.device("cpu"))
            index = call(graph, ATEN.add.Tensor, steps, index)
            part = call(graph, ATEN.index_select.default, place.base, place.dim, index)
    for writer in writers:
        with graph.inserting_after(writer):
            if place.count is None:
                call(graph, ATEN.index_put_.default, place.base, [None] * place.dim + [index], part)
            else:
                call(graph, ATEN.index_copy_.default, place.base, place.dim, index, part)
    node.replace_all_uses_with(part)
    return conditions


def _writers(graph: torch.fx.Graph, node: torch.fx.Node) -> list[torch.fx.Node] | None:
    """The calls that write a view; None where others write its memory before the last use of it, or of a view of it. A
    call reads before it writes."""
    memory = find_memory(graph)
    order = {each: n for n, each in enumerate(graph.nodes)}
    last = max((order[user] for each in graph.nodes if node in memory[each] for user in each.users), default=0)
    found = []
    for each in graph.nodes:
        targets = [value for value in written(each) if memory[value] & memory[node] - {node}]
        if order[each] <= order[node] or not targets:
            continue
        if all(node in memory[value] for value in targets):
            found.append(each)
        elif order[each] < last:
            return None
    return found
