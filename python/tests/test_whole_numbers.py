"""Whole numbers that a model makes of what tensors hold, with int(), operator.index() and map(), and places and fills that
they and fractions say: beside eager PyTorch, for every value, in three runs."""

from __future__ import annotations

import itertools
import math
import operator
import random
import warnings
from collections.abc import Callable
from operator import index
from pathlib import Path
from typing import Any

import npusim
import numpy as np
import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F

N = 6
# What they are made of a tensor t of one, whole or not.
MADE: dict[str, Callable[[torch.Tensor], Any]] = {
    "int": lambda t: int(t),
    "int of item": lambda t: int(t.item()),
    "int of float": lambda t: int(float(t) * 1.5),
    "int of int": lambda t: int(int(t)),
    "int of a row": lambda t: int(t.reshape(1)),
    "map": lambda t: next(iter(map(int, t.reshape(1)))),
    "int of a truth": lambda t: int(t > 2) + int((t < 4).item()),
    "what is an int": lambda t: int(t) if isinstance(int(t), int) else -100,
    "int.from_bytes": lambda t: int(t) * int.from_bytes(b"\x01", "big"),
}
INDICES: dict[str, Callable[[torch.Tensor], Any]] = {
    "operator.index": lambda t: operator.index(t),
    "index": lambda t: index(t),
}
# What is done with one, k: `b` is a state [N].
DONE: dict[str, Callable[[torch.Tensor, torch.Tensor, Any], Any]] = {
    "times": lambda b, x, k: x * k,
    "x[k]": lambda b, x, k: x[k % N] + x,
    "x[k:k + 2]": lambda b, x, k: x[k % 4 : k % 4 + 2] * 2,
    "b[k] =": lambda b, x, k: (b.__setitem__(k % N, x[0]), b + x)[1],
    "b[k:k + 1] +=": lambda b, x, k: (b[k % N : k % N + 1].add_(x[1]), b * 1)[1],
    "full": lambda b, x, k: torch.full((3,), k) + b.add_(k)[:3],
    "returned": lambda b, x, k: (k, b.mul_(2).add_(k) + x),
}


class Numbered(torch.nn.Module):
    def __init__(self, made: Callable[..., Any], done: Callable[..., Any]) -> None:
        super().__init__()
        self.made, self.done = made, done
        self.register_buffer("b", torch.arange(float(N)))

    def forward(self, x: torch.Tensor, t: torch.Tensor) -> Any:
        return self.done(self.b, x, self.made(t))


def exported(model: torch.nn.Module, *args: Any) -> npusim.Exported:
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        return npusim.export(model, args)


def check(model: torch.nn.Module, draw: Callable[[], tuple[Any, ...]], runs: int = 3) -> npusim.Exported:
    """Nothing is made for the example."""
    made = exported(model, *draw())
    assert not made.made_for
    session = npusim.Session(npusim.compile(made, dtype="float32"))
    for _ in range(runs):
        args = draw()
        found, leaves = session.run(*args), torch.utils._pytree.tree_leaves(model(*args))
        for i, wanted in enumerate(leaves):
            one = found["output" if len(leaves) == 1 else f"output_{i}"]
            assert one.shape == np.shape(wanted) and np.allclose(one, np.asarray(wanted), atol=1e-5), args
    return made


def programs() -> list[tuple[str, str]]:
    """Each way to make one, and each thing to do with it, in turn."""
    names = itertools.islice(itertools.cycle(itertools.product([*MADE, *INDICES], DONE)), 0, None, 3)
    return list(dict.fromkeys(itertools.islice(names, len(DONE) * 7)))


@pytest.mark.parametrize("made, done", programs()[:24])
def test_whole_numbers_go_on(made: str, done: str) -> None:
    rng = random.Random(f"{made} {done}")
    model = Numbered(MADE.get(made) or INDICES[made], DONE[done])

    def draw() -> tuple[Any, ...]:
        number = rng.randrange(N) if made in INDICES or rng.random() < 0.3 else rng.uniform(0, 5)
        dtype = torch.int64 if made in INDICES else torch.float32
        return torch.tensor([rng.uniform(-2, 2) for _ in range(N)]), torch.tensor(number, dtype=dtype)

    check(model, draw)


def test_int_cuts_off_what_is_no_whole_number() -> None:
    """And ends a run where Python has an error or a longer number."""
    model = Numbered(MADE["int"], lambda b, x, k: (k, x * 1))
    made = exported(model, torch.ones(N), torch.tensor(2.5, dtype=torch.float64))
    session = npusim.Session(npusim.compile(made, dtype="float32"))
    for number in (2.5, -2.5, 0.99, -0.99, -0.0, 7.0, 2.0**40 + 0.5, -(2.0**62)):
        assert session.run(torch.ones(N), torch.tensor(number, dtype=torch.float64))["output_0"] == int(number)
    for number in (math.nan, math.inf, -math.inf, 1e30):
        with pytest.raises(npusim.BadInputError, match="int_of_what_no_int64_holds"):
            session.run(torch.ones(N), torch.tensor(number, dtype=torch.float64))


