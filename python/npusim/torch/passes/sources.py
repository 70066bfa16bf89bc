"""Calls whose results have as many elements as values say, for sizes that are known: as calls of static shapes, and the
conditions under which the sizes are these."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..facts.rows import argument, call, depends_on_values
from ..functional.decompose import trace

ATEN = torch.ops.aten
Node = torch.fx.Node
Settled = tuple[Any, list[Node]]  # the result, or a list of results, and the conditions
READ = {ATEN.index.Tensor, ATEN._unsafe_index.Tensor}
PUT = {ATEN.index_put.default}


def is_source(node: Node) -> bool:
    """Whether values decide the size of its result, or of what it takes where a mask says so."""
    if node.target in READ:
        return any(_is_mask(index) for index in node.args[1])
    if node.target in PUT:
        masked = any(_is_mask(index) for index in node.args[1])
        return masked and (depends_on_values(node.args[2]) or len(node.args[1]) > 1)  # of one alone IR has a form
    return str(node.target) in SOURCES


def spell_out_argwhere(graph: torch.fx.Graph) -> None:
    """By the name that all passes know."""
    for node in graph.nodes:
        if node.target == ATEN.argwhere.default:
            node.target = ATEN.nonzero.default


def spell_out_empty(graph: torch.fx.Graph) -> None:
    """Makes of calls of what has no elements, whose sizes no value decides, the results without elements that they have."""
    for node in [node for node in graph.nodes if node.op == "call_function" and is_source(node)]:
        results = [node.meta["val"]] if isinstance(node.meta["val"], torch.Tensor) else node.meta["val"]
        if depends_on_values(node) or any(result.numel() for result in results):
            continue
        with graph.inserting_before(node):
            made = [
                call(graph, ATEN.zeros.default, [*result.shape], dtype=result.dtype, device=result.device)
                for result in results
            ]
        if isinstance(node.meta["val"], torch.Tensor):
            node.replace_all_uses_with(made[0])
        for user in list(node.users):  # which takes one of several
            user.replace_all_uses_with(made[user.args[1]])
            graph.erase_node(user)
        graph.erase_node(node)


def sizes_of(node: Node, args: Sequence[Any], result: Any) -> list[int]:
    """Those that a call had: of each mask, or of its result."""
    if node.target in READ | PUT:
        masks = [mask for mask, index in zip(args[1], node.args[1], strict=True) if _is_mask(index)]
        return [int(mask.count_nonzero()) for mask in masks]
    along = argument(node, "dim") or 0
    return [(result if isinstance(result, torch.Tensor) else result[0]).shape[along]]


def most_of(node: Node) -> int | None:
    """How many elements there can be along its first dimension, where a mask chooses them."""
    if node.target is operator.getitem:
        node = node.args[0]
    if node.target in (ATEN.nonzero.default, ATEN.nonzero_numpy.default, ATEN.where.default):
        mask = node.args[0]
    elif node.target == ATEN.index.Tensor and len(node.args[1]) == 1 and _is_mask(node.args[1][0]):
        mask = node.args[1][0]
    else:
        return None
    return math.prod(mask.meta["val"].shape) if not depends_on_values(mask) else None


def settle_source(graph: torch.fx.Graph, node: Node, sizes: list[int]) -> Settled:
    """Its calls, inserted where the graph inserts."""
    return SOURCES[str(node.target)](graph, node, sizes)


def _is_mask(index: Any) -> bool:
    return isinstance(index, Node) and index.meta["val"].dtype in (torch.bool, torch.uint8)


# ---- where elements stand that a vector of truth chooses


def _range(graph: torch.fx.Graph, count: int, like: Node) -> Node:
    return call(graph, ATEN.arange.default, count, dtype=torch.int64, device=like.meta["val"].device)


def _rank(graph: torch.fx.Graph, chosen: Node) -> Node:
    """How many are chosen up to each place, itself among them."""
    return call(graph, ATEN.cumsum.default, call(graph, ATEN.to.dtype, chosen, torch.int64), 0)


def _places(graph: torch.fx.Graph, chosen: Node, rank: Node, count: int) -> Node:
    """Where the chosen stand, if they are `count`."""
    place = _range(graph, chosen.meta["val"].shape[0], chosen)
    others = call(graph, ATEN.add.Tensor, call(graph, ATEN.sub.Tensor, place, rank), _last(graph, rank))
    to = call(graph, ATEN.where.self, chosen, call(graph, ATEN.sub.Scalar, rank, 1), others)  # all, each its own
    order = call(graph, ATEN.scatter.src, call(graph, ATEN.zeros_like.default, place), 0, to, place)
    return call(graph, ATEN.slice.Tensor, order, 0, 0, count)


def _last(graph: torch.fx.Graph, vector: Node) -> Node:
    return call(graph, ATEN.select.int, vector, 0, -1)


def _columns(graph: torch.fx.Graph, x: Node, count: int) -> tuple[list[Node], list[Node]]:
    """The indices of what is not zero along each dimension, and that they are `count`."""
    shape = x.meta["val"].shape
    if not math.prod(shape):
        return [call(graph, ATEN.zeros.default, [0], dtype=torch.int64, device=x.meta["val"].device) for _ in shape], []
    chosen = call(graph, ATEN.reshape.default, x, [-1])
    if chosen.meta["val"].dtype != torch.bool:
        chosen = call(graph, ATEN.ne.Scalar, chosen, 0)
    rank = _rank(graph, chosen)
    at = _places(graph, chosen, rank, count)
    return coordinates(graph, at, shape), [call(graph, ATEN.eq.Scalar, _last(graph, rank), count)]


def coordinates(graph: torch.fx.Graph, at: Node, shape: Sequence[int]) -> list[Node]:
    """The indices along each dimension of places in row-major order."""
    found: list[Node] = []
    for extent in reversed(shape[1:]):
        found.insert(0, call(graph, ATEN.remainder.Scalar, at, extent))
        at = call(graph, ATEN.div.Scalar_mode, at, extent, rounding_mode="floor")
    return [at, *found][: len(shape)]


def _nonzero(graph: torch.fx.Graph, node: Node, sizes: list[int]) -> Settled:
    columns, conditions = _columns(graph, node.args[0], *sizes)
    if columns:
        return call(graph, ATEN.stack.default, columns, 1), conditions
    device = node.args[0].meta["val"].device
    return call(graph, ATEN.zeros.default, [*sizes, 0], dtype=torch.int64, device=device), conditions


def _nonzero_numpy(graph: torch.fx.Graph, node: Node, sizes: list[int]) -> Settled:
    x = node.args[0] if node.args[0].meta["val"].dim() else call(graph, ATEN.unsqueeze.default, node.args[0], 0)
    return _columns(graph, x, *sizes)


def _indexed(graph: torch.fx.Graph, node: Node, sizes: list[int]) -> Settled:
    """A read or a write: the indices of what a mask chooses in its place."""
    x, given, *rest = node.args
    indices: list[Any] = []
    conditions: list[Node] = []
    left = list(sizes)
    for index in given:
        if not _is_mask(index):
            indices.append(index)
            continue
        if not index.meta["val"].dim():  # of a dimension that it adds
            x = call(graph, ATEN.unsqueeze.default, x, len(indices))
            index = call(graph, ATEN.unsqueeze.default, index, 0)
        columns, holds = _columns(graph, index, left.pop(0))
        indices, conditions = indices + columns, conditions + holds
    return call(graph, node.target, x, indices, *rest, **node.kwargs), conditions


def _masked_select(graph: torch.fx.Graph, node: Node, sizes: list[int]) -> Settled:
    shape = list(torch.broadcast_shapes(*(arg.meta["val"].shape for arg in node.args[:2])))
    x, mask = (
        call(graph, ATEN.reshape.default, call(graph, ATEN.expand.default, arg, shape), [-1]) for arg in node.args[:2]
    )
    columns, conditions = _columns(graph, mask, *sizes)
    return call(graph, ATEN.index_select.default, x, 0, columns[0]), conditions


# ---- what is not there yet


def _unique(graph: torch.fx.Graph, node: Node, sizes: list[int]) -> Settled:
    """Values, the place of each element's value among them, how often each is there; of rows along a dimension the same."""
    x, dim = node.args[0], argument(node, "dim")
    (count,), shape, device = sizes, x.meta["val"].shape, x.meta["val"].device
    if dim is None:
        x = rows = call(graph, ATEN.reshape.default, x, [-1])
        columns = [rows]
    else:
        front = call(graph, ATEN.movedim.int, x, dim, 0)
        rows = call(graph, ATEN.reshape.default, front, [shape[dim], math.prod(front.meta["val"].shape[1:])])
        columns = [call(graph, ATEN.select.int, rows, 1, i) for i in range(rows.meta["val"].shape[1])]
    elements = rows.meta["val"].shape[0]
    places = list(shape) if dim is None else [elements]  # the shape of the second result
    if not elements:
        none = call(graph, ATEN.zeros.default, [0], dtype=torch.int64, device=device)
        return [x, call(graph, ATEN.reshape.default, none, places), none], []
    order = None
    if node.target != ATEN.unique_consecutive.default:
        order = _lexicographic(graph, columns)
        rows = call(graph, ATEN.index_select.default, rows, 0, order)
    others = call(
        graph,
        ATEN.ne.Tensor,
        call(graph, ATEN.slice.Tensor, rows, 0, 1, elements),
        call(graph, ATEN.slice.Tensor, rows, 0, 0, elements - 1),
    )
    if dim is not None:
        others = call(graph, ATEN.any.dim, others, 1)
    first = call(graph, ATEN.ones.default, [1], dtype=torch.bool, device=device)
    fresh = call(graph, ATEN.cat.default, [first, others])
    rank = _rank(graph, fresh)
    at = _places(graph, fresh, rank, count)
    end = call(graph, ATEN.full.default, [1], elements, dtype=torch.int64, device=device)
    ends = call(graph, ATEN.cat.default, [call(graph, ATEN.slice.Tensor, at, 0, 1, count), end])
    place, chosen = call(graph, ATEN.sub.Scalar, rank, 1), at
    if order is not None:
        place = call(graph, ATEN.scatter.src, call(graph, ATEN.zeros_like.default, place), 0, order, place)
        chosen = call(graph, ATEN.index_select.default, order, 0, at)
    results = [
        call(graph, ATEN.index_select.default, x, dim or 0, chosen),
        call(graph, ATEN.reshape.default, place, places),
        call(graph, ATEN.sub.Tensor, ends, at),
    ]
    return results, [call(graph, ATEN.eq.Scalar, _last(graph, rank), count)]


