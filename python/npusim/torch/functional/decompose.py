"""What PyTorch makes of a program before npusim's passes see it: no call writes what it is given, and what npusim has no
record of is calls of others, by npusim's compositions or PyTorch's."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor
from torch._decomp import decomposition_table
from torch._ops import OpOverload, OpOverloadPacket
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.export import exported_program
from torch.export.graph_signature import TensorArgument
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import _disable_current_modes

from ...machine import is_op_supported
from ..facts.aliases import CHANGED, REGIONS, rebuilt, separated, without_unread
from ..facts.checks import example_operands, without_tokens
from ..facts.threads import replaced
from ..forms.bytes import BYTES
from ..forms.complex import concerns_complex, has_form
from ..forms.compositions import COMPOSITIONS
from ..forms.foreach import written_one_by_one
from ..forms.scalars import FILLS, FORMS, given_numbers, is_symbol, with_tensors
from ..tracing.assigned import shown_by, with_old_values
from .autocast import with_composites_apart
from .given import with_memory_given, with_restrides_shown
from .layouts import asks_for_order, check_resized, with_copied_results, with_results_for_outs
from .names import names_within, renamed
from .shown import with_views_shown
from .storage import with_views_for_resizes

Form = Callable[..., Any]
MAKES_COMPLEX = {"complex", "polar"}  # of real numbers
# Of PyTorch's own primitives those that write, that read a number, or that have a form as they are.
NOT_SPELLED = {
    *("convert_element_type", "copy_strided", "inductor_force_stride_order", "item", "normal", "uniform"),
    *("_make_token", "_sink_tokens"),
}
COMPOSITE = torch._C.DispatchKey.CompositeImplicitAutograd
PYTORCHS = {"aten", "prim", "prims", "npusim"}  # libraries whose operators have records, or forms of their own, here
APART: ContextVar[frozenset[OpOverload]] = ContextVar("APART", default=frozenset())  # what is being taken apart
WHOLE: ContextVar[frozenset[OpOverload]] = ContextVar("WHOLE", default=frozenset())  # of it what a primitive stands for


def functionalised(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """The program as calls that write nothing: what it changes is among its outputs, and its signature says whose they are.
    An operator is taken apart only where all that it comes to has a form: others keep their names."""
    program = with_restrides_shown(program)
    check_resized(program)
    program = with_memory_given(with_views_shown(program))
    program = with_views_for_resizes(program)
    program = with_results_for_outs(program)
    if asks_for_order(program):
        return _functionalised(with_copied_results(program))
    try:
        return _functionalised(program)
    except (RuntimeError, ValueError):  # of a view that its memory does not have: what was written lies in another order
        if (other := with_copied_results(program)) is program:
            raise
        return _functionalised(other)


def _functionalised(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    table, whole = decompositions(), set[OpOverload]()
    apart = _without_regions(separated(written_one_by_one(with_old_values(without_unread(program)))))
    while True:
        found = _run(apart, {op: form for op, form in table.items() if op not in whole})
        origins = _origins([node for node in _calls(found) if not _has_form(node)], apart)
        taken_apart = {op for op in table if op._opname in origins}
        if taken_apart <= whole:
            constants = {**found.constants, **program.constants}
            return without_tokens(
                rebuilt(found, found.graph_module, state_dict=program.state_dict, constants=constants)
            )
        whole |= taken_apart


def _run(program: torch.export.ExportedProgram, table: dict[OpOverload, Form]) -> torch.export.ExportedProgram:
    # Offsets of views at places that values decide are symbols that nothing binds once the views are copies.
    unbound = torch.fx.experimental._config.patch(soft_pending_unbacked_not_found_error=True)
    settle, make = "_remove_unnecessary_copy_op_pass", "_fakify_params_buffers"
    settled = replaced(exported_program, settle, _with_values_apart(getattr(exported_program, settle)))
    with unbound, settled, replaced(exported_program, make, _with_their_numbers(getattr(exported_program, make))):
        within = names_within(program)
        program = renamed(program, within)
        _begin_anew(program)
        found = program.run_decompositions(table)
        return renamed(found, {other: name for name, other in within.items()})


def _with_values_apart(settle: Callable[..., Any]) -> Callable[..., Any]:
    """PyTorch's pass that takes what is copied into weights for their new values, which a signature tells by their names. Two
    weights that end with one value, or a weight and an argument, get one each; and what shows another one, as it was, is
    copied: where the program is traced again that has its new value."""

    def settled(traced: torch.fx.GraphModule, signature: Any) -> Any:
        traced, signature = settle(traced, signature)
        output, taken = traced.graph.output_node(), set[torch.fx.Node]()
        values = [*output.args[0]]  # type: ignore[misc, union-attr]
        changed = {spec.target for spec in signature.output_specs if spec.kind in CHANGED}
        given = {spec.arg.name for spec in signature.input_specs if spec.target in changed or spec.arg.name in changed}
        shown = shown_by(traced.graph)
        for i, spec in enumerate(signature.output_specs):
            if spec.kind not in CHANGED:
                continue
            if values[i] in taken or any(node.name in given for node in shown.get(values[i], ())):
                with traced.graph.inserting_before(output):
                    apart = traced.graph.call_function(torch.ops.aten.clone.default, (values[i],))
                apart.meta, values[i] = dict(values[i].meta), apart
                spec.arg = TensorArgument(name=apart.name)
            taken.add(values[i])
        output.args = (tuple(values),)
        traced.recompile()
        return traced, signature

    return settled


def _begin_anew(program: torch.export.ExportedProgram) -> None:
    """Where the tracer follows the example, what stands for arguments and weights has its numbers and shape again: a trace
    before has written and restrided them."""
    followed = [node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"]
    if any(getattr(value, "real_tensor", None) is not None for value in followed):
        for value, given in zip(followed, example_operands(program, program.graph), strict=True):
            if getattr(value, "real_tensor", None) is not None:
                value.real_tensor = given.detach().clone()


def _with_their_numbers(make: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """PyTorch's stand-ins of weights, which it makes in memory that it remembers: where it follows the example, that has what
    a trace before has written there."""

    def made(mode: Any, module: torch.nn.Module) -> dict[str, Any]:
        found = make(mode, module)
        for name, given in (*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)):
            if getattr(found[name], "real_tensor", None) is not None:
                found[name].real_tensor = given.detach().clone()
        return found

    return made


def _without_regions(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """With the calls of regions (of autocast, of gradients, of vmap) in the program's own graph, where each says what it came
    of."""
    if not any(_is_region(node.target) for node in _calls(program)):
        return program
    return _run(with_composites_apart(program), {})


def _is_region(call: Any) -> bool:
    return call in REGIONS or getattr(call, "__module__", "") == "torch._functorch.predispatch"


def decompositions() -> dict[OpOverload, Form]:
    """For each operator that may be taken apart a function that does; it gives NotImplemented for a call that stays."""
    scaled = {op: _form(op, _no_form) for op in FORMS}
    return scaled | _pytorchs() | _of_libraries() | _primitives() | {op: _form(op, form) for op, form in _composed()}


def shows_operand(op: OpOverload) -> bool:
    """Whether npusim composes it of others while PyTorch gives the operand's memory: in torch.compile it stays until AOT
    autograd knows which outputs share memory."""
    return str(op) in COMPOSITIONS and any(result.alias_info is not None for result in op._schema.returns)


@functools.cache
def _pytorchs() -> dict[OpOverload, Form]:
    forms: dict[Any, Form] = {**decomposition_table, **torch.export.default_decompositions()}
    return {op: _form(op, form) for op, form in forms.items() if isinstance(op, OpOverload) and _is_atens(op)}


def _of_libraries() -> dict[OpOverload, Form]:
    """What was defined as a composition of others, or has one noted, in a library that is no part of PyTorch, by now. What
    npusim knows stays, whoever defined it."""
    noted = {op: form for op, form in decomposition_table.items() if isinstance(op, OpOverload) and _is_a_librarys(op)}
    kernels = {op: functools.partial(op._op_dk, COMPOSITE) for op in _composites()}  # op.decompose() finds these forms instead
    return {op: _form(op, form) for op, form in (kernels | noted).items()}


def _composites() -> Iterator[OpOverload]:
    for name in torch._C._dispatch_get_registrations_for_dispatch_key(COMPOSITE.name):
        namespace, _, called = name.partition("::")
        if namespace not in PYTORCHS:
            packet, _, overload = called.partition(".")
            op = getattr(getattr(getattr(torch.ops, namespace), packet), overload or "default")
            if _is_a_librarys(op):
                yield op


def _is_a_librarys(op: OpOverload) -> bool:
    """Of calls that write, or give views, PyTorch's functionalisation has made what they are composed of."""
    if op.namespace in PYTORCHS:
        return False
    return all(arg.alias_info is None for arg in (*op._schema.arguments, *op._schema.returns))


