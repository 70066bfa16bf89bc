"""Calls of operators that IR has no record of, as bodies of calls that it has."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch._decomp import decomposition_table
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from .machine import is_op_supported
from .torch_complex import is_complex
from .torch_compositions import find_composition

Op = torch._ops.OpOverload


def find_form(node: torch.fx.Node, op: Op, within: frozenset[Op] = frozenset()) -> torch.fx.GraphModule | None:
    """A graph over the call's tensors, in their order, that does what it does: what is written in place, or to `out`, is
    computed and then copied, what PyTorch itself knows as a composition of others is composed. None where the operator
    has a record, is random, or has no form in operators with records. `within`: operators that this is part of a form of."""
    if op in within or is_op_supported(op) or torch.Tag.nondeterministic_seeded in op.tags:
        return None
    leaves, spec = pytree.tree_flatten(torch.fx.node.map_arg((node.args, node.kwargs), lambda n: n.meta.get("val")))
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    call = find_composition(str(op)) or (_computed_and_copied(op) if op._schema.is_mutable else op)
    if call is None or is_complex((leaves, node.meta.get("val"))):
        return None

    def run(*tensors: torch.Tensor) -> Any:
        given = dict(zip(places, tensors, strict=True))
        args, kwargs = pytree.tree_unflatten([given.get(i, leaf) for i, leaf in enumerate(leaves)], spec)
        return call(*args, **kwargs)

    try:
        with torch.no_grad():
            body = make_fx(run, _compositions())(*(leaves[i] for i in places))
    except Exception:  # a composition may need values, or not take these arguments: the call stays what it is
        return None
    return body if all(_is_known(inner, within | {op}) for inner in body.graph.nodes) else None


def _is_known(node: torch.fx.Node, within: frozenset[Op]) -> bool:
    if node.op != "call_function" or node.target is operator.getitem:
        return node.op != "get_attr"
    if not isinstance(node.target, Op) or is_complex(node.meta.get("val")):
        return False
    return is_op_supported(node.target) or find_form(node, node.target, within) is not None


@functools.cache
def _compositions() -> dict[Op, Callable[..., Any]]:
    """Of operators without a record, ours and PyTorch's own."""
    return {
        op: find_composition(str(op)) or compose
        for op, compose in decomposition_table.items()
        if isinstance(op, Op) and not is_op_supported(op) and torch.Tag.nondeterministic_seeded not in op.tags
    }


def _computed_and_copied(op: Op) -> Callable[..., Any] | None:
    """A function that does what an operator in place, or with `out`, does, by the one that only computes."""
    arguments = op._schema.arguments
    written = [arg.name for arg in arguments if arg.alias_info is not None and arg.alias_info.is_write]
    outs = [arg.name for arg in arguments if arg.is_out]
    pure = _find_pure(op, [(arg.name, str(arg.type)) for arg in arguments if not arg.is_out])
    if pure is None or (written != outs and (outs or written != ["self"])):
        return None

    def run(*args: Any, **kwargs: Any) -> Any:
        into = [kwargs.pop(name) for name in outs] or [args[0]]
        found = pure(*args, **kwargs)
        found = [found] if isinstance(found, torch.Tensor) else list(found)
        if [f.shape for f in found] != [i.shape for i in into]:
            raise ValueError("resizes what it writes")
        copied = [i.copy_(f) for i, f in zip(into, found, strict=True)]
        return copied[0] if len(copied) == 1 else copied

    return run


def _find_pure(op: Op, arguments: list[tuple[str, str]]) -> Op | None:
    """The operator of the same name and arguments that writes nothing."""
    name = op._opname.removesuffix("_")
    packet = getattr(getattr(torch.ops, op.namespace), name, None)
    for overload in packet.overloads() if packet is not None else ():
        found = getattr(packet, overload)
        if not found._schema.is_mutable and [(a.name, str(a.type)) for a in found._schema.arguments] == arguments:
            return found
    return None
