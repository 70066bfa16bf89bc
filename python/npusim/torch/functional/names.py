"""Names of weights that PyTorch cannot give the attributes of a module that it makes of a program: for that time others."""

from __future__ import annotations

import copy
import keyword
from collections.abc import Mapping
from typing import Any

import torch
from torch.export.graph_signature import OutputKind

from ..facts.aliases import rebuilt

# What such a module has, and what PyTorch sets in it.
OWN = {
    *dir(torch.fx.GraphModule(torch.nn.Module(), torch.fx.Graph())),
    *("validate_inputs", "_guards_fn", "_in_spec", "_out_spec"),
}


def names_within(program: torch.export.ExportedProgram) -> dict[str, str]:
    """Other names, by name, of weights whose own are Python's keywords in part, or begin with an attribute of the module."""
    specs = program.graph_signature.input_specs
    targets = {*program.state_dict, *program.constants, *(spec.target for spec in specs if spec.target is not None)}
    parts = {part for target in targets for part in target.split(".")}
    taken = {*OWN, *program.graph_module._modules}
    found = {}
    for target in targets:
        first, *others = target.split(".")
        names = [_free(first, first in taken or keyword.iskeyword(first), parts | taken)]
        names += [_free(part, keyword.iskeyword(part), parts) for part in others]
        if (within := ".".join(names)) != target:
            found[target] = within
    return found


def _free(name: str, is_taken: bool, others: set[str]) -> str:
    while is_taken:
        name += "_"
        is_taken = name in others
    return name


def renamed(program: torch.export.ExportedProgram, names: Mapping[str, str]) -> torch.export.ExportedProgram:
    """The program with other names of weights; the program itself where there are none."""
    if not names:
        return program

    def given(specs: Any) -> list[Any]:
        others = [copy.copy(spec) for spec in specs]
        for spec in others:
            if spec.kind != OutputKind.USER_INPUT_MUTATION:  # whose target is no weight
                spec.target = names.get(spec.target, spec.target)
        return others

    signature = copy.copy(program.graph_signature)
    signature.input_specs, signature.output_specs = given(signature.input_specs), given(signature.output_specs)
    values = ("state_dict", "constants")
    changed = {of: {names.get(name, name): value for name, value in getattr(program, of).items()} for of in values}
    return rebuilt(program, program.graph_module, graph_signature=signature, **changed)
