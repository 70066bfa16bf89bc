"""Models as researchers write them, each a module of its own with its arguments."""

import inspect
from types import ModuleType

import written_blocks
import written_functions
import written_graphs
import written_layers
import written_loops
import written_numbers
import written_signals
import written_structure
import written_transforms
import written_views
from case import Case, Made
from torch import nn

GROUPS: dict[str, ModuleType] = {
    "views and writes": written_views,
    "numbers": written_numbers,
    "functions": written_functions,
    "layers": written_layers,
    "blocks": written_blocks,
    "structure": written_structure,
    "graphs and points": written_graphs,
    "loops": written_loops,
    "signals": written_signals,
    "functions of functions": written_transforms,
}


def cases() -> dict[str, Case]:
    return {
        name: Case(group, lambda kind=kind: make(kind))
        for group, module in GROUPS.items()
        for name, kind in vars(module).items()
        if inspect.isclass(kind) and issubclass(kind, nn.Module) and hasattr(kind, "example")
    }


def make(kind: type[nn.Module]) -> Made:
    model = kind()
    return model, model.example(), {}
