"""set_: a tensor that shows other memory from there on. Where that is an argument, the caller's tensor does too, and a
buffer or a parameter in the next run."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch.export.graph_signature import InputKind, OutputKind, TensorArgument

from .errors import Problem, UnsupportedError
from .torch_aliases import copied, memory_of, parts_of, rebuilt, reshapes, written_memories
from .torch_levels import innermost

ATEN = torch.ops.aten
Node = torch.fx.Node


def with_memory_given(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """The program with a tensor of its own for each argument and state that set_ gives other memory, whose last value is copied
    into it at the end; the program itself where there is none. Raises UnsupportedError where it is given another shape."""
    _check_parts(program)
    specs = {spec.arg.name: spec for spec in program.graph_signature.input_specs}
    states = {name: spec for name, spec in specs.items() if spec.kind in (InputKind.BUFFER, InputKind.PARAMETER)}
    arguments = {*states, *(name for name, spec in specs.items() if spec.kind == InputKind.USER_INPUT)}
    if not arguments.intersection(node.name for node in _given(program.graph)):
        return program
    _check_apart(program.graph, {name: str(spec.target) for name, spec in states.items()})
    module, signature = copied(program.graph_module), copy.deepcopy(program.graph_signature)
    graph = module.graph
    last = [node for node in graph.nodes if node.op == "placeholder"][-1]
    for x in [node for node in _given(graph) if node.name in arguments]:
        with graph.inserting_after(last):
            other = graph.call_function(ATEN.clone.default, (x,))  # PyTorch takes no write into memory that was left
        other.meta = dict(x.meta)
        x.replace_all_uses_with(other, delete_user_cb=lambda user, other=other: user is not other)
        with graph.inserting_before(graph.output_node()):
            # As what torch.export adds for what is assigned: what is returned of before stays that. Of a value of its own:
            # another argument may be given the same one.
            last_value = graph.call_function(ATEN.clone.default, (other,))
            last_value.meta = dict(x.meta)
            given = (x, last_value)
            graph.create_node("call_function", ATEN.copy_.default, given, name="copy__default").meta = dict(x.meta)
        for spec in signature.output_specs:
            if spec.kind == OutputKind.USER_OUTPUT and getattr(spec.arg, "name", None) == x.name:
                spec.arg = TensorArgument(name=other.name)
    module.recompile()
    return rebuilt(program, module, graph_signature=signature)


def _check_parts(program: torch.export.ExportedProgram) -> None:
    for part in parts_of(program.graph_module):
        for node in part.graph.nodes:
            if node.target == ATEN.set_data.default:
                raise _refused(node, "is not followed by the tracer; what helps: x.data = y")
            if _sets(node) and part is not program.graph_module and _owner(node).op == "placeholder":
                raise _refused(node, "gives what is from outside its region other memory; what helps: copy_()")


def _check_apart(graph: torch.fx.Graph, states: dict[str, str]) -> None:
    """That no two states share memory from the next run on where something is written into one: a program has memory of its
    own for each. states: by the names of nodes those of the model."""
    given = [node for node in _given(graph) if node.name in states]
    owners = [node for node in graph.nodes if node.op == "placeholder" and node.name in states]
    first = {node: memory_of(innermost(node.meta["val"])) for node in owners}
    left = first | {node: memory_of(innermost(_turned(graph, node)[-1].meta["val"])) for node in given}
    written = {memory for node in graph.nodes if not _sets(node) for memory in written_memories(node)}
    for x in given:
        for other in owners:
            if other is x or left[other] != left[x] or first[other] == first[x] or not written & {first[x], first[other], left[x]}:
                continue
            what = f"is given the memory of '{states[other.name]}', and forward() writes into one of them: give it a clone() of it"
            raise UnsupportedError([Problem(f"'{states[x.name]}'", what)])


def _turned(graph: torch.fx.Graph, x: Node) -> list[Node]:
    """The calls that give a tensor other memory, or another shape."""
    return [node for node in graph.nodes if node is not x and reshapes(node) and _owner(node) is x]


def _given(graph: torch.fx.Graph) -> list[Node]:
    """What set_ gives other memory, in the order of its first call."""
    found = dict.fromkeys(_owner(node) for node in graph.nodes if _sets(node))
    for x in found:
        turned = _turned(graph, x)
        before, now = x.meta["val"], turned[-1].meta["val"]
        if x.op == "placeholder" and (before.shape != now.shape or before.dtype != now.dtype):
            raise _refused(turned[-1], f"leaves '{x.name}' {list(now.shape)}, which is given as {list(before.shape)}")
    return list(found)


def _sets(node: Node) -> bool:
    return getattr(node.target, "overloadpacket", None) == ATEN.set_


def _owner(node: Node) -> Node:
    """The tensor that calls in place give back."""
    while node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload) and _in_place(node.target):
        node = node.args[0]
    return node


def _in_place(op: Any) -> bool:
    return op._schema.is_mutable and op._opname.endswith("_") and bool(op._schema.returns)


def _refused(node: Node, what: str) -> UnsupportedError:
    return UnsupportedError([Problem(f"node '{node.name}' ({node.target})", what)])
