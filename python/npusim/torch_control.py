"""Control flow that stands in torch.export's graph as one call with graphs: both branches of a condition, the steps of a
scan, the rows of a map, each spelled out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from .torch_needed import find_memory, written
from .torch_ref import Ref, Refused

if TYPE_CHECKING:
    from .torch_graph import Graph

aten = torch.ops.aten
MOST_STEPS = 1024  # of a scan or a map, each of which becomes calls of its own


def spell_out(graph: Graph, node: torch.fx.Node) -> Any:
    """What such a call gives."""
    return CONTROL[node.target](graph, node)


def _condition(graph: Graph, node: torch.fx.Node) -> list[Any]:
    """Both branches are computed, and one is chosen: they change nothing and draw nothing."""
    predicate, first, second = (graph.operand(value) for value in node.args[:3])
    if not isinstance(predicate, Ref):
        raise Refused("its condition is no tensor")
    found = [_insert(graph, body, node.args[3]) for body in (first, second)]
    if predicate.tensor["shape"]:
        predicate = graph.emit(f"{node.name}_predicate", aten.view.default, predicate, [])
    return [graph.emit(node.name, aten.where.self, predicate, a, b) for a, b in zip(*found, strict=True)]


def _scan(graph: Graph, node: torch.fx.Node) -> list[Any]:
    """The body once for each step, with what the step before left."""
    body, carried, rows, rest = node.args
    states = [graph.operand(value) for value in carried]
    steps: list[list[Any]] = []
    for i in range(_length(graph, rows)):
        results = _insert(graph, graph.operand(body), [*states, *_rows(graph, node.name, rows, i), *rest])
        states, kept = results[: len(states)], results[len(states) :]
        steps.append(kept)
    return [*states, *_stacked(graph, node.name, steps)]


def _map(graph: Graph, node: torch.fx.Node) -> list[Any]:
    """The body once for each row."""
    body, rows, rest = node.args
    each = [
        _insert(graph, graph.operand(body), [*_rows(graph, node.name, rows, i), *rest])
        for i in range(_length(graph, rows))
    ]
    return _stacked(graph, node.name, each)


CONTROL = {
    torch.ops.higher_order.cond: _condition,
    torch.ops.higher_order.scan: _scan,
    torch.ops.higher_order.map_impl: _map,
}


def _insert(graph: Graph, body: Any, operands: Sequence[Any]) -> list[Any]:
    """A body's results, in the place of the call."""
    if not isinstance(body, torch.fx.GraphModule):
        raise Refused("its body is no graph")
    memory = find_memory(body.graph)
    for inner in body.graph.nodes:
        if any(root.op == "placeholder" for value in written(inner) for root in memory[value]):
            raise Refused(f"its body writes what it is given ('{inner.name}')")
        if torch.Tag.nondeterministic_seeded in getattr(inner.target, "tags", ()):
            raise Refused(f"its body draws random numbers ('{inner.name}')")
    results = list(graph.insert(body, operands))
    if not all(isinstance(result, Ref) for result in results):
        raise Refused("its body gives something else than real tensors")
    return results


def _length(graph: Graph, rows: Sequence[Any]) -> int:
    length = graph.operand(rows[0]).tensor["shape"][0] if rows else 0
    if not 0 < length <= MOST_STEPS:
        raise Refused(f"it has {length} steps: from 1 to {MOST_STEPS} are spelled out")
    return length


def _rows(graph: Graph, name: str, rows: Sequence[Any], i: int) -> list[Any]:
    return [graph.emit(f"{name}_row", aten.select.int, graph.operand(value), 0, i) for value in rows]


def _stacked(graph: Graph, name: str, steps: list[list[Any]]) -> list[Any]:
    return [graph.emit(name, aten.stack.default, list(values), 0) for values in zip(*steps, strict=True)]
