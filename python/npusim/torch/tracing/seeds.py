"""What forward() does to generators of random numbers while it is traced. A program draws from one of its own, in which
equal seeds that forward() sets would give no equal numbers; what Python's generator and NumPy's give is a constant of it."""

from __future__ import annotations

import contextlib
import functools
import os
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ...errors import Problem, UnsupportedError
from ...parts import PACKAGE
from ..facts.aliases import parts_of
from ..facts.needed import find_needed
from ..facts.threads import ASKER, replaced

SETTING = ("manual_seed", "seed", "set_rng_state", "fork_rng")  # of torch and of torch.random
OUR_OWN = tuple(str(folder) + os.sep for folder in (Path(torch.__file__).parent, PACKAGE))  # which put back what they set
WHAT = (
    "sets the generator of random numbers in forward(), which is no part of a program, and the model draws: set it outside, "
    "with session.seed(n), or draw where the model is made"
)


@contextlib.contextmanager
def seeds_noted(seeds: dict[str, None]) -> Iterator[None]:
    """Notes where the model, not PyTorch itself, sets the generator."""
    with contextlib.ExitStack() as stack:
        for module in (torch, torch.random):
            for name in SETTING:
                if hasattr(module, name):
                    stack.enter_context(replaced(module, name, _noting(getattr(module, name), name, seeds)))
        yield


def _noting(function: Callable[..., Any], name: str, seeds: dict[str, None]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        caller = sys._getframe(ASKER)
        if not caller.f_code.co_filename.startswith(OUR_OWN):
            seeds[f"{Path(caller.f_code.co_filename).name}:{caller.f_lineno} (torch.{name})"] = None
        return function(*args, **kwargs)

    return call


def refuse_seeds(program: torch.export.ExportedProgram, seeds: dict[str, None]) -> None:
    """Raises UnsupportedError where the program draws and forward() sets what it draws from."""
    if seeds and any(_draws(node) for part in parts_of(program.graph_module) for node in find_needed(part.graph)):
        raise UnsupportedError([Problem(place, WHAT) for place in seeds])


def _draws(node: torch.fx.Node) -> bool:
    op: Any = node.target
    if not isinstance(op, torch._ops.OpOverload) or torch.Tag.nondeterministic_seeded not in op.tags:
        return False
    given = {arg.name: value for arg, value in zip(op._schema.arguments, node.args, strict=False)} | node.kwargs
    return given.get("train", given.get("training", True)) is not False and given.get("p") != 0


@contextlib.contextmanager
def generators_kept() -> Iterator[Callable[[], list[str]]]:
    """Puts the generators of Python and NumPy back at the end. Gives a function that says from which of them was drawn."""
    numbers, arrays = random.getstate(), np.random.get_state(legacy=True)

    def drawn() -> list[str]:
        from_arrays = any(np.any(a != b) for a, b in zip(arrays, np.random.get_state(legacy=True), strict=True))
        return [*(["Python's random"] if random.getstate() != numbers else []), *(["numpy.random"] if from_arrays else [])]

    try:
        yield drawn
    finally:
        random.setstate(numbers)
        np.random.set_state(arrays)


def drawn_text(names: list[str]) -> str:
    """The warning of generators that forward() draws from; "" where there are none."""
    if not names:
        return ""
    return f"forward() draws from {' and '.join(names)}: every run of the program has the numbers of its export. What torch draws is drawn anew"
