"""Elements and slices at places that are read from tensors: gathered by index, and put there by it.

`x[i]`, `x[:, i : i + 4]` and `torch.narrow(x, 0, i, 4)` with a number i that is read from a tensor decide no shape, so that
the program holds for every i. As views of x they have no form in IR, whose views lie where they are told at compile time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sympy
import torch

from ..facts.rows import argument, call

ATEN = torch.ops.aten
ELEMENTS = {ATEN.select.int, ATEN.select_scatter.default}
SLICES = {ATEN.slice.Tensor, ATEN.slice_scatter.default}


@dataclass
class Place:
    """A part of `base` along `dim` from the number `start` on: one element, without the dimension, or `count` of them."""

    base: torch.fx.Node
    dim: int
    start: torch.fx.Node
    count: int | None


def find_place(node: torch.fx.Node) -> Place | None:
    """What the call reads or replaces, if a number says where and none says how long it is."""
    if node.target not in ELEMENTS | SLICES:
        return None
    base, dim = node.args[0], argument(node, "dim")
    start = argument(node, "index" if node.target in ELEMENTS else "start")
    if not isinstance(start, torch.fx.Node) or not isinstance(dim, int):
        return None
    dim %= base.meta["val"].dim()
    if not isinstance(base.meta["val"].shape[dim], int):
        return None
    if node.target in ELEMENTS:
        return Place(base, dim, start, None)
    count = _distance(start, argument(node, "end"))
    return Place(base, dim, start, count) if count is not None and argument(node, "step") == 1 else None


def _distance(start: torch.fx.Node, end: Any) -> int | None:
    """How many there are from one number, which is not negative, to another, where that is the same for all values."""
    numbers = [value.meta.get("val") if isinstance(value, torch.fx.Node) else None for value in (start, end)]
    if not all(isinstance(number, torch.SymInt) for number in numbers):
        return None
    first, last = (number.node.expr for number in numbers)
    distance = last - first
    if len(first.free_symbols) == 1:  # what narrow() says of places from the end falls away
        (number,) = first.free_symbols
        at = sympy.Dummy(integer=True, nonnegative=True)
        distance = distance.subs(number, at - (first - number))
    distance = distance.expand()
    return int(distance) if distance.is_Integer and distance > 0 else None


def _first_of_slice(
    graph: torch.fx.Graph, start: torch.fx.Node, count: int, extent: int
) -> tuple[torch.fx.Node, torch.fx.Node]:
    """Where x[start : start + count] begins, and whether it has all `count` elements: numbers that are negative count from
    the end, so both of them are, or none."""
    behind = call(graph, ATEN.ge.Scalar, start, 0)
    fits = call(graph, ATEN.logical_and.default, behind, call(graph, ATEN.le.Scalar, start, extent - count))
    above, below = call(graph, ATEN.ge.Scalar, start, -extent), call(graph, ATEN.lt.Scalar, start, -count)
    fits = call(graph, ATEN.logical_or.default, fits, call(graph, ATEN.logical_and.default, above, below))
    return call(graph, ATEN.where.self, behind, start, call(graph, ATEN.add.Scalar, start, extent)), fits


def settle_place(
    graph: torch.fx.Graph, node: torch.fx.Node, place: Place, start: torch.fx.Node
) -> list[torch.fx.Node]:
    """Puts a gather in the place of a view, and a write by index in the place of what replaces one. Gives conditions on
    `start`, a tensor of one that is the number."""
    writes = node.target in (ATEN.select_scatter.default, ATEN.slice_scatter.default)
    with graph.inserting_before(node):
        index = start if start.meta["val"].dtype == torch.int64 else call(graph, ATEN.to.dtype, start, torch.int64)
        if place.count is None:  # one index counts from the end where it is negative, as select does
            at = [None] * place.dim + [index]
            if writes:
                part = call(graph, ATEN.index_put.default, place.base, at, node.args[1])
            else:
                part = call(graph, ATEN.index.Tensor, place.base, at)
            conditions = []
        else:
            extent = place.base.meta["val"].shape[place.dim]
            index, condition = _first_of_slice(graph, index, place.count, extent)
            conditions = [condition]
            steps = call(graph, ATEN.arange.default, place.count, device=torch.device("cpu"))
            index = call(graph, ATEN.add.Tensor, steps, index)
            if writes:
                part = call(graph, ATEN.index_copy.default, place.base, place.dim, index, node.args[1])
            else:
                part = call(graph, ATEN.index_select.default, place.base, place.dim, index)
    node.replace_all_uses_with(part)
    return conditions
