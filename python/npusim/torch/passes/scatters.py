"""Writes through several views of a tensor, `cache[0, :, 5:7] = x`, as one write: each view has become a copy of what it is
one of, with a part replaced."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from ..facts.rows import RESHAPES, call
from .strided import row_major

ATEN = torch.ops.aten
VIEW_OF = {
    ATEN.select_scatter.default: ATEN.select.int,
    ATEN.slice_scatter.default: ATEN.slice.Tensor,
    ATEN.diagonal_scatter.default: ATEN.diagonal.default,
}
# Of all elements.
WHOLE = {*RESHAPES, ATEN.permute.default, ATEN.transpose.int, ATEN.t.default, ATEN.unsqueeze.default, ATEN.squeeze.dim}
WHOLE |= {ATEN.squeeze.default, ATEN.squeeze.dims}
View = Callable[[torch.Tensor], torch.Tensor]


@dataclass
class Write:
    """`base` with the part that a view shows replaced by `source`. depth: how many views it went through."""

    base: torch.fx.Node
    source: torch.fx.Node
    view: View
    depth: int


def join_writes(graph: torch.fx.Graph) -> None:
    """Makes one write of those through several views where the part lies evenly in the tensor."""
    writes: dict[torch.fx.Node, Write] = {}
    for node in list(graph.nodes):
        found = _write(node, writes)
        if found is None:
            continue
        writes[node] = found
        if found.depth > 1 and (part := _part(found)) is not None:
            with graph.inserting_before(node):
                size, strides, first = list(part.shape), list(part.stride()), part.storage_offset()
                base = row_major(graph, found.base)
                one = call(graph, ATEN.as_strided_scatter.default, base, found.source, size, strides, first)
            node.replace_all_uses_with(one)
            writes[one] = found


def _write(node: torch.fx.Node, writes: dict[torch.fx.Node, Write]) -> Write | None:
    if node.target in VIEW_OF and not node.meta["val"].is_complex():
        base, source, *rest = node.args
        if not isinstance(source, torch.fx.Node) or node.kwargs or any(isinstance(n, torch.fx.Node) for n in rest):
            return None
        op = VIEW_OF[node.target]
        inner = writes.get(source)
        if inner is not None and inner.base.target == op and inner.base.args == (base, *rest):
            return Write(base, inner.source, lambda x: inner.view(op(x, *rest)), inner.depth + 1)
        return Write(base, source, lambda x: op(x, *rest), 1)
    inner = writes.get(node.args[0]) if node.target in WHOLE and isinstance(node.args[0], torch.fx.Node) else None
    if inner is None or inner.base.target not in WHOLE:
        return None
    there, back = _of(inner.base), _of(node)
    base = inner.base.args[0]
    value = _row_major(base)
    if value is None or (same := _tried(lambda: back(there(value)))) is None:
        return None
    if (same.shape, same.stride(), same.storage_offset()) != (value.shape, value.stride(), 0):
        return None
    return Write(base, inner.source, lambda x: inner.view(there(x)), inner.depth + 1)


def _of(node: torch.fx.Node) -> View:
    """What a view does."""
    op = ATEN.view.default if node.target in RESHAPES else node.target
    return lambda x: op(x, *node.args[1:], **node.kwargs)


def _row_major(node: torch.fx.Node) -> torch.Tensor | None:
    shape = node.meta["val"].shape
    return torch.empty(shape, device="meta") if all(isinstance(extent, int) for extent in shape) else None


def _part(write: Write) -> torch.Tensor | None:
    """Where it is in a row-major tensor."""
    value = _row_major(write.base)
    return None if value is None or not value.numel() else _tried(lambda: write.view(value))


def _tried(make: Callable[[], Any]) -> Any:
    try:
        return make()
    except (RuntimeError, TypeError):
        return None
