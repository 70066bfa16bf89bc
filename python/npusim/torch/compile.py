"""torch.compile(model, backend="npusim"): what dynamo captures, compiled by npusim, or left to eager PyTorch."""

from __future__ import annotations

import collections
import contextlib
import copy
import json
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.backends.registry import list_backends, register_backend
from torch._functorch._aot_autograd.descriptors import BackwardTokenAOTInput, ForwardTokenAOTInput, ViewBaseAOTInput
from torch._functorch._aot_autograd.schemas import OutputType
from torch._subclasses import FakeTensor
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import _disable_current_modes

from .. import _core
from ..arrays import DTYPES, as_array
from ..errors import Error, Problem, UnsupportedError, UsageError
from ..program import Program
from ..session import Session
from ..writes import Written
from .facts.aliases import RESHAPE_ALIAS, as_strided, parts_of, shows_twice
from .facts.bits import loses_bits
from .facts.checks import hold_assertions, without_effects
from .facts.levels import levels_kept
from .forms.foreach import write_one_by_one
from .forms.kernels import AS_EAGERLY
from .forms.ref import Complex, Ref
from .functional.decompose import decompositions, shows_operand
from .functional.layouts import DATA_SET, loses_writes
from .passes.order import SPELLED_OUT
from .writing.graph import Graph, attribute

log = logging.getLogger("npusim")

PARTS = {
    "unsafe_chunk": torch.ops.aten.chunk.default,
    "unsafe_split": torch.ops.aten.split.Tensor,
    "unsafe_split_with_sizes": torch.ops.aten.split_with_sizes.default,
}
OPTIONS = {"dtype", "threads", "constant_weights"}
TOKENS = (ForwardTokenAOTInput, BackwardTokenAOTInput)
ALIASES = (OutputType.alias_of_input, OutputType.is_input)
Run = Callable[[Sequence[Any]], list[Any]]


def backend(
    graph: torch.fx.GraphModule, inputs: Sequence[Any], *, options: dict[str, Any] | None = None, **_: Any
) -> Any:
    """What torch.compile calls with each graph. options:

    dtype: what is computed in. Default: bfloat16 or float16 where all matrices among weights and inputs have it, else
        float32.
    threads: of the host; 0, the default: one per core.
    constant_weights: True, the default, prepares parameters and buffers once, and again when one has changed: when PyTorch
        has counted a write to it, when it lies elsewhere, or when some of its words are others (docs/from-pytorch.md). After
        writes of few elements through `.data` or NumPy call torch.compiler.reset(), or say False, which reads all in each
        run.

    A graph is left to eager PyTorch, with one warning of the logger "npusim" that says why, when npusim or AOT autograd
    refuses it, when it needs gradients, and when its tensors are not on the CPU; so is a call that fails, for eager
    PyTorch to give the result or the error. A graph whose shapes dynamo does not fix is compiled once for each."""
    chosen = dict(options or {})
    if unknown := chosen.keys() - OPTIONS:
        raise UsageError(f"there is no option {', '.join(sorted(unknown))}: expected {', '.join(sorted(OPTIONS))}")

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
                by_memory[_storage(value)].append(value)
        for to in (arguments[position] for position in written):
            if shows_twice(to) or any(one is not to and _overlap(to, one) for one in by_memory[_storage(to)]):
                raise _SharedOtherwise
        return run(arguments)

    return checked


def _sharing(inputs: Sequence[Any]) -> list[tuple[int, int] | None]:
    """Of inputs that have their memory with others: the first of these, and where in that memory they begin."""
    memory = [_storage(value) if isinstance(value, torch.Tensor) else None for value in inputs]
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
    try:
        return bool(np.shares_memory(as_array(one), as_array(other), max_work=1000))
    except (RuntimeError, TypeError):  # too hard to say, or nothing that NumPy sees
        return True


def _leave(graph: torch.fx.GraphModule, reason: object) -> Run:
    calls = sum(node.op.startswith("call_") for node in graph.graph.nodes)
    if isinstance(reason, Exception) and not isinstance(reason, Error):
        reason = f"{type(reason).__name__}: {reason}"
    log.warning("a graph of %d calls is left to eager PyTorch: %s", calls, reason)
    return _eager(graph)


def _static_inputs(options: dict[str, Any]) -> frozenset[int]:
    """Which inputs are parameters and buffers."""
    context = torch._guards.TracingContext.try_get()
    if not options.get("constant_weights", True) or context is None or context.fw_metadata is None:
        return frozenset()
    return frozenset(context.fw_metadata.static_input_indices)


