"""set_, and dynamo's form of `x.data = y`: a tensor that shows other memory from there on, whatever its names. Where that is an
argument, the caller's tensor does too, and a buffer or a parameter in the next run."""

from __future__ import annotations

import contextlib
import copy
import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.export.graph_signature import InputKind, OutputKind, TensorArgument

from ...errors import Problem, UnsupportedError
from ..facts.addresses import addresses, places_at, strides_of
from ..facts.aliases import REGIONS, copied, itself, memory_of, parts_of, place_of, rebuilt, reshapes, written_memories
from ..facts.bodies import insert
from ..facts.checks import example_operands
from ..facts.levels import innermost
from ..facts.memory import remember
from ..facts.rows import argument, call
from .layouts import ADDRESSING, DATA_SET

ATEN = torch.ops.aten
STATES = (InputKind.BUFFER, InputKind.PARAMETER)
COMPOSITE = torch._C.DispatchKey.CompositeImplicitAutograd
GRADIENTS = torch.ops.higher_order.wrap_with_set_grad_enabled
Node = torch.fx.Node


def with_restrides_shown(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """The program in which each call that gives a tensor other memory, or another shape, is one of the tensor itself, under the
    name that PyTorch's functionalisation knows it by. The program itself where there is none."""
    return with_one_name(_with_data_set(_out_of_regions(program)))


def _out_of_regions(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """With the calls of regions of gradients instead of these, where something is restrided in one of them: what is
    from outside is restrided outside too, which no result of a region says. To a program such a region is nothing;
    strict export puts `x.data = y` into one of its own."""
    if not any(_is_restriding(part, node) for part in parts_of(program.graph_module) for node in part.graph.nodes):
        return program
    module, signature = copied(program.graph_module), copy.deepcopy(program.graph_signature)
    for part in reversed(parts_of(module)):  # those within a part first
        names: dict[str, str] = {}
        for node in [node for node in part.graph.nodes if node.target == GRADIENTS]:
            body = node.args[1]
            with part.graph.inserting_before(node):
                results = insert(part.graph, part, body, node.args[2:])
            for user in list(node.users):
                result = results[user.args[1]]
                names[user.name] = result.name
                user.replace_all_uses_with(result)
                part.graph.erase_node(user)
            part.graph.erase_node(node)
            _take_parts(part, body)
        _rename(signature, names if part is module else {})
    module.recompile()
    return rebuilt(program, module, graph_signature=signature)


def _take_parts(module: torch.fx.GraphModule, body: Node) -> None:
    """Has what the calls of a region name in the module itself, and no longer the region."""
    within = f"{body.target}."
    for node in [node for node in module.graph.nodes if node.op == "get_attr" and str(node.target).startswith(within)]:
        part, node.target = module.get_submodule(str(node.target)), str(node.target).replace(".", "_")
        module.add_submodule(node.target, part)
    if not body.users:
        module.graph.erase_node(body)
        module.delete_submodule(str(body.target))


def _is_restriding(module: torch.fx.GraphModule, node: Node) -> bool:
    if node.target != GRADIENTS:
        return node.target in DATA_SET
    body = module.get_submodule(str(node.args[1].target))  # type: ignore[union-attr]
    calls = [inner for part in parts_of(body) for inner in part.graph.nodes]  # type: ignore[arg-type]
    return any(inner.target in DATA_SET or _restrides(inner) for inner in calls)


def _with_data_set(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """With `x.data = y` of strict export as set_, as it is without strict: of its own name PyTorch drops the call."""
    if not any(node.target in DATA_SET for part in parts_of(program.graph_module) for node in part.graph.nodes):
        return program
    module = copied(program.graph_module)
    nodes = [node for part in parts_of(module) for node in part.graph.nodes]
    for node in nodes:
        if node.target in REGIONS:
            raise _refused(node, "is a region beside '.data =', whose memory strict export forgets; what helps: strict=False")
        if node.target in DATA_SET:
            node.target = ATEN.set_.source_Tensor
    _begin_anew(program, module.graph)
    for node in module.graph.nodes:
        if node.target is operator.getitem or isinstance(node.target, torch._ops.OpOverload):
            remember(node)
    module.recompile()
    return rebuilt(program, module)


def _begin_anew(program: torch.export.ExportedProgram, graph: torch.fx.Graph) -> None:
    """Gives what stands for arguments and weights the memory and the layout that these have: dynamo leaves there what the
    trace has made of it."""
    nodes = [node for node in graph.nodes if node.op == "placeholder"]
    mode = torch._guards.detect_fake_mode([node.meta.get("val") for node in nodes])
    memories: dict[int, torch.Tensor] = {}
    for node, given in zip(nodes, example_operands(program, graph), strict=True):
        if not isinstance(node.meta.get("val"), FakeTensor) or not isinstance(given, torch.Tensor):
            continue
        with mode:
            count = given.untyped_storage().nbytes()
            whole = memories.setdefault(memory_of(given), torch.empty(count, dtype=torch.uint8, device=given.device))
            value = torch.empty(0, dtype=given.dtype, device=given.device)
            value.set_(whole.untyped_storage(), given.storage_offset(), given.shape, given.stride())
        node.meta["val"] = value


def with_one_name(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """The program with one name for each tensor: what a call gives back as it was given, as `y.float()` does a y of float32 and
    `y.contiguous()` one that is, may be given other memory, or be restrided, by either. The program itself where nothing is."""
    if not any(_restrides(node) for part in parts_of(program.graph_module) for node in part.graph.nodes):
        return program
    module, signature = copied(program.graph_module), copy.deepcopy(program.graph_signature)
    for part in reversed(parts_of(module)):  # those within a part first
        names: dict[str, str] = {}
        for node in [node for node in part.graph.nodes if node.op == "call_function"]:
            if (same := _given_back(node, module)) is not None:
                names[node.name] = same.name
                node.replace_all_uses_with(same)
                part.graph.erase_node(node)
        _rename(signature, names if part is module else {})
    module.recompile()
    return rebuilt(program, module, graph_signature=signature)


def _rename(signature: Any, names: dict[str, str]) -> None:
    for spec in signature.output_specs:
        if isinstance(spec.arg, TensorArgument) and spec.arg.name in names:
            spec.arg = TensorArgument(name=names[spec.arg.name])


def _restrides(node: Node) -> bool:
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
    body, operands = region_body(region.graph.owning_module, region)  # type: ignore[arg-type]
    found = itself(body.graph.output_node().args[0][at])  # type: ignore[index, arg-type]
    given = [node for node in body.graph.nodes if node.op == "placeholder"]
    return operands[given.index(found)] if found in given else None


def region_body(module: torch.fx.GraphModule, region: Node) -> tuple[torch.fx.GraphModule, Sequence[Any]]:
    """A region's graph, and what that is given."""
    within = next(i for i, given in enumerate(region.args) if isinstance(given, Node) and given.op == "get_attr")
    return getattr(module, str(region.args[within].target)), region.args[within + 1 :]  # type: ignore[union-attr]


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
    program = with_restrides_shown(program)
    targets = {spec.arg.name: str(spec.target) for spec in program.graph_signature.input_specs if spec.kind in STATES}
    found = [node for node in _given(program.graph) if node.name in targets]
    now = [innermost(_restrided(program.graph, node)[-1].meta["val"]) for node in found]
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
    found = strides_of(places)
    if found is None:
        raise _refused(node, "addresses an argument in an order that its dimensions do not have")
    others, at = found
    given = {arg.name: argument(node, arg.name) for arg in node.target._schema.arguments}  # type: ignore[union-attr]
    node.args, node.kwargs = tuple((given | {"stride": others, "storage_offset": at}).values()), {}


def _check_parts(program: torch.export.ExportedProgram) -> None:
    for part in parts_of(program.graph_module):
        for node in part.graph.nodes:
            if node.target == ATEN.set_data.default:
                raise _refused(node, "is not followed by the tracer; what helps: x.data = y")
            if sets(node) and part is not program.graph_module and itself(node).op == "placeholder":
                raise _refused(node, "gives what is from outside its region other memory; what helps: copy_()")


def _check_apart(graph: torch.fx.Graph, states: dict[str, str]) -> None:
    """That no two states share memory from the next run on where something is written into one: a program has memory of its
    own for each. states: by the names of nodes those of the model."""
    given = [node for node in _given(graph) if node.name in states]
    owners = [node for node in graph.nodes if node.op == "placeholder" and node.name in states]
    first = {node: memory_of(innermost(node.meta["val"])) for node in owners}
    left = first | {node: memory_of(innermost(_restrided(graph, node)[-1].meta["val"])) for node in given}
    written = {memory for node in graph.nodes if not sets(node) for memory in written_memories(node)}
    for x in given:
        for other in owners:
            if other is x or left[other] != left[x] or first[other] == first[x] or not written & {first[x], first[other], left[x]}:
                continue
            what = f"is given the memory of '{states[other.name]}', and forward() writes into one of them: give it a clone() of it"
            raise UnsupportedError([Problem(f"'{states[x.name]}'", what)])


def _restrided(graph: torch.fx.Graph, x: Node) -> list[Node]:
    """The calls that give a tensor other memory, or another shape."""
    return [node for node in graph.nodes if node is not x and reshapes(node) and itself(node) is x]


def _given(graph: torch.fx.Graph) -> list[Node]:
    """What set_ gives other memory, in the order of its first call."""
    found = dict.fromkeys(itself(node) for node in graph.nodes if sets(node))
    for x in found:
        restrided = _restrided(graph, x)
        before, now = x.meta["val"], restrided[-1].meta["val"]
        if x.op == "placeholder" and (before.shape != now.shape or before.dtype != now.dtype):
            raise _refused(restrided[-1], f"leaves '{x.name}' {list(now.shape)}, which is given as {list(before.shape)}")
    return list(found)


def sets(node: Node) -> bool:
    """Whether it is a call of set_."""
    return getattr(node.target, "overloadpacket", None) == ATEN.set_


def _refused(node: Node, what: str) -> UnsupportedError:
    return UnsupportedError([Problem(f"node '{node.name}' ({node.target})", what)])