def _lexicographic(graph: torch.fx.Graph, columns: list[Node]) -> Node:
    """The order of rows by the first column, then by the second, …: sorted by each, the last first, as equal ones stay."""
    order: Node | None = None
    for column in reversed(columns):
        key = column if order is None else call(graph, ATEN.index_select.default, column, 0, order)
        step = _element(graph, call(graph, ATEN.sort.stable, key, stable=True), 1)
        order = step if order is None else call(graph, ATEN.index_select.default, order, 0, step)
    assert order is not None
    return order


def _element(graph: torch.fx.Graph, node: Node, index: int) -> Node:
    found = graph.call_function(operator.getitem, (node, index))
    found.meta["val"] = node.meta["val"][index]
    return found


# ---- how often


def _repeats(graph: torch.fx.Graph, repeats: Node, count: int) -> Settled:
    """Each place as often as `repeats` says there, `count` in all."""
    extent = repeats.meta["val"].shape[0]
    if not extent:
        return _range(graph, 0, repeats), []
    ends = call(graph, ATEN.cumsum.default, call(graph, ATEN.to.dtype, repeats, torch.int64), 0)
    marks = call(graph, ATEN.zeros.default, [count + 1], dtype=torch.int64, device=repeats.meta["val"].device)
    inside = call(graph, ATEN.clamp.default, ends, 0, count)
    marks = call(graph, ATEN.index_add.default, marks, 0, inside, call(graph, ATEN.ones_like.default, ends))
    places = call(graph, ATEN.slice.Tensor, call(graph, ATEN.cumsum.default, marks, 0), 0, 0, count)
    places = call(graph, ATEN.clamp.default, places, 0, extent - 1)
    fits = call(graph, ATEN.eq.Scalar, _last(graph, ends), count)
    return places, [fits, call(graph, ATEN.all.default, call(graph, ATEN.ge.Scalar, repeats, 0))]