def _placeholders(graph: torch.fx.GraphModule) -> list[torch.fx.Node]:
    return [node for node in graph.graph.nodes if node.op == "placeholder"]


def _constant(graph: torch.fx.GraphModule, node: torch.fx.Node) -> Any:
    """A tensor that the graph holds. It changes nothing that it is given, nor this."""
    value = attribute(graph, str(node.target)) if node.op == "get_attr" else None
    return None if isinstance(value, FakeTensor) else value


def _is_fixed(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return all(isinstance(extent, int) for extent in value.shape)
    return not isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool))


def _compile(graph: torch.fx.GraphModule, static: frozenset[int], options: dict[str, Any]) -> Run:
    try:
        if not all(_is_fixed(node.meta.get("val")) for node in _placeholders(graph)):
            return _BySize(graph, static, options)
        return _Compiled(graph, static, options)
    except Exception as error:  # whatever it is: eager PyTorch can do the graph
        return _leave(graph, error)


class _BySize:
    """A graph whose sizes are not fixed, compiled for each that it is called with."""

    def __init__(self, graph: torch.fx.GraphModule, static: frozenset[int], options: dict[str, Any]) -> None:
        self.graph, self.static, self.options = graph, static, options
        self.compiled: dict[tuple[Any, ...], Run] = {}

    def __call__(self, arguments: Sequence[Any]) -> list[Any]:
        key = tuple((a.shape, a.stride(), a.dtype) if isinstance(a, torch.Tensor) else a for a in arguments)
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

    def __init__(self, graph: torch.fx.GraphModule, static: frozenset[int], options: dict[str, Any]) -> None:
        self.graph, self.options = graph, options
        self.inputs: dict[int, list[str]] = {}  # by position, as the IR calls them: of complex ones two parts
        self.weights: dict[int, list[str]] = {}
        self.constants: dict[str, torch.Tensor] = {}  # what the graph itself holds
        self.outputs: list[Any] = []  # what stands in the IR's: (names, the traced tensor), or a constant
        self.same: dict[int, int] = {}  # outputs that are one tensor with an earlier one
        self.shared: dict[int, int] = {}  # memories of several outputs: how many bytes
        self.program = self.compile(self.ir(static))
        self.draws = any(info.role == "generator" for info in self.program.inputs())
        self.versions: list[Any] = []
        self.session: Session | None = None
        self.failed = False  # a call, of which a warning was given

    def compile(self, ir: dict[str, Any]) -> Program:
        dtype = self.options.get("dtype", _dtype(self.graph))
        source = ("main", "graph", json.dumps(ir))
        options = _core.options("cpu", dtype, None, False, set(), True, set(), None, None, None)
        with _plain_torch():
            handle, seconds, notes = _core.compile([source], options, None)
        log.info("a graph of %d nodes was compiled in %.3f s", len(ir["nodes"]), seconds["total"])
        return Program(handle, None, notes, seconds)

    def ir(self, static: frozenset[int]) -> dict[str, Any]:
        problems: list[Problem] = []
        ir = Graph(problems)
        graph = torch.fx.GraphModule(self.graph, copy.deepcopy(self.graph.graph))  # eager PyTorch's stays as it is
        with unset_fake_temporarily():  # the passes compute with numbers of their own
            for spell_out in SPELLED_OUT:
                spell_out(graph.graph)
        tokens = without_effects(graph.graph)
        hold_assertions(graph.graph)
        inputs: list[dict[str, Any]] = []
        weights: list[dict[str, Any]] = []
        for position, node in enumerate(_placeholders(graph)):
            value = node.meta.get("val")
            if not isinstance(value, torch.Tensor) or node in tokens:
                continue  # a number that the graph has in it already
            if why := _why_not(value):
                problems.append(Problem(f"input '{node.name}'", why))
                continue
            tensors = [ir.tensor(ir.free_name(node.name), part, f"input '{node.name}'") for part in _parts(value)]
            refs = [Ref(tensor["name"], 0, tensor, is_weight=position in static) for tensor in tensors]
            ir.define(node, Complex(*refs) if len(refs) > 1 else refs[0])
            (weights if position in static else inputs).extend(tensors)
            (self.weights if position in static else self.inputs)[position] = [tensor["name"] for tensor in tensors]
        if problems:
            raise UnsupportedError(problems)
        outputs: list[dict[str, Any]] = []
        for node in graph.graph.nodes:
            if node.op == "output":
                outputs = self.read_outputs(node, ir)
            elif isinstance(value := _constant(graph, node), torch.Tensor):
                ir.define(node, ir.constant(value))
            elif node.op != "placeholder":
                ir.add(node, graph)
        if not outputs:
            problems.append(Problem("", "the graph has no tensor among its outputs"))
        if problems:
            raise UnsupportedError(problems)
        self.constants = ir.constants
        weights += [ir.tensor(name, value, f"constant '{name}'") for name, value in ir.constants.items()]
        names = {tensor["name"]: tensor["name"] for tensor in weights}
        top = {"graph_inputs": inputs, "graph_outputs": outputs, "weights": weights, "weight_name_mapping": names}
        return {"model_name": "graph", **top, "nodes": ir.nodes}

    def read_outputs(self, output: torch.fx.Node, ir: Graph) -> list[dict[str, Any]]:
        """The traced tensors are those of the graph that was given: they say where an output lies in memory."""
        outputs = []
        given = self.graph.graph.output_node().args[0]
        first: dict[torch.fx.Node, int] = {}
        for position, (node, traced) in enumerate(zip(output.args[0], given, strict=True)):  # type: ignore[arg-type]
            if not isinstance(node, torch.fx.Node):
                self.outputs.append(node)
                continue
            if first.setdefault(traced, position) != position:
                self.same[position] = first[traced]
                self.outputs.append(None)
                continue
            found = ir.of.get(node)
            refs = [found.re, found.im] if isinstance(found, Complex) else [found]
            if not all(isinstance(ref, Ref) for ref in refs):
                ir.problems.append(Problem(f"node '{node.name}'", "is an output and no tensor"))
                continue
            names = [f"output_{position}{part}" for part in ("", "_imag")[: len(refs)]]
            for name, ref in zip(names, refs, strict=True):
                outputs.append(
                    {**ref.tensor, "name": name, "producer_node": ref.node, "producer_output_idx": ref.index}
                )
            self.outputs.append((names, traced.meta["val"]))
        traced = [out[1] for out in self.outputs if isinstance(out, tuple)]
        _check_one_kind(traced)
        self.shared = _shared_memories(traced)
        return outputs

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
        seed = int(torch.randint(2**63 - 1, ())) if self.draws else None  # as torch.manual_seed() says, and anew in each call
        arrays = {name: as_array(value) for name, value in _named(self.inputs, arguments).items()}
        with _plain_torch():
            try:
                found = self.run_session(arguments, seed, arrays)
            except Written:  # and nothing ran
                self.session = None
                found = self.run_session(arguments, seed, arrays)
        self.versions = versions
        memories = {place: torch.zeros(nbytes, dtype=torch.uint8).untyped_storage() for place, nbytes in self.shared.items()}
        results = [
            _tensor(_joined([found[name] for name in out[0]]), out[1], memories.get(_storage(out[1])))
            if isinstance(out, tuple)
            else out
            for out in self.outputs
        ]
        results = self.with_bases(results, memories)
        for position, first in self.same.items():
            results[position] = results[first]
        return results

    def run_session(self, arguments: Sequence[Any], seed: int | None, arrays: dict[str, Any]) -> dict[str, Any]:
        if self.session is None:
            weights = _named(self.weights, arguments) | self.constants
            self.session = Session(self.program, weights, threads=self.options.get("threads", 0))
        if seed is not None:
            self.session.seed(seed)
        return self.session.run(arrays)

    def with_bases(self, results: list[Any], memories: dict[int, torch.UntypedStorage]) -> list[Any]:
        """Of outputs that share memory, one that has all of it is what the others are views of, as PyTorch knows them."""
        bases: dict[int, tuple[int, torch.Tensor]] = {}
        for position, out in enumerate(self.outputs):
            if not isinstance(out, tuple) or (place := _storage(out[1])) not in memories or place in bases:
                continue
            traced = out[1]
            if _is_dense(traced) and traced.numel() * traced.element_size() == self.shared[place]:
                whole = torch.empty(0, dtype=traced.dtype)
                bases[place] = position, whole.set_(memories[place], 0, traced.shape, traced.stride())
        for position, out in enumerate(self.outputs):
            if not isinstance(out, tuple) or _storage(out[1]) not in bases:
                continue
            traced, (first, base) = out[1], bases[_storage(out[1])]
            if position == first:
                results[position] = _seen(base, traced)
            elif traced.dtype == base.dtype:
                results[position] = _seen(base.as_strided(traced.shape, traced.stride(), traced.storage_offset()), traced)
        return results


