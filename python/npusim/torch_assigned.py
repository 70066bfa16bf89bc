"""Buffers that a model assigns anew: what shows their old values goes on to show them, and what dynamo drops is told."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch.export.graph_signature import TensorArgument

from .errors import Problem, UnsupportedError
from .torch_aliases import ATEN, copied, rebuilt


def check_assigned(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Refuses, for strict=True, a model whose forward() assigns buffers: dynamo drops that without a word. It runs once, in
    eager PyTorch, with copies of the buffers and of the arguments."""
    buffers = {name: value.detach().clone() for name, value in model.named_buffers()}
    if not buffers:
        return
    assigned: list[str] = []

    def look(module: torch.nn.Module, *_: Any) -> None:
        now = dict(module.named_buffers())
        assigned.extend(name for name, value in buffers.items() if now.get(name) is not value)

    hook = model.register_forward_hook(look)
    try:
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            args, kwargs = copy.deepcopy((args, kwargs))
            torch.func.functional_call(model, buffers, args, kwargs)
    except Exception:  # torch.export ends there too, and says where
        return
    finally:
        hook.remove()
    if assigned:
        what = "is assigned by forward(), which torch.export drops with strict=True: expected strict=False, or copy_()"
        raise UnsupportedError([Problem(f"buffer '{name}'", what) for name in assigned])


def with_old_values(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """torch.export writes `self.b = value` as a copy into the buffer, behind all else. What the model had of the buffer
    before, and returns or assigns to another one, would be the new value then: it is copied before."""
    if not _assignments(program.graph):
        return program
    module, signature = copied(program.graph_module), copy.deepcopy(program.graph_signature)
    graph = module.graph
    assignments, output = _assignments(graph), graph.output_node()
    given = {node.args[0] for node in assignments}
    shown = _shown(graph)
    old: dict[torch.fx.Node, torch.fx.Node] = {}

    def before(node: torch.fx.Node) -> torch.fx.Node:
        if not shown.get(node, set()) & given:
            return node
        if node not in old:
            with graph.inserting_before(assignments[0]):
                old[node] = graph.call_function(ATEN.clone.default, (node,))
            old[node].meta = dict(node.meta)
        return old[node]

    for node in assignments:
        node.args = (node.args[0], torch.fx.node.map_arg(node.args[1], before))
    output.args = torch.fx.node.map_arg(output.args, before)
    names = {node.name: clone.name for node, clone in old.items()}
    for spec in signature.output_specs:
        if isinstance(spec.arg, TensorArgument) and spec.arg.name in names:
            spec.arg = TensorArgument(name=names[spec.arg.name])
    module.recompile()
    return rebuilt(program, module, graph_signature=signature)


def _assignments(graph: torch.fx.Graph) -> list[torch.fx.Node]:
    """The copies before the end that torch.export has added, in their order; those that a model calls have other names."""
    found: list[torch.fx.Node] = []
    for node in reversed([*graph.nodes][:-1]):
        added = node.target == ATEN.copy_.default and node.name.startswith("copy__default") and not node.users
        if not added or node.args[0].op != "placeholder":
            break
        found.append(node)
    return found[::-1]


def _shown(graph: torch.fx.Graph) -> dict[torch.fx.Node, set[torch.fx.Node]]:
    """The placeholders whose memory a node may show."""
    shown: dict[torch.fx.Node, set[torch.fx.Node]] = {}
    for node in graph.nodes:
        if node.op == "placeholder":
            shown[node] = {node}
        elif node.op == "call_function":
            op = node.target
            views = not isinstance(op, torch._ops.OpOverload) or any(one.alias_info for one in op._schema.returns)
            if views:
                shown[node] = set().union(*(shown.get(operand, set()) for operand in node.all_input_nodes))
    return shown