def _repeat_interleave(graph: torch.fx.Graph, node: Node, sizes: list[int]) -> Settled:
    return _repeats(graph, node.args[0], *sizes)


def _repeat_elements(graph: torch.fx.Graph, node: Node, sizes: list[int]) -> Settled:
    x, dim = node.args[0], argument(node, "dim")
    if dim is None:
        x, dim = call(graph, ATEN.reshape.default, x, [-1]), 0
    extent = x.meta["val"].shape[dim]
    repeats = call(graph, ATEN.expand.default, call(graph, ATEN.reshape.default, node.args[1], [-1]), [extent])
    places, conditions = _repeats(graph, repeats, *sizes)
    return call(graph, ATEN.index_select.default, x, dim, places), conditions


def _bincount(graph: torch.fx.Graph, node: Node, sizes: list[int]) -> Settled:
    (count,), x, weights = sizes, node.args[0], argument(node, "weights")
    value = node.meta["val"]
    bins = call(graph, ATEN.zeros.default, [count], dtype=value.dtype, device=value.device)
    if not x.meta["val"].shape[0]:
        return bins, []
    index = call(graph, ATEN.to.dtype, x, torch.int64)
    if weights is None:
        added = call(graph, ATEN.ones_like.default, index)
    else:
        added = call(graph, ATEN.to.dtype, weights, value.dtype)
    most = call(graph, ATEN.clamp_min.default, call(graph, ATEN.amax.default, index), argument(node, "minlength") - 1)
    return call(graph, ATEN.index_add.default, bins, 0, index, added), [call(graph, ATEN.eq.Scalar, most, count - 1)]


