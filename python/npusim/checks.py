"""Comparing arrays, and programs with the reference."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from . import _core
from .arrays import array_of, as_array, memory_of
from .arguments import instance, mapping, number, refused
from .arguments import path as _path
from .errors import Problem, UsageError
from .program import Program
from .session import WIDER, Session
from .weights import Weights, open_weights


@dataclass(frozen=True)
class Comparison:
    """How far an array is from another. r is blind to a scale and a shift, norms to a single element."""

    elements: int
    not_finite: int  # NaN or the same infinity on both sides: they agree, and count in no norm
    l0: int  # how many differ
    l1: float
    l2: float
    l_inf: float  # the largest difference
    relative_l2: float
    cosine: float
    pearson_r: float
    argmax_equal: bool


def compare(found: Any, expected: Any) -> Comparison:
    """Of two arrays with as many elements. argmax_equal asks for the same largest element in every row along the last
    dimension whose largest expected element leads clearly."""
    a, b = as_array(found, where="found"), as_array(expected, where="expected")
    if a.size != b.size:
        raise UsageError(f"found: expected {b.size} elements, found {a.size}")
    return Comparison(**_core.compare(memory_of(a, "found"), memory_of(b, "expected")))


@dataclass(frozen=True)
class Verified:
    """What verify() found of each output."""

    outputs: dict[str, Comparison]
    max_relative_l2: float

    @property
    def ok(self) -> bool:
        """Whether every output is within tolerance."""
        return all(
            c.pearson_r >= 0.999 and c.relative_l2 <= self.max_relative_l2 and c.argmax_equal
            for c in self.outputs.values()
        )


def verify(
    program: Program,
    inputs: Mapping[str, Any],
    weights: Weights = None,
    *,
    method: str | None = None,
    expected: Mapping[str, Any] | None = None,
    device: str | None = None,
) -> Verified:
    """Runs a program from its initial states and compares its outputs with the reference, which evaluates the IR operator
    by operator in double precision (slow: for small models), or with `expected` arrays by name.

    program: compiled in this process, which then has the IR; with `expected` any.
    inputs: arrays by name; a state that is not there begins with zeros, or what the weights have for it."""
    instance("program", program, Program, "a Program")
    mapping("inputs", inputs, "arrays by name")
    if expected is not None:
        expected = mapping("expected", expected, "arrays by name")
    name = program.choose_method(method)
    if expected is None and name not in program.sources:
        raise UsageError("a program that was loaded has no IR to evaluate: compile it here, or give `expected`")
    weights = program.weights if weights is None else weights
    session = Session(program, weights, device=device)
    if expected is None:  # before the run: it may need more memory than there is
        expected, dtypes = _reference(program, name, inputs, weights)
    else:
        expected = {output: as_array(value, where=f"expected['{output}']") for output, value in expected.items()}
        dtypes = [str(value.dtype) for value in expected.values()]
    found = session.run(inputs, method=name)
    bar = _core.relative_l2_bar(program.handle, dtypes)
    missing = [output for output in expected if output not in found]
    if missing or not expected:
        what = f"the method has no outputs {', '.join(missing)}" if missing else "has nothing to compare with"
        raise UsageError(f"expected: {what}")
    return Verified({output: _compared(output, found[output], value) for output, value in expected.items()}, bar)


def _compared(output: str, found: np.ndarray, expected: np.ndarray) -> Comparison:
    if expected.shape not in (found.shape, (found.size,)):
        raise UsageError(f"expected['{output}']: expected {list(found.shape)}, found {list(expected.shape)}")
    return compare(found, expected)


@dataclass(frozen=True)
class Part:
    """Nodes of the IR that the program does in one step, or one of them."""

    nodes: tuple[str, ...]
    operators: tuple[str, ...]
    carried: float  # relative L2 of its last result, when it reads what the program computed before it
    isolated: float  # when it reads what the reference computed: its own error
    executed: float  # of its launch in the program itself, beside what it means, on the memory that the program left
    how: str  # that launch is executed
    problem: str | None  # what it raises, if it does


@dataclass(frozen=True)
class Bisection:
    """Where a program leaves the reference."""

    ok: bool
    outputs: float  # largest relative L2 of the outputs
    parts: tuple[Part, ...]  # in the order of the run
    culprit: Part | None  # the first whose launch is wrong; if none is, the first that is wrong by itself
    launch: bool  # the culprit is such a launch
    node: Part | None  # of its nodes, the first that is wrong alone
    fusions: tuple[str, ...]  # each of which, switched off (compile(disable_fusion=…)), makes the culprit right


def bisect(
    program: Program,
    inputs: Mapping[str, Any],
    weights: Weights = None,
    *,
    tolerance: float | None = None,
    folder: str | os.PathLike[str] | None = None,
) -> Bisection:
    """The first part of a model that is wrong: each launch of the program beside what it means, on the memory that the
    program itself left; then each part compiled alone, as the program was, and fed with what the reference computes
    (slow: for small models).

    program: of one method, compiled in this process.
    inputs: arrays by name, all of them.
    tolerance: relative L2 of a part; None: 1e-4, where steps leave float16 to each other 0.02, bfloat16 0.04.
    folder: where the culprit is left as IR, inputs, weights and golden outputs, for `npusim verify`."""
    instance("program", program, Program, "a Program")
    mapping("inputs", inputs, "arrays by name")
    if tolerance is not None and not 0 <= number("tolerance", tolerance) <= 1e9:
        raise refused("tolerance", "a number from 0 to 1e9", tolerance)
    to = None if folder is None else _path("folder", folder)
    name = program.choose_method(None)
    if name not in program.sources:
        raise UsageError("program: it was loaded and has no IR to bisect: compile it here")
    tensors = open_weights(program.weights if weights is None else weights)
    values = _values(program, name, inputs, tensors)
    source = ("main", *program.sources[name][1:])
    bar = None if tolerance is None else float(tolerance)
    report = json.loads(_core.bisect(source, program.options, values, tensors, bar, to))
    parts, nodes = ([_part(p) for p in report[key]] for key in ("parts", "nodes"))
    return Bisection(
        report["ok"],
        float(report["outputs"]),
        tuple(parts),
        parts[report["culprit"]] if report["culprit"] >= 0 else None,
        report["launch"],
        nodes[report["node"]] if report["node"] >= 0 else None,
        tuple(report["fusions"]),
    )


def _part(part: Mapping[str, Any]) -> Part:
    return Part(
        tuple(part["nodes"]),
        tuple(part["operators"]),
        float(part["carried"]),
        float(part["isolated"]),
        float(part["executed"]),
        part["how"],
        part.get("problem"),
    )


def _reference(
    program: Program, method: str, inputs: Mapping[str, Any], weights: Weights
) -> tuple[dict[str, np.ndarray], list[str]]:
    """Outputs by name, and the dtypes to which the reference rounds."""
    tensors = open_weights(weights)
    values = _values(program, method, inputs, tensors)
    # States of other methods, which are weights in its IR.
    shared = _shared(program, method)
    infos = program.inputs(method)
    own = [value for info, value in zip(infos, values, strict=True) if info.name not in shared]
    if shared & inputs.keys():
        named = {name: array_of(_core.get_tensor(tensors, name)) for name, _, _ in _core.entries(tensors)} if tensors else {}
        named |= {info.name: array_of(v) for info, v in zip(infos, values, strict=True) if info.name in shared}
        tensors = open_weights(named)
    results, dtypes = _core.evaluate_ir(program.sources[method], own, tensors)
    return {info.name: array_of(r) for info, r in zip(program.outputs(method), results)}, dtypes


def _shared(program: Program, method: str) -> set[str]:
    _, path, text = program.sources[method]
    ir = json.loads(text or Path(path).read_bytes())
    taken = {tensor["name"] for tensor in ir["graph_inputs"]}
    return {info.name for info in program.inputs(method) if info.state and info.role != "generator"} - taken


def _values(program: Program, method: str, inputs: Mapping[str, Any], tensors: Any) -> list[Any]:
    """What the reference takes: all inputs in their order."""
    named = {entry[0] for entry in _core.entries(tensors)} if tensors else set()
    values, problems = [], []
    infos = program.inputs(method)
    known = {info.name for info in infos}
    problems += [Problem(f"input '{name}'", "the method has none of this name") for name in inputs if name not in known]
    for info in infos:
        where = f"input '{info.name}'"
        if info.name in inputs:
            dtype, shape, memory = memory_of(as_array(inputs[info.name], info.dtype, where), where)
            if (dtype != info.dtype and (dtype, info.dtype) not in WIDER) or tuple(shape) != info.shape:
                problems.append(Problem(where, f"expected {info.dtype}{list(info.shape)}, found {dtype}{shape}"))
            values.append((dtype, shape, memory))
        elif not info.state:
            problems.append(Problem(where, f"expected {info.dtype}{list(info.shape)}, found nothing"))
        elif tensors and info.state and info.name in named:
            values.append(_core.get_tensor(tensors, info.name))
        else:
            zeros = np.zeros(info.shape, "uint16" if info.dtype == "bfloat16" else info.dtype)
            values.append((info.dtype, list(info.shape), zeros.reshape(-1).view(np.uint8)))
    if problems:
        raise UsageError(problems)
    return values
