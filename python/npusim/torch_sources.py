"""Calls whose results have as many elements as values say, for sizes that are known: as calls of static shapes, and the
conditions under which the sizes are these."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch

from .torch_rows import argument, call, depends_on_values

ATEN = torch.ops.aten
Node = torch.fx.Node
Settled = tuple[Any, list[Node]]  # the result, or a list of results, and the conditions
READ = {ATEN.index.Tensor, ATEN._unsafe_index.Tensor}
PUT = {ATEN.index_put.default, ATEN.index_put_.default}


def is_source(node: Node) -> bool:
    """Whether values decide the size of its result, or of what it takes where a mask says so."""
    if node.target in READ:
        return any(_is_mask(index) for index in node.args[1])
    if node.target in PUT:
        return depends_on_values(node.args[2]) and any(_is_mask(index) for index in node.args[1])
    return node.target in SOURCES


def sizes_of(node: Node, args: Sequence[Any], result: Any) -> list[int]:
    """Those that a call had: of each mask, or of its result."""
    if node.target in READ | PUT:
        masks = [mask for mask, index in zip(args[1], node.args[1], strict=True) if _is_mask(index)]
        return [int(mask.count_nonzero()) for mask in masks]
    along = argument(node, "dim") or 0 if node.target == ATEN.repeat_interleave.self_Tensor else 0
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
    return SOURCES[node.target](graph, node, sizes)


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
    """Values, the place of each element's value among them, how often each is there."""
    flat = call(graph, ATEN.reshape.default, node.args[0], [-1])
    order = None
    if node.target == ATEN.unique_consecutive.default:
        if argument(node, "dim") is not None:
            raise NotImplementedError("unique_consecutive along a dimension")
        ordered = flat
    else:
        pair = call(graph, ATEN.sort.default, flat)
        ordered, order = (_element(graph, pair, i) for i in (0, 1))
    (count,), elements = sizes, flat.meta["val"].shape[0]
    device = flat.meta["val"].device
    if not elements:
        none = call(graph, ATEN.zeros.default, [0], dtype=torch.int64, device=device)
        return [flat, call(graph, ATEN.reshape.default, none, list(node.args[0].meta["val"].shape)), none], []
    others = call(
        graph,
        ATEN.ne.Tensor,
        call(graph, ATEN.slice.Tensor, ordered, 0, 1, elements),
        call(graph, ATEN.slice.Tensor, ordered, 0, 0, elements - 1),
    )
    first = call(graph, ATEN.ones.default, [1], dtype=torch.bool, device=device)
    fresh = call(graph, ATEN.cat.default, [first, others])
    rank = _rank(graph, fresh)
    at = _places(graph, fresh, rank, count)
    place = call(graph, ATEN.sub.Scalar, rank, 1)
    if order is not None:
        place = call(graph, ATEN.scatter.src, call(graph, ATEN.zeros_like.default, place), 0, order, place)
    end = call(graph, ATEN.full.default, [1], elements, dtype=torch.int64, device=device)
    ends = call(graph, ATEN.cat.default, [call(graph, ATEN.slice.Tensor, at, 0, 1, count), end])
    results = [
        call(graph, ATEN.index_select.default, ordered, 0, at),
        call(graph, ATEN.reshape.default, place, list(node.args[0].meta["val"].shape)),
        call(graph, ATEN.sub.Tensor, ends, at),
    ]
    return results, [call(graph, ATEN.eq.Scalar, _last(graph, rank), count)]


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


SOURCES: dict[Any, Callable[[torch.fx.Graph, Node, list[int]], Settled]] = {
    ATEN.nonzero.default: _nonzero,
    **dict.fromkeys((ATEN.nonzero_numpy.default, ATEN.where.default), _nonzero_numpy),
    ATEN.masked_select.default: _masked_select,
    **dict.fromkeys(READ | PUT, _indexed),
    ATEN._unique2.default: _unique,
    ATEN.unique_consecutive.default: _unique,
    ATEN.repeat_interleave.Tensor: _repeat_interleave,
    ATEN.repeat_interleave.self_Tensor: _repeat_elements,
    ATEN.bincount.default: _bincount,
}
