"""Buffers that a model assigns anew: their values are kept, what shows old ones goes on to show them, and what no program
can keep is told."""

from __future__ import annotations

import contextlib
import copy
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch.export import _trace
from torch.export.graph_signature import TensorArgument
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from ...errors import Problem, UnsupportedError
from ..facts.aliases import ATEN, copied, memory_of, place_of, rebuilt, shows_twice
from ..facts.threads import replaced, without_warnings
from ..facts.messages import place
from .contents import Contents
from .dataclasses import called
from .kept import OWN, kept


@dataclass
class Held:
    """The buffers and parameters of a module, as it has them when forward() begins."""

    path: str
    module: torch.nn.Module
    buffers: dict[str, torch.Tensor | None]
    parameters: dict[str, torch.nn.Parameter | None]
    versions: dict[str, int]


@dataclass
class Slot:
    """A buffer or a parameter, before forward() and behind it. None: there was or is no tensor."""

    name: str  # "part.h"
    where: str  # "buffer 'part.h'"
    before: torch.Tensor | None
    now: torch.Tensor | None
    moved: bool  # from the buffers to the parameters, or back
    written: bool  # whether forward() wrote into what was there before
    assigned: bool


class Assigned(NamedTuple):
    """A buffer that forward() assigns. One that no state can keep must be set in every run before anything reads it."""

    where: str
    why: str  # it cannot be kept; "" where it can
    now: torch.Tensor | None
    memory_of: str = ""  # the buffer whose memory it is given


def check_assigned(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], contents: Contents) -> None:
    """Refuses, for strict=True, a model whose forward() assigns buffers, and notes what it changes in containers among its
    arguments: dynamo drops both without a word. It runs once, in eager PyTorch, with copies of the buffers and of the
    arguments."""
    buffers = {name: value.detach().clone() for name, value in model.named_buffers()}
    held: list[Held] = []
    assigned: list[str] = []
    begin = model.register_forward_pre_hook(lambda *_: held.extend([] if held else _held(model)), prepend=True)
    end = model.register_forward_hook(lambda *_: assigned.extend(slot.where for slot in _slots(held) if slot.assigned))
    try:
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            args, kwargs = copy.deepcopy((args, kwargs))
            contents.begin(args, kwargs)
            output = called(torch.func.functional_call, model, buffers, args, kwargs)
    except Exception:  # torch.export ends there too, and says where
        return
    finally:
        begin.remove()
        end.remove()
    if assigned:
        what = "is assigned by forward(), which torch.export drops with strict=True: expected strict=False, or copy_()"
        raise UnsupportedError([Problem(where, what) for where in dict.fromkeys(assigned)])
    contents.end(output, strict=True)


@contextlib.contextmanager
def assignments_kept(
    model: torch.nn.Module, strict: bool, assigned: dict[str, Assigned], contents: Contents
) -> Iterator[None]:
    """What forward() assigns to buffers, its own or a part's, is copied into them behind all else, and so is what it puts
    in the place of an argument in a container. Of torch.export alone it follows only the model's own buffers, of these none
    that is an argument or another buffer, and drops the others without a word. strict: check_assigned() has seen to it.
    assigned: gets these buffers; what cannot be kept nothing may read."""
    if strict:
        yield
        return
    held: list[Held] = []

    def begin(_model: torch.nn.Module, args: Any, kwargs: Any) -> None:
        if _is_outermost_call(model):
            held[:] = _held(model)
            contents.begin(args, kwargs)

    def end(_model: torch.nn.Module, _args: Any, output: Any) -> Any:
        if not _is_outermost_call(model):
            return output
        return _with_copies(held, output, assigned, contents.end(output))

    before = model.register_forward_pre_hook(begin, prepend=True, with_kwargs=True)
    hooks = before, model.register_forward_hook(end)
    unfollowed = replaced(_trace, "register_buffer_assignment_hook", lambda *_: types.SimpleNamespace(remove=lambda: None))
    try:
        with replaced(torch.nn.Module, "_apply", _apply), unfollowed:
            yield
    finally:
        contents.put_back()
        for hook in hooks:
            hook.remove()


