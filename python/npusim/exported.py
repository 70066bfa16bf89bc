"""What comes out of an export: IR and weights, in memory and as a folder of files. Needs no PyTorch."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import _core
from .arguments import integer, mapping, refused, sequence
from .arguments import path as _path
from .errors import BadInputError, UsageError
from .nested import Leaf
from .weights import Weights, checked_weights, named, open_weights
from .writes import Held, check_held

IR_FILE, WEIGHTS_FILE, TEXT_FILE, KV_FILE = "ir.json", "model.safetensors", "text.json", "kv_map.json"


def _summary(ir: Any) -> str:
    """In a few words: an IR has thousands of lines."""
    if not isinstance(ir, Mapping):
        return f"a {type(ir).__name__}, no IR"
    parts = {"nodes": "nodes", "graph_inputs": "inputs", "graph_outputs": "outputs", "weights": "weights"}
    counts = [f"{len(ir[key])} {what}" for key, what in parts.items() if isinstance(ir.get(key), (list, tuple))]
    return f"{ir.get('model_name', '')}: {', '.join(counts)}"


@dataclass(repr=False)
class Exported:
    """A model as IR (docs/ir_format.md) and weights by name. Buffers that became inputs are among the weights under the
    name of the input."""

    ir: dict[str, Any]
    weights: Weights = field(default=None, repr=False)
    path: str = ""  # of the IR, where it was read from a file
    # How the model's output is made of the IR's: torch.utils._pytree's TreeSpec, and for each leaf the name of an
    # output, or a constant, which is an output too where it is a number. None: unknown, as of an IR from a file.
    structure: Any = field(default=None, repr=False)
    leaves: list[tuple[str, Any]] = field(default_factory=list, repr=False)  # ("output", name) or ("constant", value)
    # How the IR's inputs are made of forward()'s arguments; empty: unknown, as of an IR from a file.
    arguments: list[Leaf] = field(default_factory=list, repr=False)
    # The sizes and branches that depend on values, which are those of the example: "node (operator): what it was".
    made_for: list[str] = field(default_factory=list, repr=False)
    notes: list[str] = field(default_factory=list, repr=False)  # what was warned of when it was exported
    held: Held = field(default_factory=Held, repr=False)  # where the model has the weights

    def __repr__(self) -> str:
        return f"Exported({_summary(self.ir)}{f', {self.path}' if self.path else ''})"

    def check(self) -> None:
        """Raises UsageError where somebody gave a field another kind of value."""
        mapping("ir", self.ir, "an IR as a dict")
        checked_weights(self.weights)
        check_held(self.held)
        if not isinstance(self.path, str) or self.path:
            _path("path", self.path)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Writes ir.json and, if there are weights, model.safetensors into a folder, which is made. The
        ir.json, text.json and weights of an earlier save() go, other files stay. Raises BadInputError, and leaves what
        was there, where something cannot be written or is not save()'s."""
        self.check()
        _save(folder, {IR_FILE: json_bytes("ir", self.ir)}, self.weights, ())


