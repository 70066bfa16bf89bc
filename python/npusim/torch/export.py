"""From torch.export's graph to IR: every call as it is, higher-order bodies inlined, every tensor's value kept."""

from __future__ import annotations

import contextlib
import copy
import functools
import itertools
import traceback
import types
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.export import _trace
from torch.export._tree_utils import reorder_kwargs
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.utils import _pytree as pytree

from ..arguments import flag, mapping, sequence, text
from ..arrays import not_dense
from ..errors import Error, Problem, UnsupportedError, UsageError
from ..exported import Exported
from ..nested import Key, Leaf
from ..parts import level_of_caller
from .facts.aliases import CHANGED, WEIGHTS, memory_of, overlap, place_of, shows_twice, weight_of
from .facts.memory import with_memory
from .facts.threads import alone, replaced
from .facts.messages import ANOTHER_LINE, NAMED, explained, set_text, trained_text, what_of
from .forms.ref import Ref, Refused
from .functional.given import moved_states
from .passes.order import prepared
from .passes.results import without_nan
from .passes.sizes import GuessedWrong
from .tracing.arithmetic import numbers_followed
from .tracing.assigned import (
    Assigned,
    assignments_kept,
    check_assigned,
    check_next_run,
    constant_written_at,
    gradient_taken_at,
    raises_in_eager,
)
from .tracing.branches import find_branches
from .tracing.contents import Contents, changed_text, held_twice
from .tracing.conversions import Forms, traced_with_forms
from .tracing.dataclasses import classes_registered, paths_of, register_structures, results_registered
from .tracing.fixed import holding
from .tracing.kept import kept
from .tracing.packed import traced_with_lengths
from .tracing.seeds import drawn_text, generators_kept, refuse_seeds, seeds_noted
from .tracing.tracing import data_known, following_example, tracing
from .writing.held import held_by
from .writing.ir import Writer, parts_of_complex

_REAL_INPUT = "expected real numbers: give the model torch.view_as_real(…), and make torch.view_as_complex(…) of it there"
_REAL_OUTPUT = "expected real numbers: return torch.view_as_real(…) of it"


def export(
    model: Any,
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    strict: bool = False,
    fixed: Sequence[str] = (),
) -> Exported:
    """IR and weights of a model: everything that it computes with, whatever its state_dict holds.

    model: a torch.nn.Module, in train() or eval() mode as it is; or a torch.export.ExportedProgram.
    args, kwargs: example arguments. Tensors among them, in whatever dicts, lists and dataclasses, become inputs, named as
        forward() names them; numbers and strings are part of the program.
    strict: trace with torch.export's strict=True.
    fixed: keywords in kwargs whose example values are part of the program, as numbers are: tensors among them become no
        inputs, and what is computed of them alone may decide shapes (the sizes of images: `spatial_shapes`,
        `image_grid_thw`). With strict=True that is what dynamo can follow.

    Sizes and branches that depend on values are those of the example where npusim knows no static form for all of them: a
    warning names them, Exported.made_for lists them, and a run whose values ask for others fails by name.

    Outputs are named by their keys in dicts and dataclasses ("logits"), "output" where there is one, "output_0", … in
    tuples; numbers among them are tensors of one. A buffer that the model changes in place or assigns becomes an input and an
    output, which a Session carries from run to run beginning with the buffer's value; an argument that it changes, or
    in whose place in a container it puts another tensor of its shape and dtype, has an output NAME_next.

    The model stays as it was, whatever its forward() sets. A warning names what would behave as in training, attributes
    that forward() sets to what it computes, what else it leaves in containers among its arguments, and generators other than
    PyTorch's that it draws from.

    Raises UnsupportedError with a problem for each thing that has no place in IR, and for what torch.export does not
    trace."""
    flag("strict", strict)
    names = [fixed] if isinstance(fixed, str) else sequence("fixed", fixed, "names")
    fixed = [text("fixed", name) for name in names]
    if isinstance(model, torch.export.ExportedProgram):
        if args is not None or kwargs is not None or fixed:
            raise UsageError("an ExportedProgram has its arguments already")
        return _of_exported(model)
    _check_model(model)
    if args is None and kwargs is None:
        raise UsageError("a torch.nn.Module needs example arguments: args, kwargs")
    if args is not None and not isinstance(args, torch.Tensor):
        sequence("args", args, "a tuple of example arguments")
    given = dict(mapping("kwargs", {} if kwargs is None else kwargs, "example arguments by name"))
    if missing := [name for name in fixed if name not in given]:
        raise UsageError(f"fixed arguments are keywords in kwargs: there is no {', '.join(missing)}")
    with alone(), classes_registered((args, given), strict):
        exported = _of_module(model, _tuple(args), given, strict, fixed)
    for note in exported.notes:
        warnings.warn(note, stacklevel=level_of_caller())
    return exported


