"""set_: a tensor that shows other memory from there on, whatever its names. Where that is an argument, the caller's tensor
does too, and a buffer or a parameter in the next run."""

from __future__ import annotations

import contextlib
import copy
import operator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.export.graph_signature import InputKind, OutputKind, TensorArgument

from .errors import Problem, UnsupportedError
from .torch_aliases import REGIONS, copied, itself, memory_of, parts_of, place_of, rebuilt, reshapes, written_memories
from .torch_layouts import ADDRESSING
from .torch_levels import innermost
from .torch_rows import argument, call
from .torch_strided import addresses, places_at

ATEN = torch.ops.aten
STATES = (InputKind.BUFFER, InputKind.PARAMETER)
COMPOSITE = torch._C.DispatchKey.CompositeImplicitAutograd
Node = torch.fx.Node


def with_one_name(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """The program with one name for each tensor: what a call gives back as it was given, as `y.float()` does a y of float32 and
    `y.contiguous()` one that is, may be given other memory, or be turned, by either. The program itself where nothing is."""
    if not any(_turns(node) for part in parts_of(program.graph_module) for node in part.graph.nodes):
        return program
    module, signature = copied(program.graph_module), copy.deepcopy(program.graph_signature)
    for part in reversed(parts_of(module)):  # those within a part first
        names: dict[str, str] = {}
        for node in [node for node in part.graph.nodes if node.op == "call_function"]:
            if (same := _given_back(node, module)) is not None:
                names[node.name] = same.name
                node.replace_all_uses_with(same)
                part.graph.erase_node(node)
        for spec in signature.output_specs if part is module else ():
            if isinstance(spec.arg, TensorArgument) and spec.arg.name in names:
                spec.arg = TensorArgument(name=names[spec.arg.name])
    module.recompile()
    return rebuilt(program, module, graph_signature=signature)


def _turns(node: Node) -> bool:
    op = node.target
    return isinstance(op, torch._ops.OpOverload) and torch.Tag.inplace_view in op.tags and op != ATEN.detach_.default


def _given_back(node: Node, module: torch.fx.GraphModule) -> Node | None:
    """Of the operands of a call that changes nothing the one that it gives back, not a view of it. Schemas do not say it."""
    if node.target == ATEN.set_.source_Tensor and _is_same(*node.args):  # its own memory
        return node.args[0]  # type: ignore[return-value]
    if node.target is operator.getitem and node.args[0].target in REGIONS:  # type: ignore[union-attr]
        return _given_through(*node.args, module)  # type: ignore[arg-type, call-arg]
    if node.target is operator.getitem and (same := itself(node)) is not node:  # one of several that are written
        return same if same.meta["val"].shape == node.meta["val"].shape else None
    made_by = node.args[0] if node.target is operator.getitem else node
    op, value = made_by.target, node.meta.get("val")  # type: ignore[union-attr]
    if not isinstance(op, torch._ops.OpOverload) or op._schema.is_mutable or not isinstance(value, FakeTensor):
        return None
    if not op.has_kernel_for_dispatch_key(COMPOSITE):
        return None
    given = [one for one in made_by.all_input_nodes if isinstance(one.meta.get("val"), FakeTensor)]  # type: ignore[union-attr]
    alike = [one for one in given if memory_of(one.meta["val"]) == memory_of(value)]
    if not alike:
        return None
    others = {one: one.meta["val"].detach() for one in given}
    operands = (made_by.args, made_by.kwargs)  # type: ignore[union-attr]
    args, kwargs = torch.fx.node.map_arg(operands, lambda one: others.get(one, one.meta.get("val")))
    mode = value.fake_mode
    sizes = mode.shape_env.ignore_fresh_unbacked_symbols() if mode.shape_env else contextlib.nullcontext()
    with mode, sizes, torch.no_grad():
        try:
            made = op(*args, **kwargs)
        except Exception:  # of a size that values decide
            return None
    made = made if made_by is node else made[node.args[1]]
    return next((one for one in alike if others[one] is made), None)


def _is_same(x: Node, source: Node) -> bool:
    values = [innermost(one.meta["val"]) for one in (x, source)]
    return all(map(_is_static, values)) and place_of(values[0]) == place_of(values[1])


def _given_through(region: Node, at: int, module: torch.fx.GraphModule) -> Node | None:
    """What a region gives back as it was given."""
    within = next(i for i, given in enumerate(region.args) if isinstance(given, Node) and given.op == "get_attr")
    body = getattr(region.graph.owning_module, str(region.args[within].target)).graph  # type: ignore[union-attr]
    found = itself(body.output_node().args[0][at])
    given = [node for node in body.nodes if node.op == "placeholder"]
    return region.args[within + 1 + given.index(found)] if found in given else None  # type: ignore[return-value]


def with_memory_given(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """The program with a tensor of its own for each argument and state that set_ gives other memory, whose last value is copied
    into it at the end; the program itself where there is none. Raises UnsupportedError where it is given another shape."""
    _check_parts(program)
    specs = {spec.arg.name: spec for spec in program.graph_signature.input_specs}
    states = {name: spec for name, spec in specs.items() if spec.kind in STATES}
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
        _follow_layout(module, x)
    _copy_apart(module)
    module.recompile()
    return rebuilt(program, module, graph_signature=signature)


def moved_states(program: torch.export.ExportedProgram) -> list[str]:
    """The buffers and parameters that set_ leaves in another layout."""
    program = with_one_name(program)
    targets = {spec.arg.name: str(spec.target) for spec in program.graph_signature.input_specs if spec.kind in STATES}
    found = [node for node in _given(program.graph) if node.name in targets]
    now = [innermost(_turned(program.graph, node)[-1].meta["val"]) for node in found]
    pairs = zip(found, now, strict=True)
    return [targets[node.name] for node, value in pairs if innermost(node.meta["val"]).stride() != value.stride()]


def _copy_apart(module: torch.fx.GraphModule) -> None:
    """What copies a tensor with gaps, or in another order, goes on to do so: the one in its place is dense, or has the layout
    of before, and such a call would give a view of it, or itself."""
    for part in parts_of(module):
        for node in [node for node in part.graph.nodes if _may_show(node.target)]:
            made, first = node.meta.get("val"), node.args[0] if node.args else None
            value = first.meta.get("val") if isinstance(first, Node) else None
            if not isinstance(made, torch.Tensor) or not isinstance(value, torch.Tensor) or made.dtype != value.dtype:
                continue
            made, value = innermost(made), innermost(value)
            if memory_of(made) != memory_of(value) and not (_is_static(value) and value.is_contiguous()):
                with part.graph.inserting_before(node):
                    other = call(part.graph, ATEN.clone.default, first, memory_format=torch.contiguous_format)
                node.args = (other, *node.args[1:])


def _may_show(op: Any) -> bool:
    """Whether a call that writes nothing may give a view."""
    if not isinstance(op, torch._ops.OpOverload) or op._schema.is_mutable:
        return False
    return any(one.alias_info for one in op._schema.returns)


def _is_static(value: torch.Tensor) -> bool:
    return all(isinstance(number, int) for number in (*value.shape, *value.stride(), value.storage_offset()))


def _follow_layout(module: torch.fx.GraphModule, x: Node) -> None:
    """Where the memory of a tensor is addressed, that is where it is now: the one in its place is dense."""
    value = innermost(x.meta["val"])
    if not _is_static(value):
        return
    dense = torch.empty_strided(value.shape, value.stride(), device="meta").clone()
    if dense.stride() == value.stride() and not value.storage_offset():
        return
    for node in [node for part in parts_of(module) for node in part.graph.nodes]:
        if getattr(node.target, "_opname", "") not in ADDRESSING or node.args[0] is x:
            continue
        if memory_of(innermost(node.args[0].meta["val"])) == memory_of(value):
            _address(node, value, dense)


def _address(node: Node, before: torch.Tensor, now: torch.Tensor) -> None:
    """The same elements of a tensor that was laid out so before, and is now so."""
    size, strides = argument(node, "size"), argument(node, "stride")
    first = argument(node, "storage_offset")
    first = innermost(node.args[0].meta["val"]).storage_offset() if first is None else first  # type: ignore[union-attr]
    if not all(isinstance(number, int) for number in (*size, *strides, first)):
        raise _refused(node, "addresses memory at places that depend on values")
    places = places_at(before, addresses(size, strides, first))
    if places is None:
        raise _refused(node, "addresses memory that the argument does not show")
    if not places.numel():
        return
    places = addresses(now.shape, now.stride(), 0).flatten()[places]
    at = int(places.flatten()[0])
    others = [int(places.select(d, 1).flatten()[0]) - at if extent > 1 else 0 for d, extent in enumerate(size)]
    if not torch.equal(addresses(size, others, at), places):
        raise _refused(node, "addresses an argument in an order that its dimensions do not have")
    given = {arg.name: argument(node, arg.name) for arg in node.target._schema.arguments}  # type: ignore[union-attr]
    node.args, node.kwargs = tuple((given | {"stride": others, "storage_offset": at}).values()), {}


def _check_parts(program: torch.export.ExportedProgram) -> None:
    for part in parts_of(program.graph_module):
        for node in part.graph.nodes:
            if node.target == ATEN.set_data.default:
                raise _refused(node, "is not followed by the tracer; what helps: x.data = y")
            if _sets(node) and part is not program.graph_module and itself(node).op == "placeholder":
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
    return [node for node in graph.nodes if node is not x and reshapes(node) and itself(node) is x]


def _given(graph: torch.fx.Graph) -> list[Node]:
    """What set_ gives other memory, in the order of its first call."""
    found = dict.fromkeys(itself(node) for node in graph.nodes if _sets(node))
    for x in found:
        turned = _turned(graph, x)
        before, now = x.meta["val"], turned[-1].meta["val"]
        if x.op == "placeholder" and (before.shape != now.shape or before.dtype != now.dtype):
            raise _refused(turned[-1], f"leaves '{x.name}' {list(now.shape)}, which is given as {list(before.shape)}")
    return list(found)


def _sets(node: Node) -> bool:
    return getattr(node.target, "overloadpacket", None) == ATEN.set_


def _refused(node: Node, what: str) -> UnsupportedError:
    return UnsupportedError([Problem(f"node '{node.name}' ({node.target})", what)])
