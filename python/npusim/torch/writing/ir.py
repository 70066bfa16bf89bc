"""One graph as IR, for export and for torch.compile: what comes in, its calls, what goes out, and the document that says so."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from ...errors import Problem
from ..facts.needed import CONDITIONS, find_needed
from ..forms.ref import Complex, Ref
from .graph import Graph

SMALL = 4096  # elements: constants up to here stand in the IR, where the compiler sees them


def parts_of_complex(value: torch.Tensor) -> list[tuple[str, torch.Tensor]]:
    """What stands for a tensor in a program, with what is added to its name: of a complex one its parts, else itself."""
    return [(".real", value.real), (".imag", value.imag)] if value.is_complex() else [("", value)]


class Writer:
    """What has been written of a graph so far."""

    def __init__(self, graph: torch.fx.Graph, keeps_conditions: bool) -> None:
        """keeps_conditions: whether conditions on numbers are needed, which have no form; else they are left out."""
        self.problems: list[Problem] = []
        self.calls = Graph(self.problems)
        conditions = [node for node in graph.nodes if str(node.target) in CONDITIONS] if keeps_conditions else []
        self.source, self.needed = graph, find_needed(graph, conditions)
        self.inputs: list[dict[str, Any]] = []
        self.outputs: list[dict[str, Any]] = []
        self.weights: list[dict[str, Any]] = []
        self.mapping: dict[str, str] = {}  # what nodes read to the name of a weight
        self.constants: dict[str, Any] = {}  # values that stand in the IR
        self.values: dict[str, torch.Tensor] = {}  # other values that are known, by the names of weights

    def refuse(self, where: str, why: str) -> None:
        self.problems.append(Problem(where, why))

    def add_input(self, name: str, value: torch.Tensor) -> Ref:
        """name: what it is to be called, unless something has that name."""
        name = self.calls.free_name(name)
        self.inputs.append(self.calls.tensor(name, value, f"input '{name}'"))
        return Ref(name, 0, self.inputs[-1])

    def add_weight(self, name: str, weight: str, value: torch.Tensor, same_as: str = "") -> Ref:
        """name: what nodes are to read; weight: what it is called outside; same_as: the weight whose value it has, if that is
        another."""
        name = self.calls.free_name(name)
        tensor = self.calls.tensor(weight, value, f"weight '{weight}'")
        self.mapping[name] = same_as or weight
        self.weights.append(tensor)
        return Ref(name, 0, {**tensor, "name": name}, is_weight=True)

    def define(self, node: torch.fx.Node, parts: list[Ref]) -> None:
        """What a placeholder is: one value, or the parts of a complex one."""
        self.calls.define(node, Complex(*parts) if len(parts) > 1 else parts[0])

    def keep(self, weight: str, value: torch.Tensor, is_constant: bool) -> None:
        """The value of a weight. is_constant: whether it is the same in every run, whatever becomes of the model."""
        if is_constant and value.numel() <= SMALL:
            with _disable_current_modes():  # of a GPU it is copied, which a tracer would take for a call
                data = value.tolist()
            self.constants[weight] = {"data": data, "dtype": str(value.dtype).removeprefix("torch.")}
        else:
            self.values[weight] = value.detach()

    def add_calls(self, module: torch.fx.GraphModule) -> None:
        """Everything between placeholders and output, and the constants that it brings along. module: has what the graph's
        get_attr nodes name."""
        for node in self.source.nodes:
            if node in self.needed and node.op not in ("placeholder", "output"):
                self.calls.add(node, module)
        for name, value in self.calls.constants.items():
            self.mapping[name] = name
            self.weights.append(self.calls.tensor(name, value, f"constant '{name}'"))
            self.keep(name, value, is_constant=True)

    def parts(self, value: Any) -> list[Any]:
        """What a value of the graph is in IR: Ref, or the Refs of a complex one, or something that is no tensor."""
        found = self.calls.of[value] if isinstance(value, torch.fx.Node) else None
        return [found.re, found.im] if isinstance(found, Complex) else [found]

    def add_output(self, name: str, ref: Ref) -> None:
        self.outputs.append({**ref.reading(), "name": name, "producer_node": ref.node, "producer_output_idx": ref.index})

    def document(self, model: str, states: dict[str, str]) -> dict[str, Any]:
        """The IR. states: inputs that go on from run to run, with the outputs that they are in the next one."""
        return {
            "model_name": model,
            "pytorch_version": torch.__version__,
            "graph_inputs": self.inputs,
            "graph_outputs": self.outputs,
            "weights": self.weights,
            "weight_name_mapping": self.mapping,
            "nodes": self.calls.nodes,
            "constants": self.constants,
            "states": states,
        }
