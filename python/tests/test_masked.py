"""Writes through masks, whose values are chosen by the same mask."""

import npusim
import numpy as np
import pytest

torch = pytest.importorskip("torch")


class Model(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


def put(x, m, y):
    x[m] = y[m]
    return x


def add(x, m, y):
    x[m] += y[m]
    return x


def computed(x, m, y):
    x[m] = torch.exp(y[m]) * 2 + x[m].double().float()
    return x


def computed_mask(x, m, y):
    x[x > 0] = -x[x > 0]
    x[~m] = y[~m]
    return x


def rows(x, m, y):
    x[m[:, 0]] = y[m[:, 0]] / 3
    x[:, m[0]] = y[:, m[0]]
    return x


def views(x, m, y):
    x[..., 1:][m[..., 1:]] = y[..., 1:][m[..., 1:]]
    return x


def accumulated(x, m, y):
    return torch.index_put(x, (m,), y[m], accumulate=True)


def read_before_it_changes(x, m, y):
    chosen = y[m]
    y.mul_(0)
    x[m] = chosen
    return x + y


@pytest.mark.parametrize(
    "function", [put, add, computed, computed_mask, rows, views, accumulated, read_before_it_changes]
)
def test_values(function):
    def copies(x, m, y):
        return function(x.clone(), m, y.clone())

    torch.manual_seed(1)
    args = torch.randn(4, 6), torch.rand(4, 6) > 0.5, torch.randn(4, 6)
    program = npusim.compile(Model(copies), args, dtype="float32")
    for mask in (args[1], ~args[1], torch.ones_like(args[1]), torch.zeros_like(args[1])):
        x, y = torch.randn(4, 6), torch.randn(4, 6)
        found = npusim.Session(program).run(x, mask, y)["output"]
        assert np.allclose(found, copies(x, mask, y).numpy(), atol=1e-6)


def other_mask(x, m, y):
    x[m] = y[~m]  # as many are chosen, but others
    return x


def changed_mask(x, m, y):
    m = m.clone()
    chosen = y[m]
    m.logical_not_()
    x[m] = chosen
    return x


def changed_operand(x, m, y):
    chosen = y[x > 0]
    x.neg_()
    x[x > 0] = chosen
    return x


def sorted_values(x, m, y):
    x[m] = y[m].sort().values
    return x


def divided_integers(x, m, y):
    z = x.int()
    z[m] = y.int()[m] // z[m]
    return z


@pytest.mark.parametrize("function", [other_mask, changed_mask, changed_operand, sorted_values, divided_integers])
def test_what_is_no_choice_of_one_mask_is_refused(function):
    half = torch.arange(24).reshape(4, 6) % 2 == 0
    x = torch.where(half, 1.0, -1.0) * (torch.rand(4, 6) + 1)
    with pytest.raises(npusim.UnsupportedError, match="shape that depends on values"):
        npusim.export(Model(lambda x, m, y: function(x.clone(), m, y)), (x, half, torch.randn(4, 6) + 3))
