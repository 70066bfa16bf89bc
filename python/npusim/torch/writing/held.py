"""Where a model has the weights of what was exported from it, for sessions to ask whether it still has them."""

from __future__ import annotations

import weakref
from typing import Any

import torch

from ...exported import Exported
from ...writes import MODULES, Held, Place
from ..facts.aliases import place_of

TENSORS = ("_parameters", "_buffers")
PARTS = (".real", ".imag")  # by which complex weights have two names


def held_by(model: torch.nn.Module | torch.export.ExportedProgram, exported: Exported) -> Held:
    """The places of weights that a program reads: what the model changes in place is the session's own. Of an exported
    program the module is not known: its own are those places."""
    read = {*exported.ir["weight_name_mapping"].values()}
    names = {place_of(value): name for name, value in exported.weights.items() if name in read}  # type: ignore[union-attr]
    finder = _Finder(names, read)
    if isinstance(model, torch.nn.Module):
        finder.add_module(model, "")
    else:
        finder.add_tensors(model, "_state_dict", "")
    return finder.held


class _Finder:
    """Goes through modules, each once."""

    def __init__(self, names: dict[Any, str], read: set[str]) -> None:
        self.names, self.read = names, read
        self.held = Held()
        self.first: dict[int, str] = {}  # by module, a weight in it or in one of its modules; "": it has none

    def add_module(self, module: torch.nn.Module, path: str) -> str:
        if id(module) in self.first:
            return self.first[id(module)]
        self.first[id(module)] = self.script_weight(module)
        if isinstance(module, torch.jit.ScriptModule):
            return self.first[id(module)]
        modules = {key: one for key, one in vars(module)[MODULES].items() if one is not None}
        within = {key: name for key, one in modules.items() if (name := self.add_module(one, f"{path}{key}."))}
        found = [*within.values(), *(name for kind in TENSORS for name in self.add_tensors(module, kind, path))]
        owner = weakref.ref(module)
        self.held.places += [
            Place(owner, MODULES, key, weakref.ref(modules[key]), 0, 0, name) for key, name in within.items()
        ]
        self.first[id(module)] = found[0] if found else ""
        return self.first[id(module)]

    def script_weight(self, module: torch.nn.Module) -> str:
        """A weight in a module of TorchScript, which has them in no dicts: of these there are no places. "": it has none."""
        if not isinstance(module, torch.jit.ScriptModule):
            return ""
        owned = (self.names.get(place_of(value)) for value in (*module.parameters(), *module.buffers()))
        return next((name for name in owned if name is not None), "")

    def add_tensors(self, owner: Any, kind: str, path: str) -> list[str]:
        """The weights that are tensors of a module."""
        found: list[str] = []
        for key, value in vars(owner)[kind].items():
            if not isinstance(value, torch.Tensor):
                continue
            parts = [path + key + part for part in PARTS if path + key + part in self.read] if value.is_complex() else []
            self.held.sources |= {part: value.detach() for part in parts}
            names = parts or [name for name in (self.names.get(place_of(value)),) if name is not None]
            ref = weakref.ref(owner)
            self.held.places += [Place(ref, kind, key, None, id(value), value.data_ptr(), name) for name in names]
            found += names
        return found
