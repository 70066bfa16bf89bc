"""Operators over lists of tensors, `_foreach_add` and the like: for each element the operator of one tensor."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from ..facts.aliases import copied, parts_of, rebuilt
from ..facts.rows import call

ATEN = torch.ops.aten


def _norm(x: Tensor, ord: Any = 2, dtype: Any = None) -> Tensor:
    return ATEN.linalg_vector_norm(x, ord, dtype=dtype)


def _at_least(x: Tensor, other: Any) -> Tensor:
    return ATEN.maximum(x, other) if isinstance(other, Tensor) else ATEN.clamp_min(x, other)


def _at_most(x: Tensor, other: Any) -> Tensor:
    return ATEN.minimum(x, other) if isinstance(other, Tensor) else ATEN.clamp_max(x, other)


def _added(quotient: bool) -> Callable[..., Tensor]:
    def of_one(x: Tensor, a: Tensor, b: Tensor, value: Any = 1) -> Tensor:
        if isinstance(value, Tensor):
            return x + value.to(x.dtype) * (a / b if quotient else a * b)
        return (ATEN.addcdiv if quotient else ATEN.addcmul)(x, a, b, value=value)

    return of_one


# What is not called as the operator of one tensor is.
OF_ONE: dict[str, Callable[..., Any]] = {
    "norm": _norm,
    "zero": ATEN.zeros_like,
    "maximum": _at_least,
    "clamp_min": _at_least,
    "minimum": _at_most,
    "clamp_max": _at_most,
    "addcdiv": _added(quotient=True),
    "addcmul": _added(quotient=False),
}


HELD = "scalars"  # an argument that may be a tensor, of a number for each element


def _form(schema: Any, of_one: Callable[..., Any]) -> Callable[..., list[Tensor]]:
    def form(*args: Any, **kwargs: Any) -> list[Tensor]:
        count = next(len(value) for value in args if isinstance(value, (list, tuple)))

        def element(value: Any, i: int, name: str) -> Any:
            per_element = isinstance(value, (list, tuple)) or (name == HELD and isinstance(value, Tensor))
            return value[i] if per_element else value

        names = [argument.name for argument in schema.arguments]
        return [
            of_one(*(element(value, i, name) for value, name in zip(args, names, strict=False)), **kwargs)
            for i in range(count)
        ]

    return form


def _forms() -> Iterator[tuple[str, Callable[..., list[Tensor]]]]:
    """Of every such operator of PyTorch that writes nothing."""
    for qualified in torch._C._dispatch_get_all_op_names():
        if not qualified.startswith("aten::_foreach_"):
            continue
        name, _, overload = qualified.removeprefix("aten::").partition(".")
        op = getattr(getattr(ATEN, name), overload or "default")
        one = name.removeprefix("_foreach_")
        of_one = OF_ONE.get(one) or getattr(ATEN, one, None)
        if of_one is not None and not op._schema.is_mutable:
            yield str(op), _form(op._schema, of_one)


FOREACH = dict(_forms())


# ---- those that write


def written_one_by_one(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """The program with a copy into each element of a list that it writes; the program itself where it writes none. An
    element may be another one's memory, and PyTorch's functionalisation computes all of them before it writes one."""
    if not any(_overload(node, "val") for part in parts_of(program.graph_module) for node in part.graph.nodes):
        return program
    module = copied(program.graph_module)
    for part in parts_of(module):
        write_one_by_one(part.graph, call, "val")
    module.recompile()
    return rebuilt(program, module)


def write_one_by_one(graph: torch.fx.Graph, new: Callable[..., torch.fx.Node], value: str) -> None:
    """The same in a graph. new: makes a node of a graph, an operator and arguments. value: the metadata with what a node is
    in the example."""
    for node in list(graph.nodes):
        if (op := _overload(node, value)) is not None:
            with graph.inserting_before(node):
                _write(graph, node, op, new)


def _overload(node: torch.fx.Node, value: str) -> torch._ops.OpOverload | None:
    """The operator of a call that writes into a list, which has a name only where dynamo captured it; None for other calls."""
    name = getattr(node.target, "_opname", "") or getattr(node.target, "__name__", "")
    if node.op != "call_function" or not name.startswith("_foreach_") or not name.endswith("_"):
        return None
    if isinstance(node.target, torch._ops.OpOverload):
        return node.target
    args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), lambda arg: arg.meta[value])
    return getattr(getattr(ATEN, name), torch._C._jit_resolve_packet(f"aten::{name}", *args, **kwargs))


def _write(
    graph: torch.fx.Graph, node: torch.fx.Node, op: torch._ops.OpOverload, new: Callable[..., torch.fx.Node]
) -> None:
    """Lists of one element each, one after the other, as PyTorch's kernels go through them."""
    of_lists = getattr(getattr(ATEN, op._opname[:-1]), op._overloadname)
    named = [argument.name for argument in op._schema.arguments if argument.kwarg_only]
    names = (argument.name for argument in op._schema.arguments)
    given: dict[str, Any] = dict(zip(names, node.args, strict=False)) | node.kwargs
    if isinstance(held := given.get(HELD), torch.fx.Node):  # read before any element is written
        given[HELD] = new(graph, ATEN.clone.default, held)

    def element(name: str, value: Any, i: int) -> Any:
        if name == HELD and isinstance(value, torch.fx.Node):
            return new(graph, ATEN.slice.Tensor, value, 0, i, i + 1)
        return [value[i]] if isinstance(value, (list, tuple)) else value

    elements = given["self"]
    for i, to in enumerate(elements):
        args = {name: element(name, value, i) for name, value in given.items()}
        by_name = {name: args.pop(name) for name in named if name in args}
        found = new(graph, of_lists, *args.values(), **by_name)
        new(graph, ATEN.copy_.default, to, new(graph, operator.getitem, found, 0))
    for user in list(node.users):  # of what such a call gives: its first list
        user.replace_all_uses_with(elements[user.args[1]])
        graph.erase_node(user)
    graph.erase_node(node)
