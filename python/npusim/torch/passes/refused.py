"""What a traced program has that no operator stands for, with the lines of the model: sparse tensors, generators of random
numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.export.graph_signature import CustomObjArgument
from torch.utils import _pytree as pytree

from ...errors import Problem, UnsupportedError
from ..facts.aliases import parts_of
from ..facts.needed import find_needed
from ..facts.messages import place_of

GENERATOR = (
    "draws from a generator of its own, which is no part of a program: draw without it, and begin the sequence with "
    "session.seed(n)"
)


def refuse_by_line(program: torch.export.ExportedProgram) -> None:
    """Raises UnsupportedError with one problem for each line of the model."""
    specs = program.graph_signature.input_specs
    given = [node for node in program.graph.nodes if node.op == "placeholder"]
    objects = {node for node, spec in zip(given, specs, strict=True) if isinstance(spec.arg, CustomObjArgument)}
    weights = {node: spec.target for node, spec in zip(given, specs, strict=True) if spec.target is not None}
    problems: dict[Problem, None] = {}
    for part in parts_of(program.graph_module):
        needed = find_needed(part.graph)
        for node in (node for node in part.graph.nodes if node in needed and node.op in ("call_function", "placeholder")):
            for problem in _problems(node, objects, weights, needed):
                problems[problem] = None
    if problems:
        raise UnsupportedError(list(problems))


def _problems(
    node: torch.fx.Node, objects: set[torch.fx.Node], weights: dict[torch.fx.Node, str], needed: set[torch.fx.Node]
) -> Iterator[Problem]:
    if node.op == "placeholder":
        readers = [user for user in node.users if user in needed]
        if node in weights and readers and (layout := _sparse(node.meta.get("val"))):
            at = place_of(readers[0])
            yield Problem(f"weight '{weights[node]}'", f"{_why_not(layout)}{f', where {at} reads it' if at else ''}")
        return
    where = place_of(node) or f"node '{node.name}' ({node.target})"
    if objects.intersection(node.all_input_nodes) or any(isinstance(arg, torch.Generator) for arg in _leaves(node)):
        yield Problem(where, GENERATOR)
    if layout := _sparse(node.meta.get("val")):
        yield Problem(where, f"its result {_why_not(layout)}")


def _leaves(node: torch.fx.Node) -> list[Any]:
    return pytree.tree_leaves((node.args, node.kwargs))


def _sparse(value: Any) -> str:
    """The layout of what is not dense; "" where all is."""
    tensors = [one for one in pytree.tree_leaves(value) if isinstance(one, torch.Tensor)]
    return next((str(one.layout) for one in tensors if one.layout is not torch.strided), "")


def _why_not(layout: str) -> str:
    return f"is {layout}: expected a dense one with values"