def _of_module(
    model: torch.nn.Module, args: tuple[Any, ...], given: dict[str, Any], strict: bool, fixed: Sequence[str]
) -> Exported:
    _check_examples(model, args, given)
    held = {name: copy.deepcopy(given.pop(name)) for name in fixed}
    twice = held_twice(model, args, given)
    args, given, shared = _apart(model, args, given)

    set_by_forward: dict[str, None] = {}
    drawn_from: dict[str, None] = {}
    assigned: dict[str, Assigned] = {}
    changed: dict[str, str] = {}
    contents = Contents(model, changed, twice)

    if strict:
        with _watched(model, set_by_forward, drawn_from) as note:
            check_assigned(model, args, {**given, **held}, contents)
            note()

    def once(packs: bool = False) -> torch.export.ExportedProgram:
        seeds: dict[str, None] = {}
        noted = contextlib.nullcontext() if strict else seeds_noted(seeds)  # dynamo knows these functions itself
        watched = _watched(model, set_by_forward, drawn_from)
        with watched as note, noted, _tracing_of(model, args, given, held, strict, packs, assigned, contents):
            if not strict:  # which has run it already
                model.register_forward_hook(note)
                model.register_forward_hook(lambda _model, _args, result: without_nan(result))
            program = torch.export.export(model, args, given, strict=strict)
        refuse_seeds(program, seeds)
        return program

    def trace(branches: bool, forms: Forms) -> tuple[Exported, str]:
        program = once() if strict else traced_with_forms(lambda: traced_with_lengths(model, once), forms)
        check_next_run(model, args, {**given, **held}, assigned, moved_states(program))
        return of_program(program, type(model).__name__, branches, assigned, shared), trained_text(program, model)

    try:
        exported, trained = _for_all_or_example(trace)
    except Error:
        raise
    except Exception as error:
        raise _explained(error, model, args, {**given, **held}, strict) from error
    exported.held = held_by(model, exported)
    notes = (trained, set_text(list(set_by_forward)), changed_text([*changed.values()], strict), drawn_text(list(drawn_from)))
    notes = (*notes, made_for_text(exported.made_for))
    exported.notes = [note for note in notes if note]
    return exported


def _of_exported(program: torch.export.ExportedProgram) -> Exported:
    try:
        with alone(), classes_registered(()):
            register_structures(program)
            exported = of_program(with_memory(program), "model")
    except GuessedWrong as error:
        raise _with_reason(error, ": what helps is npusim.export of the module, not of its program") from error
    except Error:
        raise
    except Exception as error:
        raise _explained(error, program, (), {}, False) from error
    exported.held = held_by(program, exported)
    return exported


def _explained(
    error: Exception, model: torch.nn.Module | torch.export.ExportedProgram, args: Any, kwargs: dict[str, Any], strict: bool
) -> Error:
    """The error of an export as npusim's."""
    followed = error.__cause__ if _asks_for_values(error) else None
    traced = any(frame.name == of_program.__name__ for frame in traceback.extract_tb(error.__traceback__))
    asked = raises_in_eager, gradient_taken_at, constant_written_at
    raises, gradient, written = (functools.partial(one, model, args, kwargs) for one in asked)
    return explained(error, type(model).__name__, followed, traced, raises, gradient, written, strict)


