"""A tensor that is split by sizes which depend on values, each piece computed on, all put together again: every row is
computed as a row of each piece, and its place decides which to keep.

`torch.cat([f(piece) for f, piece in zip(functions, x.split(sizes))])`, as of tokens that are sorted by their experts."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch

from ..facts.needed import is_number_call
from ..facts.rows import call, compute_whole, depends_on_values, find_chain, forget

ATEN = torch.ops.aten
SPLITS = {ATEN.split_with_sizes.default, ATEN.split.sizes}
READS = {ATEN.item.default, ATEN._local_scalar_dense.default}


def spell_out_pieces(graph: torch.fx.Graph) -> None:
    """Spells out such pieces; others stay as they are."""
    settled: set[torch.fx.Node] = set()  # whose shapes are known now
    numbers: dict[Any, list[torch.fx.Node]] = {}  # by what they are, the nodes that compute them
    for node in graph.nodes:
        if isinstance(value := node.meta.get("val"), torch.SymInt):
            numbers.setdefault(_expression(value), []).append(node)
    for node in list(graph.nodes):
        if _is_put_together(node):
            value = _all_rows(graph, node)
            if value is not None:
                rows = node.meta["val"].shape[0]  # the sum of the sizes: a tensor is split by all of it
                for number in numbers.get(_expression(rows), ()):
                    _become(graph, number, value.meta["val"].shape[0])
                node.replace_all_uses_with(value)
                graph.erase_node(node)
                settled.add(value)
        elif settled.intersection(node.all_input_nodes):
            _settle(graph, node)
            settled.add(node)


def _is_put_together(node: torch.fx.Node) -> bool:
    return (
        node.target == ATEN.cat.default
        and depends_on_values(node)
        and (node.args[1] if len(node.args) > 1 else node.kwargs.get("dim", 0)) == 0
        and all(isinstance(part, torch.fx.Node) and depends_on_values(part) for part in node.args[0])
    )


def _all_rows(graph: torch.fx.Graph, node: torch.fx.Node) -> torch.fx.Node | None:
    """What is put together, computed of all rows; None where it is no row by row work on all pieces in their order."""
    parts = node.args[0]
    sizes = _sizes_of(parts[0])
    if sizes is None or len(sizes) != len(parts) or len({part.meta["val"].dtype for part in parts}) > 1:
        return None
    found = []
    for i, part in enumerate(parts):
        chain = find_chain(part, 0, lambda n, i=i: _is_piece(n, i, sizes))
        if chain is None:
            return None
        whole = compute_whole(graph, chain, lambda n: n.args[0].args[0] if n.target is operator.getitem else None)
        if whole is None:
            return None
        forget(graph, chain)
        found.append(whole[part])
    shapes = {tuple(all_rows.meta["val"].shape) for all_rows in found}
    ends = _ends(graph, node, sizes[:-1])
    if len(shapes) > 1 or ends is None:
        return None
    value = found.pop()
    (rows, *row) = shapes.pop()
    with graph.inserting_before(node):
        place = call(graph, ATEN.arange.default, rows, dtype=torch.int64, device=value.meta["val"].device)
        place = call(graph, ATEN.view.default, place, [rows, *(1 for _ in row)])
        for all_rows, end in zip(reversed(found), reversed(ends), strict=True):
            below = ATEN.lt.Tensor if isinstance(end, torch.fx.Node) else ATEN.lt.Scalar
            value = call(graph, ATEN.where.self, call(graph, below, place, end), all_rows, value)
    return value


def _sizes_of(part: torch.fx.Node) -> Sequence[Any] | None:
    """Those of the pieces that it is computed of."""
    while part.target not in SPLITS:
        of = [arg for arg in part.all_input_nodes if depends_on_values(arg) or arg.target in SPLITS]
        if not of:
            return None
        part = of[0]
    return part.args[1]


def _is_piece(node: torch.fx.Node, i: int, sizes: Sequence[Any]) -> bool | None:
    """Whether it is the i-th piece of a tensor that is split by these sizes; None: another one."""
    if node.target is not operator.getitem:
        return False
    split = node.args[0]
    along = split.args[2] if len(split.args) > 2 else split.kwargs.get("dim", 0)
    if split.target not in SPLITS or along != 0 or node.args[1] != i:
        return None
    same = split.args[1] is sizes or list(split.args[1]) == list(sizes)
    return (same and not depends_on_values(split.args[0])) or None


def _ends(graph: torch.fx.Graph, node: torch.fx.Node, sizes: Sequence[Any]) -> list[Any] | None:
    """Where pieces end: numbers, or tensors of one, before a node; None where a size is no number that the program reads."""
    ends: list[Any] = []
    for size in sizes:
        if isinstance(size, torch.fx.Node):
            if size.target not in READS or size.args[0].meta["val"].dtype not in (torch.int64, torch.int32):
                return None
            with graph.inserting_before(size):
                size = call(graph, ATEN.reshape.default, size.args[0], [])
        with graph.inserting_before(node):
            ends.append(_sum(graph, ends[-1], size) if ends else size)
    return ends


def _sum(graph: torch.fx.Graph, a: Any, b: Any) -> Any:
    if isinstance(a, torch.fx.Node) or isinstance(b, torch.fx.Node):
        return call(graph, ATEN.add.Tensor, *((a, b) if isinstance(a, torch.fx.Node) else (b, a)))
    return a + b


def _expression(number: Any) -> Any:
    """What a number is that the tracer does not know."""
    return getattr(getattr(number, "node", None), "expr", number)


def _settle(graph: torch.fx.Graph, node: torch.fx.Node) -> None:
    """Its shape anew, of operands whose shapes are known now; what asks for an extent becomes the number."""
    value = torch.fx.node.map_arg((node.args, node.kwargs), lambda n: n.meta.get("val"))
    if node.target == ATEN.sym_size.int:
        _become(graph, node, value[0][0].shape[value[0][1]])
    elif node.target is operator.getitem or isinstance(node.target, torch._ops.OpOverload):
        node.meta["val"] = node.target(*value[0], **value[1])


def _become(graph: torch.fx.Graph, node: torch.fx.Node, number: Any) -> None:
    if not isinstance(number, int):
        return
    for user in list(node.users):
        user.args, user.kwargs = torch.fx.node.map_aggregate(
            (user.args, user.kwargs), lambda found: number if found is node else found
        )
        if is_number_call(user) and not user.all_input_nodes:
            _become(graph, user, user.target(*user.args, **user.kwargs))
