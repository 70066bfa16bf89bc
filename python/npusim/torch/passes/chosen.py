"""Rows at the places that a mask chooses, computed on and added where they came from or put there, as of experts that take
some of the tokens: `i = mask.nonzero(as_tuple=True)[0]; y.index_add_(0, i, f(x[i]))`. Every place is computed, and what
the mask does not choose adds nothing."""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from typing import Any

import torch

from ..facts.rows import RESHAPES, call, compute_whole, depends_on_values, find_chain, forget, is_same_shape
from .sources import coordinates

ATEN = torch.ops.aten
COLUMNS = {ATEN.where.default, ATEN.nonzero_numpy.default}
ADD = ATEN.index_add.default
PUT = ATEN.index_put.default
READS = {ATEN.index.Tensor, ATEN.index_select.default}
SHAPED = {*RESHAPES, ATEN.squeeze.dim}


@dataclass(frozen=True)
class Column:
    """The indices along one dimension of what a call finds in a mask."""

    call: torch.fx.Node
    dim: int


def spell_out_chosen(graph: torch.fx.Graph) -> None:
    """Spells out such work; other work stays as it is."""
    for node in list(graph.nodes):
        if _is_write(node):
            _replace(graph, node)


def _is_write(node: torch.fx.Node) -> bool:
    """Whether it adds or puts rows, whose number depends on values, at places that a mask chooses."""
    if node.target == ADD:
        return node.args[1] == 0 and depends_on_values(node.args[3]) and _column(node.args[2]) is not None
    if node.target != PUT or not isinstance(node.args[2], torch.fx.Node):
        return False
    return depends_on_values(node.args[2]) and len(node.args[1]) == 1 and _column(node.args[1][0]) is not None


def _column(node: Any) -> Column | None:
    """Of which mask's places it is the indices along which dimension."""
    if not isinstance(node, torch.fx.Node):
        return None
    if node.target is operator.getitem and node.args[0].target in COLUMNS:
        return Column(node.args[0], node.args[1])
    if node.target is operator.getitem and node.args[0].target == ATEN.unbind.int:
        found = node.args[0].args[0]
        along = node.args[0].args[1] if len(node.args[0].args) > 1 else 0
        return Column(found, node.args[1]) if found.target == ATEN.nonzero.default and along in (1, -1) else None
    if node.target == ATEN.select.int and node.args[1] in (1, -1) and node.args[0].target == ATEN.nonzero.default:
        return Column(node.args[0], node.args[2]) if node.args[2] >= 0 else None
    of = node.args[0] if node.args else None
    if node.target in SHAPED and isinstance(of, torch.fx.Node) and of.target == ATEN.nonzero.default:
        alone = of.args[0].meta["val"].dim() == 1 and node.meta["val"].dim() == 1
        return Column(of, 0) if alone else None
    return None


def _replace(graph: torch.fx.Graph, node: torch.fx.Node) -> None:
    adds = node.target == ADD
    values = node.args[3] if adds else node.args[2]
    to = _column(node.args[2] if adds else node.args[1][0])
    assert to is not None
    mask = to.call.args[0]
    shape = mask.meta["val"].shape
    accumulate = adds or (node.args[3] if len(node.args) > 3 else node.kwargs.get("accumulate", False))
    if depends_on_values(mask) or not (accumulate or len(shape) == 1) or not math.prod(shape):
        return

    def is_source(found: torch.fx.Node) -> bool | None:
        read = _read_of(found)
        if read is None:
            return False
        columns = [_column(index) for index in _indices(read) if index is not None]
        return all(column is not None and column.call is to.call for column in columns) or None

    chain = find_chain(values, 0, is_source)
    if chain is None:
        return
    with graph.inserting_before(to.call):
        chosen = call(graph, ATEN.reshape.default, mask, [-1])
        if chosen.meta["val"].dtype != torch.bool:
            chosen = call(graph, ATEN.ne.Scalar, chosen, 0)
        count = math.prod(shape)
        place = call(graph, ATEN.arange.default, count, dtype=torch.int64, device=mask.meta["val"].device)
        places = coordinates(graph, place, shape)

    def all_rows(found: torch.fx.Node) -> torch.fx.Node | None:
        read = _read_of(found)
        if read is None:
            return None
        at = [index if index is None else places[_column(index).dim] for index in _indices(read)]
        whole = call(graph, ATEN.index.Tensor, read.args[0], at)
        if found is read:
            return whole
        return call(graph, ATEN.reshape.default, whole, [count, *found.meta["val"].shape[1:]])

    whole = compute_whole(graph, chain, all_rows)
    if whole is None:
        return
    rows = whole[values]
    with graph.inserting_before(node):
        keep = call(graph, ATEN.reshape.default, chosen, [count, *(1 for _ in rows.meta["val"].shape[1:])])
        at = places[to.dim]
        if accumulate:
            other = call(graph, ATEN.zeros_like.default, rows)
        else:
            other = call(graph, ATEN.index.Tensor, node.args[0], [at])  # all of it, as it is
        if rows.meta["val"].shape != other.meta["val"].shape or rows.meta["val"].dtype != other.meta["val"].dtype:
            return
        rows = call(graph, ATEN.where.self, keep, rows, other)
        args = (node.args[0], 0, at, rows) if adds else (node.args[0], [at], rows, *node.args[3:])
        result = call(graph, node.target, *args, **node.kwargs)
    node.replace_all_uses_with(result)
    graph.erase_node(node)
    forget(graph, chain)


def _read_of(node: torch.fx.Node) -> torch.fx.Node | None:
    """The read at such places whose rows it has, along the first dimension; None where it has none."""
    if node.target in READS and depends_on_values(node):
        indices = _indices(node)
        if any(_column(index) is not None for index in indices) and indices[0] is not None:
            return node
    # What had dimensions of one before: `x[None, i].reshape(-1, n)`.
    of = node.args[0] if node.target in SHAPED else None
    if isinstance(of, torch.fx.Node) and of.target == ATEN.index.Tensor and depends_on_values(of):
        before, after = of.meta["val"].shape, node.meta["val"].shape
        first = next((d for d, index in enumerate(of.args[1]) if index is not None), 0)
        if first and _column(of.args[1][first]) is not None and len(of.args[1]) == first + 1:
            return of if is_same_shape(before, [*[1] * first, *after]) else None
    return None


def _indices(read: torch.fx.Node) -> list[Any]:
    if read.target == ATEN.index_select.default:
        return [None] * (read.args[1] % read.args[0].meta["val"].dim()) + [read.args[2]]
    return list(read.args[1])
