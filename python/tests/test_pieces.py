"""Pieces of a tensor whose sizes depend on values, put together again."""

import npusim
import numpy as np
import pytest

torch = pytest.importorskip("torch")
from modules import Calls
from torch.nn import functional

WEIGHTS = torch.linspace(-1, 1, 3 * 4 * 6).reshape(3, 4, 6)


def split(x, sizes):
    return x.split(sizes.tolist())


def linear(x, sizes):
    return torch.cat([functional.linear(piece, weight) for piece, weight in zip(split(x, sizes), WEIGHTS, strict=True)])


def used_on(x, sizes):
    found = linear(x, sizes)
    first, second = (found * x[:, :1]).chunk(2, 1)
    return functional.gelu(first) + second.reshape(found.shape[0], 2)


def two_tensors(x, sizes):
    numbers = sizes.tolist()
    return torch.cat([a.exp() + b for a, b in zip(x.split(numbers), (x * 2).split(numbers), strict=True)])


def counted(x, sizes):
    experts = x.argmax(1) % 3
    order = experts.argsort(stable=True)
    counts = torch.nn.functional.one_hot(experts, 3).sum(0)
    return torch.zeros(8, 4).index_add(0, order, linear(x[order], counts))


def sizes_that_change(x, sizes):
    sizes = sizes.clone()
    numbers = sizes.tolist()
    sizes.zero_()
    return torch.cat([piece * (i + 1) for i, piece in enumerate(x.split(numbers))])


def normal(x, sizes):
    a, b, c = split(x, sizes)
    return torch.cat([functional.layer_norm(a, (6,)), b / b.sum(1, keepdim=True), c.softmax(1)])


@pytest.mark.parametrize("function", [linear, used_on, two_tensors, counted, sizes_that_change, normal])
def test_values(function):
    torch.manual_seed(0)
    program = npusim.compile(Calls(function), (torch.rand(8, 6), torch.tensor([3, 4, 1])), dtype="float32")
    for sizes in ([3, 4, 1], [0, 8, 0], [8, 0, 0], [0, 0, 8], [2, 0, 6]):
        x, sizes = torch.rand(8, 6), torch.tensor(sizes)
        found = npusim.Session(program).run(x, sizes)["output"]
        assert np.allclose(found, function(x, sizes).numpy(), atol=1e-6)


def other_order(x, sizes):
    a, b, c = split(x, sizes)
    return torch.cat([b, a, c]) * 2


def one_missing(x, sizes):
    a, b, _ = split(x, sizes)
    return torch.cat([a * 2, b])


def across_rows(x, sizes):
    a, b, c = split(x, sizes)
    return torch.cat([a - a.amax(0), b, c])


def written_beside(x, sizes):
    x = x * 1
    a, b, c = split(x, sizes)
    doubled = a * 2
    b.mul_(3)
    return torch.cat([doubled, b, c])


@pytest.mark.parametrize("function", [other_order, one_missing, across_rows, written_beside])
@pytest.mark.filterwarnings("ignore:the program is made for")
def test_what_is_no_work_row_by_row_is_made_for_the_example(function):
    model, args = Calls(function), (torch.rand(8, 6), torch.tensor([3, 4, 1]))
    exported = npusim.export(model, args)
    assert exported.made_for
    found = npusim.Session(npusim.compile(exported, dtype="float32")).run(*args)["output"]
    assert np.allclose(found, model(*args).numpy(), rtol=1e-5, atol=1e-6)
