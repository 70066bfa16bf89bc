"""Writes through views, in buffers and in arguments: outputs, arguments and buffers are what eager PyTorch makes them, run
after run. NPUSIM_IN_PLACE=10000 tries as many new programs, and as many more calls of each operator."""

from __future__ import annotations

import copy
import os
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import npusim
from in_place_programs import Module, Program, copied

MANY = int(os.environ.get("NPUSIM_IN_PLACE", "0"))
FIRST = int(os.environ.get("NPUSIM_IN_PLACE_FIRST", "0"))
TOGETHER = 40  # programs of one module
RUNS = 3


def differs(found: np.ndarray, expected: torch.Tensor, bar: float = 1e-4) -> bool:
    """Whether an array is not a tensor but for rounding."""
    a, b = np.asarray(found), expected.detach().resolve_conj().numpy()
    if a.shape != b.shape or a.dtype != b.dtype:
        return True
    if a.dtype.kind != "f":
        return not np.array_equal(a, b)
    whole = np.isfinite(b)
    if not np.array_equal(a[~whole], b[~whole], equal_nan=True):
        return True
    a, b = np.where(whole, a, 0).astype("float64"), np.where(whole, b, 0).astype("float64")
    return bool(np.linalg.norm(a - b) > bar * max(np.linalg.norm(b), 1e-3))


def wrong(model: torch.nn.Module, inputs: list[torch.Tensor], dtype: str = "float32") -> str:
    """What is not as in eager PyTorch, in one of some runs; "" where nothing is."""
    with warnings.catch_warnings(action="ignore"):
        exported = npusim.export(model, tuple(map(copied, inputs)))
    session = npusim.Session(npusim.compile(exported, dtype=dtype))
    eager = copy.deepcopy(model)
    names = [value for kind, value in exported.leaves if kind == "output"]
    kept = exported.ir["states"]
    given = [tensor["name"] for tensor in exported.ir["graph_inputs"] if tensor["name"] not in kept]
    for run in range(RUNS):
        changed = list(map(copied, inputs))
        with torch.no_grad():
            # Of memory: another shape that a call gives an argument itself is the caller's to see, not the program's.
            expected = torch.utils._pytree.tree_leaves(eager(*(value.detach() for value in changed)))
        found = session.run(dict(zip(given, (value.numpy() for value in inputs), strict=True)))
        for name, value in zip(names, expected, strict=True):
            if differs(found[name], value):
                return f"run {run}: {name}: {found[name]}, expected {value}"
        for name, before, after in zip(given, inputs, changed, strict=True):
            if differs(found.get(f"{name}_next", before.numpy()), after):
                return f"run {run}: argument {name}: {found.get(f'{name}_next')}, expected {after}"
        for name, value in eager.named_buffers():
            if name in kept and differs(found[kept[name]], value):
                return f"run {run}: buffer {name}: {found[kept[name]]}, expected {value}"
            if name not in kept and not torch.equal(value, dict(model.named_buffers())[name]):
                return f"run {run}: buffer {name} does not change"
    return ""


def of_programs(programs: list[Program]) -> str:
    """The first program of some that is wrong by itself, and what is wrong; "" where none is."""
    model = Module(programs)
    try:
        text = wrong(model, [value for program in programs for value in program.inputs])
    except npusim.UnsupportedError as error:
        text = str(error)
    if not text or len(programs) == 1:
        return text and f"{programs[0]}\n{text}"
    half = len(programs) // 2
    return of_programs(programs[:half]) or of_programs(programs[half:]) or f"together only: {text}"


def test_programs():
    count = MANY or TOGETHER
    for first in range(FIRST, FIRST + count, TOGETHER):
        text = of_programs([Program(seed) for seed in range(first, min(first + TOGETHER, FIRST + count))])
        assert not text, text
