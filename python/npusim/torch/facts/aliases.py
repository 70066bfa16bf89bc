"""What PyTorch's functionalisation does not follow of an exported program: weights that share memory, inputs that are given
another shape or order in place, copies that convert."""

from __future__ import annotations

import copy
import operator
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch.export.graph_signature import InputKind, OutputKind

from ...errors import Problem, UnsupportedError
from .bits import loses_bits
from .levels import innermost, is_inside
from .needed import CONDITIONS, find_needed
from .rows import argument, call

ATEN = torch.ops.aten
RESHAPE_ALIAS = (ATEN._reshape_alias, ATEN._reshape_alias.default)
FOLLOWED = 'What helps: torch.compile(model, backend="npusim"), whose tracer follows torch.func'
RESIZES = (ATEN.resize_.default, ATEN.resize_as_.default)
OVERLAPPING = {ATEN.unfold.default, ATEN.as_strided.default}  # views that may show an element more than once
NO_WRITES = {ATEN.detach_.default}  # of elements
REGIONS = (torch.ops.higher_order.wrap_with_autocast, torch.ops.higher_order.wrap_with_set_grad_enabled)
CHANGED = (OutputKind.BUFFER_MUTATION, OutputKind.USER_INPUT_MUTATION, OutputKind.PARAMETER_MUTATION)
WEIGHTS = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)


def rebuilt(
    program: torch.export.ExportedProgram, module: torch.fx.GraphModule, **changed: Any
) -> torch.export.ExportedProgram:
    """The program with this module's graph, and with what else is given in place of its own."""
    parts = ("graph_signature", "state_dict", "range_constraints", "module_call_graph", "example_inputs", "constants")
    of_program = {name: getattr(program, name) for name in (*parts, "verifiers")}
    return torch.export.ExportedProgram(root=module, graph=module.graph, **{**of_program, **changed})