class Queue(torch.nn.Module):
    """Of keys, as of momentum contrast."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("queue", torch.zeros(2, N))
        self.register_buffer("at", torch.zeros(1, dtype=torch.int64))

    def forward(self, keys: torch.Tensor) -> torch.Tensor:
        at = int(self.at)
        self.queue[:, at : at + 2] = keys.T
        self.at[0] = (at + 2) % N
        return keys @ self.queue


def test_a_queue_goes_round() -> None:
    check(Queue(), lambda: (torch.randn(2, 2),), runs=8)


# Several indices, of which some are numbers that tensors hold: of a tensor [3, 4, 5, 2].
CHOICES: list[Callable[[Any], Any]] = [
    lambda k: k, lambda k: -k - 1, lambda k: slice(None), lambda k: slice(1, 3), lambda k: slice(k, k + 1),
    lambda k: torch.tensor([0, 1]), lambda k: None, lambda k: ..., lambda k: 1, lambda k: True,
]  # fmt: skip


class Placed(torch.nn.Module):
    def __init__(self, indices: list[Any]) -> None:
        super().__init__()
        self.indices = indices
        self.register_buffer("y", torch.zeros(3, 4, 5, 2))

    def forward(self, v: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        places = [tuple(CHOICES[i](int(k)) for i in one) for one in self.indices]
        for i, at in enumerate(places):
            self.y[at] = v[i]
        return self.y * 1


def test_writes_at_several_indices() -> None:
    rng, chosen = random.Random(5), []
    while len(chosen) < 16:
        one = tuple(rng.choice([0, 0, 1, *range(len(CHOICES))]) for _ in range(rng.randrange(1, 5)))
        try:
            torch.zeros(3, 4, 5, 2)[tuple(CHOICES[i](0) for i in one)] = 1.0
        except (IndexError, RuntimeError):
            continue
        chosen.append(one)
    for begin in range(0, len(chosen), 4):
        model = Placed(chosen[begin : begin + 4])
        check(model, lambda: (torch.randn(4), torch.tensor(rng.randrange(2))))


FILLED: dict[str, Callable[[torch.Tensor, Any], torch.Tensor]] = {
    "pad": lambda x, s: F.pad(x, (1, 2), value=s),
    "pad of whole numbers": lambda x, s: F.pad((x * 4).long(), (1, 0), value=s),
    "pad by name": lambda x, s: F.pad(input=x, pad=(1, -1), mode="constant", value=s),
    "float_power": lambda x, s: torch.float_power(x.abs() + 0.1, s),
    "float_power of a number": lambda x, s: torch.float_power(abs(s) + 0.1, x),
    "float_power_": lambda x, s: (x.abs() + 0.1).double().float_power_(s),
}


@pytest.mark.parametrize("name", FILLED)
@pytest.mark.parametrize("whole", [True, False])
def test_numbers_of_calls_that_take_pythons(name: str, whole: bool) -> None:
    class Filled(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return FILLED[name](x, x.argmax().item() if whole else x.sum().item())

    check(Filled(), lambda: (torch.rand(N),))


# ---- where they are Python's

SOURCE = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        kind = 2 if type(3) is int else 3
        return x[int(x.argmax())] * kind
"""


def test_item_is_said_to_help(tmp_path: Path) -> None:
    """Where a module's `int` must be Python's own."""
    session = made_of(tmp_path, SOURCE)
    x = torch.tensor([1.0, 3.0, 2.0])
    assert session.run(x)["output"] == 6 and session.run(x * 2)["output"] == 12
    with pytest.raises(npusim.BadInputError, match=r"in_line_7_of_\w+_item_in_the_place_of_int_holds_for_others"):
        session.run(x.roll(1))
    instead = made_of(tmp_path, SOURCE.replace("int(x.argmax())", "x.argmax().item()"), warned=False)
    for other in (x, x.roll(1)):
        assert instead.run(other)["output"] == x.max() * 2


def made_of(folder: Path, source: str, warned: bool = True) -> npusim.Session:
    file = folder / f"model{warned:d}.py"
    file.write_text(source)
    names: dict[str, Any] = {}
    exec(compile(source, str(file), "exec"), names)
    with warnings.catch_warnings(record=True, action="always") as told:
        session = npusim.Session(npusim.compile(names["Model"](), (torch.tensor([1.0, 3.0, 2.0]),), dtype="float32"))
    helps = [str(one.message) for one in told if ".item() in the place of int() holds for others too" in str(one.message)]
    assert len(helps) == warned and "int" not in names
    return session


def test_what_cannot_go_on_with_a_tensor_is_the_examples() -> None:
    """As before int() was followed."""

    class Chosen(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            count = int(x.argmax())
            return torch.nn.Unflatten(0, (count, -1))(x)[0] * (2).__mul__(count) + len(bytes(count))

    made = exported(Chosen(), torch.tensor([1.0, 2, 9, 3]))
    assert made.made_for
    session = npusim.Session(npusim.compile(made, dtype="float32"))
    for x in (torch.tensor([1.0, 2, 9, 3]), torch.tensor([5.0, 2, 9, 3])):
        assert np.array_equal(session.run(x)["output"], Chosen()(x).numpy())
    with pytest.raises(npusim.BadInputError):
        session.run(torch.tensor([5.0, 12, 9, 3]))
