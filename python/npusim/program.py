"""Compiling, and programs."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Union

from . import _core
from .arguments import budget, flag, function, instance, mapping, optional_text, refused, texts
from .arguments import path as _path
from .arguments import text as _text
from .arrays import as_array
from .errors import BadInputError, UsageError
from .exported import Exported, ExportedText, file_text, json_bytes, read_exported
from .nested import Leaf
from .parts import torch_part
from .weights import Weights, checked_weights
from .writes import Held, check_held

Path_ = Union[str, "os.PathLike[str]"]


@dataclass(frozen=True)
class TensorInfo:
    """An input or output of a method."""

    name: str
    dtype: str  # "float32"
    shape: tuple[int, ...]
    state: bool  # stays on its device from run to run, updated in place (a KV cache)
    role: str  # what it is to a text: tokens, positions, mask, logits, last; generator: of random numbers; else data
    kept: bool = False  # a state that is a buffer of the model, or a weight that it writes into: no argument of it


class Needs(NamedTuple):
    """What a program takes."""

    bytes: int  # of memory for a session, on all devices, weights included
    flops: int  # operations of a run of its longest method, one for each expression of each element


@dataclass
class Program:
    """A compiled program. It never changes; any number of threads and sessions may share it.

    `weights`, where the program was compiled from a model, are what a Session takes unless it is given others.
    `notes` are worth reading: how states were paired, numbers beyond float16's range."""

    handle: _core.Program = field(repr=False)
    weights: Weights = field(default=None, repr=False)
    notes: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    sources: dict[str, tuple[str, str, str]] = field(default_factory=dict, repr=False)  # by method: name, path, JSON
    arguments: dict[str, list[Leaf]] = field(default_factory=dict, repr=False)  # by method: what inputs are made of, if known
    options: _core.Options | None = field(default=None, repr=False)  # that it was compiled with, in this process
    held: Held = field(default_factory=Held, repr=False)  # where the models that it was compiled from have `weights`

    def __post_init__(self) -> None:
        instance("handle", self.handle, _core.Program, "what load() or compile() makes a Program of")
        checked_weights(self.weights)
        check_held(self.held)

    def save(self, path: Path_) -> None:
        """Writes the .npubin, whole or not at all. Weights stay in their own file."""
        _core.save_program(self.handle, _path("path", path))

    def to_bytes(self) -> bytes:
        """The .npubin: the same for equal programs."""
        return _core.serialize(self.handle)

    def recompile(self, target: str | None = None) -> Program:
        """The program with launches made anew from its steps, whose kernels were proven: nothing of the launches and the
        code in it is used (SECURITY.md). target: what to compile for; None: what it was compiled for.

        Raises UnsupportedError naming what the target cannot run."""
        made = _core.recompile(self.handle, optional_text("target", target) or "")
        return Program(made, self.weights, arguments=self.arguments, held=self.held)

    def describe(self, *, steps: bool = False) -> str:
        """What the program holds, for people; with `steps` what it does in order."""
        return (_core.describe_steps if flag("steps", steps) else _core.describe)(self.handle, False)

    def details(self, *, steps: bool = False) -> dict[str, Any]:
        """The same as data: docs/cli.md, describe --json."""
        return json.loads((_core.describe_steps if flag("steps", steps) else _core.describe)(self.handle, True))

    @property
    def needs(self) -> Needs:
        """What a session and a run take at least, found from the program alone: what max_bytes and max_flops limit."""
        return Needs(*_core.program_needs(self.handle))

    @property
    def methods(self) -> list[str]:
        """Names of what can be run; "main" unless the program was compiled with others."""
        return list(self._names)

    @functools.cached_property
    def _names(self) -> dict[str, None]:
        """In their order; found once, as each of thousands may be asked for."""
        return dict.fromkeys(_core.method_names(self.handle))

    @property
    def model(self) -> str:
        """The model's name in the IR."""
        return _core.program_info(self.handle)["model"]

    @property
    def dtype(self) -> str:
        """What it computes in."""
        return _core.program_info(self.handle)["dtype"]

    @property
    def targets(self) -> list[str]:
        """What its devices are; the first is the one it was compiled for, another runs what that one does not."""
        return _core.program_info(self.handle)["targets"]

    @property
    def target(self) -> str:
        """What it was compiled for."""
        return self.targets[0]

    def partition(self) -> dict[str, Any]:
        """Which device does what, and why, as data: docs/partitioning.md."""
        return json.loads(_core.describe_partition(self.handle, True))

    def describe_partition(self) -> str:
        """Which device does what, and why, for people."""
        return _core.describe_partition(self.handle, False)

    def partition_plan(self) -> dict[str, Any]:
        """The nodes that the CPU runs, to be edited and given to compile(plan=…)."""
        return json.loads(_core.partition_plan(self.handle))

    def partition_picture(self) -> str:
        """Segments and transfers as SVG."""
        return _core.partition_picture(self.handle)

    def inputs(self, method: str | None = None) -> list[TensorInfo]:
        """In the IR's order. Raises UsageError naming the methods there are."""
        return [_info(t) for t in _core.method_inputs(self.handle, self.choose_method(method))]

    def outputs(self, method: str | None = None) -> list[TensorInfo]:
        """In the IR's order. Raises UsageError naming the methods there are."""
        return [_info(t) for t in _core.method_outputs(self.handle, self.choose_method(method))]

    def steps(self, method: str | None = None) -> list[dict[str, Any]]:
        """What a method does in order: kernel, device (a position in `targets`), bytes, flops, and the nodes, operators
        and weights of the IR that it is for; of weights whose names have more than 1024 letters a part."""
        return _core.method_steps(self.handle, self.choose_method(method))

    def choose_method(self, method: str | None) -> str:
        """The method asked for; without a name the only one, or "main"."""
        names = self._names
        wanted = (next(iter(names)) if len(names) == 1 else "main") if method is None else _text("method", method)
        if wanted not in names:
            asked = "which method?" if method is None else f"no method '{method}'."
            raise UsageError(f"{asked} The program has {', '.join(names)}")
        return wanted

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("a Program is not pickled: save() it, or send to_bytes()")


