"""Whose memory values show, in a program that was read from a file: what is written there knows shapes and strides alone,
and npusim's passes ask, as the tracer's values answer, what a write reaches."""

from __future__ import annotations

import contextlib
import operator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils import _pytree as pytree

from .aliases import copied, memory_of, parts_of, rebuilt

Node = torch.fx.Node


def with_memory(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """The program with values that share memory as PyTorch's own do; the program itself where they do, or nothing is
    written."""
    if not any(_is_forgotten(node) for part in parts_of(program.graph_module) for node in part.graph.nodes):
        return program
    module = copied(program.graph_module)
    for part in parts_of(module):
        for node in part.graph.nodes:
            if node.target is operator.getitem or isinstance(node.target, torch._ops.OpOverload):
                remember(node)
    return rebuilt(program, module)


def _is_forgotten(node: Node) -> bool:
    """Whether a call gives back what it wrote, as a value of other memory."""
    if not isinstance(node.target, torch._ops.OpOverload) or not node.target._schema.is_mutable or not node.args:
        return False
    given, first = node.target._schema.returns[:1], node.args[0]
    if not given or given[0].alias_info is None or not given[0].alias_info.is_write or not isinstance(first, Node):
        return False
    value, before = node.meta.get("val"), first.meta.get("val")
    return isinstance(value, FakeTensor) and isinstance(before, FakeTensor) and memory_of(value) != memory_of(before)


def remember(node: Node) -> None:
    """Calls it with the values of its operands: results that are memory of theirs are its values from here on."""
    given = [node.meta.get("val") for node in node.all_input_nodes]
    tensors = [one for one in pytree.tree_leaves(given) if isinstance(one, FakeTensor)]
    if not tensors:
        return
    mode = tensors[0].fake_mode
    sizes = mode.shape_env.ignore_fresh_unbacked_symbols() if mode.shape_env else contextlib.nullcontext()

    def value_of(one: Node) -> Any:  # a call may give what it is given another shape
        return pytree.tree_map_only(FakeTensor, lambda value: value.detach(), one.meta.get("val"))

    with mode, sizes:
        args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), value_of)
        try:
            made = node.target(*args, **kwargs)  # type: ignore[operator]
        except Exception:  # of a size that values decide: its values are new
            return
    known = {memory_of(one) for one in tensors}
    found, was = pytree.tree_leaves(made), pytree.tree_leaves(node.meta.get("val"))
    if len(found) == len(was) and all(_is_same(one, other) for one, other in zip(found, was, strict=True)):
        shown = [one if _shows(one, known) else other for one, other in zip(found, was, strict=True)]
        node.meta["val"] = pytree.tree_unflatten(shown, pytree.tree_structure(node.meta.get("val")))


def _shows(value: Any, known: set[int]) -> bool:
    return isinstance(value, FakeTensor) and memory_of(value) in known


def _is_same(one: Any, other: Any) -> bool:
    """Of one shape, whose symbols have one name; of where in its memory it begins a file says nothing."""
    if not isinstance(one, FakeTensor) or not isinstance(other, FakeTensor):
        return type(one) is type(other)
    extents = [[str(extent) for extent in (*value.shape, *value.stride())] for value in (one, other)]
    return one.dtype == other.dtype and extents[0] == extents[1]
