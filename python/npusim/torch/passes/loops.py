"""Loops that run as often as values say: as often as with the example arguments, which the program checks when it runs."""

from __future__ import annotations

import functools
import operator
from typing import Any

import torch
from torch.export.graph_signature import InputKind

from ...errors import Problem, UnsupportedError
from ..facts.bodies import insert, replace
from ..facts.checks import example_operands, hold
from ..facts.rows import call

ATEN = torch.ops.aten
MOST_ITERATIONS = 1000  # each is a copy of the body


def unroll_loops(program: torch.export.ExportedProgram, graph: torch.fx.Graph) -> list[str]:
    """Puts the iterations of each while_loop one behind the other. Gives what the graph is made for: iterations whose number
    arguments or the model's values decide.

    Raises UnsupportedError for a loop that does not end within MOST_ITERATIONS iterations."""
    if not any(map(_is_loop, graph.nodes)) or program.example_inputs is None:
        return []
    conditions: dict[str, list[torch.fx.Node]] = {}
    iterations: dict[str, int] = {}
    while loops := [node for node in graph.nodes if _is_loop(node)]:  # a body may have loops of its own
        found = _iterations(program, graph, loops)
        for node in loops:
            iterations[node.name] = found[node]
            conditions[node.name] = _unroll(graph, program.graph_module, node, found[node])
    open_ = _not_constant(program, graph)
    checks, made_for = [], []
    for name, truths in conditions.items():
        if decided := [truth for truth in truths if truth in open_]:
            made_for.append(f"{name} (while_loop): {iterations[name]} iterations")
            with graph.inserting_before(_behind(graph, decided)):
                checks.append(
                    (
                        f"{name}_iterations",
                        functools.reduce(functools.partial(call, graph, ATEN.logical_and.default), decided),
                    )
                )
    hold(graph, checks)
    return made_for


def _is_loop(node: torch.fx.Node) -> bool:
    return node.op == "call_function" and getattr(node.target, "__name__", "") == "while_loop"


def _iterations(
    program: torch.export.ExportedProgram, graph: torch.fx.Graph, loops: list[torch.fx.Node]
) -> dict[torch.fx.Node, int]:
    """How often the bodies run with the example arguments."""
    found: dict[torch.fx.Node, int] = {}

    class Run(torch.fx.Interpreter):
        def run_node(self, node: torch.fx.Node) -> Any:
            if node not in loops:
                return super().run_node(node)
            condition, body, carried, more = self.fetch_args_kwargs_from_env(node)[0]
            found[node] = 0
            while bool(condition(*carried, *more)):
                if found[node] == MOST_ITERATIONS:
                    raise UnsupportedError(
                        [
                            Problem(
                                f"node '{node.name}' (while_loop)",
                                f"takes more than {MOST_ITERATIONS} iterations for the example",
                            )
                        ]
                    )
                carried = body(*carried, *more)
                found[node] += 1
            return tuple(carried)

    Run(torch.fx.GraphModule(program.graph_module, graph)).run(*example_operands(program, graph))
    return found


def _unroll(
    graph: torch.fx.Graph, module: torch.fx.GraphModule, node: torch.fx.Node, iterations: int
) -> list[torch.fx.Node]:
    """Replaces the loop by so many iterations; what must be true for there to be no fewer and no more."""
    condition, body, carried, more = node.args
    truths: list[torch.fx.Node] = []
    with graph.inserting_before(node):
        for iteration in range(iterations + 1):
            (truth,) = insert(graph, module, condition, [*carried, *more])
            if isinstance(truth, torch.fx.Node):
                truth = call(graph, ATEN.reshape.default, truth, [])
                truths.append(truth if iteration < iterations else call(graph, ATEN.logical_not.default, truth))
            if iteration < iterations:
                carried = insert(graph, module, body, [*carried, *more])
    for user in list(node.users):
        assert user.target is operator.getitem
        replace(user, carried[user.args[1]])
        graph.erase_node(user)
    graph.erase_node(node)
    return truths


def _not_constant(program: torch.export.ExportedProgram, graph: torch.fx.Graph) -> set[torch.fx.Node]:
    """Nodes whose values are not the same in every run, whatever weights and arguments it is given."""
    kinds = [spec.kind for spec in program.graph_signature.input_specs]
    given = [node for node in graph.nodes if node.op == "placeholder"]
    found = {node for node, kind in zip(given, kinds, strict=True) if kind != InputKind.CONSTANT_TENSOR}
    for node in graph.nodes:
        if node.op != "placeholder" and any(arg in found for arg in node.all_input_nodes):
            found.add(node)
    return found


def _behind(graph: torch.fx.Graph, nodes: list[torch.fx.Node]) -> torch.fx.Node:
    """The place behind the last of them."""
    wanted = set(nodes)
    last = [node for node in graph.nodes if node in wanted][-1]
    return last.next