def _for_all_or_example(trace: Callable[[bool, Forms], Any]) -> Any:
    """What is traced for all values, or where that ends at a value, for the example's; and where it ends with numbers that
    int() gives as tensors, with Python's. What npusim refuses of the second is the reason then; of what PyTorch raises it is
    the first."""
    forms = Forms()
    try:
        return trace(False, forms)
    except Exception as error:
        if not _asks_for_values(error) and not forms.followed_int:
            raise
        first = error
    other: Exception = first
    for follow_int in (True, False) if _asks_for_values(first) else (False,):
        if not follow_int and not forms.followed_int:
            break
        try:
            with following_example():
                return trace(True, forms if follow_int else Forms(follow_int=False))
        except Exception as error:
            other = error if follow_int else other
    if isinstance(other, Error):
        raise other
    if isinstance(first, GuessedWrong):
        raise _with_reason(first, f", and with the sizes of the example it ends in {what_of(other)}. {ANOTHER_LINE}") from other
    if other is first:
        raise first
    raise first from other


def _with_reason(error: GuessedWrong, more: str) -> UnsupportedError:
    return UnsupportedError([Problem(problem.where, problem.reason + more) for problem in error.problems])


def made_for_text(made_for: list[str]) -> str:
    """The warning: docs/from-pytorch.md; "" where a program is made for all values."""
    listed = [*made_for[:NAMED], *([f"{len(made_for) - NAMED} others, in Exported.made_for"] if len(made_for) > NAMED else [])]
    return f"the program is made for sizes and branches of the example: {'; '.join(listed)}" if made_for else ""


@contextlib.contextmanager
def _watched(
    model: torch.nn.Module, set_by_forward: dict[str, None], drawn_from: dict[str, None]
) -> Iterator[Callable[..., None]]:
    """Puts back what forward() sets and draws from. Gives a function that notes both when forward() has just been run."""
    with kept(model) as changed, generators_kept() as drawn:

        def note(*_: Any) -> None:
            set_by_forward.update(dict.fromkeys(changed()))
            drawn_from.update(dict.fromkeys(drawn()))

        yield note


@contextlib.contextmanager
def _tracing_of(
    model: torch.nn.Module,
    args: Any,
    kwargs: dict[str, Any],
    held: dict[str, Any],
    strict: bool,
    packs: bool,
    assigned: dict[str, Assigned],
    contents: Contents,
) -> Iterator[None]:
    results = results_registered(model, strict)
    data, assignments = data_known(model, strict), assignments_kept(model, strict, assigned, contents)
    followed = contextlib.nullcontext() if strict else numbers_followed()  # dynamo follows them itself
    known = holding(model, held, strict, packs, contents.names)
    silent = replaced(_trace, "print", lambda *_, **__: None)  # where torch.export ends early: the graph until then
    with torch.no_grad(), tracing(), followed, results, known, data, assignments, silent:
        yield


def _asks_for_values(error: BaseException | None) -> bool:
    """Whether tracing ended where a Python branch, or a size, depends on values, or what it took for true of a size is not."""
    seen: list[BaseException] = []
    while error is not None and not isinstance(error, (GuardOnDataDependentSymNode, GuessedWrong)):
        seen.append(error)
        error = error.__cause__ or error.__context__
        if error in seen:  # a model may make circles of them
            return False
    return error is not None


def _check_model(model: Any) -> None:
    if not isinstance(model, torch.nn.Module):
        raise UsageError(f"model: expected a torch.nn.Module or an ExportedProgram, found {type(model).__name__}")
    if isinstance(model, torch.jit.ScriptModule):
        what = "is a module of TorchScript, which torch.export does not take: expected the module that it was made of, or what "
        what += "torch._export.converter.TS2EPConverter(model, args, kwargs).convert().module() is"
        raise UnsupportedError([Problem(f"model '{type(model).__name__}'", what)])
    _check_initialised(model)


