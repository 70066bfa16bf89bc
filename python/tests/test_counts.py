"""torch.bincount: where the program shows how many bins there are, or how many are read; elsewhere the example says."""

import npusim
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from modules import Calls


def session_of(function, *args):
    return npusim.Session(npusim.compile(npusim.export(Calls(function), args), dtype="float32"))


def sized(x, y):
    counts = torch.bincount(x, minlength=3)
    torch._check(counts.shape[0] == 7)
    return counts * 2, counts.reshape(-1, 1) + 1


def weighed(x, y):
    counts = torch.bincount(x, y[: x.shape[0]], 7)
    torch._check(counts.shape[0] == 7)
    return counts / 2


def sliced(x, y):
    counts = torch.bincount(x, minlength=6)
    return counts[:4], counts[2:6].float().mean()


def sliced_bytes(x, y):
    return torch.bincount(x.to(torch.uint8), y[: x.shape[0]].double(), minlength=3)[:3]


def of_experts(x, y):
    chosen = y.reshape(8, 5).topk(2).indices
    return torch.bincount(chosen.flatten(), minlength=5).cumsum(0), torch.bincount(chosen[:, 0], minlength=9)


def of_the_largest(x, y):
    return torch.bincount(y.reshape(8, 5).argmax(1), minlength=5), torch.bincount(
        y.reshape(8, 5).argmax(0), minlength=8
    )


def of_bounded(x, y):
    found = torch.bincount(x.clamp(max=4), minlength=5), torch.bincount(x % 3, minlength=3)
    return *found, torch.bincount((x > 2).long(), minlength=2)


FUNCTIONS = [sized, weighed, sliced, sliced_bytes, of_experts, of_the_largest, of_bounded]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_counts_of_a_size_that_is_shown(function):
    torch.manual_seed(0)
    x, y = torch.randint(0, 7, (40,)), torch.randn(40)
    x[0] = 6
    session = session_of(function, x, y)
    expected = function(x, y)
    for found, value in zip(session.run(x, y).values(), torch.utils._pytree.tree_leaves(expected), strict=True):
        assert found.shape == value.shape and np.allclose(found, value.numpy(), rtol=1e-6, atol=1e-6)


def unknown(x, y):
    return torch.bincount(x, minlength=7)


def more_is_read(x, y):
    return torch.bincount(x, minlength=4)[:5]


def all_is_read(x, y):
    counts = torch.bincount(x, minlength=4)
    return counts[:4], counts.sum()


def from_the_end(x, y):
    return torch.bincount(x, minlength=4)[-4:]


def too_few(x, y):
    return torch.bincount(y.reshape(8, 5).argmax(1), minlength=4)


def of_what_changes(x, y):
    chosen = y.reshape(8, 5).argmax(1)
    chosen.view(2, 4).add_(3)
    return torch.bincount(chosen, minlength=5)


@pytest.mark.parametrize("function", [unknown, more_is_read, all_is_read, from_the_end, too_few, of_what_changes])
@pytest.mark.filterwarnings("ignore:the program is made for")
def test_counts_of_another_size_are_made_for_the_example(function):
    x, y = torch.arange(7), torch.randn(40)
    y[4] = 9  # the largest of the first five
    exported = npusim.export(Calls(function), (x, y))
    assert any("aten.bincount.default" in what for what in exported.made_for)
    session = npusim.Session(npusim.compile(exported, dtype="float32"))
    expected = torch.utils._pytree.tree_leaves(Calls(function)(x.clone(), y))
    for value, other in zip(session.run(x, y).values(), expected, strict=False):
        assert np.allclose(value, other.numpy(), rtol=1e-5)
    with pytest.raises(npusim.BadInputError, match="index|an assertion does not hold"):
        session.run(x + 1, torch.where(torch.arange(40) % 5 == 4, -9.0, y))


@pytest.mark.parametrize("function, number", [(sized, 7), (sized, -1), (sliced, -1)])
def test_numbers_that_no_bin_is_for_end_the_run(function, number):
    x, y = torch.arange(7), torch.randn(40)
    session = session_of(function, x, y)
    x[3] = number
    with pytest.raises(npusim.BadInputError, match="index"):
        session.run(x, y)


def histograms(x, y):
    return torch.histc(x, 7), torch.histc(y, 4), torch.histc(x), torch.histc(x, 5, 2, 2), torch.histc(x, 5, -1, 1)


def test_histograms_between_the_extremes():
    torch.manual_seed(0)
    run = session_of(histograms, torch.randn(60), torch.randn(3, 4))
    for kind in range(30):
        x, y = torch.randn(60), torch.randint(0, 9, (3, 4)) / torch.randint(1, 9, ())
        if kind % 3 == 1:  # at the edges of bins
            x = torch.randint(-4, 5, (60,)) / 4
        if kind % 3 == 2:  # of one number
            x, y = torch.full((60,), float(kind)), torch.full((3, 4), 1e9 * kind)
        for found, expected in zip(run.run(x, y).values(), histograms(x, y), strict=True):
            np.testing.assert_array_equal(found, expected.numpy())


@pytest.mark.parametrize("value", [float("inf"), -float("inf"), float("nan")])
def test_a_histogram_has_a_finite_range(value):
    x = torch.randn(2, 6)
    run = session_of(lambda x: torch.histc(x, 4), x)
    x[1, 2] = value
    with pytest.raises(RuntimeError, match="finite"):
        torch.histc(x, 4)
    with pytest.raises(npusim.BadInputError, match="an assertion does not hold"):
        run.run(x)


def test_a_histogram_of_no_elements():
    found = session_of(lambda x: torch.histc(x, 4), torch.zeros(0, 3)).run(torch.zeros(0, 3))
    np.testing.assert_array_equal(found["output"], np.zeros(4, "float32"))
