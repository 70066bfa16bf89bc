"""Writes in place whose result PyTorch's functionalisation leaves in another order of memory than what is written has.

`x.t().masked_fill_(m, 0)` leaves x row-major; functionalised, x is then a transposed view of a row-major result, and
`x.view(-1)`, which needs no copy, has none that it could do without. What `x.as_strided(…)` addresses would be elsewhere."""

from __future__ import annotations

import contextlib
import operator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.export.graph_signature import InputKind
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from ...errors import Problem, UnsupportedError
from ..facts.aliases import RESHAPE_ALIAS, copied, is_written, itself, parts_of, rebuilt, shows_twice
from ..facts.bits import loses_bits
from ..facts.levels import innermost, levels_of
from ..facts.rows import call

ATEN = torch.ops.aten
NOT_COPIED = (torch.Tag.inplace_view, torch.Tag.nondeterministic_seeded)  # what no copy of a result stands for
NO_RESULT = {"copy_", "set_", "resize_", "resize_as_"}
COMPOSITE = torch._C.DispatchKey.CompositeImplicitAutograd
KEEPS_ORDER = {"copy_", "fill_", "zero_"}  # functionalised, too
ADDRESSING = {"as_strided", "as_strided_", "as_strided_copy", "as_strided_scatter"}
EXPANDING = {"expand", "expand_as", "broadcast_to", "broadcast_tensors"}
# `x.data = y` as dynamo has it; earlier PyTorch has set_ there.
_DATA = getattr(ATEN, "shallow_copy_data_", None)
DATA_SET = {_DATA, *(getattr(_DATA, name) for name in _DATA.overloads())} if _DATA is not None else set()
# Whether these copy, or show what they are given, its order in memory decides.
SHOWING = {"reshape", "reshape_as", "flatten", "ravel", "contiguous"}


def asks_for_order(program: torch.export.ExportedProgram) -> bool:
    """Whether the order that a tensor has in memory decides what it reads or writes."""
    nodes = [node for part in parts_of(program.graph_module) for node in part.graph.nodes]
    names = {getattr(node.target, "_opname", "") for node in nodes}
    return bool(names & (ADDRESSING | SHOWING)) or any(node.target in RESHAPE_ALIAS for node in nodes)


def check_resized(program: torch.export.ExportedProgram) -> None:
    """That no call gives `out` another shape where that is a weight, which would have it in the next run, or a view, of
    memory that others have too; or where it gets an order of memory that the tracer, to which it is row-major then, does
    not have: which of its uses are copies that decides. Raises UnsupportedError."""
    specs = {spec.arg.name: spec for spec in program.graph_signature.input_specs}
    ordered = asks_for_order(program)
    for node in (node for part in parts_of(program.graph_module) for node in part.graph.nodes):
        for to, value, found in _outs(node):
            before = to.meta["val"]
            if not _is_static(before) or not _is_static(value) or before.shape == value.shape:
                continue
            of = itself(to)
            spec = specs.get(of.name) if of.op == "placeholder" else None
            if spec is not None and spec.kind != InputKind.USER_INPUT:
                name = f"'{spec.target}'"
            elif of.op == "call_function" and _is_view(of.target):
                name = "a view"
            elif (ordered or is_written(node)) and found is not None and value.stride() != found.stride():
                name = "a tensor that is written, or whose order in memory is asked for,"
            else:
                continue
            what = f"gives {name} another shape: out= has {list(before.shape)}, the result {list(value.shape)}; give it that"
            raise UnsupportedError([Problem(f"node '{node.name}' ({node.target})", what)])


def _outs(node: torch.fx.Node) -> list[tuple[torch.fx.Node, torch.Tensor, torch.Tensor | None]]:
    """What a call is given as `out`, each with what it is then and what the call would give without it, if that is known."""
    if not isinstance(node.target, torch._ops.OpOverload) or not any(arg.is_out for arg in node.target._schema.arguments):
        return []
    values, found = tree_leaves(node.meta.get("val")), _found(node)
    found = found if len(found) == len(values) else [None] * len(values)
    triples = zip(_written(node), values, found)  # of lists that are written nothing is known
    return [triple for triple in triples if isinstance(triple[0], torch.fx.Node) and isinstance(triple[1], torch.Tensor)]


def _found(node: torch.fx.Node) -> list[Any]:
    """What a call would give that writes nothing; nothing where that is not known."""
    op = _unwritten(node.target)
    if op is None:
        return []
    args, kwargs = torch.fx.node.map_arg(_given(node), lambda arg: arg.meta["val"])
    of = [value for value in tree_leaves((args, kwargs)) if isinstance(value, torch.Tensor)]
    try:
        with torch._guards.detect_fake_mode([*map(innermost, of)]) or torch.no_grad(), levels_of((args, kwargs)):
            return tree_leaves(op(*args, **kwargs))
    except Exception:
        return []