def copied(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """A copy without weights: those are in the program. Its nodes keep their names, whatever Python has of these."""
    other = copy.deepcopy(module)
    for node, copied in zip(module.graph.nodes, other.graph.nodes, strict=True):
        copied.name = node.name
        if node.op == "placeholder":
            copied.target = node.target
    return other


def weight_of(program: torch.export.ExportedProgram, spec: Any) -> torch.Tensor:
    """The value of a weight. Raises UnsupportedError where the program has none."""
    for values in (program.state_dict, program.constants):
        value = values.get(spec.target)
        if is_inside(value):
            left = "of which torch.export left its tracer's tensor, without values"
            reason = f"is inside a transformation of torch.func, {left}. {FOLLOWED}"
            raise UnsupportedError([Problem(f"constant '{spec.target}'", reason)])
        if isinstance(value, torch.Tensor):
            return value
    raise UnsupportedError([Problem(f"weight '{spec.target}'", "the exported program has no value for it")])


def memory_of(value: torch.Tensor) -> int:
    """Whose memory a weight is in. One without memory of the usual kind, as sparse ones are, has its own."""
    return value.untyped_storage()._cdata if value.layout is torch.strided else id(value)


def overlap(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether they may show the same bytes: those between the first and the last of each are not apart."""
    if memory_of(a) != memory_of(b):
        return False
    if a.layout is not torch.strided:
        return True
    (first, end), (other_first, other_end) = _bytes_of(a), _bytes_of(b)
    return max(first, other_first) < min(end, other_end)


def _bytes_of(value: torch.Tensor) -> tuple[int, int]:
    """Of its memory the first that it shows, and the one behind the last."""
    first = value.storage_offset() * value.itemsize
    last = sum((extent - 1) * stride for extent, stride in zip(value.shape, value.stride(), strict=True))
    return first, first + ((last + 1) * value.itemsize if value.numel() else 0)


def place_of(value: torch.Tensor) -> tuple[Any, ...]:
    """Where a weight is: those with the same place are one."""
    if value.layout is not torch.strided:
        return (memory_of(value),)
    return (memory_of(value), value.storage_offset(), value.shape, value.stride(), value.dtype)


def parts_of(module: torch.fx.GraphModule) -> list[torch.fx.GraphModule]:
    """A module of a graph, and those of the regions and bodies within it."""
    return [part for part in module.modules() if isinstance(part, torch.fx.GraphModule)]


def without_failed(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """The program without calls that raised an error, which forward() caught: the tracer leaves them where they were."""
    if not any(_has_failed(node) for part in parts_of(program.graph_module) for node in part.graph.nodes):
        return program
    module = copied(program.graph_module)
    for part in parts_of(module):
        for node in [node for node in part.graph.nodes if _has_failed(node)]:
            part.graph.erase_node(node)
    module.recompile()
    return rebuilt(program, module)


def _has_failed(node: torch.fx.Node) -> bool:
    """Whether a call that would give something has given nothing."""
    op = node.target
    if not isinstance(op, torch._ops.OpOverload) or node.users or op._schema.is_mutable or not op._schema.returns:
        return False
    return node.meta.get("val") is None


def without_unread(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """The program without constants that only such calls read whose results nobody reads, and without these calls."""
    needed = find_needed(program.graph, [node for node in program.graph.nodes if str(node.target) in CONDITIONS])
    specs = program.graph_signature.input_specs
    given = [node for node in program.graph.nodes if node.op == "placeholder"]
    constants = {
        node.name: spec.target
        for node, spec in zip(given, specs, strict=True)
        if spec.kind == InputKind.CONSTANT_TENSOR and not needed.intersection(node.users)
    }
    if not constants:
        return program
    module, signature = copied(program.graph_module), copy.copy(program.graph_signature)
    unread = {node.name for node in program.graph.nodes if node not in needed} | {*constants}
    for node in reversed(module.graph.nodes):
        if node.name in unread and not node.users:
            module.graph.erase_node(node)
    signature.input_specs = [spec for spec in specs if spec.arg.name not in constants]
    module.recompile()
    kept = {spec.target for spec in signature.input_specs}
    values = {name: value for name, value in program.constants.items() if name in kept or name not in constants.values()}
    return rebuilt(program, module, graph_signature=signature, constants=values)


def separated(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """The program with each weight in memory of its own, where one placeholder stands for weights that are one tensor, with
    names of their own for inputs that a call may give another shape, and with copies that do nothing else. The values of
    weights that shared memory are not there: the caller puts them back."""
    graph, signature = program.graph, program.graph_signature
    specs = {spec.arg.name: spec for spec in signature.input_specs}
    given = [node for node in graph.nodes if node.op == "placeholder"]
    weights = {node.name: weight_of(program, specs[node.name]) for node in given if specs[node.name].kind in WEIGHTS}
    shared = len({memory_of(value) for value in weights.values()}) < len(weights)
    reshaped = any(reshapes(node) for node in graph.nodes)
    parts = parts_of(program.graph_module)
    _check_written(node for part in parts for node in part.graph.nodes)
    spelled = any(_is_spelled(node) for part in parts for node in part.graph.nodes)
    if not shared and not reshaped and not spelled:
        return program
    module = copied(program.graph_module)
    for part in parts_of(module):
        for node in [node for node in part.graph.nodes if _is_spelled(node)]:
            with part.graph.inserting_before(node):
                SPELLED.get(node.target, _address_part)(part.graph, node)
    given = [node for node in module.graph.nodes if node.op == "placeholder"]
    if reshaped:
        check_reshaped(program)
        for node in given:
            if isinstance(node.meta.get("val"), torch.Tensor) and node.name not in weights and node.users:
                _name_anew(module.graph, node, given[-1])
    state_dict, constants = dict(program.state_dict), dict(program.constants)
    owners: dict[Any, torch.fx.Node] = {}
    memory: set[int] = set()
    for node in given if shared else ():
        if node.name not in weights:
            continue
        value, target = weights[node.name], specs[node.name].target
        if node.users and (first := owners.setdefault(place_of(value), node)) is not node:
            node.replace_all_uses_with(first)
        if memory_of(value) in memory:
            for values in (state_dict, constants):
                if target in values:
                    values[target] = _apart(value, target in program.state_dict)
        memory.add(memory_of(value))
    module.recompile()
    return rebuilt(program, module, state_dict=state_dict, constants=constants)


def _apart(value: torch.Tensor, unread: bool) -> torch.Tensor:
    """One like it in other memory, which is not touched where nobody reads it."""
    with torch.no_grad():
        other = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype) if unread else value.clone()
    return torch.nn.Parameter(other, value.requires_grad) if isinstance(value, torch.nn.Parameter) else other


def _is_spelled(node: torch.fx.Node) -> bool:
    """Whether it copies what has another shape or dtype: PyTorch takes the source itself for a weight that such a call changes.
    Or whether it writes a diagonal, which PyTorch takes for memory: it does not follow that where it is a view's. Or updates
    running statistics that its schema does not say it writes. Or addresses memory under a name whose strides PyTorch drops. Or
    has windows, or addresses the memory of a view, and something is written through that. Or makes a number of an element whose
    place values decide, which PyTorch cannot take apart. Or writes by an operator that PyTorch has no form without writes of."""
    if node.target == ATEN.item.default:
        return not isinstance(innermost(node.args[0].meta["val"]).storage_offset(), int)
    if _is_part_of_overlapping(node):
        return True
    if node.target == ATEN.unfold.default:
        return is_written(node)
    if node.target == ATEN.as_strided.default:
        return owner_of(node) is not itself(node.args[0]) and is_written(node)
    if node.target == ATEN.instance_norm.default:
        return bool(argument(node, "use_input_stats")) and argument(node, "running_mean") is not None
    if node.target != ATEN.copy_.default:
        return node.target in (ATEN.fill_diagonal_.default, ATEN.polygamma_.default, *RESHAPE_ALIAS)
    to, source = node.args[0].meta["val"], node.args[1]
    value = source.meta["val"] if isinstance(source, torch.fx.Node) else source
    return not isinstance(value, torch.Tensor) or value.shape != to.shape or value.dtype != to.dtype


def _is_part_of_overlapping(node: torch.fx.Node) -> bool:
    """Whether something is written through a view of windows that overlap, or of addressed memory, which shows no element
    twice itself: PyTorch would write all of the windows back."""
    value, windows = node.meta.get("val"), _shown_by(node)
    if not isinstance(value, torch.Tensor) or windows is None:
        return False
    while windows.target not in OVERLAPPING:
        windows = _shown_by(windows)
        if windows is None:
            return False
    owner = owner_of(node)
    numbers = (*value.shape, *value.stride(), value.storage_offset())
    known = all(isinstance(number, int) for number in numbers) and value.dtype == owner.meta["val"].dtype
    return known and shows_twice(windows.meta["val"]) and not shows_twice(value) and is_written(node)


def _shown_by(node: torch.fx.Node) -> torch.fx.Node | None:
    """What a call that writes nothing gives a view of, alone or in a list; None where it gives none."""
    made = node.args[0] if node.target is operator.getitem else node
    op = made.target if isinstance(made, torch.fx.Node) else None
    if not isinstance(op, torch._ops.OpOverload) or op._schema.is_mutable or not made.args or not _is_alias(op):
        return None
    return made.args[0]


def is_written(node: torch.fx.Node) -> bool:
    """Whether a call writes a view, or a view of it."""
    for user in node.users:
        if user.target is operator.getitem and is_written(user):  # of a list of views
            return True
        if not isinstance(user.target, torch._ops.OpOverload):
            continue
        for i, argument in enumerate(user.target._schema.arguments):
            given = user.args[i] if i < len(user.args) else user.kwargs.get(argument.name)
            if given is node and argument.alias_info is not None and argument.alias_info.is_write:
                return True
        if any(result.alias_info is not None for result in user.target._schema.returns) and is_written(user):
            return True
    return False


def _convert(graph: torch.fx.Graph, node: torch.fx.Node) -> None:
    to, source = node.args[0].meta["val"], node.args[1]
    if not isinstance(source, torch.fx.Node) or not isinstance(source.meta["val"], torch.Tensor):
        node.target = ATEN.fill_.Scalar
        return
    if source.meta["val"].dtype != to.dtype:
        source = call(graph, ATEN.to.dtype, source, to.dtype)
    if source.meta["val"].shape != to.shape:
        source = call(graph, ATEN.expand.default, source, list(to.shape))
    node.args = (node.args[0], source, *node.args[2:])


def _fill_diagonal(graph: torch.fx.Graph, node: torch.fx.Node) -> None:
    x, value = node.args[:2]
    rows, columns, *more = x.meta["val"].shape
    if more:
        part = call(graph, ATEN.diagonal.default, x, 0, 0, 1)
        for _ in more:
            part = call(graph, ATEN.diagonal.default, part, 0, 0, -1)
        call(graph, ATEN.fill_.Scalar, part, value)
    else:
        for first in range(0, rows if argument(node, "wrap") else 1, columns + 1):
            part = call(graph, ATEN.slice.Tensor, x, 0, first, rows)
            call(graph, ATEN.fill_.Scalar, call(graph, ATEN.diagonal.default, part), value)
    node.target, node.args, node.kwargs = ATEN.alias.default, (x,), {}  # under its name, which the signature may have


def _update_statistics(graph: torch.fx.Graph, node: torch.fx.Node) -> None:
    """Each image has its own, of which the running ones get the mean over the images, as ATen does it."""
    x, momentum = argument(node, "input"), float(argument(node, "momentum"))
    for name, of in (("running_mean", ATEN.mean.dim), ("running_var", ATEN.var.correction)):
        running = argument(node, name)
        values = call(graph, ATEN.flatten.using_ints, call(graph, ATEN.to.dtype, x, running.meta["val"].dtype), 2)
        now = call(graph, ATEN.mean.dim, call(graph, of, values, [2]), [0])
        kept = call(graph, ATEN.mul.Scalar, running, 1 - momentum)
        call(graph, ATEN.copy_.default, running, call(graph, ATEN.add.Tensor, kept, now, alpha=momentum))
    given = {arg.name: argument(node, arg.name) for arg in node.target._schema.arguments}  # type: ignore[union-attr]
    node.args, node.kwargs = tuple((given | {"running_mean": None, "running_var": None}).values()), {}


def written_operands(node: torch.fx.Node) -> Iterator[torch.fx.Node]:
    """What a call writes."""
    if not isinstance(node.target, torch._ops.OpOverload) or not node.target._schema.is_mutable:
        return
    for i, argument in enumerate(node.target._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            given = node.args[i] if i < len(node.args) else node.kwargs.get(argument.name)
            yield from (one for one in torch.utils._pytree.tree_leaves(given) if isinstance(one, torch.fx.Node))


def written_memories(node: torch.fx.Node) -> Iterator[int]:
    """Whose memory a call writes."""
    for one in written_operands(node) if node.target not in NO_WRITES else ():
        if isinstance(one.meta.get("val"), torch.Tensor):
            yield memory_of(innermost(one.meta["val"]))


def itself(node: torch.fx.Node) -> torch.fx.Node:
    """The tensor that calls give back, which they have written or restrided."""
    while (same := _written_as(node)) is not None:
        node = same
    return node


def _written_as(node: torch.fx.Node) -> torch.fx.Node | None:
    """What a call has written or restrided and gives back: its first operand, or `out`. None where it gives something else."""
    made, at = node, 0
    if node.target is operator.getitem:  # one of several that it gives
        made, at = node.args
    if not isinstance(made.target, torch._ops.OpOverload) or not made.target._schema.is_mutable:
        return None
    returns = made.target._schema.returns
    of = returns[at].alias_info if len(returns) > at and (len(returns) == 1 or made is not node) else None
    if of is None or not of.is_write:
        return None
    given = [arg for arg in made.target._schema.arguments if arg.alias_info and arg.alias_info.before_set == of.before_set]
    same = argument(made, given[0].name) if given else None
    return same if isinstance(same, torch.fx.Node) else None


def owner_of(node: torch.fx.Node) -> torch.fx.Node:
    """What a value is a view of, or itself, in a graph whose calls write: its values share memory there."""
    memory = memory_of(innermost(node.meta["val"]))
    while True:
        made = node.args[0] if node.target is operator.getitem else node  # one of a list of views
        if made.target == ATEN.set_.source_Tensor:
            other = made.args[1]
        elif (other := _written_as(node)) is None:
            if not isinstance(made.target, torch._ops.OpOverload) or not made.args or not _is_alias(made.target):
                return node
            other = made.args[0]
        if memory_of(innermost(other.meta["val"])) != memory:
            return node
        node = other


def _is_alias(op: torch._ops.OpOverload) -> bool:
    """Whether the result of an operator may show the memory of its first operand."""
    found, first = op._schema.returns[:1], op._schema.arguments[0]
    return bool(found) and found[0].alias_info is not None and first.alias_info is not None


def as_strided(graph: torch.fx.Graph, node: torch.fx.Node) -> None:
    """A call of _reshape_alias, by the name that keeps its strides."""
    node.target = ATEN.as_strided.default


def _address(graph: torch.fx.Graph, node: torch.fx.Node) -> None:
    """What addresses the memory of a view, which PyTorch does not follow where it is written, addresses what that is a view
    of: the places are the same."""
    first = argument(node, "storage_offset")
    first = innermost(node.args[0].meta["val"]).storage_offset() if first is None else first
    node.args, node.kwargs = (owner_of(node), argument(node, "size"), argument(node, "stride"), first), {}


def _address_part(graph: torch.fx.Graph, node: torch.fx.Node) -> None:
    value = innermost(node.meta["val"])
    places = (list(value.shape), list(value.stride()), value.storage_offset())
    node.target, node.args, node.kwargs = ATEN.as_strided.default, (owner_of(node), *places), {}


def _unfold(graph: torch.fx.Graph, node: torch.fx.Node) -> None:
    """Windows as views through which the elements that are in none stay as they are: of PyTorch's own they become zeros. They
    are parts of a dimension that is split, if that goes up, or places of memory."""
    x, dim, size, step = (argument(node, name) for name in ("self", "dimension", "size", "step"))
    value, windows = x.meta["val"], node.meta["val"]
    dim %= max(value.dim(), 1)
    extents = (*value.shape, *value.stride(), *windows.shape)
    if not all(isinstance(extent, int) for extent in extents):
        what = "has windows that something is written through, of extents that values decide"
        raise UnsupportedError([Problem(f"node '{node.name}' ({node.target})", what)])
    if value.dim() == 0:  # one window of all there is
        return
    count = windows.shape[dim]
    if size <= step and count * step <= value.shape[dim]:
        whole = call(graph, ATEN.slice.Tensor, x, dim, 0, count * step)
        split = call(graph, ATEN.unflatten.int, whole, dim, [count, step])
        parts = call(graph, ATEN.slice.Tensor, split, dim + 1, 0, size)
        node.target, node.args, node.kwargs = ATEN.movedim.int, (parts, dim + 1, -1), {}
    else:
        places = (list(windows.shape), list(windows.stride()), windows.storage_offset())
        node.target, node.args, node.kwargs = ATEN.as_strided.default, (x, *places), {}


def _copy_element(graph: torch.fx.Graph, node: torch.fx.Node) -> None:
    node.args = (call(graph, ATEN.clone.default, node.args[0]),)


def _write_polygamma(graph: torch.fx.Graph, node: torch.fx.Node) -> None:
    x, n = (argument(node, name) for name in ("self", "n"))
    node.target, node.args, node.kwargs = ATEN.copy_.default, (x, call(graph, ATEN.polygamma.default, n, x)), {}


SPELLED = {
    ATEN.polygamma_.default: _write_polygamma,
    ATEN.item.default: _copy_element,
    **dict.fromkeys(RESHAPE_ALIAS, as_strided),
    ATEN.as_strided.default: _address,
    ATEN.unfold.default: _unfold,
    ATEN.copy_.default: _convert,
    ATEN.fill_diagonal_.default: _fill_diagonal,
    ATEN.instance_norm.default: _update_statistics,
}


def reshapes(node: torch.fx.Node) -> bool:
    """Whether a call gives what it is called of another shape or order."""
    op = node.target
    if not isinstance(op, torch._ops.OpOverload) or torch.Tag.inplace_view not in op.tags or op == ATEN.detach_.default:
        return False
    return not (op in RESIZES and _is_as_before(node))


def _is_as_before(node: torch.fx.Node) -> bool:
    """Whether what a call gives lies as what it is called of does."""
    before, now = (one.meta.get("val") for one in (node.args[0], node))
    return isinstance(before, torch.Tensor) and before.shape == now.shape and before.stride() == now.stride()


def _check_written(nodes: Iterable[torch.fx.Node]) -> None:
    """That no write goes through a view that shows an element more than once: PyTorch adds up what all of its places get;
    or through one of another dtype, where a number that nobody writes may be a NaN that loses its bits."""
    for node in nodes:
        for one in written_operands(node) if not reshapes(node) else ():
            value = one.meta.get("val")
            if isinstance(value, torch.Tensor) and shows_twice(value):
                what = "a view that shows an element more than once, as expand() gives it; what helps: to write into what "
                what += "it is a view of"
            elif _is_as_bits(one):
                what = "a view of another dtype; what helps: to compute the numbers, x = (x.view(torch.int32) & mask)"
                what += ".view(torch.float32), and to write those"
            else:
                continue
            raise UnsupportedError([Problem(f"node '{node.name}' ({node.target})", f"writes through {what}")])


def _is_as_bits(node: torch.fx.Node) -> bool:
    """Whether a node is a view of memory as numbers of another kind."""
    while isinstance(node.target, torch._ops.OpOverload) and node.args and isinstance(node.args[0], torch.fx.Node):
        results, before = node.target._schema.returns, node.args[0]
        if not any(result.alias_info is not None for result in results):
            return False
        if node.target == ATEN.view.dtype and loses_bits(before.meta["val"].dtype, node.args[1]):  # type: ignore[arg-type]
            return True
        node = before
    return False


def shows_twice(value: torch.Tensor) -> bool:
    """Extents that values decide are not asked for: the tracer would end there. Only a stride of 0 says it of them. Sparse ones
    have no strides."""
    if value.layout is not torch.strided:
        return False
    dims = list(zip(value.stride(), value.shape, strict=True))
    if not all(isinstance(number, int) for dim in dims for number in dim):
        return any(isinstance(stride, int) and stride == 0 for stride, extent in dims if not isinstance(extent, int))
    reached = 0
    for stride, extent in sorted(dims):
        if extent > 1 and stride <= reached:
            return value.numel() > 0
        reached += stride * max(extent - 1, 0)
    return False


def check_reshaped(program: torch.export.ExportedProgram) -> None:
    """That no weight itself, in contrast to a view of it, is given another shape: it would have that in the next run."""
    weights = {spec.arg.name for spec in program.graph_signature.input_specs if spec.kind in WEIGHTS}
    # What is a weight, with the weight.
    of = {node: node for node in program.graph.nodes if node.op == "placeholder" and node.name in weights}
    for node in program.graph.nodes:
        if node.op != "call_function":
            continue
        if reshapes(node) and node.args[0] in of and not _is_as_before(node):
            what = f"gives '{of[node.args[0]].name}' another shape or order in place; assign it: self.x = self.x.t()"
            raise UnsupportedError([Problem(f"node '{node.name}' ({node.target})", what)])
        if (same := itself(node)) in of:
            of[node] = of[same]


def _name_anew(graph: torch.fx.Graph, node: torch.fx.Node, last: torch.fx.Node) -> None:
    """All readers of an input read another name of it. What is returned as it was given is it, and its memory is addressed
    by its own: PyTorch takes no write through a view of a view that does so."""
    with graph.inserting_after(last):
        other = graph.call_function(ATEN.alias.default, (node,))
    other.meta = dict(node.meta)
    stays = (ATEN.as_strided.default,)
    node.replace_all_uses_with(
        other, delete_user_cb=lambda user: user is not other and user.op != "output" and user.target not in stays
    )