def _primitives() -> dict[OpOverload, Form]:
    """What PyTorch's compositions end in (prims.bessel_i0), and what dynamo writes by itself (prims.fma), as the operators
    of ATen that they stand for. Some are known only once a module that makes them is there."""
    found = {}
    for name in dir(torch.ops.prims):
        packet = getattr(torch.ops.prims, name)
        for overload in packet.overloads() if isinstance(packet, OpOverloadPacket) else ():
            op = getattr(packet, overload)
            if name not in NOT_SPELLED and not op._schema.is_mutable and callable(getattr(op, "impl_aten", None)):
                found[op] = _form(op, _stands_for(op.impl_aten))
    return found


def _stands_for(other: Form) -> Form:
    """A primitive's form: an operator that is taken apart into the primitive it stands for stays whole."""

    def form(*args: Any, **kwargs: Any) -> Any:
        with _set(WHOLE, APART.get()):
            return other(*args, **kwargs)

    return form


@contextlib.contextmanager
def _set(variable: ContextVar[frozenset[OpOverload]], ops: frozenset[OpOverload]) -> Iterator[None]:
    token = variable.set(ops)
    try:
        yield
    finally:
        variable.reset(token)


def _is_atens(op: OpOverload) -> bool:
    return op.namespace == "aten" and not op._schema.is_mutable