def _info(tensor: tuple[str, str, list[int], bool, str, bool]) -> TensorInfo:
    name, dtype, shape, state, role, kept = tensor
    return TensorInfo(name, dtype, tuple(shape), state, role, kept)


def load(
    program: Path_ | bytes,
    weights: Weights = None,
    *,
    code: bool = True,
    max_bytes: int | float = 0,
    max_flops: int | float = 0,
) -> Program:
    """Reads a .npubin from a file, or from its bytes. Raises BadInputError for what save() did not write,
    UnsupportedError for a program that needs more than it may.

    weights: what sessions take unless they are given others.
    code: False leaves out launches on devices that are compiled for ahead, which are code that nobody can prove
        (SECURITY.md): the CPU runs their steps. A program that calls a plugin is then refused: UnsupportedError.
    max_bytes, max_flops: what the program may need (Program.needs); 0: any."""
    limits = budget(max_bytes, max_flops)
    flag("code", code)
    checked_weights(weights)
    if isinstance(program, bytes):
        handle = _core.parse_program(program, "program", code)
    else:
        handle = _core.load_program(_path("program", program), code)
    _core.check_budget(handle, **limits)
    return Program(handle, weights)


def compile(
    model: Any,
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    target: str = "cpu",
    dtype: str = "auto",
    config: Mapping[str, Any] | None = None,
    strict: bool = False,
    disable_fusion: Iterable[str] = (),
    fallback: bool = True,
    force_cpu: Iterable[str] = (),
    plan: Mapping[str, Any] | Path_ | None = None,
    kv_map: Mapping[str, Any] | Path_ | None = None,
    text: bool | None = None,
    max_bytes: int | float = 0,
    max_flops: int | float = 0,
    progress: Callable[[str], None] | None = None,
) -> Program:
    """Compiles a model to a program of static shapes.

    model: the path of an IR (JSON) or of a folder that export() saved; an IR as a dict; what export() or export_llm()
        gave; a torch.export.ExportedProgram; a torch.nn.Module with example arguments. A dict of any of these by
        method name gives a program with these methods.
    args, kwargs: example arguments of a torch.nn.Module. Their shapes and dtypes are the program's. What is exported already
        has its own, and these are not looked at.
    target: "cpu", "null", "cuda", "cuda:sm_80,sm_90a".
    dtype: what is computed in: "float16", "bfloat16", "float32"; "auto" is bfloat16 for models that have bfloat16
        weights or inputs, else float16.
    config: overrides of the target's hardware rules (docs/cli.md).
    strict: round at every edge of the IR, as eager PyTorch does.
    disable_fusion: names of fusions, or "all".
    fallback: what the target cannot run is run by the CPU, in the same program; False: it is an error.
    force_cpu: operators for the CPU: "aten.relu.default", "aten.relu" or "relu".
    plan: which nodes the CPU runs, as Program.partition_plan() gives it, or its file.
    kv_map: which outputs of a prefill fill which states of a decode (docs/ir_format.md, section 8), or its file.
    text: whether methods of a text get others that `generate` is faster with. None: among several methods.
    max_bytes, max_flops: what the program may need (Program.needs); 0: any.
    progress: receives the name of each stage as it begins.

    Ctrl-C ends it between two of its steps. Raises UnsupportedError with a problem for each node that cannot be compiled
    and for a program that needs more than it may, BadInputError for a malformed IR."""
    limits = budget(max_bytes, max_flops)
    made = (  # checked before a model is exported, which may take minutes
        _text("target", target),
        _dtype(dtype),
        _json("config", config),
        flag("strict", strict),
        texts("disable_fusion", disable_fusion),
        flag("fallback", fallback),
        texts("force_cpu", force_cpu),
        _json("plan", plan),
    )
    mapped = _json("kv_map", kv_map)
    if text is not None:
        flag("text", text)
    function("progress", progress)
    sources = _Sources(exported_methods(model, args, kwargs))
    if sources.kv_map is not None:
        mapped = mapped or ("kv_map", json_bytes("kv_map", sources.kv_map).decode())
    options = _core.options(*made, mapped, text, **limits)
    handle, seconds, notes = _core.compile(sources.irs, options, progress)
    by_method = {source[0]: source for source in sources.irs}
    return Program(handle, sources.weights, notes, seconds, by_method, sources.arguments, options, sources.held)


