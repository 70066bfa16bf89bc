"""The default dtype that forward() sets (torch.set_default_dtype): a traced call of zeros() or of `integers / 3` does not say
which dtype it had then, and what traces it again takes that of its own time."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils import _pytree as pytree

from ...errors import Problem, UnsupportedError
from ..facts.aliases import copied, parts_of, rebuilt
from ..facts.rows import call
from ..facts.messages import place_of

ATEN = torch.ops.aten
Node = torch.fx.Node


@contextlib.contextmanager
def defaults_kept() -> Iterator[None]:
    """Puts the default dtype and device of PyTorch back at the end."""
    dtype, device = defaults()
    try:
        yield
    finally:
        if torch.get_default_dtype() != dtype:
            torch.set_default_dtype(dtype)
        if defaults()[1] != device:
            torch.set_default_device(device)


def set_since(before: tuple[torch.dtype, Any]) -> list[str]:
    """The names of those that are others now."""
    names = ("torch's default dtype", "torch's default device")
    return [name for name, one, other in zip(names, before, defaults(), strict=True) if one != other]


def defaults() -> tuple[torch.dtype, Any]:
    """The device: None where none was set."""
    return torch.get_default_dtype(), torch.utils._device.CURRENT_DEVICE


def with_dtypes_shown(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """The program in which each call that had another default dtype than this thread's says its dtype; the program itself where
    there is none. Raises UnsupportedError, with the model's line, where a call has no form for that."""
    if not any(_had_another(node) for part in parts_of(program.graph_module) for node in part.graph.nodes):
        return program
    module = copied(program.graph_module)
    for part in parts_of(module):
        for node in [node for node in part.graph.nodes if _had_another(node)]:
            _tell(part.graph, node)
    module.recompile()
    return rebuilt(program, module)


def _had_another(node: Node) -> bool:
    """Whether the dtype of a result is none that its operands, or what it is told, or the default dtype now decides."""
    value, op = node.meta.get("val"), node.target
    if not isinstance(op, torch._ops.OpOverload) or not isinstance(value, torch.Tensor):
        return False
    if not _is_fraction(value.dtype) or value.dtype.to_real() == torch.get_default_dtype():
        return False
    given = [one.meta.get("val") for one in node.all_input_nodes]
    if any(isinstance(one, torch.Tensor) and _is_fraction(one.dtype) for one in pytree.tree_leaves(given)):
        return False
    if any(isinstance(told, torch.dtype) for told in (*node.args, *node.kwargs.values())):
        return False
    return _dtype_now(node, node.args, node.kwargs) not in (value.dtype, None)


def _is_fraction(dtype: torch.dtype) -> bool:
    return dtype.is_floating_point or dtype.is_complex


def _dtype_now(node: Node, args: Any, kwargs: Any) -> torch.dtype | None:
    """What a call gives with the default dtype of now; None where that is not known."""
    args, kwargs = torch.fx.node.map_arg((args, kwargs), _like)
    value = node.meta["val"]
    mode = value.fake_mode if isinstance(value, FakeTensor) else contextlib.nullcontext()
    shapes = getattr(mode, "shape_env", None)
    sizes = shapes.ignore_fresh_unbacked_symbols() if shapes else contextlib.nullcontext()
    try:
        with mode, sizes, torch.no_grad():
            return node.target(*args, **kwargs).dtype  # type: ignore[operator]
    except Exception:
        return None


def _like(node: Node) -> Any:
    value = node.meta.get("val")
    return value.detach() if isinstance(value, torch.Tensor) else value


def _tell(graph: torch.fx.Graph, node: Node) -> None:
    """By the argument that says it, or by operands of that dtype, which whole numbers become then anyway."""
    wanted = node.meta["val"].dtype
    if node.target == ATEN.where.Scalar:  # of two numbers
        condition, *numbers = node.args
        with graph.inserting_before(node):
            both = [call(graph, ATEN.new_full.default, condition, [], number, dtype=wanted) for number in numbers]
        node.target, node.args = ATEN.where.self, (condition, *both)
        return
    if any(arg.name == "dtype" for arg in node.target._schema.arguments):  # type: ignore[union-attr]
        node.kwargs = {**node.kwargs, "dtype": wanted}
        if _dtype_now(node, node.args, node.kwargs) == wanted:
            return
    narrow = wanted.is_complex and wanted.to_real().itemsize < 4  # the tracer has these where eager PyTorch has complex64
    for kept in () if narrow else ({torch.bool}, set[torch.dtype]()):  # a condition is no number where there are others
        with graph.inserting_before(node):
            given = torch.fx.node.map_arg((node.args, node.kwargs), functools.partial(_converted, graph, wanted, kept))
        if _dtype_now(node, *given) == wanted:
            node.args, node.kwargs = given
            return
    what = f"gives {wanted} by the default dtype that forward() sets, which a program does not have; what helps: to give it tensors of that dtype"
    raise UnsupportedError([Problem(place_of(node) or f"node '{node.name}' ({node.target})", what)])


def _converted(graph: torch.fx.Graph, dtype: torch.dtype, kept: set[torch.dtype], node: Node) -> Node:
    value = node.meta.get("val")
    whole = isinstance(value, torch.Tensor) and not _is_fraction(value.dtype) and value.dtype not in kept
    return call(graph, ATEN.to.dtype, node, dtype) if whole else node
