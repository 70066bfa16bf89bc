"""A call of an operator that npusim has no record of, as calls of others: by PyTorch's own
decompositions, and ours."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from torch._decomp import decomposition_table
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from .machine import is_op_supported
from .torch_complex import has_form
from .torch_compositions import COMPOSITIONS


def is_known(op: torch._ops.OpOverload) -> bool:
    """Whether it is not to be decomposed: npusim has a record of it, it is none of ATen's nor composed here, or random."""
    if str(op) in COMPOSITIONS:
        return False
    return op.namespace != "aten" or is_op_supported(op) or torch.Tag.nondeterministic_seeded in op.tags


def decompose(node: torch.fx.Node, op: torch._ops.OpOverload) -> tuple[torch.fx.GraphModule, list[Any]] | None:
    """The call as a graph, and the operands of its placeholders; None where PyTorch knows no other form. What it writes
    is written by copy_ at the end."""
    leaves, spec = pytree.tree_flatten((node.args, node.kwargs))
    at = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.fx.Node) and _is_tensor(leaf)]
    if any(isinstance(leaf, torch.fx.Node) and i not in at for i, leaf in enumerate(leaves)):
        return None  # a number that depends on data

    def call(*tensors: torch.Tensor) -> Any:
        given = list(leaves)
        for i, tensor in zip(at, tensors, strict=True):
            given[i] = tensor
        args, kwargs = pytree.tree_unflatten(given, spec)
        return COMPOSITIONS.get(str(op), op)(*args, **kwargs)

    function = torch.func.functionalize(call, remove="mutations")
    table = {op: decomposition_table[op]} if op in decomposition_table else {}
    tensors = [leaves[i].meta["val"] for i in at]
    mode = torch._guards.detect_fake_mode(tensors) or FakeTensorMode()
    with torch.no_grad(), mode, contextlib.suppress(NotImplementedError, RuntimeError, TypeError, ValueError):
        body = make_fx(function, decomposition_table=table)(*tensors)
        if all(_is_usable(inner.target, op) for inner in body.graph.nodes if inner.op == "call_function"):
            return body, [leaves[i] for i in at]
    return None


def _is_usable(inner: Any, op: torch._ops.OpOverload) -> bool:
    """Whether a call of it may stand in the place of `op`: it is known, or may be decomposed in its turn."""
    if not isinstance(inner, torch._ops.OpOverload):
        return True  # of a list's element
    composite = torch._C._dispatch_has_kernel_for_dispatch_key(inner.name(), "CompositeImplicitAutograd")
    other = inner is not op and (inner in decomposition_table or composite or str(inner) in COMPOSITIONS)
    return inner.namespace == "aten" and (is_op_supported(inner) or has_form(inner) or other)


def _is_tensor(node: torch.fx.Node) -> bool:
    return isinstance(node.meta.get("val"), torch.Tensor)
