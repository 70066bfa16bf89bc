"""Counts of numbers, `torch.bincount`: the result has as many elements as the largest number says, which IR has no form
for, unless the program shows how many there are or how many are read."""

from __future__ import annotations

import operator
from typing import Any

import torch

from ..facts.aliases import copied
from ..facts.needed import CONDITIONS, is_number_call
from ..facts.rows import argument, call
from .numbers import retrace

ATEN = torch.ops.aten
ALONG = {ATEN.argmax, ATEN.argmin, ATEN.topk, ATEN.sort, ATEN.argsort, ATEN.max, ATEN.min, ATEN.kthvalue, ATEN.median}
SAME = {ATEN.view, ATEN.reshape, ATEN.flatten, ATEN.unsqueeze, ATEN.squeeze, ATEN.permute, ATEN.transpose, ATEN.t}
SAME |= {ATEN.select, ATEN.slice, ATEN.contiguous, ATEN.clone, ATEN.detach, ATEN.alias, ATEN.expand, ATEN.to}
SAME |= {ATEN._to_copy, ATEN.index, ATEN.index_select, ATEN.gather}


def settle_bins(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """The program with each count whose size it shows as a sum over bins of that many; the program itself where there is
    none."""
    if not any(_bins(node) for node in _counts(program.graph)):
        return program
    module = copied(program.graph_module)
    for node in _counts(module.graph):
        if bins := _bins(node):
            _replace(node, *bins)
    module.recompile()
    return retrace(program, module)


def _counts(graph: torch.fx.Graph) -> list[torch.fx.Node]:
    """Those whose size is not known."""
    return [
        node
        for node in graph.nodes
        if node.target == ATEN.bincount.default and not isinstance(node.meta["val"].shape[0], int)
    ]


def _bins(node: torch.fx.Node) -> tuple[int, bool] | None:
    """How many bins hold what is read, and whether there may be numbers beyond them; None where the program does not show
    it. A number beyond what a program promises is an index out of range when it runs."""
    least = argument(node, "minlength")
    if not isinstance(least, int):
        return None
    if (size := node.meta["val"].shape[0].node.maybe_as_int()) is not None:
        return size, False  # torch._check() says so
    if (limit := _limit(node.args[0])) is not None and limit <= least:
        return least, False
    if all(_reads_within(user, least) for user in node.users):
        return least, True
    return None


def _limit(x: Any) -> int | None:
    """What all elements are below; None where it is not known."""
    if not isinstance(x, torch.fx.Node):
        return None
    value = x.meta["val"]
    if value.dtype in (torch.bool, torch.uint8):
        return 2 if value.dtype == torch.bool else 256
    if value.dtype.is_floating_point:
        return None
    if x.target is operator.getitem:
        return _extent(x.args[0]) if x.args[1] == 1 else None
    packet = getattr(x.target, "_overloadpacket", None)
    if packet in (ATEN.argmax, ATEN.argmin, ATEN.argsort):
        return _extent(x)
    if packet in SAME and x.target != ATEN.view.dtype:  # which reads the bits as others
        return _limit(x.args[0])
    if packet in (ATEN.clamp, ATEN.clamp_max):
        most = argument(x, "max")
        return int(most) + 1 if isinstance(most, (int, float)) else _limit(x.args[0])
    if x.target == ATEN.remainder.Scalar and isinstance(x.args[1], int) and x.args[1] > 0:
        return x.args[1]
    return None


def _extent(node: torch.fx.Node) -> int | None:
    """Of the dimension that the indices which it gives are along."""
    if getattr(node.target, "_overloadpacket", None) not in ALONG:
        return None
    shape, dim = node.args[0].meta["val"].shape, argument(node, "dim")
    extent = node.args[0].meta["val"].numel() if dim is None else shape[dim] if shape else 1
    return extent if isinstance(extent, int) else None


def _reads_within(user: torch.fx.Node, least: int) -> bool:
    """Whether it reads the first `least` elements alone, or only asks how many there are, for a condition."""
    if user.target == ATEN.slice.Tensor:
        start, end, dim = argument(user, "start"), argument(user, "end"), argument(user, "dim")
        inside = isinstance(end, int) and 0 <= end <= least and isinstance(start or 0, int) and (start or 0) >= 0
        return inside and dim in (0, -1)
    if user.target == ATEN.sym_size.int or is_number_call(user):
        return all(_reads_within(other, least) for other in user.users)
    return str(user.target) in CONDITIONS


def _replace(node: torch.fx.Node, bins: int, beyond: bool) -> None:
    """Makes of the count a sum over bins, under its name."""
    graph, dtype, device = node.graph, node.meta["val"].dtype, node.meta["val"].device
    weights = argument(node, "weights")
    with graph.inserting_before(node):
        index = call(graph, ATEN.to.dtype, node.args[0], torch.int64)
        if beyond:  # in a bin more
            index = call(graph, ATEN.clamp.default, index, max=bins)
        if weights is None:
            value = call(graph, ATEN.ones_like.default, index)
        else:
            value = call(graph, ATEN.to.dtype, weights, dtype)
        zeros = call(graph, ATEN.zeros.default, [bins + beyond], dtype=dtype, device=device)
    node.target, node.args, node.kwargs = ATEN.index_add.default, (zeros, 0, index, value), {}
    node.meta["val"] = zeros.meta["val"]
