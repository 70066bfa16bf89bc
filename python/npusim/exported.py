"""What comes out of an export: IR and weights, in memory and as a folder of files. Needs no PyTorch."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import _core
from .errors import BadInputError
from .weights import Weights, save_weights

IR_FILE, WEIGHTS_FILE, TEXT_FILE = "ir.json", "model.safetensors", "text.json"


@dataclass
class Exported:
    """A model as IR (docs/ir_format.md) and weights by name. Buffers that became inputs are among the weights under the
    name of the input."""

    ir: dict[str, Any]
    weights: Weights = field(default=None, repr=False)
    path: str = ""  # of the IR, where it was read from a file
    # How the model's output is made of the IR's: torch.utils._pytree's TreeSpec, and for each leaf the name of an
    # output, or a constant. None: unknown, as of an IR from a file.
    structure: Any = field(default=None, repr=False)
    leaves: list[tuple[str, Any]] = field(default_factory=list, repr=False)  # ("output", name) or ("constant", value)
    # The sizes and branches that depend on values, which are those of the example: "node (operator): what it was".
    made_for: list[str] = field(default_factory=list, repr=False)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Writes ir.json and, if there are weights, model.safetensors into a folder, which is made."""
        to = Path(folder)
        to.mkdir(parents=True, exist_ok=True)
        write_text(to / IR_FILE, json.dumps(self.ir))
        if isinstance(self.weights, Mapping) and self.weights:
            save_weights(to / WEIGHTS_FILE, self.weights)


@dataclass
class ExportedText:
    """A language model: the IR of each method, which states of "decode" the outputs of the prefills fill, and the one
    set of weights."""

    methods: dict[str, dict[str, Any]]  # "prefill" or "prefill_N", … and "decode"
    kv_map: dict[str, Any]
    capacity: int  # tokens that the states hold
    weights: Weights = field(default=None, repr=False)
    files: tuple[str, ...] = ()  # that belong to it, such as tokenizer.json

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Writes METHOD.json for each method, kv_map.json, text.json (which lists them) and model.safetensors; copies the
        tokenizer and the like."""
        to = Path(folder)
        to.mkdir(parents=True, exist_ok=True)
        for name, ir in self.methods.items():
            write_text(to / f"{name}.json", json.dumps(ir))
        write_text(to / "kv_map.json", json.dumps(self.kv_map))
        text = {"methods": {name: f"{name}.json" for name in self.methods}, "kv_map": "kv_map.json"}
        write_text(to / TEXT_FILE, json.dumps({**text, "capacity": self.capacity}))
        if isinstance(self.weights, Mapping):
            save_weights(to / WEIGHTS_FILE, self.weights)
        for file in self.files:
            if not (to / Path(file).name).exists() or not Path(file).samefile(to / Path(file).name):
                shutil.copy(file, to)


def write_text(path: Path, text: str) -> None:
    """Writes a file, whole or not at all. Raises BadInputError."""
    _core.write_text(text, os.fspath(path))


def read_exported(folder: str | os.PathLike[str]) -> Exported | ExportedText:
    """What save() wrote. Raises BadInputError when there is neither ir.json nor text.json."""
    at = Path(folder)
    weights = str(at / WEIGHTS_FILE) if (at / WEIGHTS_FILE).exists() else None
    if (at / TEXT_FILE).exists():
        text = _read(at / TEXT_FILE)
        methods = {name: _read(at / file) for name, file in text["methods"].items()}
        return ExportedText(methods, _read(at / text["kv_map"]), text["capacity"], weights)
    if not (at / IR_FILE).exists():
        raise BadInputError(f"{at}: expected {IR_FILE} or {TEXT_FILE} in this folder")
    return Exported(_read(at / IR_FILE), weights, str(at / IR_FILE))


def file_text(path: str | os.PathLike[str]) -> str:
    """The text of a regular file: a pipe would be waited for. Raises BadInputError."""
    at = Path(path)
    try:
        if at.exists() and not at.is_file():
            raise BadInputError(f"{at}: expected a regular file")
        return at.read_text(encoding="utf-8")
    except OSError as error:
        raise BadInputError(f"cannot read {at}: {error.strerror}") from None
    except ValueError:
        raise BadInputError(f"{at}: expected text, found other bytes") from None


def _read(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(file_text(path))
    except ValueError as error:
        raise BadInputError(f"{path}: {error}") from error
    if not isinstance(value, dict):
        raise BadInputError(f"{path}: expected an object")
    return value
