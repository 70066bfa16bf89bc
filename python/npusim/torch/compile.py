"""torch.compile(model, backend="npusim"): what dynamo captures, compiled by npusim, or left to eager PyTorch."""

from __future__ import annotations

import collections
import contextlib
import copy
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.backends.registry import list_backends, register_backend
from torch._functorch._aot_autograd.descriptors import BackwardTokenAOTInput, ForwardTokenAOTInput, ViewBaseAOTInput
from torch._functorch._aot_autograd.schemas import OutputType
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import _disable_current_modes

from ..arrays import DTYPES, as_array
from ..errors import Error, UnsupportedError
from ..program import Program
from ..program import compile as compile_program
from ..session import Session
from ..writes import Written, as_it_lies
from .facts.aliases import RESHAPE_ALIAS, as_strided, memory_of, overlap, parts_of, shows_twice
from .facts.checks import hold_assertions, without_effects
from .facts.levels import levels_kept
from .forms.foreach import write_one_by_one
from .forms.kernels import AS_EAGERLY
from .forms.ref import Ref
from .functional.decompose import decompositions, shows_operand
from .functional.layouts import DATA_SET, loses_writes
from .outputs import Outputs
from .passes.order import spell_out_all
from .targets import Options, device_of_graph, options_of
from .writing.ir import Writer, parts_of_complex

log = logging.getLogger("npusim")

PARTS = {
    "unsafe_chunk": torch.ops.aten.chunk.default,
    "unsafe_split": torch.ops.aten.split.Tensor,
    "unsafe_split_with_sizes": torch.ops.aten.split_with_sizes.default,
}
TOKENS = (ForwardTokenAOTInput, BackwardTokenAOTInput)
ALIASES = (OutputType.alias_of_input, OutputType.is_input)
Run = Callable[[Sequence[Any]], list[Any]]


