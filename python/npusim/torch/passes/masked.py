"""Writes of elements that a mask chooses, `x[m] = f(y[m])`: every element is computed, and the mask decides which to keep.

What a mask chooses has a shape that depends on values, which IR has no form for; what is done with all of it has none."""

from __future__ import annotations

from typing import Any

import torch

from ..facts.rows import call, compute_whole, depends_on_values, find_chain, forget

ATEN = torch.ops.aten
PUT = ATEN.index_put.default
SCATTER = ATEN.masked_scatter.default
VIEWS = {ATEN.slice.Tensor, ATEN.select.int, ATEN.unsqueeze.default, ATEN.alias.default}


def spell_out_masks(graph: torch.fx.Graph) -> None:
    """Spells out such writes; others stay as they are."""
    for node in list(graph.nodes):
        if node.op != "call_function" or node.target not in (PUT, SCATTER):
            continue
        given = node.args
        node.args = torch.fx.node.map_arg(given, _copied)
        if not _is_write(node) or not _replace(graph, node):
            node.args = given


def _copied(node: torch.fx.Node) -> torch.fx.Node:
    """What a copy is of: nothing writes into either."""
    return _copied(node.args[0]) if node.target == ATEN.clone.default else node  # type: ignore[arg-type]


def _is_write(node: torch.fx.Node) -> bool:
    """Whether it writes, where a mask says so, values that may be those that a mask has chosen."""
    values = node.args[2]
    return (
        isinstance(values, torch.fx.Node)
        and depends_on_values(values)
        and (node.target == SCATTER or _mask_of(node.args[1]) is not None)
    )


def _mask_of(indices: Any) -> tuple[int, torch.fx.Node] | None:
    """The only index, a mask, and its place among the dimensions."""
    given = [(i, index) for i, index in enumerate(indices) if index is not None]
    if len(given) != 1 or not isinstance(given[0][1], torch.fx.Node):
        return None
    value = given[0][1].meta.get("val")
    return given[0] if isinstance(value, torch.Tensor) and value.dtype == torch.bool else None


def _replace(graph: torch.fx.Graph, node: torch.fx.Node) -> bool:
    """Spells out a write; whether it can be."""
    x, _, values = node.args[:3]
    shape = x.meta["val"].shape
    found = _chain(node)
    if found is None or values.meta["val"].dtype != x.meta["val"].dtype:
        return False
    chain, place, mask = found
    def all_rows(chosen: torch.fx.Node) -> torch.fx.Node | None:
        return chosen.args[0] if chosen.target == ATEN.index.Tensor else None

    whole = compute_whole(graph, chain, all_rows)
    if whole is None or whole[values].meta["val"].shape != shape:
        return False
    accumulate = node.args[3] if len(node.args) > 3 else node.kwargs.get("accumulate", False)
    with graph.inserting_before(node):
        for _ in range(len(shape) - place - mask.meta["val"].dim()):
            mask = call(graph, ATEN.unsqueeze.default, mask, -1)
        value = call(graph, ATEN.add.Tensor, x, whole[values]) if accumulate else whole[values]
        value = call(graph, ATEN.where.self, mask, value, x)
    node.replace_all_uses_with(value)
    graph.erase_node(node)
    forget(graph, chain)
    return True


def _chain(node: torch.fx.Node) -> tuple[list[torch.fx.Node], int, torch.fx.Node] | None:
    """The nodes that compute the values of a write from what its mask chooses; the mask and its place among the
    dimensions of what is written. None where something else is done."""
    x, where, values = node.args[:3]
    shape = x.meta["val"].shape
    chosen = _mask_of(where) if node.target == PUT else _first_choice(values)
    if chosen is None or (node.target == SCATTER and not (chosen[0] == 0 and _covers(where, chosen[1], shape))):
        return None
    place, mask = chosen
    covered = place + mask.meta["val"].dim()

    def is_source(found: torch.fx.Node) -> bool | None:
        if found.target != ATEN.index.Tensor:
            return False
        other = _mask_of(found.args[1])
        same = other is not None and other[0] == place and _same(other[1], mask)
        return (same and found.args[0].meta["val"].shape[:covered] == shape[:covered]) or None

    chain = find_chain(values, place, is_source)
    return (chain, place, mask) if chain else None


def _first_choice(values: torch.fx.Node) -> tuple[int, torch.fx.Node] | None:
    """The mask that chooses what values are computed of, and its place."""
    while values.target != ATEN.index.Tensor:
        of = [arg for arg in values.all_input_nodes if depends_on_values(arg)]
        if not of:
            return None
        values = of[0]
    return _mask_of(values.args[1])


def _covers(wide: torch.fx.Node, mask: torch.fx.Node, shape: torch.Size) -> bool:
    """Whether a mask is another one, of the first dimensions of `shape`, for all elements of the others."""
    if wide.meta["val"].dim() == len(shape) > mask.meta["val"].dim():
        return mask.meta["val"].shape == shape[: mask.meta["val"].dim()] and _is_widened(wide, mask)
    return wide.meta["val"].shape == shape and _same(wide, mask)


def _is_widened(wide: Any, mask: Any) -> bool:
    """Whether it is this mask, or computed alike of the same, with dimensions added behind that do not change it."""
    if _same(wide, mask):
        return True
    if not isinstance(wide, torch.fx.Node) or not isinstance(mask, torch.fx.Node) or wide.op != "call_function":
        return False
    rank = wide.meta["val"].dim()
    if rank <= mask.meta["val"].dim():
        return False
    if wide.target == ATEN.unsqueeze.default:
        return wide.args[1] in (-1, rank - 1) and _is_widened(wide.args[0], mask)
    if wide.target == ATEN.expand.default:
        inner = wide.args[0]
        kept = inner.meta["val"].dim() == rank and inner.meta["val"].shape[: mask.meta["val"].dim()]
        return kept == mask.meta["val"].shape and _is_widened(inner, mask)
    alike = wide.target == mask.target and _is_part(mask) and wide.target not in VIEWS
    alone = len(wide.all_input_nodes) == len(mask.all_input_nodes) == 1
    rest = (wide.args[1:], wide.kwargs) == (mask.args[1:], mask.kwargs)
    return alike and alone and rest and _is_widened(wide.args[0], mask.args[0])


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
        return _same(a.args, b.args) and _same(a.kwargs, b.kwargs)
    if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)):
        return len(a) == len(b) and all(_same(x, y) for x, y in zip(a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    return not isinstance(a, torch.fx.Node) and not isinstance(b, torch.fx.Node) and type(a) is type(b) and a == b
