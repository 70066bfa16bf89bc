"""Arguments that forward() restrides in place and that keep their rank: NAME_next is what eager PyTorch leaves the
caller's tensor, in the shape that it has then, whatever is written before, between and after, and whatever the layout of the example.
NPUSIM_TURNED=1000 tries as many chains, and each restride between all writes."""

from __future__ import annotations

import itertools
import os
import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import npusim
from modules import Calls, CallsWithSelf
from test_given import laid_out, like

RUNS = 3


def in_gradients(call: Callable[[], Any]) -> Any:
    with torch.enable_grad():
        return call()


def in_autocast(call: Callable[[], Any]) -> Any:
    with torch.autocast("cpu", enabled=False):
        return call()


RESTRIDES: dict[str, Callable[[Any], Any]] = {
    "t_": lambda v: v.t_(),
    "transpose_": lambda v: v.transpose_(0, 1),
    "swapaxes_": lambda v: v.swapaxes_(-1, 0),
    "swapdims_": lambda v: v.swapdims_(0, -1),
    "as_strided_": lambda v: v.as_strided_(v.shape[::-1], v.stride()[::-1]),
    "a part": lambda v: v.as_strided_((1, 2), v.stride()),
    "three dimensions": lambda v: v.unsqueeze_(0).transpose_(1, 2).squeeze_(0),
    "under another name": lambda v: v.to(v.dtype).t_(),
    "with gradients": lambda v: in_gradients(lambda: v.t_()),
    "there and back": lambda v: v.t_().t_(),
    "there and back, written": lambda v: v.t_().add_(torch.arange(v.shape[1] * 1.0)).t_(),
    "in autocast and back": lambda v: (in_autocast(lambda: v.t_()), v[0].add_(3), v.t_()),
    "none": lambda v: v,
}
RESIZES: dict[str, Callable[[Any], Any]] = {
    "resize_": lambda v: v.resize_(v.shape[::-1]),
    "resize_ of fewer": lambda v: v.resize_(2, 1),
    "resize_ of none": lambda v: v.resize_(0, 2),
    "turned and resized": lambda v: v.t_().resize_(v.shape[::-1]),
    "resized and turned": lambda v: v.resize_(v.shape[::-1]).t_(),
}
WRITES: dict[str, Callable[[Any], Any]] = {
    "": lambda v: None,
    "all": lambda v: v.add_(10),
    "a row": lambda v: v[:1].add_(10),
}


def wrong(function: Callable[..., Any], given: list[Any], strict: bool = False) -> list[str]:
    """What is not as in eager PyTorch in one of some runs."""
    with warnings.catch_warnings(action="ignore"):
        exported = npusim.export(Calls(function), tuple(map(like, given)), strict=strict)
    session = npusim.Session(npusim.compile(exported, dtype="float32"))
    names = [tensor["name"] for tensor in exported.ir["graph_inputs"]]
    outputs = [name for kind, name in exported.leaves if kind == "output"]
    failed = []
    for run in range(RUNS):
        values = [like(value).add_(run) for value in given]
        left = [like(value) for value in values]
        with torch.no_grad():
            expected = torch.utils._pytree.tree_leaves(function(*left))
        found = session.run(dict(zip(names, map(like, values), strict=True)))
        pairs = [(name, found[name], value) for name, value in zip(outputs, expected, strict=True)]
        for name, before, after in zip(names, values, left, strict=True):
            pairs.append((f"{name}_next", found.get(f"{name}_next", before.numpy()), after))
        for name, one, other in pairs:
            if one.shape != tuple(other.shape) or not np.array_equal(one, other.numpy()):
                failed.append(f"run {run}: {name}: {one}, expected {other}")
    return failed


MANY = int(os.environ.get("NPUSIM_TURNED", "0"))
PAIRS = [("", ""), ("all", ""), ("", "a row"), ("a row", "all")]
LAYOUTS = [
    ((2, 2), "row-major"),
    ((2, 3), "row-major"),
    ((2, 3), "turned"),
    ((2, 2), "columns"),
    ((2, 3), "offset"),
    ((2, 2), "rows"),
]


@pytest.mark.parametrize("shape, how", LAYOUTS)
def test_turns_and_writes(shape: tuple[int, int], how: str) -> None:
    """All of them as one program, an argument each."""
    dense = how == "row-major"
    pairs = list(itertools.product(WRITES, WRITES)) if MANY else PAIRS if dense else PAIRS[2:3]
    restrides = (RESTRIDES | (RESIZES if dense else {})).values()
    calls = [(restride, WRITES[before], WRITES[after]) for restride in restrides for before, after in pairs]

    def function(*given: Any) -> Any:
        found = []
        for v, (restride, before, after) in zip(given, calls, strict=True):
            before(v)
            restride(v)
            after(v)
            found.append(v * 2)
        return found

    value = torch.arange(float(shape[0] * shape[1])).reshape(shape)
    failed = wrong(function, [laid_out(value + i, how) for i in range(len(calls))])
    assert not failed, failed[:3]


