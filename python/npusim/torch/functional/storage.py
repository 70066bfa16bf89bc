"""resize_, resize_as_ and as_strided_ as what they do to memory: the tensor becomes another view of its storage, which the
first two may enlarge."""

from __future__ import annotations

import math
from typing import Any

import torch

from ...errors import Problem, UnsupportedError
from ..facts.aliases import RESIZES, check_reshaped, copied, is_written, memory_of, owner_of, parts_of, rebuilt, reshapes
from ..facts.levels import innermost
from ..facts.rows import call

ATEN = torch.ops.aten
Node = torch.fx.Node


def with_views_for_resizes(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """The program with views in place of what is resized; the program itself where nothing is. PyTorch's functionalisation
    takes what is resized for dense and row-major, and addresses what was written behind as_strided_ by the strides that it had
    before. Raises UnsupportedError."""
    if not any(_resizes(node) for part in parts_of(program.graph_module) for node in part.graph.nodes):
        return program
    check_reshaped(program)
    module = copied(program.graph_module)
    arguments = {*program.graph_signature.user_inputs}
    for part in parts_of(module):
        held: dict[int, int] = {}  # by storage: how many elements it has, where it was enlarged
        for node in [node for node in part.graph.nodes if _resizes(node)]:
            _check_argument(node, arguments)
            with part.graph.inserting_before(node):
                _show(part.graph, node, held)
    module.recompile()
    return rebuilt(program, module)


def _resizes(node: Node) -> bool:
    return node.target in RESIZES or node.target == ATEN.as_strided_.default


def _check_argument(node: Node, arguments: set[Any]) -> None:
    """PyTorch's decompositions lose an argument that is not row-major where it is resized itself."""
    given = node.args[0]
    if node.target in RESIZES and isinstance(given, Node) and given.name in arguments and not innermost(given.meta["val"]).is_contiguous():
        if reshapes(node):
            raise _refused(node, f"resizes argument '{given.name}', which is not row-major; what helps: resize_ of a clone()")


def _show(graph: torch.fx.Graph, node: Node, held: dict[int, int]) -> None:
    """Makes a view of a call. What the tracer says of its result is what eager PyTorch has: the strides of before, where the
    extents are those of before, else those of a row-major tensor or of the memory format that is asked for."""
    value = innermost(node.meta["val"])
    if not reshapes(node):
        node.target, node.args, node.kwargs = ATEN.alias.default, node.args[:1], {}
        return
    owner = owner_of(node.args[0])
    whole = innermost(owner.meta["val"])
    size, strides, first = list(value.shape), list(value.stride()), value.storage_offset()
    if not all(isinstance(number, int) for number in (*size, *strides, first, *whole.shape, *whole.stride())):
        raise _refused(node, "resizes to extents, or at a place, that depend on values; what helps: extents that do not")
    if whole.dtype != value.dtype:
        what = f"resizes a view as {value.dtype} of '{owner.name}', which is {whole.dtype}"
        raise _refused(node, f"{what}; what helps: clone() of that view")
    memory = memory_of(whole)
    before, after = held.get(memory, _end(whole)), _end(value)
    if after > before and node.target not in RESIZES:
        raise _refused(node, f"addresses memory that '{owner.name}' does not show")
    if after > before:
        owner = _enlarged(graph, node, owner, before, after)
        held[memory] = after
    node.target, node.args, node.kwargs = ATEN.as_strided.default, (owner, size, strides, first), {}


def _enlarged(graph: torch.fx.Graph, node: Node, owner: Node, before: int, after: int) -> Node:
    """A storage of more elements, which begins with those of before: eager PyTorch leaves the others as they come."""
    if owner.op == "placeholder":
        what = f"makes '{owner.name}' larger than the {before} elements that it has in memory"
        raise _refused(node, f"{what}, and what is behind them is not known; what helps: resize_ of a clone()")
    if others := _shown_elsewhere(node):
        what = f"makes memory larger that {', '.join(map(repr, others))} shows too, and something is written there"
        raise _refused(node, f"{what}; what helps: resize_ of a clone()")
    value = node.meta["val"]
    more = call(graph, ATEN.zeros.default, [after - before], dtype=value.dtype, device=value.device)
    if before:
        flat = call(graph, ATEN.as_strided.default, owner, [before], [1], 0)
        more = call(graph, ATEN.cat.default, [flat, more])
    with torch._guards.detect_fake_mode([innermost(value)]) or torch.no_grad():
        more.meta["val"] = value.as_strided([after], [1], 0)  # so that owner_of() finds it behind what is made of it
    return more


def _shown_elsewhere(node: Node) -> list[str]:
    """Values of before that show a tensor's memory and are used later, where one of them or the tensor is written."""
    memory, place = memory_of(innermost(node.meta["val"])), {other: i for i, other in enumerate(node.graph.nodes)}
    shown = [
        other
        for other in node.graph.nodes
        if place[other] < place[node]
        and any(place[user] > place[node] for user in other.users)
        and any(memory_of(innermost(value)) == memory for value in _tensors(other))
    ]
    return [other.name for other in shown] if is_written(node) or any(map(is_written, shown)) else []


def _tensors(node: Node) -> list[torch.Tensor]:
    values = torch.utils._pytree.tree_leaves(node.meta.get("val"))
    return [value for value in values if isinstance(value, torch.Tensor)]


def _end(value: torch.Tensor) -> int:
    """Behind the last element of its storage that a value shows."""
    if not math.prod(value.shape):
        return 0
    return value.storage_offset() + 1 + sum((n - 1) * stride for n, stride in zip(value.shape, value.stride(), strict=True))


def _refused(node: Node, what: Any) -> UnsupportedError:
    return UnsupportedError([Problem(f"node '{node.name}' ({node.target})", what)])
