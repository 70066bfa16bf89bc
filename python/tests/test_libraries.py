"""Operators of libraries that PyTorch composes of others, torch.library's CompositeImplicitAutograd and noted
decompositions: taken apart in export and in torch.compile, beside eager PyTorch in three runs."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import npusim
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch._decomp import decomposition_table, register_decomposition

ops = torch.ops.npusim_tests
# What each is, and its kernel. A noted one has the kernel that eager PyTorch runs, and the same as its decomposition.
COMPOSITE: dict[str, Callable[..., Any]] = {
    "line(Tensor x) -> Tensor": lambda x: x * 2 + 1,
    "pair(Tensor x, *, float s=2.0) -> (Tensor, Tensor)": lambda x, s=2.0: (ops.line(x) * s, x.sum(0)),
    "many(Tensor[] xs) -> Tensor[]": lambda xs: [x.softmax(-1) for x in xs],
    "own(Tensor x, Tensor? y=None) -> Tensor": lambda x, y=None: torch.nn.functional.silu(x) if y is None else x * y,
    "own.scaled(Tensor x, Scalar by) -> Tensor": lambda x, by: x * by,
    "up_(Tensor(a!) x) -> Tensor(a!)": lambda x: x.add_(1),
    "put(Tensor(a!) x, Tensor v) -> ()": lambda x, v: (x[0].copy_(v[1]), None)[1],
    "shown(Tensor(a) x) -> Tensor(a)": lambda x: x.view(-1),
}
NOTED: dict[str, Callable[..., Any]] = {"noted(Tensor x, float s=1.5) -> Tensor": lambda x, s=1.5: ops.line(x) - s}
CALLS: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    "line": lambda b, x: ops.line(x),
    "pair": lambda b, x: ops.pair(x, s=0.5)[0] + ops.pair(x)[1],
    "many": lambda b, x: sum(ops.many([x, b, x * b])),
    "own": lambda b, x: ops.own(x) + ops.own(x, b) + ops.own.scaled(x, 3),
    "a state": lambda b, x: b.add_(ops.line(x)),
    "up_": lambda b, x: ops.up_(b) * x,
    "put": lambda b, x: (ops.put(b, x), b * 1)[1],
    "shown": lambda b, x: (ops.shown(b).mul_(0.5), b + x)[1],
    "noted": lambda b, x: ops.noted(x, 0.25) * ops.noted(b),
}


@pytest.fixture(scope="module")
def library() -> Iterator[None]:
    with torch.library._scoped_library("npusim_tests", "DEF") as made:
        for kind, forms in (("CompositeImplicitAutograd", COMPOSITE), ("CompositeExplicitAutograd", NOTED)):
            for schema, form in forms.items():
                made.define(schema)
                made.impl(schema.partition("(")[0], form, kind)
        made.define("whole(Tensor x) -> Tensor")
        made.impl("whole", lambda x: x * 3, "CompositeExplicitAutograd")
        (form,) = NOTED.values()
        register_decomposition(ops.noted.default)(form)
        noted = ops.noted.default
        yield
        del decomposition_table[noted]


class Chain(torch.nn.Module):
    def __init__(self, names: list[str]) -> None:
        super().__init__()
        self.names = names
        self.register_buffer("b", torch.linspace(-1, 1, 12).reshape(3, 4).clone())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for name in self.names:
            x = torch.tanh(CALLS[name](self.b, x))
        return x


PROGRAMS = [[name] for name in CALLS] + [random.Random(seed).choices(list(CALLS), k=4) for seed in range(8)]


@pytest.mark.parametrize("names", PROGRAMS, ids="-".join)
def test_operators_of_libraries_are_what_they_are_composed_of(library: None, names: list[str]) -> None:
    model, eager = Chain(names), Chain(names)
    run = npusim.Session(npusim.compile(model, (torch.randn(3, 4),), dtype="float32"))
    for _ in range(3):
        x = torch.randn(3, 4)
        assert np.allclose(run.run(x)["output"], eager(x), atol=1e-5)


@pytest.mark.parametrize("names", PROGRAMS[:-6], ids="-".join)
def test_so_it_is_in_torch_compile(library: None, names: list[str], caplog: Any) -> None:
    torch._dynamo.reset()
    compiled, eager = torch.compile(Chain(names), backend="npusim"), Chain(names)
    with torch.no_grad():
        for _ in range(3):
            x = torch.randn(3, 4)
            assert torch.allclose(compiled(x), eager(x), atol=1e-5)
    assert not [record for record in caplog.records if record.name == "npusim"]


def test_what_is_no_composition_is_named(library: None) -> None:
    class Whole(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return ops.line(ops.whole(x))

    with pytest.raises(npusim.UnsupportedError, match=r"npusim_tests\.whole\.default"):
        npusim.compile(Whole(), (torch.randn(3),))


def test_npusims_own_stay_whole(library: None) -> None:
    ir = npusim.export(Chain(["line"]), (torch.randn(3, 4),)).ir
    assert {node["op_type"].split(".")[0] for node in ir["nodes"]} == {"aten"}

    class Spectrum(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.fft.rfft(x).real

    targets = {node["op_type"] for node in npusim.export(Spectrum(), (torch.randn(8),)).ir["nodes"]}
    assert any(target.startswith("npusim.fourier") for target in targets)