@dataclass(repr=False)
class ExportedText:
    """A language model: the IR of each method, which states of "decode" the outputs of the prefills fill, and the one
    set of weights."""

    methods: dict[str, dict[str, Any]]  # "prefill" or "prefill_N", … and "decode"
    kv_map: dict[str, Any]
    capacity: int  # tokens that the states hold
    weights: Weights = field(default=None, repr=False)
    files: tuple[str, ...] = ()  # that belong to it, such as tokenizer.json
    held: Held = field(default_factory=Held, repr=False)  # where the model has the weights

    def __repr__(self) -> str:
        methods = "; ".join(f"{name}: {_summary(ir)}" for name, ir in dict(self.methods).items())
        return f"ExportedText({methods}; capacity {self.capacity})"

    def check(self) -> None:
        """Raises UsageError where somebody gave a field another kind of value."""
        for name, ir in mapping("methods", self.methods, "IRs by method").items():
            mapping(f"methods[{name!r}]", ir, "an IR as a dict")
        mapping("kv_map", self.kv_map, "a dict")
        integer("capacity", self.capacity, 1, 2**63 - 1)
        checked_weights(self.weights)
        check_held(self.held)
        for i, file in enumerate(sequence("files", self.files, "paths")):
            _path(f"files[{i}]", file)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Writes METHOD.json for each method, kv_map.json, text.json (which lists them) and model.safetensors; copies the
        tokenizer and the like. The ir.json, text.json and weights of an earlier save() go, other files stay. Raises
        BadInputError, and leaves what was there, where something cannot be written or is not save()'s."""
        self.check()
        to = _path("folder", folder)
        taken: dict[str, Any] = {}
        for name, ir in self.methods.items():
            if _is_plain(name):
                taken[_free(taken, f"{name}.json", f"method '{name}'")] = json_bytes(f"methods[{name!r}]", ir)
            else:
                raise refused("methods", "names that files can have", name)
        taken[_free(taken, KV_FILE, "the map of states")] = json_bytes("kv_map", self.kv_map)
        _free(taken, TEXT_FILE, "the list of methods")
        copied = []
        for file in self.files:
            name = os.path.basename(file)
            place = os.path.join(to, name)
            if not _core.is_same_file(file, place):
                taken[_free(taken, name, file)] = file_bytes(file)
                copied.append(name)
            elif isinstance(self.weights, Mapping) and os.path.exists(os.path.join(to, WEIGHTS_FILE)):
                reason = f"{WEIGHTS_FILE} would be lost: expected another folder"
                raise UsageError(f"{to}: is the folder that the model came from, whose {reason}")
        text = {"methods": {name: f"{name}.json" for name in self.methods}, "kv_map": KV_FILE}
        taken[TEXT_FILE] = json_bytes("capacity", {**text, "capacity": self.capacity, "files": copied})
        _save(to, taken, self.weights, copied)


def _is_plain(name: str) -> bool:
    """Whether it is the name of a file in a folder, and no way to another one."""
    return name not in ("", ".", "..") and "/" not in name and "\0" not in name


def _free(taken: Mapping[str, Any], name: str, what: str) -> str:
    """The name, which nothing else that is saved has. Names that differ in case alone are one on some disks."""
    for other in (*taken, WEIGHTS_FILE):
        if other.lower() == name.lower():
            raise UsageError(f"{what} cannot be saved as {name}: {other} is saved beside it")
    return name


def _save(folder: Any, texts: Mapping[str, bytes], weights: Weights, copied: Sequence[str]) -> None:
    """Writes all files of a model into a folder or none, and removes those that made it mean another one."""
    to = _path("folder", folder)
    files: list[tuple[str, Any]] = [(os.path.join(to, name), text) for name, text in texts.items()]
    place = os.path.join(to, WEIGHTS_FILE)
    kept = {*texts}
    own = isinstance(weights, (str, os.PathLike)) and _core.is_same_file(_path("weights", weights), place)
    if weights is not None and not (isinstance(weights, Mapping) and not weights):
        kept.add(WEIGHTS_FILE)
        if isinstance(weights, Mapping):
            files.append((place, named(weights)))
        elif not own:
            files.append((place, open_weights(weights)))
    before = _saved_before(to)
    if os.path.lexists(place) and WEIGHTS_FILE not in before and not own:
        raise BadInputError(f"{to}: has a {WEIGHTS_FILE} that no save() left: expected another folder")
    stale = [os.path.join(to, name) for name in before if name not in kept]
    made = _make_folder(to)
    try:
        _core.save_files(files, stale)
    except BaseException:
        for one in reversed(made):
            try:
                os.rmdir(one)
            except OSError:  # it is in use
                break
        raise


def _saved_before(folder: str) -> list[str]:
    """The files by which an earlier save() made a folder mean a model. What its text.json names is left: without that it
    means nothing, and it may be somebody's. Raises BadInputError for a text.json that no save() left."""
    found = [name for name in (IR_FILE, TEXT_FILE) if os.path.isfile(os.path.join(folder, name))]
    if TEXT_FILE in found:
        try:
            text = _read(os.path.join(folder, TEXT_FILE))
        except BadInputError:
            text = {}
        if not isinstance(text, dict) or not {"methods", "kv_map", "capacity"} <= text.keys():
            raise BadInputError(f"{folder}: has a {TEXT_FILE} that no save() left: expected another folder")
    if found and os.path.isfile(os.path.join(folder, WEIGHTS_FILE)):
        found.append(WEIGHTS_FILE)
    return found


