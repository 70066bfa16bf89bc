"""Calls that are there for what they do and not for what they give (norms that update their statistics, assertions, branches,
reads of sizes) beside each of what makes a pass rewrite the graph: none is taken out because nothing reads it."""

from __future__ import annotations

import copy
import random

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import npusim

from modules import Calls

F = torch.nn.functional


def written(h):
    h.add_(1)
    return h


def resized(h):
    t = torch.zeros(0, dtype=h.dtype)
    return h + t.resize_(h.shape).zero_()


def with_out(h):
    to = torch.empty_like(h)
    torch.add(h, 1, out=to)
    return to


def caught(h):
    try:
        h @ torch.zeros(h.shape[-1] + 1, 2)
    except RuntimeError:
        pass
    return h + 1


TWO = torch.ones(2)


def unread_constant(h):
    torch.tensor([1.0, 2.0])
    TWO * 2  # noqa: B018
    return h + 1


def data(h):
    h.data = h.data * 2
    return h


def foreach(h):
    torch._foreach_add_([h], 1)
    return h


def autocast(h):
    with torch.autocast("cpu", torch.bfloat16):
        return (h @ torch.zeros(h.shape[-1], h.shape[-1])).float() + h


CONTEXTS = {
    "nothing": lambda h: h + 1,
    "dropout": lambda h: written(F.dropout(h, 0.5, False)),
    "type_as": lambda h: written(h.type_as(torch.zeros(1))),
    "meshgrid": lambda h: (torch.meshgrid(h.flatten(), torch.ones(2), indexing="ij"), written(h))[1],
    "broadcast_tensors": lambda h: (torch.broadcast_tensors(h, torch.zeros(2, *h.shape)), written(h))[1],
    "atleast_2d": lambda h: (torch.atleast_2d([h, h * 1]), written(h))[1],
    "unsafe_chunk": lambda h: (h.unsafe_chunk(1), written(h))[1],
    "resized": resized,
    "out": with_out,
    "caught": caught,
    "constant": unread_constant,
    "data": data,
    "foreach": foreach,
    "autocast": autocast,
    "transposed in place": lambda h: h.transpose_(0, -1).add_(1).transpose_(0, -1),
    "a view written": lambda h: (h.select(-1, 0).mul_(3), h)[1],
    "a mask written": lambda h: (h.masked_fill_(h > 2, 0.0), h)[1],
    "a random call": lambda h: (torch.rand(3), h + 1)[1],
    "rows": lambda h: h + torch.cat([h[h > 100], torch.zeros(0)]).sum(),
    "all of these": lambda h: unread_constant(caught(with_out(resized(foreach(written(F.dropout(h, 0.5, False))))))),
}


class Statistics(torch.nn.Module):
    """A norm in training whose result nobody reads."""

    def __init__(self, norm, context) -> None:
        super().__init__()
        self.norm, self.context = norm.train(), context

    def forward(self, x):
        self.norm(x)
        return self.context(x * 2), self.norm.running_mean * 1, self.norm.running_var * 1