# ---- torchvision

ROUNDS = 32  # of suppression: chains of boxes up to here, each of which loses to the one before


def _kept(boxes: torch.Tensor, scores: torch.Tensor, threshold: float) -> tuple[torch.Tensor, ...]:
    """The order by score; whether each box in this order is kept: no kept one before it overlaps it more than the threshold
    says. And whether this is so, which it is after as many rounds as there are boxes: what a round does not change is the
    answer, since each box depends on those before it alone."""
    order = torch.sort(scores, stable=True, dim=0, descending=True)[1]
    low, high = boxes.index_select(0, order).split(2, 1)
    area = (high - low).prod(1)
    sides = (torch.minimum(high[:, None], high) - torch.maximum(low[:, None], low)).clamp(min=0)
    inside = sides.prod(2)
    over = (inside / (area[:, None] + area - inside) > threshold).tril(-1)
    kept = torch.ones_like(order, dtype=torch.bool)
    for _ in range(min(ROUNDS, len(order))):
        kept = ~(over & kept).any(1)
    return order, kept, (kept == ~(over & kept).any(1)).all()


def _nms(graph: torch.fx.Graph, node: Node, sizes: list[int]) -> Settled:
    boxes, scores = node.args[:2]
    threshold = argument(node, "iou_threshold")
    if not scores.meta["val"].shape[0]:
        return _range(graph, 0, scores), []
    given = [boxes.meta["val"], scores.meta["val"]]
    body, _ = trace(lambda boxes, scores: _kept(boxes, scores, threshold), given)
    inputs = [inner for inner in body.graph.nodes if inner.op == "placeholder"]
    order, kept, settled = graph.graph_copy(body.graph, dict(zip(inputs, (boxes, scores), strict=True)))
    (count,), rank = sizes, _rank(graph, kept)
    at = _places(graph, kept, rank, count)
    found = call(graph, ATEN.index_select.default, order, 0, at)
    return found, [settled, call(graph, ATEN.eq.Scalar, _last(graph, rank), count)]


SOURCES: dict[str, Callable[[torch.fx.Graph, Node, list[int]], Settled]] = {
    "aten.nonzero.default": _nonzero,
    **dict.fromkeys(("aten.nonzero_numpy.default", "aten.where.default"), _nonzero_numpy),
    "aten.masked_select.default": _masked_select,
    **dict.fromkeys(map(str, READ | PUT), _indexed),
    **dict.fromkeys(("aten._unique2.default", "aten.unique_dim.default"), _unique),
    "aten.unique_consecutive.default": _unique,
    "aten.repeat_interleave.Tensor": _repeat_interleave,
    "aten.repeat_interleave.self_Tensor": _repeat_elements,
    "aten.bincount.default": _bincount,
    "torchvision.nms.default": _nms,
}