def _why_not(value: torch.Tensor) -> str:
    """What a program cannot take of an input; "" if it can."""
    if value.device.type != "cpu":
        return f"is on {value.device}"
    if value.layout is not torch.strided or value.is_quantized:
        return f"is {value.layout}{', quantized' * value.is_quantized}"
    dtype = str(value.dtype.to_real() if value.is_complex() else value.dtype).removeprefix("torch.")
    return "" if dtype in DTYPES else f"is {value.dtype}: expected one of {', '.join(DTYPES)}, or complex"


def _parts(value: torch.Tensor) -> list[torch.Tensor]:
    """What stands for a tensor in a program: of a complex one its parts."""
    return [value.real, value.imag] if value.is_complex() else [value]


def _named(positions: dict[int, list[str]], arguments: Sequence[Any]) -> dict[str, torch.Tensor]:
    return {
        name: part
        for position, names in positions.items()
        for name, part in zip(names, _parts(arguments[position]), strict=True)
    }


def _joined(arrays: list[Any]) -> torch.Tensor:
    """The arrays of an output as a tensor."""
    parts = [
        torch.from_numpy(array.view("int16")).view(torch.bfloat16)
        if array.dtype.name == "bfloat16"
        else torch.from_numpy(array)
        for array in arrays
    ]
    return torch.complex(*parts) if len(parts) > 1 else parts[0]