def backend(
    graph: torch.fx.GraphModule, inputs: Sequence[Any], *, options: dict[str, Any] | None = None, **_: Any
) -> Any:
    """What torch.compile calls with each graph. options:

    target: where the graph's tensors are and what it is compiled for: "cpu", the default, "cuda", "cuda:sm_80,sm_90a".
        Tensors of a GPU are read where they lie, and results are tensors there.
    dtype: what is computed in. Default: bfloat16 or float16 where all matrices among weights and inputs have it, else
        float32.
    threads: of the host; 0, the default: one per core.
    constant_weights: True, the default, prepares parameters and buffers once, and again when one has changed: when PyTorch
        has counted a write to it, when it lies elsewhere, or when some of its words are others (docs/from-pytorch.md; of
        those on a GPU none are read). After writes of few elements through `.data` or NumPy call torch.compiler.reset(), or
        say False, which reads all in each run.

    A graph is left to eager PyTorch, with one warning of the logger "npusim" that says why, when npusim or AOT autograd
    refuses it, when it needs gradients, and when its tensors are not where the target is; so is a call that fails, for eager
    PyTorch to give the result or the error. A graph whose shapes dynamo does not fix is compiled once for each."""
    chosen = options_of(options)
    merged = False  # inputs that share memory, by AOT autograd

    def compiling(make: Callable[[torch.fx.GraphModule], Run]) -> Callable[..., Run]:
        def compile_graph(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Run:
            nonlocal merged
            merged = _check_merged(graph)
            run = make(graph)
            written = [] if merged else _written_inputs(graph)
            return _boxed(_apart(run, written) if written else run)

        return compile_graph

    compiler = aot_autograd(
        fw_compiler=compiling(lambda graph: _leave(graph, "it needs gradients: call the model under torch.no_grad()")),
        bw_compiler=_eager,
        inference_compiler=compiling(lambda graph: _compile(graph, _static_inputs(chosen), chosen)),
        decompositions={op: form for op, form in decompositions().items() if not shows_operand(op)},
    )
    _keep_memory(graph)
    try:
        with levels_kept():
            if any(node.target in DATA_SET for part in parts_of(graph) for node in part.graph.nodes):
                raise UnsupportedError("it gives a tensor other memory ('.data ='), and AOT autograd loses what an input is then")
            if loses_writes(graph):
                raise UnsupportedError("it writes in place where the order or the dtype of memory decides what else is written")
            run = compiler(graph, inputs)
        return _shared_alike(graph, run, _sharing(inputs) if merged else None)
    except torch._dynamo.exc.TorchDynamoException:  # by which dynamo is told to trace anew, among others
        raise
    except Exception as error:  # whatever AOT autograd refuses, of aliases mostly: eager PyTorch can do the graph
        _leave(graph, error)
        return _captured(graph)


def _captured(graph: torch.fx.GraphModule) -> Callable[..., Any]:
    """A graph of dynamo's in eager PyTorch."""

    def run(*inputs: Any) -> Any:
        with levels_kept():
            return graph(*inputs)

    return run


def _keep_memory(graph: torch.fx.GraphModule) -> None:
    """Spells out calls that AOT autograd does not follow: as to who has which memory, and functions that lose an argument."""
    for part in parts_of(graph):
        for node in part.graph.nodes:
            node.target = AS_EAGERLY.get(node.target, node.target) if node.op == "call_function" else node.target
        for node in [node for node in part.graph.nodes if node.target in RESHAPE_ALIAS]:
            as_strided(part.graph, node)
        for node in part.graph.nodes:
            _name_views(node)
        write_one_by_one(part.graph, _captured_call, "example_value")
        part.recompile()


def _name_views(node: torch.fx.Node) -> None:
    """Parts that PyTorch calls unsafe are views too, which their schemas do not say."""
    name = getattr(node.target, "__name__", str(node.target)).partition(".")[0]
    if name in PARTS and node.op in ("call_function", "call_method"):
        node.op, node.target = "call_function", PARTS[name]
        node.kwargs = {"self" if given == "input" else given: value for given, value in node.kwargs.items()}


def _captured_call(graph: torch.fx.Graph, op: Any, *args: Any, **kwargs: Any) -> torch.fx.Node:
    """A new node of a graph of dynamo's."""
    return graph.call_function(op, args, kwargs)


def _boxed(run: Run) -> Run:
    run._boxed_call = True  # type: ignore[attr-defined]  # AOT autograd then gives all arguments as one list
    return run


def _eager(graph: torch.fx.GraphModule, inputs: Sequence[Any] = ()) -> Run:
    return _boxed(lambda arguments: graph(*arguments))


@contextlib.contextmanager
def _plain_torch() -> Iterator[None]:
    """Without the modes that PyTorch has around compilation and the first run: calls of the ATen plugin would go there."""
    with _disable_current_modes(), torch._C._DisablePythonDispatcher():
        yield


def _check_merged(graph: torch.fx.GraphModule) -> bool:
    """Whether AOT autograd has made one input of several that share memory, of which one is written. Raises
    UnsupportedError where an output is a view of one of them: it takes the view of the one that it has made, elsewhere or of
    another shape. And where it then has tokens, which it forgets to give."""
    context = torch._guards.TracingContext.try_get()
    if context is None or context.fw_metadata is None:
        return False
    described = [node.meta.get("desc") for node in _placeholders(graph)]
    if not any(isinstance(desc, ViewBaseAOTInput) for desc in described):
        return False
    what = "where inputs that share memory are written AOT autograd "
    if any(output.output_type in ALIASES for output in context.fw_metadata.output_info):
        raise UnsupportedError(what + "gives other views of them than eager PyTorch")
    if any(isinstance(desc, TOKENS) for desc in described):
        raise UnsupportedError(what + "gives no tokens to what has effects")
    return True


def _written_inputs(graph: torch.fx.GraphModule) -> list[int]:
    """Which inputs are written, of a graph whose inputs AOT autograd has not merged; tokens of effects are none of them."""
    context = torch._guards.TracingContext.try_get()
    if context is None or context.fw_metadata is None:
        return []
    given = [position for position, node in enumerate(_placeholders(graph)) if not isinstance(node.meta.get("desc"), TOKENS)]
    infos = context.fw_metadata.input_info
    return [position for position, info in zip(given, infos) if info.mutates_data] if len(given) == len(infos) else []


class _SharedOtherwise(Exception):
    """An input that is written shares memory with another, which it did not when the graph was captured, or with itself."""


def _apart(run: Run, written: list[int]) -> Run:
    """The same, of inputs that share no memory where one is written, and of which that shows no element twice: nothing guards
    that, and a graph that was captured of others would write what it reads later."""

    def checked(arguments: Sequence[Any]) -> list[Any]:
        by_memory: dict[int, list[torch.Tensor]] = collections.defaultdict(list)
        for value in arguments:
            if isinstance(value, torch.Tensor):
                by_memory[memory_of(value)].append(value)
        for to in (arguments[position] for position in written):
            if shows_twice(to) or any(one is not to and _overlap(to, one) for one in by_memory[memory_of(to)]):
                raise _SharedOtherwise
        return run(arguments)

    return checked


def _sharing(inputs: Sequence[Any]) -> list[tuple[int, int] | None]:
    """Of inputs that have their memory with others: the first of these, and where in that memory they begin."""
    memory = [memory_of(value) if isinstance(value, torch.Tensor) else None for value in inputs]
    times, first = collections.Counter(memory), {of: i for i, of in reversed([*enumerate(memory)])}
    return [
        (first[of], int(value.storage_offset())) if of is not None and times[of] > 1 else None
        for of, value in zip(memory, inputs)
    ]


def _shared_alike(graph: torch.fx.GraphModule, run: Any, sharing: list[tuple[int, int] | None] | None) -> Any:
    """The same, of a captured graph whose inputs share memory as they did then (sharing; None: as far as that counts, not
    at all): dynamo does not guard that. Other calls are eager PyTorch's."""
    said = False

    def checked(*inputs: Any) -> Any:
        nonlocal said
        with contextlib.suppress(_SharedOtherwise):
            if sharing is None or (_sharing(inputs) == sharing and not any(map(shows_twice, filter(torch.is_tensor, inputs)))):
                return run(*inputs)
        if not said:
            log.warning(
                "calls whose arguments share memory otherwise than when the graph was captured, or show an element more than"
                " once, where one is written, are left to eager PyTorch: torch._dynamo.reset() captures it anew"
            )
        said = True
        return _captured(graph)(*inputs)

    return checked


def _overlap(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether they may show an element of the same memory. Of what the host does not see only its bounds are known."""
    if not overlap(one, other):
        return False
    arrays = as_it_lies(one), as_it_lies(other)
    try:
        return any(array is None for array in arrays) or bool(np.shares_memory(*arrays, max_work=1000))
    except (RuntimeError, TypeError):  # too hard to say, or nothing that NumPy sees
        return True


def _leave(graph: torch.fx.GraphModule, reason: object) -> Run:
    calls = sum(node.op.startswith("call_") for node in graph.graph.nodes)
    if isinstance(reason, Exception) and not isinstance(reason, Error):
        reason = f"{type(reason).__name__}: {reason}"
    log.warning("a graph of %d calls is left to eager PyTorch: %s", calls, reason)
    return _eager(graph)


def _static_inputs(options: Options) -> frozenset[int]:
    """Which inputs are parameters and buffers."""
    context = torch._guards.TracingContext.try_get()
    if not options.constant_weights or context is None or context.fw_metadata is None:
        return frozenset()
    return frozenset(context.fw_metadata.static_input_indices)


def _placeholders(graph: torch.fx.GraphModule) -> list[torch.fx.Node]:
    return [node for node in graph.graph.nodes if node.op == "placeholder"]


def _returned(graph: torch.fx.GraphModule) -> Sequence[Any]:
    return graph.graph.output_node().args[0]  # type: ignore[return-value]


def _is_fixed(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return all(isinstance(extent, int) for extent in value.shape)
    return not isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool))


def _compile(graph: torch.fx.GraphModule, static: frozenset[int], options: Options) -> Run:
    try:
        if not all(_is_fixed(node.meta.get("val")) for node in _placeholders(graph)):
            return _BySize(graph, static, options)
        return _Compiled(graph, static, options)
    except Exception as error:  # whatever it is: eager PyTorch can do the graph
        return _leave(graph, error)


class _BySize:
    """A graph whose sizes are not fixed, compiled for each that it is called with."""

    def __init__(self, graph: torch.fx.GraphModule, static: frozenset[int], options: Options) -> None:
        self.graph, self.static, self.options = graph, static, options
        self.compiled: dict[tuple[Any, ...], Run] = {}

    def __call__(self, arguments: Sequence[Any]) -> list[Any]:
        key = tuple((a.shape, a.stride(), a.dtype, a.device) if isinstance(a, torch.Tensor) else a for a in arguments)
        if key not in self.compiled:
            self.compiled[key] = self.compile(arguments)
        return self.compiled[key](arguments)

    def compile(self, arguments: Sequence[Any]) -> Run:
        try:
            with torch.no_grad():
                fixed = make_fx(self.graph, tracing_mode="fake")(*arguments)
        except Exception as error:
            return _leave(self.graph, error)
        return _compile(fixed, self.static, self.options)


class _Compiled:
    """A graph of fixed sizes as a program. Its session is made with the first call's weights, and anew when they have
    changed."""

    def __init__(self, graph: torch.fx.GraphModule, static: frozenset[int], options: Options) -> None:
        self.graph, self.options = graph, options
        self.inputs: dict[int, list[str]] = {}  # by position, as the IR calls them: of complex ones two parts
        self.weights: dict[int, list[str]] = {}
        self.constants: dict[str, torch.Tensor] = {}  # what the graph itself holds, but for what stands in the IR
        self.program = self.compile(self.ir(static))
        self.draws = any(info.role == "generator" for info in self.program.inputs())
        self.dtypes = {info.name: (info.shape, getattr(torch, info.dtype)) for info in self.program.outputs()}
        # What the program writes where it lies: a session keeps it, takes it from the host and gives it there.
        self.states = {info.name for info in (*self.program.inputs(), *self.program.outputs()) if info.state}
        self.versions: list[Any] = []
        self.session: Session | None = None
        self.failed = False  # a call, of which a warning was given

    def find_device(self) -> torch.device:
        """Where the graph's tensors are. Raises UnsupportedError where that is not the target."""
        nodes = [node for node in _placeholders(self.graph) if not isinstance(node.meta.get("desc"), TOKENS)]
        values = [(f"input '{node.name}'", node.meta.get("val")) for node in nodes]
        gives = [(f"output {position}", value) for position, (_, value) in self.outputs.placed().items()]
        given, gives = ([one for one in listed if isinstance(one[1], torch.Tensor)] for listed in (values, gives))
        return device_of_graph(self.options.kind, given, gives)

    def compile(self, ir: dict[str, Any]) -> Program:
        dtype = self.options.dtype or _dtype(self.graph)
        with _plain_torch():
            program = compile_program(ir, target=self.options.target, dtype=dtype)
        log.info("a graph of %d nodes was compiled in %.3f s", len(ir["nodes"]), program.seconds["total"])
        return program

    def ir(self, static: frozenset[int]) -> dict[str, Any]:
        graph = torch.fx.GraphModule(self.graph, copy.deepcopy(self.graph.graph))  # eager PyTorch's stays as it is
        with unset_fake_temporarily():  # the passes compute with numbers of their own
            spell_out_all(graph.graph)
        tokens = without_effects(graph.graph)
        hold_assertions(graph.graph)
        self.outputs = Outputs(_returned(graph), _returned(self.graph))
        self.device = self.find_device()
        to = Writer(graph.graph, keeps_conditions=True)  # eager PyTorch can say in which call they do not hold
        for position, node in enumerate(_placeholders(graph)):
            if isinstance(node.meta.get("val"), torch.Tensor) and node not in tokens:  # else a number that it has in it
                self.take(to, node, position, position in static)
        if to.problems:
            raise UnsupportedError(to.problems)
        to.add_calls(graph)
        self.give(to, _returned(graph))
        if to.problems:
            raise UnsupportedError(to.problems)
        self.outputs.settle()
        self.constants = to.values
        return to.document("graph", {})

    def take(self, to: Writer, node: torch.fx.Node, position: int, is_weight: bool) -> None:
        """Writes an input, or a weight."""
        value = node.meta["val"]
        if why := _why_not(value):
            to.refuse(f"input '{node.name}'", why)
            return
        named = [(node.name + part.replace(".", "_"), node.name + part, one) for part, one in parts_of_complex(value)]
        if is_weight:
            parts = [to.add_weight(*one) for one in named]
            self.weights[position] = [weight for _, weight, _ in named]
        else:
            parts = [to.add_input(name, one) for name, _, one in named]
            self.inputs[position] = [ref.node for ref in parts]
        to.define(node, parts)

    def give(self, to: Writer, returned: Sequence[Any]) -> None:
        """Writes the outputs."""
        placed = self.outputs.placed()
        for position, (names, _) in placed.items():
            parts = to.parts(returned[position])
            if len(parts) == len(names) and all(isinstance(ref, Ref) for ref in parts):
                for name, ref in zip(names, parts, strict=True):
                    to.add_output(name, ref)
            else:
                to.refuse(f"node '{returned[position]}'", "is an output and no tensor")
        if not placed:
            to.refuse("", "the graph has no tensor among its outputs")

    def __call__(self, arguments: Sequence[Any]) -> list[Any]:
        if not self.failed or self.session is not None:
            try:
                return self.run(arguments)
            except Exception as error:  # nothing is written yet: eager PyTorch gives the result, or its own error
                if not self.failed:
                    _leave(self.graph, error)
                self.failed = True
        return list(self.graph(*arguments))

    def run(self, arguments: Sequence[Any]) -> list[Any]:
        constants = [arguments[position] for position in self.weights]
        if any(weight.is_inference() for weight in constants):  # of which PyTorch counts no changes
            return list(self.graph(*arguments))
        versions = [(weight.data_ptr(), weight._version) for weight in constants]
        if versions != self.versions:
            self.session = None
        # As torch.manual_seed() says, and anew in each call.
        seed = int(torch.randint(2**63 - 1, (), device="cpu")) if self.draws else None
        named = _named(self.inputs, arguments).items()
        given = {name: _handed(value.cpu() if name in self.states else value) for name, value in named}
        with _plain_torch():
            try:
                found = self.run_session(arguments, seed, given)
            except Written:  # and nothing ran
                self.session = None
                found = self.run_session(arguments, seed, given)
        self.versions = versions
        return self.outputs.made(found)

    def run_session(self, arguments: Sequence[Any], seed: int | None, given: dict[str, Any]) -> dict[str, torch.Tensor]:
        """What the program gives, by name."""
        if self.session is None:
            weights = _named(self.weights, arguments) | self.constants
            device = None if self.device.type == "cpu" else f"{self.device.type}:{self.device.index or 0}"
            self.session = Session(self.program, weights, device=device, threads=self.options.threads)
            self.places = self.session.places() | dict.fromkeys(self.states, "cpu")
        if seed is not None:
            self.session.seed(seed)
        names = [name for placed, _ in self.outputs.placed().values() for name in placed]
        found = {}
        for name in names:
            shape, dtype = self.dtypes[name]
            found[name] = torch.empty(shape, dtype=dtype, device=self.places[name])
        self.session.run(given, out={name: _handed(value) for name, value in found.items()})
        return found


def _handed(value: torch.Tensor) -> Any:
    """A tensor as a session takes it: as it lies, on a GPU as on the host, if it is dense and row-major."""
    return value.detach().resolve_conj().resolve_neg() if value.is_cuda else as_array(value)


def _why_not(value: torch.Tensor) -> str:
    """What a program cannot take of an input; "" if it can."""
    if value.layout is not torch.strided or value.is_quantized:
        return f"is {value.layout}{', quantized' * value.is_quantized}"
    dtype = str(value.dtype.to_real() if value.is_complex() else value.dtype).removeprefix("torch.")
    return "" if dtype in DTYPES else f"is {value.dtype}: expected one of {', '.join(DTYPES)}, or complex"


def _named(positions: dict[int, list[str]], arguments: Sequence[Any]) -> dict[str, torch.Tensor]:
    return {
        name: part
        for position, names in positions.items()
        for name, (_, part) in zip(names, parts_of_complex(arguments[position]), strict=True)
    }


def _dtype(graph: torch.fx.GraphModule) -> str:
    """What the matrices that come in have, if it is one dtype of 16 bits."""
    values = [node.meta.get("val") for node in _placeholders(graph)]
    found = {v.dtype for v in values if isinstance(v, torch.Tensor) and v.is_floating_point() and v.dim() > 1}
    return str(*found).removeprefix("torch.") if found in ({torch.bfloat16}, {torch.float16}) else "float32"


if "npusim" not in list_backends():  # an installed package is known by its entry point
    register_backend(backend, name="npusim")