def _is_view(op: Any) -> bool:
    return isinstance(op, torch._ops.OpOverload) and any(result.alias_info is not None for result in op._schema.returns)


class _Orders(TorchDispatchMode):
    """Notes whether what is not row-major is written by more than a copy, whether memory is addressed, and whether memory is
    written that windows show, or views that show elements more than once or as numbers of another kind."""

    def __init__(self) -> None:
        super().__init__()
        self.moved, self.addressed, self.lost = False, False, False
        self.seen_otherwise: set[int] = set()  # memories that are seen in several dtypes, or through windows

    def __torch_dispatch__(self, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        self.addressed = self.addressed or op._opname in ADDRESSING
        if op._opname == "unfold" or (op == ATEN.view.dtype and loses_bits(args[0].dtype, args[1])):
            self.seen_otherwise.add(args[0].untyped_storage()._cdata)
        if op._schema.is_mutable:
            values = dict(zip((arg.name for arg in op._schema.arguments), args, strict=False)) | kwargs
            writes = [values.get(arg.name) for arg in op._schema.arguments if arg.alias_info and arg.alias_info.is_write]
            written = [to for to in tree_leaves(writes) if isinstance(to, torch.Tensor)]
            if op._opname not in KEEPS_ORDER:
                self.moved = self.moved or not all(to.is_contiguous() for to in written)
            self.lost = self.lost or any(shows_twice(to) or to.untyped_storage()._cdata in self.seen_otherwise for to in written)
        return op(*args, **kwargs)


def loses_writes(graph: torch.fx.GraphModule) -> bool:
    """Whether AOT autograd may lose writes of a graph of dynamo's: its writes leave another order in memory than those in
    place, through windows it writes what is in none, what shows an element more than once gets the sum of all of its places,
    and bits that a number stands for change where they are those of a NaN."""
    names = {str(getattr(node.target, "__name__", node.target)).partition(".")[0] for node in graph.graph.nodes}
    examples = [node.meta["example_value"] for node in graph.graph.nodes if node.op == "placeholder"]
    expanded = any(isinstance(value, torch.Tensor) and shows_twice(value) for value in examples)
    if not expanded and not names & (ADDRESSING | SHOWING | EXPANDING | {"unfold", "view"}):
        return False
    mode = next((value.fake_mode for value in examples if isinstance(value, FakeTensor)), contextlib.nullcontext())
    orders, shown = _Orders(), _Shown(graph)
    with mode, orders:  # with gradients as it was captured: without, torch.func finds none
        shown.run(*_apart(examples))
    if (orders.moved and orders.addressed) or orders.lost:
        return True
    return orders.moved and bool(names & SHOWING) and not shown.as_functionalised(mode, examples)


class _Shown(torch.fx.Interpreter):
    """Runs a graph of dynamo's, and notes the strides of what it shows or copies by them."""

    def __init__(self, graph: torch.fx.GraphModule) -> None:
        super().__init__(graph)
        self.strides: dict[torch.fx.Node, tuple[int, ...]] = {}

    def run_node(self, n: torch.fx.Node) -> Any:
        if str(getattr(n.target, "__name__", n.target)).partition(".")[0] in SHOWING and n.args:
            value = self.env.get(n.args[0])  # type: ignore[arg-type]
            if isinstance(value, torch.Tensor):
                self.strides[n] = _strides_of(value)
        return super().run_node(n)

    def as_functionalised(self, mode: Any, examples: list[Any]) -> bool:
        """Whether these are the same where PyTorch's functionalisation writes nothing in place."""
        other = _Shown(self.module)  # type: ignore[arg-type]
        try:
            with mode:
                torch.func.functionalize(lambda *given: tree_leaves(other.run(*given)))(*_apart(examples))
        except Exception:  # of what it does not functionalise
            return False
        return other.strides == self.strides


def _strides_of(value: torch.Tensor) -> tuple[int, ...]:
    if not torch._is_functional_tensor(value):
        return value.stride()
    torch._sync(value)
    return torch._from_functional_tensor(value).stride()


def _apart(examples: list[Any]) -> list[Any]:
    """A call may restride them."""
    return [value.detach() if isinstance(value, torch.Tensor) else value for value in examples]


def with_results_for_outs(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """The program with results in place of tensors that a call makes as large as these, of operators that PyTorch takes apart:
    it gives them as views of what is too small. The program itself where there are none."""
    if not any(_outgrows(node) for part in parts_of(program.graph_module) for node in part.graph.nodes):
        return program
    module = copied(program.graph_module)
    for part in parts_of(module):
        for node in filter(_outgrows, part.graph.nodes):
            node.args, node.kwargs = _given(node)
            node.target = _unwritten(node.target)
    module.recompile()
    return rebuilt(program, module)


def _outgrows(node: torch.fx.Node) -> bool:
    op, outs = _unwritten(node.target), _outs(node)
    if op is None or len(outs) != 1 or len(op._schema.returns) != 1 or not op.has_kernel_for_dispatch_key(COMPOSITE):
        return False
    to, value, _ = outs[0]
    before = to.meta["val"]
    shapes = _is_static(before) and _is_static(value) and before.shape != value.shape
    return shapes and itself(to).op == "call_function" and len(to.users) == 1


def with_copied_results(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """The program with such results copied to where they are to be, in the order that they have there; the program itself
    where there are none."""
    if not any(_may_move(node) for part in parts_of(program.graph_module) for node in part.graph.nodes):
        return program
    module = copied(program.graph_module)
    for part in parts_of(module):
        for node in [node for node in part.graph.nodes if _may_move(node)]:
            with part.graph.inserting_before(node):
                _copy_results(part.graph, node)
    module.recompile()
    return rebuilt(program, module)


def _may_move(node: torch.fx.Node) -> bool:
    """Whether a call writes what is not row-major: where it writes nothing, its result or what it is taken apart into may be.
    Or writes into `out` what has another order there. Only calls that run so have a result that could be copied."""
    op = _unwritten(node.target)
    written = _written(node) if op is not None else []
    before = [to.meta.get("val") if isinstance(to, torch.fx.Node) else None for to in written]
    if not before or not all(isinstance(to, torch.Tensor) and _is_static(to) for to in before):
        return False
    dense = all(to.is_contiguous() for to in before)
    if dense and not any(arg.is_out for arg in node.target._schema.arguments):  # type: ignore[union-attr]
        return False
    after = _found(node)
    if [to.shape for to in before] != [value.shape for value in after]:
        return False
    return not dense or any(to.stride() != value.stride() for to, value in zip(before, after, strict=True))


def _is_static(value: torch.Tensor) -> bool:
    return all(isinstance(number, int) for number in (*value.shape, *value.stride()))


def _copy_results(graph: torch.fx.Graph, node: torch.fx.Node) -> None:
    """What the call would write is computed apart, and copied: copies keep the order of what they write."""
    op: Any = _unwritten(node.target)
    args, kwargs = _given(node)
    written, found = _written(node), call(graph, op, *args, **kwargs)
    if len(op._schema.returns) == 1:
        node.target, node.args, node.kwargs = ATEN.copy_.default, (written[0], _in_order(graph, found, written[0])), {}
        return
    for i, to in enumerate(written):
        call(graph, ATEN.copy_.default, to, _in_order(graph, call(graph, operator.getitem, found, i), to))
    for user in list(node.users):  # under its name, which the signature may have
        user.target, user.args = ATEN.alias.default, (written[user.args[1]],)
    graph.erase_node(node)


def _in_order(graph: torch.fx.Graph, value: torch.fx.Node, to: torch.fx.Node) -> torch.fx.Node:
    """A value in the order of memory that it is copied to: PyTorch takes it itself for what a weight is then."""
    strides = to.meta["val"].stride()
    order = sorted(range(len(strides)), key=lambda d: -strides[d])
    transposed = call(graph, ATEN.permute.default, value, order)
    dense = call(graph, ATEN.clone.default, transposed, memory_format=torch.contiguous_format)
    return call(graph, ATEN.permute.default, dense, [order.index(d) for d in range(len(order))])


def _written(node: torch.fx.Node) -> list[Any]:
    """What a call writes: its first operand, or `out`."""
    outs = [arg.name for arg in node.target._schema.arguments if arg.is_out]  # type: ignore[union-attr]
    return [node.kwargs.get(name) for name in outs] if outs else [*node.args[:1]]


def _given(node: torch.fx.Node) -> tuple[Any, dict[str, Any]]:
    """What a call that writes nothing is given."""
    outs = [arg.name for arg in node.target._schema.arguments if arg.is_out]  # type: ignore[union-attr]
    return node.args, {name: value for name, value in node.kwargs.items() if name not in outs}


def _unwritten(op: Any) -> torch._ops.OpOverload | None:
    """The operator that computes what this one writes."""
    if not isinstance(op, torch._ops.OpOverload) or op.namespace != "aten" or not op._schema.is_mutable:
        return None
    if op._opname in NO_RESULT or any(tag in op.tags for tag in NOT_COPIED):
        return None
    wanted = [(arg.name, str(arg.type)) for arg in op._schema.arguments if not arg.is_out]
    in_place = len(wanted) == len(op._schema.arguments)
    packet = getattr(ATEN, op._opname.removesuffix("_") if in_place else op._opname, None)
    for name in packet.overloads() if packet is not None else ():
        found = getattr(packet, name)
        same = [(arg.name, str(arg.type)) for arg in found._schema.arguments] == wanted
        if same and not found._schema.is_mutable and len(found._schema.returns) == len(op._schema.returns):
            return found
    return None