class _Sources:
    """What is compiled: IRs, and what belongs to them that is not the compiler's."""

    def __init__(self, methods: Mapping[str, Exported | ExportedText | str]) -> None:
        self.irs: list[tuple[str, str, str]] = []  # method, what errors call its IR, the IR; "": read from there
        self.weights: Weights = None
        self.arguments: dict[str, list[Leaf]] = {}  # by method
        self.kv_map: Mapping[str, Any] | None = None
        self.held = Held()
        kept: set[str] = set()
        named: list[set[str]] = []  # by method: what its weights are called
        for name, taken in methods.items():
            if isinstance(taken, ExportedText):
                self.kv_map = taken.kv_map
                self.irs += [(m, m, json_bytes(m, ir).decode()) for m, ir in taken.methods.items()]
                self.weights, self.held = taken.weights, taken.held
            elif isinstance(taken, Exported):
                self.irs.append((name, taken.path or _file_name(name), json_bytes("model", taken.ir).decode()))
                self.weights = _merged(self.weights, taken.weights)
                self.held += taken.held
                named.append({*taken.weights} if isinstance(taken.weights, Mapping) else set())
                if isinstance(states := taken.ir.get("states"), Mapping):  # the compiler says what is wrong with it
                    kept.update(states)
                self.arguments[name] = taken.arguments
            else:
                self.irs.append((name, taken, ""))  # read there, with errors that name it
        if len(named) > 1:
            _check_names_of(kept, named, self.weights)


