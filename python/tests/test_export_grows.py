"""What an export asks of a graph grows with the graph, not with its square: calls of npusim's own functions are counted at a
size and at twice that. Times say less of it: PyTorch's tracer takes most of them."""

import collections
import cProfile
import pstats
import warnings

import npusim
import pytest

torch = pytest.importorskip("torch")
from npusim.torch.facts.rows import ATEN, call, find_chain
from torch import nn

X = torch.rand(4, 4)
SIZES = torch.tensor([1, 3])


def masked(model, x, count):
    for _ in range(count):
        x = x.clone()
        x[x > 0.5] = x[x > 0.5] * 2
    return x


def in_place(model, x, count):
    x = x.clone()
    for _ in range(count):
        x[1:].mul_(2)
    return x


def pieces(model, x, count):
    for _ in range(count):
        x = torch.cat([part * 2 for part in x.split([2, 2])])
    return x


def pieces_by_values(model, x, count):
    for _ in range(count):
        x = torch.cat([part * 2 for part in x.split(model.sizes.tolist())])
    return x


def chosen(model, x, count):
    for _ in range(count):
        rows = (x[:, 0] > 0.5).nonzero(as_tuple=True)[0]
        x = x.index_add(0, rows, x[rows] * 2)
    return x


def branches(model, x, count):
    for i in range(count):
        x = x + 1 if x.sum() > -i else x - 1
    return x


def numbers(model, x, count):
    n = torch.arange(4)
    for _ in range(count):
        n = n + 1
    return x + n.max().item()


def assigned(model, x, count):
    for i in range(count):
        setattr(model, f"b{i}", getattr(model, f"b{i}") + x)
    return x * 2


def turned(model, x, count):
    x = x.clone()
    for i in range(count):
        x = x + getattr(model, f"b{i}").clone().t_()
    return x


class Model(nn.Module):
    def __init__(self, does, count):
        super().__init__()
        self.does, self.count = does, count
        self.register_buffer("sizes", SIZES.clone())
        for i in range(count if does in (assigned, turned) else 0):
            self.register_buffer(f"b{i}", torch.zeros(4, 4))

    def forward(self, x):
        return self.does(self, x, self.count)


def calls(does, count):
    """How often each function of npusim's is called."""
    profile = cProfile.Profile()
    with warnings.catch_warnings(action="ignore"):
        profile.enable()
        npusim.export(Model(does, count), (X,))
        profile.disable()
    found = collections.Counter()
    for (file, line, name), (_, times, *_) in pstats.Stats(profile).stats.items():
        if "npusim/torch/" in file:
            found[f"{file.rpartition('npusim/')[2]}:{line} {name}"] += times
    return found


# Of few calls the constant part counts; of many a test takes long.
COUNTS = {masked: 8, pieces_by_values: 6, chosen: 4, branches: 6, assigned: 16, turned: 16}


@pytest.mark.parametrize(
    "does", [masked, in_place, pieces, pieces_by_values, chosen, branches, numbers, assigned, turned], ids=lambda f: f.__name__
)
def test_an_export_grows_with_its_graph(does):
    count = COUNTS.get(does, 12)
    calls(does, 2)  # what is remembered from then on
    one, two = calls(does, count), calls(does, 2 * count)
    grown = {name: (one[name], times) for name, times in two.items() if times > max(3 * one[name], 60)}
    assert not grown, grown


def test_a_long_chain_of_rows():
    """Longer than Python recurs."""
    graph = torch.fx.Graph()
    mode = torch._subclasses.FakeTensorMode(shape_env=torch.fx.experimental.symbolic_shapes.ShapeEnv())
    x, mask = graph.placeholder("x"), graph.placeholder("mask")
    with mode:
        x.meta["val"], mask.meta["val"] = torch.empty(4, 4), torch.empty(4, 4, dtype=torch.bool)
        last = source = call(graph, ATEN.index.Tensor, x, [mask])
        for _ in range(3000):
            last = call(graph, ATEN.mul.Tensor, last, 2)
    found = find_chain(last, 0, lambda node: node is source)
    assert found[0] is source and found[-1] is last and len(found) == 3001
    assert find_chain(last, 0, lambda node: None if node is source else False) is None
