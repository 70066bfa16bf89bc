"""Arguments that forward() restrides in place (t_, as_strided_, resize_, …): what the caller's tensor is behind it.

PyTorch's functionalisation says of an argument's memory what is written there, in the shape that it was given. What the
tensor shows of it then is another view, which is known before that."""

from __future__ import annotations

import collections
import copy
from typing import Any

import torch
from torch.export.graph_signature import InputKind, OutputKind, OutputSpec, TensorArgument

from ...errors import Problem, UnsupportedError
from ..facts.addresses import addresses, places_at, strides_of
from ..facts.aliases import REGIONS, copied, itself, rebuilt, reshapes, shows_twice
from ..facts.levels import innermost
from ..facts.rows import call
from .given import region_body, sets

ATEN = torch.ops.aten
Node = torch.fx.Node
View = tuple[list[int], list[int], int]  # of an argument in row-major order: extents, strides, the first element


def left_restrided(program: torch.export.ExportedProgram) -> dict[str, View | UnsupportedError]:
    """The arguments that are left as another view of their memory, or why that is none of a value; those that set_ gives other
    memory have their value at the end copied anyway. Raises UnsupportedError for what is left restrided by a region, whose end
    PyTorch does not follow then."""
    arguments = {spec.arg.name for spec in program.graph_signature.input_specs if spec.kind == InputKind.USER_INPUT}
    apart = {itself(node) for node in program.graph.nodes if sets(node)}
    found: dict[str, View | UnsupportedError] = {}
    restrided = _restrides_of(program.graph_module, program.graph)
    for x in [node for node in program.graph.nodes if node.op == "placeholder" and node not in apart]:
        restrides = restrided.get(x, [])
        within = next((node for node in restrides if node.graph is not x.graph), None)
        if not restrides or (within is None and x.name not in arguments):  # a weight, of which the passes see to it
            continue
        if (view := _view_left(x, restrides[-1])) is not None:
            if within is not None:
                what = f"restrides '{x.name}', which is from outside its region of autocast; what helps: to do so outside"
                raise _refused(within, what)
            found[x.name] = view
    return found


def _restrides_of(module: torch.fx.GraphModule, graph: torch.fx.Graph) -> dict[Node, list[Node]]:
    """By tensor the calls that restride it, in a graph and the regions within it, in their order."""
    found: dict[Node, list[Node]] = collections.defaultdict(list)
    for node in graph.nodes:
        if reshapes(node) and (x := itself(node)) is not node:
            found[x].append(node)
        elif node.target in REGIONS:
            body, operands = region_body(module, node)
            within = _restrides_of(body, body.graph)
            inner = [given for given in body.graph.nodes if given.op == "placeholder"]
            for operand, given in zip(operands, inner, strict=True):
                if isinstance(operand, Node) and given in within:
                    found[itself(operand)] += within[given]
    return found


def _view_left(x: Node, last: Node) -> View | UnsupportedError | None:
    """None where the argument is what it was."""
    before, now = innermost(x.meta["val"]), innermost(last.meta["val"])
    where = [(value.shape, value.stride(), value.storage_offset()) for value in (before, now)]
    if not all(isinstance(number, int) for shape, strides, first in where for number in (*shape, *strides, first)):
        return _refused(last, f"restrides '{x.name}', and values decide its extents")
    if where[0] == where[1]:
        return None
    if shows_twice(before):
        return _refused(
            last, f"restrides '{x.name}', which shows an element more than once in the example: expected a clone() of it"
        )
    if not now.numel():
        return list(now.shape), [0] * now.dim(), 0
    places = places_at(before, addresses(*where[1]))
    strides = strides_of(places) if places is not None else None
    if places is None or strides is None:
        what = f"leaves '{x.name}' as a view of its memory that is none of its elements by extents and strides"
        return _refused(last, f"{what}; what helps: the same of a clone()")
    same = before.shape == now.shape and bool((places.flatten() == torch.arange(places.numel())).all())
    return None if same else (list(now.shape), *strides)


def with_restrided(
    program: torch.export.ExportedProgram, left: dict[str, View | UnsupportedError]
) -> tuple[torch.export.ExportedProgram, set[str]]:
    """The program, whose calls write nothing any more, with these views among its outputs, as what its arguments are then; and
    those of which nothing is written. Raises UnsupportedError for what is none: what else is refused of it is said before."""
    if not left:
        return program, set()
    views: dict[str, View] = {}
    for name, view in left.items():
        if isinstance(view, UnsupportedError):
            raise view
        views[name] = view
    module, signature = copied(program.graph_module), copy.deepcopy(program.graph_signature)
    output = module.graph.output_node()
    values, specs = list(output.args[0]), list(signature.output_specs)  # type: ignore[arg-type]
    at = {spec.target: i for i, spec in enumerate(specs) if spec.kind == OutputKind.USER_INPUT_MUTATION}
    added: list[tuple[Any, OutputSpec]] = []
    for x in [node for node in module.graph.nodes if node.op == "placeholder" and node.name in views]:
        i = at.get(x.name)
        with module.graph.inserting_before(output):
            restrided = _restrided(module.graph, x if i is None else values[i], views[x.name])
        if i is None:
            spec = OutputSpec(OutputKind.USER_INPUT_MUTATION, TensorArgument(name=restrided.name), x.name)
            added.append((restrided, spec))
        else:
            values[i], specs[i].arg = restrided, TensorArgument(name=restrided.name)
    output.args = ((*(value for value, _ in added), *values),)
    signature.output_specs = [*(spec for _, spec in added), *specs]
    module.recompile()
    return rebuilt(program, module, graph_signature=signature), views.keys() - at.keys()


def _restrided(graph: torch.fx.Graph, value: Node, view: View) -> Node:
    size, strides, first = view
    if 0 in size:
        like = value.meta["val"]
        return call(graph, ATEN.zeros.default, size, dtype=like.dtype, device=like.device)
    dense = call(graph, ATEN.clone.default, value, memory_format=torch.contiguous_format)
    return call(graph, ATEN.as_strided.default, dense, size, strides, first)


def _refused(node: Node, what: str) -> UnsupportedError:
    return UnsupportedError([Problem(f"node '{node.name}' ({node.target})", what)])