def _check_initialised(model: torch.nn.Module) -> None:
    """Refuses what lazy modules have until their first call: parameters and buffers without a shape."""
    problems = []
    for kind, weights in (("parameter", model.named_parameters()), ("buffer", model.named_buffers())):
        names = [name for name, weight in weights if torch.nn.parameter.is_lazy(weight)]
        what = "has no shape yet: a lazy module gets it in its first call. Run the model once before: model(…)"
        problems += [Problem(f"{kind} '{name}'", what) for name in names]
    if problems:
        raise UsageError(problems)


def _check_examples(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Refuses example tensors that no input can be like: of another layout than dense, without values, or on another
    device than the model."""
    devices = {value.device for value in (*model.parameters(), *model.buffers())}
    problems = []
    given = [(f"args[{i}]", value) for i, value in enumerate(args)] + [*kwargs.items()]
    for name, argument in given:
        for path, value in pytree.tree_flatten_with_path(argument)[0]:
            if not isinstance(value, torch.Tensor):
                continue
            where = f"example {name}{pytree.keystr(path)}"
            if strange := not_dense(value):
                problems.append(Problem(where, f"is {strange}: expected a dense tensor with values"))
            elif len(devices) == 1 and value.device not in devices and value.dim() > 0:
                expected = f"expected {next(iter(devices))}, where the model is"
                problems.append(Problem(where, f"is on {value.device}: {expected}"))
    if problems:
        raise UnsupportedError(problems)


def _tuple(args: Any) -> tuple[Any, ...]:
    return (args,) if isinstance(args, torch.Tensor) else tuple(args or ())


def _apart(
    model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any], list[tuple[int, int | str]]]:
    """The arguments, with a copy of what shares memory with another or with a weight: the tracer takes one tensor for one
    input, and each input of a program is an array of its own. And, in place of views, whose base PyTorch's guards ask for,
    tensors that are none. With the leaves that show bytes of an earlier leaf or of a weight."""
    taken: dict[int, list[tuple[int | str, torch.Tensor]]] = {}
    for name, value in (*model.named_parameters(), *model.named_buffers()):
        taken.setdefault(memory_of(value), []).append((name, value))
    leaves, structure = pytree.tree_flatten((args, kwargs))
    shared: list[tuple[int, int | str]] = []
    for i, value in enumerate(leaves):
        if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
            continue
        others = taken.setdefault(memory_of(value), [])
        shared += [(i, name) for name, other in others if overlap(value, other)]
        if others or (value._is_view() and (value.is_complex() or value.is_neg())):
            leaves[i] = value.clone()
        elif type(value) is torch.Tensor and value._is_view():
            leaves[i] = torch.empty(0, dtype=value.dtype, device=value.device).set_(value.detach())
        others.append((i, value))
    return *pytree.tree_unflatten(leaves, structure), shared


def of_program(
    program: torch.export.ExportedProgram,
    name: str,
    branches: bool = False,
    assigned: Mapping[str, Assigned] = types.MappingProxyType({}),
    shared: Sequence[tuple[int, int | str]] = (),
) -> Exported:
    """IR and weights of an exported program. branches: whether its branches are those that its example takes. assigned: buffers
    that forward() assigns; those that cannot be kept nothing may read. shared: leaves of its arguments that show the memory of
    another one or of a weight in the example; of these neither may be written."""
    asked = find_branches(program.graph_module) if branches else None
    specs = program.graph_signature.output_specs
    returned = [spec.arg for spec in specs if spec.kind == OutputKind.USER_OUTPUT]
    with torch.no_grad(), tracing(), numbers_followed():
        program, graph, made_for, unwritten = prepared(program, asked)
        return _Written(program, graph, name, returned, assigned, shared, unwritten).exported(made_for)


class _Written:
    """One exported program as IR: its signature says what the graph's placeholders and outputs are."""

    def __init__(
        self,
        program: torch.export.ExportedProgram,
        graph: torch.fx.Graph,
        name: str,
        returned: list[Any],
        assigned: Mapping[str, Assigned],
        shared: Sequence[tuple[int, int | str]],
        unwritten: set[str],
    ) -> None:
        self.program = program
        self.shared = shared
        self.unwritten = unwritten  # arguments that are changed by a turn alone, which shows in no other
        self.unkept = {name: one for name, one in assigned.items() if one.why}
        self.aliases = {name: one.memory_of for name, one in assigned.items() if one.memory_of}
        self.name = name
        self.returned = returned  # what the signature says of forward()'s results, before numbers became tensors
        self.graph = graph
        self.to = Writer(graph, keeps_conditions=False)

    def exported(self, made_for: list[str]) -> Exported:
        refs = self.placeholders()
        if any(tensor["dtype"].startswith("complex") for tensor in self.to.inputs):
            raise UnsupportedError(self.to.problems)  # complex numbers are pairs of values: an input is none
        self.to.add_calls(self.program.graph_module)
        leaves = self.leaves(self.graph.output_node())
        states = self.states(refs)
        if self.to.problems:
            raise UnsupportedError(self.to.problems)
        ir = self.to.document(self.name, states)
        if aliases := {name: of for name, of in self.aliases.items() if name in states}:
            ir["aliases"] = aliases
        structure = self.program.call_spec.out_spec
        given = self.arguments()
        return Exported(ir, self.to.values, arguments=given, structure=structure, leaves=leaves, made_for=made_for)

    # ---- what comes in

    def placeholders(self) -> dict[str, Ref]:
        """Inputs and weights; what is changed in place, whatever it was, becomes an input. Their Refs by placeholder."""
        specs, changed = self.program.graph_signature.input_specs, self.find_changed()
        refs: dict[str, Ref] = {}
        # For each leaf of the arguments the name of an input, or "" and its value; and the tracer's name.
        self.given: list[tuple[str, Any, str]] = []
        seen: dict[Any, str] = {}  # FQN by what tied weights share
        nodes = [node for node in self.graph.nodes if node.op == "placeholder"]
        for node, spec in zip(nodes, specs, strict=True):
            if spec.kind == InputKind.USER_INPUT:
                constant = isinstance(spec.arg, ConstantArgument)
                self.given.append(("", spec.arg.value, node.name) if constant else (node.name, None, node.name))
            if not isinstance(node.meta.get("val"), torch.Tensor):
                if not isinstance(spec.arg, ConstantArgument):
                    self.to.refuse(f"input '{node.name}'", f"is a {type(spec.arg).__name__}, no tensor")
                continue
            unkept = self.unkept.get(spec.target)
            if unkept is not None and self.to.needed.intersection(node.users):
                self.to.refuse(unkept.where, unkept.why)
            if spec.kind == InputKind.USER_INPUT:
                refs[node.name] = self.add_input(node, node.name)
                self.given[-1] = (refs[node.name].node, None, node.name)
            elif spec.kind in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR):
                value = weight_of(self.program, spec)
                if node.name in changed:
                    refs[node.name] = self.add_input(node, spec.target)
                    self.to.keep(spec.target, value, is_constant=False)
                elif node.users:
                    parts = [self.add_weight(node, spec, part, seen, name) for name, part in parts_of_complex(value)]
                    self.to.define(node, parts)
                    refs[node.name] = parts[0]
            else:
                self.to.refuse(f"input '{node.name}'", f"is a {spec.kind.name}")
        self.check_shared(changed, nodes, specs)
        self.check_arguments(changed, nodes, specs)
        return refs

    def arguments(self) -> list[Leaf]:
        """How the inputs are made of forward()'s arguments; nothing where no example of these is known."""
        if self.program.example_inputs is None:
            return []
        args, kwargs = self.program.example_inputs
        ordered = reorder_kwargs(kwargs, self.program.call_spec.in_spec)
        given = iter(self.given)
        leaves = []
        for path, value in pytree.tree_flatten_with_path((args, ordered), is_leaf=_is_empty)[0]:
            if len(path) > 1:
                name, constant, traced = ("", value, "") if _is_empty(value) else next(given)
                leaves.append(Leaf(tuple(map(_key, path[1:])), name, constant, traced if len(path) == 2 else ""))
        return leaves

    def find_changed(self) -> set[str]:
        """Placeholders whose new values are among the outputs."""
        signature = self.program.graph_signature
        targets = {spec.target: spec.arg.name for spec in signature.input_specs if spec.target is not None}
        return {_changed(spec, targets) for spec in signature.output_specs if spec.kind in CHANGED}

    def check_shared(self, changed: set[str], nodes: list[torch.fx.Node], specs: list[Any]) -> None:
        """A tensor that is changed in place, and another weight in the same memory, would come apart."""
        owners: dict[int, list[tuple[torch.fx.Node, str, torch.Tensor]]] = {}
        for node, spec in zip(nodes, specs, strict=True):
            if spec.kind in WEIGHTS and (node.users or node.name in changed):
                value = weight_of(self.program, spec)
                owners.setdefault(memory_of(value), []).append((node, spec.target, value))
        for group in owners.values():
            for node, target, value in (one for one in group if one[0].name in changed):
                others = [name for other, name, held in group if other is not node and overlap(value, held)]
                if others or shows_twice(value):
                    found = f"shares memory with {', '.join(map(repr, others))}" if others else "shows an element twice"
                    what = f"is changed in place and {found}: expected memory of its own, as clone() gives"
                    self.to.refuse(f"weight '{target}'", what)

    def check_arguments(self, changed: set[str], nodes: list[torch.fx.Node], specs: list[Any]) -> None:
        """Each input of a program is an array of its own, and each of its elements is one: what a write to one shows in the
        other would be missing."""
        changed = changed - self.unwritten
        pairs = list(zip(nodes, specs, strict=True))
        given = [node for node, spec in pairs if spec.kind == InputKind.USER_INPUT]
        for node in given:
            value = node.meta.get("val")
            if node.name in changed and isinstance(value, torch.Tensor) and shows_twice(value):
                what = "shows an element more than once in the example, as expand() and unfold() give it, and forward() writes to"
                what += " it: expected a clone() of it, as each element of an input is one of its own"
                self.to.refuse(f"input '{node.name}'", what)
        weights = {spec.target: node for node, spec in pairs if spec.kind != InputKind.USER_INPUT}
        for at, other in self.shared:
            with_node = given[other] if isinstance(other, int) else weights.get(other)
            if with_node is not None and changed & {given[at].name, with_node.name}:
                name = f"'{other}'" if isinstance(other, str) else f"'{with_node.name}'"
                what = f"shares memory with {name} in the example, and forward() changes one of them: expected a clone()"
                self.to.refuse(f"input '{given[at].name}'", f"{what} of it, as each input is an array of its own")

    def add_input(self, node: torch.fx.Node, name: str) -> Ref:
        ref = self.to.add_input(name, node.meta["val"])
        if node.meta["val"].is_complex():
            self.to.refuse(f"input '{ref.node}'", f"is {ref.tensor['dtype']}: {_REAL_INPUT}")
        self.to.define(node, [ref])
        return ref

    def add_weight(
        self, node: torch.fx.Node, spec: Any, value: torch.Tensor, seen: dict[Any, str], part: str
    ) -> Ref:
        """part: what is added to its name where it is part of a complex weight, which is copied."""
        value, target = value.contiguous() if part else value, spec.target + part
        fqn = seen.setdefault(place_of(value), target)
        ref = self.to.add_weight(node.name + part.replace(".", "_"), target, value, fqn)
        if fqn == target:
            self.to.keep(fqn, value, is_constant=spec.kind == InputKind.CONSTANT_TENSOR)
        if strange := not_dense(value):
            self.to.refuse(f"weight '{target}'", f"is {strange}: expected a dense one with values")
        return ref

    # ---- what goes out

    def leaves(self, output: torch.fx.Node) -> list[tuple[str, Any]]:
        """The outputs, named by where they stand in what forward() returns."""
        specs = self.program.graph_signature.output_specs
        values: Any = output.args[0]
        user = [(s, v) for s, v in zip(specs, values, strict=True) if s.kind == OutputKind.USER_OUTPUT]
        self.mutations = [(s, v) for s, v in zip(specs, values, strict=True) if s.kind != OutputKind.USER_OUTPUT]
        names = output_names(self.program.call_spec.out_spec)
        leaves: list[tuple[str, Any]] = []
        for name, given, (_, value) in zip(names, self.returned, user, strict=True):
            parts = self.to.parts(value)
            if len(parts) == 1 and isinstance(parts[0], Ref):
                self.to.add_output(name, parts[0])
            elif value is not None:
                self.to.refuse(f"output '{name}'", _why_no_output(value, len(parts) > 1))
            constant = isinstance(given, ConstantArgument)
            leaves.append(("constant", given.value) if constant else ("output", name))
        return leaves

    def states(self, refs: dict[str, Ref]) -> dict[str, str]:
        """What was changed in place is an output too. Returns, for what the caller did not give, the inputs and the
        outputs with what they are in the next run."""
        taken = {output["name"] for output in self.to.outputs}
        specs = {spec.arg.name: spec for spec in self.program.graph_signature.input_specs}
        targets = {spec.target: name for name, spec in specs.items() if spec.target is not None}
        # Complex ones were refused where they came in.
        parts = [(spec, self.to.parts(node)) for spec, node in self.mutations]
        values = [(spec, found[0]) for spec, found in parts if len(found) == 1 and isinstance(found[0], Ref)]
        carried = {}
        for spec, value in values:
            placeholder = _changed(spec, targets)
            ref = refs[placeholder]
            name = next(n for n in _variants(f"{ref.node}_next") if n not in taken)
            taken.add(name)
            owned = specs[placeholder].kind != InputKind.USER_INPUT
            self.to.add_output(name, value)
            if owned:
                carried[ref.node] = name
        return carried