def _apply(module: torch.nn.Module, change: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> torch.nn.Module:
    """What `part.to(x.device)` and its like are made of: PyTorch's exchanges tensors, which the tracer holds, also where
    nothing changes. What does is assigned."""
    for part in module.children() if recurse else ():
        part._apply(change)
    for name, value in module._parameters.items():
        if value is not None and not _is_same(value, now := change(value)):
            module._parameters[name] = torch.nn.Parameter(now, value.requires_grad)
    for name, value in module._buffers.items():
        if value is not None and not _is_same(value, now := change(value)):
            module._buffers[name] = now
    return module


def _is_outermost_call(model: torch.nn.Module) -> bool:
    """Whether the call that is at work is none that the model makes of itself. Hooks do not see which of these are left by
    what they raise."""
    frame: types.FrameType | None = sys._getframe()
    calls = 0
    while frame is not None:
        if frame.f_code is torch.nn.Module._call_impl.__code__:
            calls += vars(frame.f_locals["self"]) is vars(model)  # the tracer has others with a module's attributes
        frame = frame.f_back
    return calls == 1


def _held(model: torch.nn.Module) -> list[Held]:
    found = []
    for path, module in model.named_modules():
        buffers, parameters = _owned(module)
        versions = {name: _version(value) for name, value in {**buffers, **parameters}.items() if value is not None}
        found.append(Held(path, module, buffers, parameters, versions))
    return found


def _owned(module: torch.nn.Module) -> tuple[dict[str, Any], dict[str, Any]]:
    """Its buffers and its parameters; those of modules of TorchScript are in no dicts."""
    return dict(module._buffers.items()), dict(module._parameters.items())


def _version(value: torch.Tensor) -> int:
    return 0 if value.is_inference() else value._version  # of inference PyTorch counts no writes


def _slots(held: list[Held]) -> list[Slot]:
    found = []
    for one in held:
        buffers, parameters = _owned(one.module)
        for name in dict.fromkeys((*one.buffers, *one.parameters, *buffers, *parameters)):
            was_parameter, is_parameter = name in one.parameters, name in parameters
            before = one.parameters[name] if was_parameter else one.buffers.get(name)
            now = parameters[name] if is_parameter else buffers.get(name)
            kind = "parameter" if was_parameter else "buffer"
            full = _full(one.path, name)
            moved = before is not None and now is not None and was_parameter != is_parameter
            written = before is not None and _version(before) != one.versions[name]
            found.append(Slot(full, f"{kind} '{full}'", before, now, moved, written, moved or not _is_same(before, now)))
    return found


def _full(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _is_same(a: torch.Tensor | None, b: torch.Tensor | None) -> bool:
    """Whether they show the same memory alike, as `x.to(x.device)` does x."""
    return a is b or (a is not None and b is not None and place_of(a) == place_of(b))


def _with_copies(
    held: list[Held], output: Any, found: dict[str, Assigned], given: list[tuple[torch.Tensor, torch.Tensor]]
) -> Any:
    """The modules have again what they had, with the values that forward() assigned. Gives its output, with a copy of what
    shows old values. given: arguments, each with what is to be their value."""
    slots = _slots(held)
    found.clear()
    near = _near(slots)
    for slot in (slot for slot in slots if slot.assigned):
        found[slot.name] = Assigned(slot.where, _why_not(slot), slot.now, _becomes_one_with(slot, near[slot.name]))
    slots = [slot for slot in slots if not _is_anew(slot)]
    assigned = [slot for slot in slots if slot.assigned]
    problems = [Problem(slot.where, why) for slot in assigned if (why := _why_not(slot))]
    problems = problems or _that_would_be_one(slots)
    _give(held)
    if problems:
        raise UnsupportedError(problems)
    pairs = [*((slot.before, slot.now) for slot in assigned), *given]
    targets = {memory_of(before) for before, _ in pairs if before is not None}

    def apart(value: Any) -> Any:
        return value.clone() if isinstance(value, torch.Tensor) and memory_of(value) in targets else value

    values = [(before, apart(now)) for before, now in pairs]
    output = pytree.tree_map(apart, output)
    for before, value in values:
        if before is not None:
            before.copy_(value)
    return output


def _is_anew(slot: Slot) -> bool:
    """Whether a buffer has another tensor behind forward() than a state could have."""
    return slot.assigned and slot.now is not None and not isinstance(slot.now, torch.nn.Parameter) and bool(_why_not(slot))


def check_next_run(
    model: torch.nn.Module, args: Any, kwargs: dict[str, Any], assigned: dict[str, Assigned], moved: Sequence[str]
) -> None:
    """Refuses assigned buffers of which a run asks more than a program keeps of an earlier one: a layout, which other buffer it
    is, or, where it cannot be kept, its shape or whether it is there. moved: states that are given memory of another layout,
    likewise. It runs some times in eager PyTorch, with copies."""
    if not assigned and not moved:
        return
    try:
        _, left = _eager_run(model, args, kwargs, _copies_of(model))
        held = _copies_of(model)
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            for before, now in zip(held, left, strict=True):
                _keep(before, now, assigned)
        (found, _), (expected, _) = _eager_run(model, args, kwargs, held), _eager_run(model, args, kwargs, left)
        alike = _are_same(found, expected)
    except Exception:  # of a shape that the next run does not take
        alike = False
    if not alike:
        what = "is assigned by forward(), whose next run asks for more than its values: a layout, or which buffer it is"
        unkept = [Problem(one.where, one.why) for one in assigned.values() if one.why]
        other = "is given memory of another layout by forward(), whose next run asks for it"
        others = [Problem(f"'{name}'", other) for name in moved]
        raise UnsupportedError(unkept or [*(Problem(one.where, what) for one in assigned.values()), *others])


def _keep(before: Held, now: Held, assigned: dict[str, Assigned]) -> None:
    """Gives a module's own buffers the values that a run has left in them. What cannot be kept has others than that run's."""
    for name, left in now.buffers.items():
        one = assigned.get(_full(now.path, name))
        if left is not None and one is not None and one.why:
            now.buffers[name] = torch.randn(left.shape).mul(8).to(left.dtype)
        elif left is not None:
            before.buffers[name].copy_(left)
    for name, left in now.parameters.items():
        if left is not None:
            before.parameters[name].copy_(left)


def raises_in_eager(model: torch.nn.Module, args: Any, kwargs: dict[str, Any]) -> bool:
    """Whether forward() raises an error, traced or not."""
    try:
        _eager_run(model, args, kwargs, _copies_of(model))
    except Exception:
        return True
    return False


def gradient_taken_at(model: torch.nn.Module, args: Any, kwargs: dict[str, Any]) -> str:
    """Which line of a model's takes a gradient first; "" where none does. Found by running it, whatever that raises."""
    with contextlib.suppress(Exception), _Gradients() as gradients:
        _eager_run(model, args, kwargs, _copies_of(model))
    return gradients.at


class _Gradients(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.at = ""

    def __torch_function__(self, call: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if call in (torch.autograd.grad, torch.autograd.backward, torch.Tensor.backward):
            self.at = self.at or place()
        return call(*args, **(kwargs or {}))


def constant_written_at(model: torch.nn.Module, args: Any, kwargs: dict[str, Any]) -> tuple[str, str]:
    """Which tensor that is neither a weight nor an argument, nor made by forward(), it changes first, by its name as an
    attribute, and which line does; "" for what is not found. Found by running it, whatever that raises."""
    held = _copies_of(model)
    owned = [value for one in held for value in (*one.buffers.values(), *one.parameters.values())]
    names = {
        memory_of(value): _full(path, name)
        for path, module in model.named_modules()
        for name, attribute in vars(module).items()
        if name not in OWN
        for value in pytree.tree_leaves(attribute)
        if isinstance(value, torch.Tensor)
    }
    with contextlib.suppress(Exception), _Writes([value for value in owned if value is not None], names) as writes:
        _eager_run(model, args, kwargs, held)
    return writes.found


class _Writes(TorchFunctionMode):
    """Finds the first write to a tensor that is neither one of these nor made while it watches."""

    def __init__(self, owned: list[torch.Tensor], names: dict[int, str]) -> None:
        super().__init__()
        self.names = names
        self.known = {memory_of(value): value for value in owned}  # kept alive, so that no other has the memory
        self.found = "", ""

    def __torch_function__(self, call: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = [value for value in pytree.tree_leaves((args, kwargs)) if isinstance(value, torch.Tensor)]
        versions = [(value, _version(value)) for value in given if memory_of(value) not in self.known]
        result = call(*args, **(kwargs or {}))
        for value in (value for value, version in versions if _version(value) != version and not self.found[1]):
            self.found = self.names.get(memory_of(value), ""), place()
        constants = {memory_of(value) for value, _ in versions}
        for made in pytree.tree_leaves(result):
            if isinstance(made, torch.Tensor) and memory_of(made) not in constants:
                self.known.setdefault(memory_of(made), made)
        return result


def _eager_run(model: torch.nn.Module, args: Any, kwargs: dict[str, Any], held: list[Held]) -> tuple[list[Any], list[Held]]:
    """What forward() gives and what is in all buffers then, beginning with these; and those that it leaves."""
    with kept(model), _own_kept(model), torch.no_grad(), without_warnings():
        torch.default_generator.manual_seed(0)
        _give(held)
        args, kwargs = copy.deepcopy((args, kwargs))
        output = called(model, *args, **kwargs)
        return pytree.tree_leaves((output, dict(model.named_buffers(remove_duplicate=False)))), _held(model)


@contextlib.contextmanager
def _own_kept(model: torch.nn.Module) -> Iterator[None]:
    held = _held(model)
    try:
        yield
    finally:
        _give(held)


def _copies_of(model: torch.nn.Module) -> list[Held]:
    """What the modules have, as copies."""
    copies: dict[int, torch.Tensor] = {}
    held = _held(model)
    for one in held:
        for owned in (one.buffers, one.parameters):
            owned.update({name: _copy_of(value, copies) for name, value in owned.items() if value is not None})
    return held


def _give(held: list[Held]) -> None:
    """The modules have this."""
    for one in held:
        if isinstance(one.module, torch.jit.ScriptModule):
            _give_script(one)
            continue
        one.module._buffers.clear()
        one.module._buffers.update(one.buffers)
        one.module._parameters.clear()
        one.module._parameters.update(one.parameters)


def _give_script(one: Held) -> None:
    """A module of TorchScript has as many of them as it was made with."""
    buffers, parameters = _owned(one.module)
    for name, value in {**one.buffers, **one.parameters}.items():
        if value is not {**buffers, **parameters}.get(name):
            setattr(one.module, name, value)


def _copy_of(value: torch.Tensor, copies: dict[int, torch.Tensor]) -> Any:
    """The one copy of a buffer or a parameter, whatever the number of its names."""
    if id(value) not in copies:
        copy = value.detach().clone()
        if value.layout is torch.strided and copy.stride() != value.stride() and not shows_twice(value):  # with its gaps
            copy = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device).copy_(copy)
        copies[id(value)] = torch.nn.Parameter(copy, value.requires_grad) if isinstance(value, torch.nn.Parameter) else copy
    return copies[id(value)]


def _are_same(found: list[Any], others: list[Any]) -> bool:
    def is_same(a: Any, b: Any) -> bool:
        if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
            return a.dtype == b.dtype and a.shape == b.shape and bool(((a == b) | ((a != a) & (b != b))).all())
        return type(a) is type(b) and a == b

    return len(found) == len(others) and all(map(is_same, found, others))


def _why_not(slot: Slot) -> str:
    """Why what was assigned cannot be kept from run to run; "" where it can."""
    before, now = slot.before, slot.now
    if now is None:
        return f"is {_type(before)} and nothing behind forward(): expected one that keeps its shape and dtype"
    if before is None:
        zeros = f"torch.zeros({list(now.shape)}, dtype={now.dtype})"
        return f"is no tensor and is assigned {_type(now)} by forward(): expected one from the beginning, {zeros}"
    if any(stride == 0 and extent > 1 for stride, extent in zip(before.stride(), before.shape, strict=True)):
        return "is expanded, shows an element in many places, and is assigned by forward(): expected a clone() of it"
    if slot.moved:
        return "becomes a parameter, or a parameter a buffer, in forward(): expected a tensor, as torch.clone() gives it"
    if before.shape != now.shape or before.dtype != now.dtype:
        what = f"is {_type(before)} and is assigned {_type(now)} by forward(): expected the same shape and dtype in every run"
        if before.numel() == 0:
            return f"{what}. A state that the first run makes is there after one: call the model once before"
        return f"{what}. What grows needs a buffer of its largest size, of which forward() writes parts: self.h[:, at] = x"
    return ""


def _type(value: torch.Tensor | None) -> str:
    return "nothing" if value is None else f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"


def _that_would_be_one(slots: list[Slot]) -> list[Problem]:
    """Those that would share memory from the next run on, where forward() writes into one of them in place: a program has
    memory of its own for each. And those that shared it, of which an assignment parts them."""
    problems, near = [], _near(slots)
    for slot in (slot for slot in slots if slot.assigned):
        for other in near[slot.name]:
            was_one, is_one = _share(slot.before, other.before), _share(slot.now, other.now)
            if is_one and not was_one and (slot.written or other.written):
                what = f"is assigned the memory of {other.where}, and forward() writes into one of them: assign a clone() of it"
            elif was_one and not _is_same(slot.now, other.now):
                what = f"is assigned by forward(), and shares memory with {other.where}: expected memory of its own"
            else:
                continue
            problems.append(Problem(slot.where, what))
            break
    return problems


def _near(slots: list[Slot]) -> dict[str, list[Slot]]:
    """By name the others that share memory with a buffer or a parameter, before forward() or behind it, in their order."""
    owners: dict[tuple[str, int], list[int]] = {}
    memories = [
        [(when, memory_of(value)) for when, value in (("before", slot.before), ("now", slot.now)) if value is not None]
        for slot in slots
    ]
    for number, of_one in enumerate(memories):
        for memory in of_one:
            owners.setdefault(memory, []).append(number)
    return {
        slot.name: [slots[other] for other in sorted({o for memory in of_one for o in owners[memory]} - {number})]
        for number, (slot, of_one) in enumerate(zip(slots, memories, strict=True))
    }


def _becomes_one_with(slot: Slot, near: list[Slot]) -> str:
    ones = (o for o in near if _share(slot.now, o.now) and not _share(slot.before, o.before))
    return next((other.name for other in ones), "")


def _share(a: torch.Tensor | None, b: torch.Tensor | None) -> bool:
    return a is not None and b is not None and memory_of(a) == memory_of(b)


def with_old_values(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """torch.export writes `self.b = value` as a copy into the buffer, behind all else. What the model had of the buffer
    before, and returns or assigns to another one, would be the new value then: it is copied before."""
    if not _assignments(program.graph):
        return program
    module, signature = copied(program.graph_module), copy.deepcopy(program.graph_signature)
    graph = module.graph
    assignments, output = _assignments(graph), graph.output_node()
    given = {node.args[0] for node in assignments}
    shown = shown_by(graph)
    old: dict[torch.fx.Node, torch.fx.Node] = {}

    def before(node: torch.fx.Node) -> torch.fx.Node:
        if not shown.get(node, set()) & given:
            return node
        if node not in old:
            with graph.inserting_before(assignments[0]):
                old[node] = graph.call_function(ATEN.clone.default, (node,))
            old[node].meta = dict(node.meta)
        return old[node]

    for node in assignments:
        node.args = (node.args[0], torch.fx.node.map_arg(node.args[1], before))
    output.args = torch.fx.node.map_arg(output.args, before)
    names = {node.name: clone.name for node, clone in old.items()}
    for spec in signature.output_specs:
        if isinstance(spec.arg, TensorArgument) and spec.arg.name in names:
            spec.arg = TensorArgument(name=names[spec.arg.name])
    module.recompile()
    return rebuilt(program, module, graph_signature=signature)


def _assignments(graph: torch.fx.Graph) -> list[torch.fx.Node]:
    """The copies before the end that torch.export has added, in their order; those that a model calls have other names."""
    found: list[torch.fx.Node] = []
    for node in reversed([*graph.nodes][:-1]):
        added = node.target == ATEN.copy_.default and node.name.startswith("copy__default") and not node.users
        if not added or node.args[0].op != "placeholder":
            break
        found.append(node)
    return found[::-1]


def shown_by(graph: torch.fx.Graph) -> dict[torch.fx.Node, set[torch.fx.Node]]:
    """The placeholders whose memory a node may show."""
    shown: dict[torch.fx.Node, set[torch.fx.Node]] = {}
    for node in graph.nodes:
        if node.op == "placeholder":
            shown[node] = {node}
        elif node.op == "call_function":
            op = node.target
            views = not isinstance(op, torch._ops.OpOverload) or any(one.alias_info for one in op._schema.returns)
            if views:
                shown[node] = set().union(*(shown.get(operand, set()) for operand in node.all_input_nodes))
    return shown
