"""Regions of autocast, in which operators that PyTorch composes of others get casts where these have a rule.

PyTorch casts what it gives to an operator that has a rule (`linear`, `bmm`, `cat`), and takes a composite one (`einsum`,
`pad`) apart before it asks. An exported graph has composites whole, and where they are taken apart later no region is left."""

from __future__ import annotations

import contextlib
import functools
from typing import Any

import torch
from torch._C import DispatchKey
from torch._ops import OpOverload
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_leaves

from ..facts.aliases import copied, parts_of, rebuilt
from ..facts.levels import innermost
from ..facts.rows import argument, call

ATEN = torch.ops.aten
REGION = torch.ops.higher_order.wrap_with_autocast
# Where the kernel of an operator is composed of calls of others, each of which autocast sees.
COMPOSITE = (
    DispatchKey.CompositeImplicitAutograd,
    DispatchKey.CompositeExplicitAutograd,
    DispatchKey.CompositeExplicitAutogradNonFunctional,
)
PLAIN = {torch.Tag.pointwise, torch.Tag.core}  # composed of nothing that has a rule


def with_composites_apart(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """The program with calls of others, in its regions, in place of composite operators that come to one with a rule; the
    program itself where it has no regions."""
    if not any(node.target is REGION for part in parts_of(program.graph_module) for node in part.graph.nodes):
        return program
    module = copied(program.graph_module)
    _visit(module)
    return rebuilt(program, module)


def _visit(module: torch.fx.GraphModule) -> None:
    """Within the regions that this part is in."""
    for node in list(module.graph.nodes):
        if isinstance(node.target, OpOverload):
            if torch.is_autocast_enabled("cpu"):
                _spell_out(module.graph, node)
            continue
        region = torch.autocast(*node.args[:4]) if node.target is REGION else contextlib.nullcontext()
        for held in (arg.target for arg in node.all_input_nodes if arg.op == "get_attr"):
            if isinstance(part := getattr(module, str(held), None), torch.fx.GraphModule):
                with region:
                    _visit(part)
    module.recompile()


def _spell_out(graph: torch.fx.Graph, node: torch.fx.Node) -> None:
    if node.target == ATEN.lstm.input and _is_one_layer_by_layer(node):
        _cast_lstm(graph, node)
    elif (body := _body(node)) is not None and _has_rule_within(body):
        given = [arg for arg in tree_leaves((node.args, node.kwargs)) if isinstance(arg, torch.fx.Node)]
        inputs = [inner for inner in body.graph.nodes if inner.op == "placeholder"]
        with graph.inserting_before(node):
            before = set(graph.nodes)
            found = graph.graph_copy(body.graph, dict(zip(inputs, given, strict=True)))
        made = [new for new in graph.nodes if new not in before]
        for new in made:
            new.meta |= {key: node.meta[key] for key in ("stack_trace", "nn_module_stack", "from_node") if key in node.meta}
        _replace(graph, node, found)
        for new in made:
            _spell_out(graph, new)


def _replace(graph: torch.fx.Graph, node: torch.fx.Node, found: Any) -> None:
    if isinstance(found, torch.fx.Node):
        node.replace_all_uses_with(found)
    else:
        for user in list(node.users):  # each takes one of several results
            user.replace_all_uses_with(found[user.args[1]])
            graph.erase_node(user)
    graph.erase_node(node)


def _body(node: torch.fx.Node) -> torch.fx.GraphModule | None:
    """The calls that a composite operator makes, as autocast meets them; None where it is none, or may itself have a rule, or
    gets no tensor that would be cast."""
    op: Any = node.target
    if not isinstance(op, OpOverload) or op._schema.is_mutable or op.name() in _rules() or PLAIN & {*op.tags}:
        return None
    key = next((key for key in COMPOSITE if op.has_kernel_for_dispatch_key(key)), None)
    if key is None:
        return None
    leaves, structure = torch.utils._pytree.tree_flatten((node.args, node.kwargs))
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.fx.Node)]
    values = [leaves[i].meta["val"] for i in places]
    if not any(isinstance(value, torch.Tensor) and value.is_floating_point() for value in values):
        return None

    def run(*values: Any) -> Any:
        given = dict(zip(places, values, strict=True))
        args, kwargs = torch.utils._pytree.tree_unflatten([given.get(i, leaf) for i, leaf in enumerate(leaves)], structure)
        with torch._C.DisableTorchFunction():  # to which a kernel's call is the operator's
            return op.decompose(*args, **kwargs) if key == COMPOSITE[0] else op._op_dk(key, *args, **kwargs)

    tensors = [innermost(value) for value in values if isinstance(value, torch.Tensor)]
    body = None
    # A kernel that reads memory is none that is composed.
    with torch._guards.detect_fake_mode(tensors) or torch.no_grad(), torch.no_grad(), contextlib.suppress(RuntimeError):
        body = make_fx(run, pre_dispatch=True)(*values)
    if body is None:
        return None
    same = any(inner.target == op for inner in body.graph.nodes)
    return None if same or any(inner.op == "get_attr" for inner in body.graph.nodes) else body


def _has_rule_within(body: torch.fx.GraphModule) -> bool:
    for node in body.graph.nodes:
        if isinstance(node.target, OpOverload) and node.target.name() in _rules():
            return True
        if (inner := _body(node) if node.op == "call_function" else None) is not None and _has_rule_within(inner):
            return True
    return False


@functools.cache
def _rules() -> frozenset[str]:
    """The operators that autocast has a rule for."""
    return frozenset(torch._C._dispatch_get_registrations_for_dispatch_key("AutocastCPU"))


def _is_one_layer_by_layer(node: torch.fx.Node) -> bool:
    """Whether PyTorch computes a LSTM by an operator for each layer, which has a rule: not one with projections."""
    hidden, cell = (one.meta["val"] for one in argument(node, "hx"))
    return hidden.shape == cell.shape and argument(node, "input").meta["val"].numel() > 0


def _cast_lstm(graph: torch.fx.Graph, node: torch.fx.Node) -> None:
    """The rule casts all that a layer is given."""
    dtype = torch.get_autocast_dtype("cpu")

    def cast(arg: torch.fx.Node) -> torch.fx.Node:
        return arg if arg.meta["val"].dtype in (dtype, torch.float64) else call(graph, ATEN.to.dtype, arg, dtype)

    with graph.inserting_before(node):
        node.args, node.kwargs = torch.fx.node.map_arg((node.args, node.kwargs), cast)