def _composed() -> Iterator[tuple[OpOverload, Form]]:
    """What npusim composes; operators of libraries that are loaded."""
    for name, form in (*COMPOSITIONS.items(), *((name, _no_form) for name in BYTES)):
        namespace, packet, overload = name.split(".")
        with contextlib.suppress(AttributeError):
            yield getattr(getattr(getattr(torch.ops, namespace), packet), overload), form


def _no_form(*_: Any, **__: Any) -> Any:
    return NotImplemented


def _form(op: OpOverload, other: Form) -> Form:
    def form(*args: Any, **kwargs: Any) -> Any:
        apart = _takes_no_tensor(op, args, kwargs)
        if op not in WHOLE.get() and (apart or not _is_known(op, args, kwargs)):
            refused = contextlib.suppress(NotImplementedError, RuntimeError, TypeError, ValueError)
            with refused, _set(APART, APART.get() | {op}):
                if apart and op in FORMS:
                    return FORMS[op](*args, **kwargs)
                if _takes_bytes(op, args):
                    return _of_bytes(op, args, kwargs)
                return other(*args, **kwargs)
        return NotImplemented

    return form


def _of_bytes(op: OpOverload, args: Sequence[Any], kwargs: dict[str, Any]) -> Tensor:
    """With constants that no tracer sees being made: torch.tensor() ends with a write, which has no place in a graph."""
    with _disable_current_modes():
        run, constants = BYTES[str(op)](*args, **kwargs)
    return run(args[0], *map(torch.ops.aten.lift_fresh_copy.default, constants))


def _is_known(op: OpOverload, args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    """Whether a call stays: npusim has a record of it, or a form for complex numbers; or it is random, and none composed
    here."""
    if concerns_complex(op, args, kwargs, None) or op._opname in MAKES_COMPLEX:
        return has_form(op)
    if str(op) in COMPOSITIONS or _takes_bytes(op, args):
        return False
    return is_op_supported(op) or torch.Tag.nondeterministic_seeded in op.tags


def _takes_no_tensor(op: OpOverload, args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    """Whether it is given a number that a tensor holds where it takes none."""
    numbers = given_numbers(op, args, kwargs, is_symbol)
    return bool(numbers) and op not in FILLS and with_tensors(op, numbers) is None


def _takes_bytes(op: OpOverload, args: Sequence[Any]) -> bool:
    """Whether it is one that differs in uint8, and is given that."""
    return str(op) in BYTES and bool(args) and args[0].dtype == torch.uint8


def _has_form(node: torch.fx.Node) -> bool:
    """Whether a call that is left has a place in IR."""
    op = node.target
    if not isinstance(op, OpOverload):
        return getattr(op, "__name__", "") != "with_effects"  # around a call that may end the run
    if op.namespace not in ("aten", "prims") or torch.Tag.nondeterministic_seeded in op.tags:
        return True
    if op == torch.ops.prims.convert_element_type.default:
        return True
    return not op._schema.returns or op._opname.startswith("sym_") or is_op_supported(op) or has_form(op)


def _calls(program: torch.export.ExportedProgram) -> Iterator[torch.fx.Node]:
    for part in program.graph_module.modules():
        if isinstance(part, torch.fx.GraphModule):
            yield from (node for node in part.graph.nodes if node.op == "call_function")


def _origins(nodes: Sequence[torch.fx.Node], program: torch.export.ExportedProgram) -> set[str]:
    """The names of the operators of a program that calls came of."""
    names = {source.name for node in nodes for source in node.meta.get("from_node") or ()}
    of_these = (other.target for other in _calls(program) if other.name in names) if names else ()
    return {op._opname.removesuffix("_") for op in of_these if isinstance(op, OpOverload)}


def trace(
    function: Callable[..., Any], values: Sequence[torch.Tensor]
) -> tuple[torch.fx.GraphModule, list[torch.Tensor]]:
    """What a function does with tensors like these, as a graph of calls that have a form, and the constants that are its
    last placeholders."""
    mode = torch._guards.detect_fake_mode(values) or FakeTensorMode()
    tensors = [
        value if isinstance(value, FakeTensor) else mode.from_tensor(value, static_shapes=True) for value in values
    ]
    functional = torch.func.functionalize(function, remove="mutations")
    with torch.no_grad(), mode:
        body = make_fx(functional, decomposition_table=decompositions())(*tensors)
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
