"""What torch.compile is told of its target, and where the tensors of a graph have to lie for it."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import torch

from ..arguments import flag, mapping, text, thread_count
from ..errors import Problem, UnsupportedError, UsageError
from ..program import Program
from ..program import compile as compile_program
from ..session import Session

KINDS = ("cpu", "cuda")  # of targets: PyTorch has tensors there, by the same name
HERE = "torch.compile takes targets that PyTorch has tensors on"


@dataclass(frozen=True)
class Options:
    """Of torch.compile: npusim.torch_compile.backend says what each is."""

    target: str = "cpu"
    dtype: str | None = None  # None: as the matrices have it
    threads: int = 0
    constant_weights: bool = True

    @property
    def kind(self) -> str:
        """Of the device, by PyTorch's name."""
        return self.target.partition(":")[0]


def options_of(given: Mapping[str, Any] | None) -> Options:
    """Options as they were given. Raises UsageError that names those there are, or what the compiler says of a value."""
    known = [field.name for field in fields(Options)]
    given = mapping("options", {} if given is None else given, "options by name")
    if unknown := given.keys() - {*known}:
        raise UsageError(f"there is no option {', '.join(sorted(unknown))}: expected some of {', '.join(known)}")
    found = Options(**given)
    flag("constant_weights", found.constant_weights)
    _check_threads(thread_count(found.threads))
    _check_known(text("target", found.target), "float32" if found.dtype is None else text("dtype", found.dtype))
    if found.kind not in KINDS:
        raise UsageError(f"target {found.target}: {HERE}, {' or '.join(KINDS)}")
    return found


@functools.cache
def _check_known(target: str, dtype: str) -> None:
    """That the compiler knows them: it is asked, as it alone has the lists, and the words for what is in none."""
    _one_element(target, dtype)


@functools.cache
def _check_threads(threads: int) -> None:
    """That a session may have so many."""
    Session(_one_element("cpu", "float32"), threads=threads)


def _one_element(target: str, dtype: str) -> Program:
    x = {"name": "x", "shape": [1], "dtype": "float32"}
    y = {**x, "name": "y", "producer_node": "y", "producer_output_idx": 0}
    node = {"name": "y", "op_type": "aten.relu.default", "attrs": {}, "outputs": [{**x, "name": "y"}]}
    node["inputs"] = [{**x, "producer_node": "x", "producer_output_idx": 0}]
    ir = {"graph_inputs": [x], "graph_outputs": [y], "weights": [], "nodes": [node]}
    return compile_program(ir, target=target, dtype=dtype)


def device_of_graph(
    kind: str, given: Iterable[tuple[str, torch.Tensor]], gives: Iterable[tuple[str, torch.Tensor]]
) -> torch.device:
    """The one device of a graph's tensors, which is of the target's kind. given, gives: what comes in and what goes out, each
    with what messages call it. A number may lie on the host, as PyTorch has it beside tensors of any device, and so may what
    the graph gives.

    Raises UnsupportedError, with a problem for each tensor that lies elsewhere."""
    problems: list[Problem] = []
    device: torch.device | None = None
    tensors = [(where, value, value.dim() == 0) for where, value in given] + [(where, value, True) for where, value in gives]
    for where, value, may_be_host in tensors:
        if value.device.type == kind:
            device = value.device if device is None else device
            if value.device != device:
                problems.append(Problem(where, f"is on {value.device}, and others are on {device}: expected one device"))
        elif not (may_be_host and value.device.type == "cpu"):
            problems.append(Problem(where, f"is on {value.device}: expected {kind}, the target{_instead(value.device)}"))
    if problems:
        raise UnsupportedError(problems)
    if device is None and kind != "cpu":
        raise UnsupportedError(f"none of its tensors is on {kind}, the target{_instead(torch.device('cpu'))}")
    return torch.device("cpu") if device is None else device


def _instead(device: torch.device) -> str:
    """What helps where a tensor is on such a device."""
    return f'; what helps: options={{"target": "{device.type}"}}' if device.type in KINDS else ""