def exported_methods(
    model: Any, args: Sequence[Any] | None, kwargs: Mapping[str, Any] | None
) -> dict[str, Exported | ExportedText | str]:
    """compile()'s model by method name, exported where it is not yet: what compile() takes as it is."""
    methods = mapping("model", model, "methods by name") if _is_methods(model) else {"main": model}
    if not methods:
        raise UsageError("model: expected an IR or methods by name, found an empty dict")
    taken = {name: _exported(one, args, kwargs) for name, one in methods.items()}
    for name, one in taken.items():
        if isinstance(one, ExportedText) and len(taken) > 1:
            raise UsageError(f"{name}: a text model has methods of its own")
    return taken


def _file_name(method: str) -> str:
    """What messages call the IR of a method that was in no file."""
    return method.replace("\0", "") or "main"


def _json(name: str, document: Mapping[str, Any] | Path_ | None) -> tuple[str, str] | None:
    """Options that are given as data or in a file: what messages call them, and their JSON."""
    if document is None:
        return None
    if isinstance(document, Mapping):
        return name, json_bytes(name, document, numbers_only=True).decode()
    path = _path(name, document)
    found = file_text(path)
    if not found.strip():
        raise BadInputError(f"{name}: {path}: expected JSON, found an empty file")
    return path, found


def _dtype(name: Any) -> str:
    """What is computed in. float64 is no such dtype, and is computed in none the less."""
    if _text("dtype", name) in ("float64", "double"):
        raise UsageError(f'dtype {name}: models of float64 compute in it with dtype="float32"')
    return name


def _is_methods(model: Any) -> bool:
    return isinstance(model, Mapping) and not any(key in model for key in ("nodes", "graph_inputs", "graph_outputs"))


def _merged(one: Weights, other: Weights) -> Weights:
    if not one or not other or one is other:
        return other or one
    if not isinstance(one, Mapping) or not isinstance(other, Mapping):
        raise UsageError("methods with weights of their own: give the Session one file of all")
    for name in one.keys() & other.keys():
        where = f"weight '{name}'"
        a, b = as_array(one[name], where=where), as_array(other[name], where=where)
        if (a.nbytes and a.ctypes.data != b.ctypes.data) or a.shape != b.shape:
            raise UsageError(f"weight {name} is one of two methods: export them from one model")
    return {**one, **other}


def _check_names_of(kept: Collection[str], named: Sequence[set[str]], weights: Weights) -> None:
    """What a method changes has one name in all of them: by another one it would stay as it is. Raises UsageError.

    named: by method the names of its weights; what has two in one method its export has seen to."""
    if not kept or not isinstance(weights, Mapping):
        return
    places = []
    for name, value in weights.items():
        array = as_array(value, where=f"weight '{name}'")
        if array.nbytes:
            places.append((array.ctypes.data, array.ctypes.data + array.nbytes, name))
    behind, last = 0, ""
    for begin, end, name in sorted(places):
        if begin < behind and (name in kept or last in kept) and not any({name, last} <= names for names in named):
            state, other = (name, last) if name in kept else (last, name)
            raise UsageError(
                f"a method changes '{state}', and '{other}' is the same memory in another one: export the methods from "
                f"modules that have it under one name"
            )
        if end > behind:
            behind, last = end, name


def _exported(
    model: Any, args: Sequence[Any] | None, kwargs: Mapping[str, Any] | None
) -> Exported | ExportedText | str:
    """What the compiler takes: with an IR as data, or the path of one."""
    if isinstance(model, (Exported, ExportedText)):
        model.check()
        return model
    if isinstance(model, Mapping):
        taken = Exported(dict(model))
        taken.check()
        return taken
    if isinstance(model, (str, os.PathLike)):
        where = _path("model", model)
        return read_exported(where) if os.path.isdir(where) else where
    if model is None or isinstance(model, (bool, int, float, bytes, bytearray, list, tuple, set)):  # PyTorch need not be asked
        raise refused("model", "a torch.nn.Module, an exported program, an IR or the path of one", model)
    return torch_part("export").export(model, args, kwargs)