def _storage(traced: torch.Tensor) -> int:
    return traced.untyped_storage()._cdata


def _shared_memories(outputs: list[torch.Tensor]) -> dict[int, int]:
    """The bytes of the memories that are not one output's alone from its first element on: those who see such an output
    may see the rest too."""
    counts = collections.Counter(map(_storage, outputs))
    return {
        _storage(traced): int(traced.untyped_storage().nbytes())
        for traced in outputs
        if counts[_storage(traced)] > 1 or traced.storage_offset() != 0
    }


def _check_one_kind(outputs: list[torch.Tensor]) -> None:
    """That no two outputs show one memory in dtypes of which one does not keep the bits that the other needs."""
    kinds: dict[int, torch.dtype] = {}
    for traced in outputs:
        if loses_bits(kinds.setdefault(_storage(traced), traced.dtype), traced.dtype):
            raise UnsupportedError("it returns one memory in several dtypes")


def _tensor(tensor: torch.Tensor, traced: torch.Tensor, memory: torch.UntypedStorage | None) -> torch.Tensor:
    """An output as the graph's, with its dtype and strides, in this memory or in its own. Elements that share memory are
    equal."""
    if memory is None:
        if tensor.dtype == traced.dtype and tensor.stride() == traced.stride():
            return tensor
        if _is_dense(traced):
            return torch.empty_strided(traced.shape, traced.stride(), dtype=traced.dtype).copy_(tensor)
    places = torch.full(traced.shape, int(traced.storage_offset()), dtype=torch.int64)
    for dim, (extent, stride) in enumerate(zip(traced.shape, traced.stride(), strict=True)):
        places += (torch.arange(extent) * stride).reshape(-1, *[1] * (traced.dim() - 1 - dim))
    if memory is None:
        flat = torch.zeros(int(places.max()) + 1 if places.numel() else 0, dtype=traced.dtype)
    else:
        flat = torch.empty(0, dtype=traced.dtype).set_(memory)
        tensor = _seen(tensor, traced)
    flat[places.reshape(-1)] = tensor.to(traced.dtype).reshape(-1)
    found = flat.as_strided(traced.shape, traced.stride(), traced.storage_offset())
    return found if memory is None else _seen(found, traced)


def _seen(stored: torch.Tensor, traced: torch.Tensor) -> torch.Tensor:
    """What memory holds as a conjugated or negated view shows it; and the other way round."""
    stored = stored.conj() if traced.is_conj() else stored
    return torch._neg_view(stored) if traced.is_neg() else stored


def _is_dense(traced: torch.Tensor) -> bool:
    """Whether each element has its own memory, and none lies between them."""
    elements = 1
    for stride, extent in sorted(zip(traced.stride(), traced.shape, strict=True)):
        if extent > 1 and stride != elements:
            return traced.numel() == 0
        elements *= extent
    return True


def _dtype(graph: torch.fx.GraphModule) -> str:
    """What the matrices that come in have, if it is one dtype of 16 bits."""
    values = [node.meta.get("val") for node in _placeholders(graph)]
    found = {v.dtype for v in values if isinstance(v, torch.Tensor) and v.is_floating_point() and v.dim() > 1}
    return str(*found).removeprefix("torch.") if found in ({torch.bfloat16}, {torch.float16}) else "float32"


if "npusim" not in list_backends():  # an installed package is known by its entry point
    register_backend(backend, name="npusim")
