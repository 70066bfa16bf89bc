"""Elements and slices at places that are read from tensors: right for every place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import npusim
from modules import Calls
from test_sizes import REFUSED, check, export


def number(at: Any) -> torch.Tensor:
    return torch.tensor(at)


def values() -> torch.Tensor:
    torch.manual_seed(0)
    return torch.randn(6, 4)


def reads(x, m):
    i = m.item()
    return x[m], x[i], x[:, i] * 2, x[m + 1, 2], x[i - 3], x[i : i + 2], torch.narrow(x, 0, i, 3), x[1:, i : i + 2]


def writes(x, m):
    i, c = m.item(), torch.zeros(6, 4)
    c[i] = x[0]
    c[i : i + 2] += x[:2]
    c[i + 1].mul_(3)
    c[:, m] = 1.5
    c[m, 1].fill_(7)
    torch.narrow(c, 1, i, 2).clamp_(max=2)
    return c, c[i]


def other_dtype(x, m):
    y = x.to(torch.int64)
    y[m] = x[m] * 3
    y[m.item() : m.item() + 1].add_(2)
    return y


def seen_before(x, m):
    """A view whose tensor changes is what the tensor is."""
    c = x.clone()
    v = c[m]
    w = v[1:]
    c[0] = 7.0
    c.mul_(2)
    return v + 1, w * 2, c


def between(x, m):
    """Both ends are computed."""
    i, c = m.item(), x.clone()
    c[i + 1 : i + 3] = x[i : i + 2] * 2
    return c[1 + i : 3 + i] + 1, torch.narrow(c, 0, i + 2, 2), c[2 * i : 2 * i + 2]


def walk(x, m):
    """Farthest points: each is found by the one before."""
    far, at, found = torch.full((6,), 1e10), m, []
    for _ in range(4):
        found.append(at)
        far = torch.minimum(far, ((x - x[at]) ** 2).sum(-1))
        at = far.argmax()
    return torch.stack(found), x[found[-1]]


@pytest.mark.parametrize("at", [0, 1, 2])
@pytest.mark.parametrize("function", [reads, writes, other_dtype, walk, seen_before, between])
def test_a_place_is_a_value(function, at):
    try:
        exported = export(function, values(), number(1))
    except npusim.UnsupportedError as error:
        if "not npusim, does not trace it" not in str(error):
            raise
        pytest.skip(str(error))  # PyTorch 2.15 fails over `between`
    assert exported.made_for == []
    check(exported, function, values() * 2, number(at), bar=1e-5)


def test_places_from_the_end():
    def last(x, m):
        c = x.clone()
        c[m] = 0
        return x[m], c

    check(export(last, values(), number(1)), last, values(), number(-2))


@pytest.mark.parametrize("at", [-1, 5])
def test_slices_that_leave_are_refused(at):
    def part(x, m):
        return torch.narrow(x, 0, m.item(), 2) * 2

    exported = export(part, values(), number(1))
    with pytest.raises(npusim.Error, match="place"):
        check(exported, part, values(), number(at))


def test_a_slice_that_ends_before_it_begins_is_for_the_examples_place():
    def nothing(x, m):
        i = m.item()
        return x[i : i - 2].sum() + x[0]

    exported = export(nothing, values(), number(3))
    check(exported, nothing, values(), number(3))
    with pytest.raises(npusim.Error, match=REFUSED):
        check(exported, nothing, values(), number(1))  # x[1 : -1]


def test_elements_that_are_not_there_are_refused():
    def one(x, m):
        return x[m] * 2

    exported = export(one, values(), number(1))
    with pytest.raises(npusim.Error):
        npusim.Session(npusim.compile(exported, dtype="float32")).run(values(), number(6))


def test_a_ring_of_rows():
    class Ring(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("rows", torch.zeros(3, 4))
            self.register_buffer("at", torch.zeros((), dtype=torch.long))

        def forward(self, x):
            self.rows[self.at] = x
            self.at.copy_((self.at + 1) % 3)
            return self.rows.sum(0), self.rows[self.at - 1]

    exported = npusim.export(Ring(), (torch.randn(4),))
    assert exported.made_for == []
    session, model = npusim.Session(npusim.compile(exported, dtype="float32")), Ring()
    for row in torch.randn(5, 4):
        found = session.run(row)
        for name, expected in zip(("output_0", "output_1"), model(row)):
            np.testing.assert_allclose(found[name], expected, rtol=1e-6, atol=1e-6)


def test_slices_that_count_from_the_end():
    """A run gives what Python's slices do, or fails where they have another length."""
    functions = [
        lambda x, m: x[m.item() : m.item() + 2],
        lambda x, m: x[-2 - m.item() : -m.item()],
        lambda x, m: x[1:, m.item() - 3 : m.item() - 1],
    ]
    for function in functions:
        for example in (1, 0, -3):
            try:
                program = npusim.compile(Calls(function), (values(), number(example)), dtype="float32")
            except npusim.UnsupportedError:
                continue
            session = npusim.Session(program)
            for at in range(-7, 7):
                wanted = function(values(), number(at)).numpy()
                try:
                    found = session.run(values(), number(at))["output"]
                except npusim.BadInputError:
                    continue
                assert np.array_equal(found, wanted), (example, at)