def _changed(spec: Any, targets: Mapping[str, str]) -> str:
    """The placeholder whose new value an output is: of a weight, or of an argument, which may have a weight's name."""
    return spec.target if spec.kind == OutputKind.USER_INPUT_MUTATION else targets[spec.target]


def _why_no_output(value: Any, is_complex: bool) -> str:
    """Why a program cannot give what a model returns."""
    if is_complex:
        return f"is {str(value.meta['val'].dtype).removeprefix('torch.')}: {_REAL_OUTPUT}"
    if isinstance(value, torch.fx.Node):
        return f"is a {type(value.meta.get('val')).__name__}: expected a tensor or a number"
    return f"is {value!r}, a {type(value).__name__}: expected a tensor, a number of 64 bits, or nothing"


def output_names(spec: pytree.TreeSpec) -> list[str]:
    """A name for each leaf of a model's output."""
    keys = [[str(getattr(key, attr)) for key in path for attr in _KEYS if hasattr(key, attr)] for path in paths_of(spec)]
    names = [".".join(key) for key in keys]
    if len(names) == 1 and (not names[0] or names[0].isdigit()):
        return ["output"]
    named = [f"output_{name}" if not name or name[0].isdigit() else name for name in names]
    return [n if named.count(n) == 1 else f"{n}#{i}" for i, n in enumerate(named)]


_KEYS = ("key", "idx", "name")  # of a mapping, a sequence, a dataclass


def _is_empty(value: Any) -> bool:
    return isinstance(value, (list, tuple, dict)) and not value


def _key(key: Any) -> Key:
    """A step of a path, as PyTorch has it."""
    kinds = {"idx": "item", "key": "key", "name": "name"}
    return next(Key(kind, getattr(key, attribute)) for attribute, kind in kinds.items() if hasattr(key, attribute))


def _variants(name: str) -> Iterator[str]:
    yield name
    for i in itertools.count(1):
        yield f"{name}_{i}"


__all__ = ["Refused", "export", "of_program", "output_names"]