NORMS = {
    "batch": lambda: torch.nn.BatchNorm1d(4),
    "instance": lambda: torch.nn.InstanceNorm1d(4, track_running_stats=True),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("context", CONTEXTS)
def test_statistics_are_updated(context, norm):
    model = Statistics(NORMS[norm](), CONTEXTS[context])
    eager = copy.deepcopy(model)
    session = npusim.Session(npusim.compile(npusim.export(model, (torch.ones(3, 4, 5),)), dtype="float32"))
    for run in range(3):
        x = torch.randn(3, 4, 5)
        found = session.run(x)
        for i, wanted in enumerate(eager(x.clone())):
            np.testing.assert_allclose(found[f"output_{i}"], wanted.detach(), 1e-4, 1e-5, err_msg=f"run {run}")


class Checked(torch.nn.Module):
    def __init__(self, check, context) -> None:
        super().__init__()
        self.check, self.context = check, context

    def forward(self, x):
        x = self.check(x)
        return self.context(x * 1)


def asserts(x):
    torch._assert_async((x > 0).all(), "x must be positive")
    return x


# What holds of [1, 2, 3], and not of the second.
CHECKS = {
    "assertion": (asserts, [1, -1, 2]),
    "branch": (lambda x: x * 2 if (x > 0).all() else x, [1, -1, 2]),
    "branch on a size": (lambda x: x * 2 if len(x[x > 2.5]) > 1 else x, [2, 9, 8]),
    "key": (lambda x: x * {1: 10.0, 2: 20.0}[int(x[0].item())], [2, 9, 8]),
    "slice": (lambda x: x[: int(x[0].long().item())].sum() * x, [2, 9, 8]),
    "count": (lambda x: sum(x * 1 for _ in range(int(x[0].item()))), [2, 9, 8]),
    "equal": (lambda x: x * 2 if torch.equal(x, x.sort()[0]) else x, [2, 9, 8]),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("context", CONTEXTS)
def test_what_a_program_is_made_for_is_checked(context, check):
    does, other = CHECKS[check]
    model = Checked(does, CONTEXTS[context])
    session = npusim.Session(npusim.compile(npusim.export(model, (torch.tensor([1.0, 2, 3]),)), dtype="float32"))
    x = torch.tensor([1.0, 2, 3])
    np.testing.assert_allclose(session.run(x)["output"], model(x.clone()), 1e-5)
    with pytest.raises(npusim.Error, match="an assertion does not hold"):
        session.run(torch.tensor(other, dtype=torch.float32))


class InBody(torch.nn.Module):
    """An assertion in the body of a loop over rows, of whose results one is read."""

    def __init__(self, kind, read) -> None:
        super().__init__()
        self.kind, self.read = kind, read

    def forward(self, x):
        from torch._higher_order_ops.map import map as mapped
        from torch._higher_order_ops.scan import scan

        def row(r):
            torch._assert_async((r < 2).all(), "row too large")
            return r.sin(), r * 1

        def step(c, r):
            torch._assert_async((r < 2).all(), "row too large")
            return c + r, c * 1

        return (mapped(row, x) if self.kind == "map" else scan(step, torch.zeros(2), x))[self.read] * 1


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("read", [0, 1])
@pytest.mark.parametrize("kind", ["map", "scan"])
def test_assertions_in_bodies_hold(kind, read, strict):
    model, x = InBody(kind, read), torch.ones(3, 2)
    session = npusim.Session(npusim.compile(npusim.export(model, (x,), strict=strict), dtype="float32"))
    np.testing.assert_allclose(session.run(x)["output"], model(x), 1e-6)
    for at in range(6):
        large = x.clone()
        large.view(-1)[at] = 5
        with pytest.raises(npusim.Error, match="an assertion does not hold"):
            session.run(large)


def restored(x):
    state = torch.get_rng_state()
    first = torch.rand(3)
    torch.set_rng_state(state)
    return x + first - torch.rand(3)


def seeded(x):
    torch.manual_seed(5)
    return x + torch.rand(3)


def forked(x):
    with torch.random.fork_rng():
        return x + torch.rand(3)


@pytest.mark.parametrize("function", [restored, seeded, forked])
def test_seeds_of_what_forward_draws_are_refused(function):
    with pytest.raises(npusim.UnsupportedError, match=r"test_effects.py:\d+ .*sets the generator"):
        npusim.export(Calls(function), (torch.ones(3),))


def test_seeds_of_nothing_are_nothing():
    def twice(x):
        torch.manual_seed(5)
        return F.dropout(x, 0.5, False) * 2

    before = torch.get_rng_state()
    session = npusim.Session(npusim.compile(npusim.export(Calls(twice), (torch.ones(3),)), dtype="float32"))
    assert torch.equal(torch.get_rng_state(), before)
    np.testing.assert_array_equal(session.run(torch.ones(3))["output"], [2, 2, 2])


@pytest.mark.parametrize(("name", "draw"), [("Python's random", random.random), ("numpy.random", np.random.rand)])
def test_what_python_and_numpy_draw_is_told(name, draw):
    model = Calls(lambda x: x * draw())
    before = random.getstate(), np.random.get_state()[1].tobytes()
    with pytest.warns(UserWarning, match=f"forward\\(\\) draws from {name}: every run"):
        exported = npusim.export(model, (torch.ones(3),))
    assert before == (random.getstate(), np.random.get_state()[1].tobytes())
    session = npusim.Session(npusim.compile(exported, dtype="float32"))
    np.testing.assert_array_equal(session.run(torch.ones(3))["output"], session.run(torch.ones(3))["output"])
