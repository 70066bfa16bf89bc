"""What a program that is made for its example checks when it runs."""

from __future__ import annotations

import re
from typing import Any

import torch
from torch.export.graph_signature import ExportGraphSignature, InputKind, OutputKind
from torch.utils import _pytree as pytree

from ...errors import Problem, UnsupportedError
from .aliases import copied, rebuilt
from .rows import call

ATEN = torch.ops.aten
ASSERTIONS = {ATEN._assert_async.default, ATEN._assert_async.msg}
for assertion in ASSERTIONS:
    torch.fx.node.has_side_effect(assertion)  # or export drops that without a message, whose result nobody reads
NAMED = 3  # checks that the last one is named by
WORDS = 12  # of an assertion's message


def example_operands(program: torch.export.ExportedProgram, graph: torch.fx.Graph) -> list[Any]:
    """Of the graph's placeholders, with the example arguments."""
    given = iter(pytree.tree_leaves(program.example_inputs))
    found: list[Any] = []
    nodes = [node for node in graph.nodes if node.op == "placeholder"]
    for _, spec in zip(nodes, program.graph_signature.input_specs, strict=True):
        if spec.kind == InputKind.USER_INPUT:
            found.append(next(given))
        else:
            found.append(program.state_dict.get(spec.target, program.constants.get(spec.target)))
    return found


def without_tokens(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """The program without_effects(), and without the tokens in its signature."""
    given = program.graph_signature
    if not any(spec.kind == InputKind.TOKEN for spec in given.input_specs):
        return program
    module = copied(program.graph_module)
    without_effects(module.graph)
    inputs = [spec for spec in given.input_specs if spec.kind != InputKind.TOKEN]
    outputs = [spec for spec in given.output_specs if spec.kind != OutputKind.TOKEN]
    returned = module.graph.output_node()
    kept = zip(given.output_specs, returned.args[0], strict=True)
    returned.args = (tuple(value for spec, value in kept if spec.kind != OutputKind.TOKEN),)
    nodes = [node for node in module.graph.nodes if node.op == "placeholder"]
    for node, spec in zip(nodes, given.input_specs, strict=True):
        if spec.kind == InputKind.TOKEN:
            module.graph.erase_node(node)
    module.recompile()
    return rebuilt(program, module, graph_signature=ExportGraphSignature(inputs, outputs))


def without_effects(graph: torch.fx.Graph) -> list[torch.fx.Node]:
    """Puts assertions of tensors in the place of what a factorisation checks of itself, which PyTorch has in an order that
    tokens keep, and None where the graph gives a token. Returns the tokens that it is given, which nothing reads any more.
    Raises UnsupportedError for other calls with effects."""
    tokens: list[torch.fx.Node] = []
    for node in [node for node in graph.nodes if node.target == torch.ops.higher_order.with_effects]:
        token, op, *args = node.args
        if op != ATEN._linalg_check_errors.default:
            raise UnsupportedError([Problem(f"node '{node.name}' ({op})", "has an effect besides its result")])
        with graph.inserting_before(node):
            fine = call(graph, ATEN.all.default, call(graph, ATEN.eq.Scalar, args[0], 0))
            graph.call_function(ATEN._assert_async.msg, (fine, f"{args[1]} of what has none"))
        for next_token in list(node.users):
            next_token.replace_all_uses_with(token)
            graph.erase_node(next_token)
        graph.erase_node(node)
        tokens += [token] if token not in tokens else []
    output = graph.output_node()
    output.args = (tuple(None if value in tokens else value for value in output.args[0]),)
    return tokens


def hold_assertions(graph: torch.fx.Graph, every: bool = False) -> None:
    """Makes assertions of tensors (`torch._assert_async`, what torch.distributions validates) conditions of the first
    output, or of every one, as in a body, of whose results only some may be read."""
    asserted = [node for node in graph.nodes if node.target in ASSERTIONS]
    hold(graph, [(_told(node), node.args[0]) for node in asserted], every)
    for node in asserted:
        graph.erase_node(node)


def _told(node: torch.fx.Node) -> str:
    """The assertion's message as a name: a run that fails says the names of nodes."""
    return "_".join(re.findall(r"\w+", str(node.args[1]) if len(node.args) > 1 else "")[:WORDS]) or node.name


def hold(graph: torch.fx.Graph, checks: list[tuple[str, torch.fx.Node]], every: bool = False) -> None:
    """Gives the first output with elements, or every one, after all conditions, one truth each, were found to hold."""
    if not checks:
        return
    output = next(node for node in graph.nodes if node.op == "output")
    whole = [i for i, value in enumerate(output.args[0]) if is_tensor(value) and value.meta["val"].numel()]
    if not whole:
        what = "is asked of values, and no output has elements that a run's answer could be tied to: expected another example"
        raise UnsupportedError([Problem(name, what) for name, _ in checks])
    held = checks[0][1]
    with graph.inserting_before(output):
        for name, condition in checks:
            held = _assertion(graph, name, condition, held)
        names = list(dict.fromkeys(name for name, _ in checks))
        name = "_and_".join([*names[:NAMED], *(["others"] if len(names) > NAMED else [])])
        places = whole if every else whole[:1]
        results = {i: _assertion(graph, _with_those_before(name, output.args[0][i]), held, output.args[0][i]) for i in places}
    output.args = (tuple(results.get(i, value) for i, value in enumerate(output.args[0])),)


def _with_those_before(name: str, value: torch.fx.Node) -> str:
    """The name of conditions, and of those that a value was given after: a run tells the last of what it has made one step."""
    before = value.args[1] if value.target == ATEN._functional_assert_async.msg else ""
    return f"{before}_and_{name}" if before else name


def _assertion(graph: torch.fx.Graph, name: str, condition: torch.fx.Node, value: torch.fx.Node) -> torch.fx.Node:
    """The value, given after the condition was found to hold."""
    op = ATEN._functional_assert_async.msg
    node = graph.create_node("call_function", op, (condition, name, value), name=name)
    node.meta["val"] = value.meta["val"]
    return node


def is_tensor(node: Any) -> bool:
    return isinstance(node, torch.fx.Node) and isinstance(node.meta.get("val"), torch.Tensor)
