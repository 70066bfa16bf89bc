"""A call of an operator that npusim has no record of, as calls of others: by PyTorch's own
decompositions, and ours."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._decomp import decomposition_table
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from .machine import is_op_supported
from .torch_bytes import BYTES
from .torch_complex import has_form
from .torch_compositions import COMPOSITIONS
from .torch_ref import Ref


def is_known(op: torch._ops.OpOverload, args: Sequence[Any] = ()) -> bool:
    """Whether a call is not to be decomposed: npusim has a record of it, it is none of ATen's nor composed here, or
    random."""
    if str(op) in COMPOSITIONS or takes_bytes(op, args):
        return False
    return op.namespace != "aten" or is_op_supported(op) or torch.Tag.nondeterministic_seeded in op.tags


def takes_bytes(op: torch._ops.OpOverload, args: Sequence[Any]) -> bool:
    """Whether it is one that differs in uint8, and is given that."""
    return str(op) in BYTES and dtype_of(args[0]) == "uint8"


def dtype_of(value: Any) -> str:
    """Of a value of the IR or of the graph."""
    if isinstance(value, torch.fx.Node):
        value = value.meta["val"]
    return str(value.tensor["dtype"] if isinstance(value, Ref) else value.dtype).removeprefix("torch.")


def decompose(node: torch.fx.Node, op: torch._ops.OpOverload) -> tuple[torch.fx.GraphModule, list[Any]] | None:
    """The call as a graph, and the operands of its placeholders, nodes and constants; None where PyTorch knows no other
    form. What it writes is written by copy_ at the end."""
    leaves, spec = pytree.tree_flatten((node.args, node.kwargs))
    at = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.fx.Node) and _is_tensor(leaf)]
    if any(isinstance(leaf, torch.fx.Node) and i not in at for i, leaf in enumerate(leaves)):
        return None  # a number that depends on data

    form: Callable[..., Any] = COMPOSITIONS.get(str(op), op)
    constants: list[torch.Tensor] = []
    if takes_bytes(op, node.args):
        image, *rest = node.args
        form, constants = BYTES[str(op)](image.meta["val"], *rest, **node.kwargs)
        leaves, spec = pytree.tree_flatten(((image, *constants), {}))
        at = list(range(len(leaves)))

    def call(*tensors: torch.Tensor) -> Any:
        given = list(leaves)
        for i, tensor in zip(at, tensors, strict=True):
            given[i] = tensor
        args, kwargs = pytree.tree_unflatten(given, spec)
        return form(*args, **kwargs)

    function = torch.func.functionalize(call, remove="mutations")
    table = {op: decomposition_table[op]} if op in decomposition_table else {}
    values = [leaves[i].meta["val"] if isinstance(leaves[i], torch.fx.Node) else leaves[i] for i in at]
    with contextlib.suppress(NotImplementedError, RuntimeError, TypeError, ValueError):
        body, made = trace(function, values, table)
        if all(_is_usable(inner.target, op) for inner in body.graph.nodes if inner.op == "call_function"):
            return body, [*(leaves[i] for i in at), *made]
    return None


def trace(
    function: Callable[..., Any], values: Sequence[torch.Tensor], table: dict[Any, Callable[..., Any]] | None = None
) -> tuple[torch.fx.GraphModule, list[torch.Tensor]]:
    """What a function does with tensors like these, as a graph, and the constants that are its last placeholders; table:
    operators that are taken apart."""
    mode = torch._guards.detect_fake_mode(values) or FakeTensorMode()
    tensors = [
        value if isinstance(value, FakeTensor) else mode.from_tensor(value, static_shapes=True) for value in values
    ]
    with torch.no_grad(), mode:
        body = make_fx(function, decomposition_table=table)(*tensors)
    constants = []
    for node in [node for node in body.graph.nodes if node.op == "get_attr"]:
        value = getattr(body, str(node.target))
        if isinstance(value, FakeTensor):
            value = value.constant
        if isinstance(value, torch.Tensor):
            with body.graph.inserting_before(next(n for n in body.graph.nodes if n.op != "placeholder")):
                lifted = body.graph.placeholder(node.name)
            lifted.meta = node.meta
            node.replace_all_uses_with(lifted)
            body.graph.erase_node(node)
            constants.append(value)
    return body, constants


def _is_usable(inner: Any, op: torch._ops.OpOverload) -> bool:
    """Whether a call of it may stand in the place of `op`: it is known, or may be decomposed in its turn."""
    if not isinstance(inner, torch._ops.OpOverload):
        return True  # of a list's element
    composite = torch._C._dispatch_has_kernel_for_dispatch_key(inner.name(), "CompositeImplicitAutograd")
    other = inner is not op and (inner in decomposition_table or composite or str(inner) in COMPOSITIONS)
    return inner.namespace == "aten" and (is_op_supported(inner) or has_form(inner) or other)


def _is_tensor(node: torch.fx.Node) -> bool:
    return isinstance(node.meta.get("val"), torch.Tensor)
