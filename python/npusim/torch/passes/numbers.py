"""Numbers that a program reads from tensors whose values are its own, not an input's: put where they are used."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.export.graph_signature import InputKind

from ..facts.aliases import copied, rebuilt
from ..facts.needed import CONDITIONS, is_number_call
from ..functional.decompose import functionalised

ATEN = torch.ops.aten
READS = {ATEN.item.default, ATEN._local_scalar_dense.default}
Values = dict[torch.fx.Node, Any]


def settle_numbers(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """The program with each number that it reads from a tensor of its own, as `torch.arange(8).max().item()`, as what it
    is: shapes that such numbers decide are known then. The program itself where there is none."""
    if not _own_numbers(program, program.graph):
        return program
    module = copied(program.graph_module)
    for node, value in _own_numbers(program, module.graph).items():
        for user in list(node.users):
            user.args, user.kwargs = torch.fx.node.map_aggregate(
                (user.args, user.kwargs), lambda found, node=node, value=value: value if found is node else found
            )
    for node in reversed(module.graph.nodes):
        if str(node.target) in CONDITIONS and not node.all_input_nodes and node.args[0]:
            module.graph.erase_node(node)  # it holds
        elif (node.target in READS or is_number_call(node)) and not node.users:
            module.graph.erase_node(node)
    module.recompile()
    return retrace(program, module)


def retrace(program: torch.export.ExportedProgram, module: torch.fx.GraphModule) -> torch.export.ExportedProgram:
    """The program with this module's graph, every shape anew."""
    return functionalised(rebuilt(program, module))


def _own_numbers(program: torch.export.ExportedProgram, graph: torch.fx.Graph) -> Values:
    """The numbers read, and what is computed with them alone."""
    if not any(node.target in READS for node in graph.nodes):
        return {}
    specs = {spec.arg.name: spec for spec in program.graph_signature.input_specs}
    own: set[torch.fx.Node] = set()  # what is computed of constants alone
    for node in graph.nodes:
        constant = node.op == "placeholder" and specs[node.name].kind == InputKind.CONSTANT_TENSOR
        pure = _is_pure(node) and all(value in own for value in node.all_input_nodes)
        if constant or pure:
            own.add(node)
    wanted: set[torch.fx.Node] = set()  # the numbers read of these, and all that they are computed of
    for node in reversed(graph.nodes):
        if node in own and (node.target in READS or wanted.intersection(node.users)):
            wanted.add(node)
    values: Values = {}
    with torch.no_grad():
        for node in graph.nodes:  # in their order
            number = is_number_call(node) and any(value in values for value in node.all_input_nodes)
            if node in wanted or (number and all(value in values for value in node.all_input_nodes)):
                values[node] = _value(node, program, specs, values)
    return {node: value for node, value in values.items() if isinstance(value, (bool, int, float))}


def _is_pure(node: torch.fx.Node) -> bool:
    """Whether it gives the same whenever it is called."""
    if node.op != "call_function":
        return False
    if not isinstance(node.target, torch._ops.OpOverload):
        return node.target is operator.getitem or is_number_call(node)
    tags = node.target.tags
    return torch.Tag.nondeterministic_seeded not in tags and node.target.namespace == "aten"


def _value(node: torch.fx.Node, program: torch.export.ExportedProgram, specs: dict[str, Any], values: Values) -> Any:
    if node.op == "placeholder":
        return program.constants[specs[node.name].target]
    args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), lambda n: values[n])
    return node.target(*args, **kwargs)