class Turned:
    """A program by chance, of two arguments of three dimensions."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.shapes = [tuple(self.random.choice([[2, 2, 2], [2, 3, 2], [1, 3, 3], [2, 1, 3]])) for _ in range(2)]
        self.layouts = [str(self.random.choice(["row-major", "rows", "columns"])) for _ in range(2)]
        self.steps = [(int(self.random.integers(2)), str(self.random.choice(list(STEPS)))) for _ in range(6)]

    def __call__(self, *given: Any) -> Any:
        shown = []
        for at, name in self.steps:
            STEPS[name](given[at])
            shown.append(given[at] * 1)
        return shown


STEPS: dict[str, Callable[[Any], Any]] = {
    "transpose_": lambda v: v.transpose_(0, 1),
    "swapaxes_": lambda v: v.swapaxes_(1, 2),
    "swapdims_": lambda v: v.swapdims_(-1, 0),
    "as_strided_": lambda v: v.as_strided_(v.shape[::-1], v.stride()[::-1], v.storage_offset()),
    "with gradients": lambda v: in_gradients(lambda: v.transpose_(0, 2)),
    "squeezed": lambda v: v.squeeze_(0).unsqueeze_(1) if v.shape[0] == 1 else v.transpose_(1, 2),
    "add_": lambda v: v.add_(1),
    "a row": lambda v: v[-1].mul_(2),
    "a view": lambda v: v.transpose(0, 2)[0].add_(5),
}


@pytest.mark.parametrize("first", range(0, MANY or 20, 10))
def test_chains(first: int) -> None:
    refused = 0
    for seed in range(first, first + 10):
        chain = Turned(seed)
        values = [torch.arange(float(np.prod(shape))).reshape([int(n) for n in shape]) for shape in chain.shapes]
        try:
            failed = wrong(chain, [laid_out(value, how) for value, how in zip(values, chain.layouts, strict=True)])
        except npusim.UnsupportedError as error:  # of what as_strided_ shows of memory with gaps, where it is written
            assert re.search("addresses memory that|leaves 'args_. as a view of its memory", str(error)), (seed, error)
            refused += 1
            continue
        assert not failed, (seed, chain.shapes, chain.layouts, chain.steps, failed[:2])
    assert refused <= 4


def test_an_argument_that_is_turned_alone_is_not_written() -> None:
    """So it may share memory with another one, and a weight."""
    x = torch.arange(4.0).reshape(2, 2)
    with warnings.catch_warnings(action="ignore"):
        exported = npusim.export(Calls(lambda x, y: (x.t_(), x + y)[1]), (x, x[:]))
    found = npusim.Session(npusim.compile(exported, dtype="float32")).run(x, x.clone())
    assert np.array_equal(found["args_0_next"], x.t()) and np.array_equal(found["output"], x.t() + x)


@pytest.mark.parametrize(
    "call, said",
    [
        (lambda m, x: in_autocast(lambda: x.t_()), "restrides 'args_0', which is from outside its region of autocast"),
        (lambda m, x: in_autocast(lambda: m.b.t_()), "restrides 'b_b', which is from outside its region of autocast"),
        (lambda m, x: x.as_strided_((2, 2), (1, 1)), ""),
        (lambda m, x: m.b.t_(), "gives 'b_b' another shape or order in place"),
        (lambda m, x: in_gradients(lambda: m.b.t_()), "gives 'b_b' another shape or order in place"),
    ],
)
def test_refused_by_name(call: Callable[..., Any], said: str) -> None:
    model = CallsWithSelf(lambda m, x: (call(m, x), x * 2 + m.b.sum())[1], b=torch.ones(2, 3))
    if not said:  # a view that shows an element twice is one of its elements by strides
        x = torch.arange(6.0).reshape(2, 3)
        found = npusim.Session(npusim.compile(model, (x.clone(),), dtype="float32")).run(x.clone())
        assert np.array_equal(found["args_0_next"], x.as_strided((2, 2), (1, 1)))
        return
    with pytest.raises(npusim.UnsupportedError, match=said):
        npusim.export(model, (torch.ones(2, 3),))


@pytest.mark.parametrize("how, strides", [("columns", (1, 4)), ("rows", (1, 2))])
def test_memory_that_the_argument_does_not_show_is_refused(how: str, strides: tuple[int, int]) -> None:
    x = laid_out(torch.arange(4.0).reshape(2, 2), how)
    with pytest.raises(npusim.UnsupportedError, match="leaves 'args_0' as a view of its memory|does not show"):
        npusim.export(Calls(lambda x: (x.as_strided_((2, 2), strides), x.shape[0] * torch.ones(1))[1]), (x,))