def _make_folder(folder: str) -> list[str]:
    """Makes a folder and those around it; returns those that were not there, outermost first."""
    missing = []
    at = folder.rstrip("/") or "/"
    while at and not os.path.isdir(at):
        missing.append(at)
        at = os.path.dirname(at)
    made: list[str] = []
    try:
        for one in reversed(missing):
            os.mkdir(one)
            made.append(one)
    except OSError as error:
        for one in reversed(made):
            os.rmdir(one)
        raise BadInputError(f"cannot write {folder}: {error.strerror}") from None
    return made


def json_bytes(name: str, value: Any, *, numbers_only: bool = False) -> bytes:
    """The JSON of a value, with NaN and the infinities as Python writes them unless there are only to be numbers."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=not numbers_only).encode()
    except (TypeError, ValueError, RecursionError) as problem:
        raise UsageError(f"{name}: expected what JSON can say: {problem}") from None


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Writes a file, whole or not at all. Raises BadInputError."""
    _core.write_text(text, _path("path", path))


def read_exported(folder: str | os.PathLike[str]) -> Exported | ExportedText:
    """What save() wrote. Raises BadInputError when there is neither ir.json nor text.json."""
    to = _path("folder", folder)
    ir, text, weights = (os.path.join(to, name) for name in (IR_FILE, TEXT_FILE, WEIGHTS_FILE))
    given = weights if os.path.exists(weights) else None
    if os.path.exists(text):
        return _read_text(to, text, given)
    if not os.path.exists(ir):
        raise BadInputError(f"{to}: expected {IR_FILE} or {TEXT_FILE} in this folder")
    return Exported(_read(ir, is_ir=True), given, ir)


def _read_text(folder: str, path: str, weights: str | None) -> ExportedText:
    text = _read(path)

    def beside(what: str, name: Any, is_ir: bool) -> dict[str, Any]:
        if not isinstance(name, str) or not _is_plain(name):
            raise BadInputError(f"{path}: {what}: expected the name of a file beside it, found {json.dumps(name)}")
        return _read(os.path.join(folder, name), is_ir)

    methods, capacity = text.get("methods"), text.get("capacity")
    if not isinstance(methods, dict) or not methods:
        raise BadInputError(f"{path}: methods: expected files by method, found {json.dumps(methods)}")
    if not isinstance(capacity, int) or isinstance(capacity, bool) or capacity < 1:
        raise BadInputError(f"{path}: capacity: expected a number of tokens, found {json.dumps(capacity)}")
    irs = {name: beside(f"methods: {name}", file, is_ir=True) for name, file in methods.items()}
    return ExportedText(irs, beside("kv_map", text.get("kv_map"), is_ir=False), capacity, weights)


def file_bytes(path: str | os.PathLike[str]) -> bytes:
    """What a regular file holds: a pipe would be waited for. Raises BadInputError."""
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            raise BadInputError(f"{os.fspath(path)}: expected a regular file, found {_kind(os.stat(path).st_mode)}")
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise BadInputError(f"cannot read {os.fspath(path)}: {error.strerror}") from None


def _kind(mode: int) -> str:
    kinds = {stat.S_ISDIR: "a folder", stat.S_ISFIFO: "a pipe", stat.S_ISSOCK: "a socket"}
    return next((name for is_one, name in kinds.items() if is_one(mode)), "a device")


def file_text(path: str | os.PathLike[str]) -> str:
    """The text of a regular file. Raises BadInputError."""
    try:
        return file_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadInputError(f"{os.fspath(path)}: expected text, found other bytes") from None


def _read(path: str, is_ir: bool = False) -> dict[str, Any]:
    """A file's JSON object, which the core's reader takes."""
    text = file_text(path)
    if is_ir:
        _core.check_ir_text(("main", path, text))
    else:
        _core.check_json_text(path, text)
    value: dict[str, Any] = json.loads(text)
    return value
