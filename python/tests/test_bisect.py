"""Bisection of models of PyTorch: of right ones it names nothing."""

import time

import npusim
import pytest

torch = pytest.importorskip("torch")


class Counts(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(3))
        self.layer = torch.nn.Linear(16, 4)

    def forward(self, x):
        self.seen.add_(1)
        return torch.relu(self.layer(x)), self.seen * 2


@pytest.mark.parametrize(
    "names",
    [("x", "y"), ("y", "x"), ("relu", "add"), ("add", "relu"), ("mul", "x"), ("linear", "add")],
    ids=" ".join,
)
def test_bisect_of_outputs_that_are_called_as_other_tensors(names):
    class Named(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(8, 8)

        def forward(self, x, y):
            linear = self.layer(x)
            return {names[0]: torch.relu(linear) * 2, names[1]: linear + y}

    given = {"x": torch.randn(2, 8), "y": torch.randn(2, 8)}
    program = npusim.compile(npusim.export(Named(), tuple(given.values())), dtype="float32")
    found = npusim.bisect(program, given)
    assert found.ok and found.outputs < 1e-6 and found.culprit is None


def test_bisect_of_a_model_with_states(tmp_path):
    exported = npusim.export(Counts(), (torch.randn(2, 16),))
    assert exported.ir["states"]
    found = npusim.bisect(npusim.compile(exported, dtype="float32"), {"x": torch.randn(2, 16)})
    assert found.ok and found.culprit is None, found


class Cancels(torch.nn.Module):
    """Sums whose values are about 0, beside others: what rounding leaves of them is as large as they are."""

    def __init__(self, kind):
        super().__init__()
        self.kind = kind
        self.norm = torch.nn.GroupNorm(4, 4)
        self.layer = torch.nn.Linear(64, 64)

    def forward(self, x):
        centred = x - x.mean(1, keepdim=True)
        whole = torch.cumsum(x, 1)
        if self.kind == "product":
            return whole + centred @ torch.ones(64, 1)
        if self.kind == "sum":
            return whole + centred.sum(1, keepdim=True)
        if self.kind == "norm":
            return whole + self.norm(x.reshape(-1, 4, 16)).mean(2).repeat(1, 16)
        difference = self.layer(x) - (x @ self.layer.weight.t() + self.layer.bias)
        return whole + difference * difference.sum(1, keepdim=True)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", ["product", "sum", "norm", "difference"])
def test_bisect_accuses_no_rounding_of_sums_that_cancel(kind, seed):
    torch.manual_seed(seed)
    x = torch.randn(4, 64)
    found = npusim.bisect(npusim.compile(npusim.export(Cancels(kind), (x,)), dtype="float32"), {"x": x})
    assert found.ok and found.outputs < 1e-5 and found.culprit is None, found


def test_bisect_is_linear_in_the_nodes():
    class Many(torch.nn.Module):
        def forward(self, *given):
            return tuple(torch.relu(one) for one in given)

    def seconds(count):
        given = {f"given_{i}": torch.randn(4) for i in range(count)}
        exported = npusim.export(Many(), tuple(given.values()))
        given = dict(zip((one["name"] for one in exported.ir["graph_inputs"]), given.values()))
        program = npusim.compile(exported, dtype="float32")
        begin = time.process_time()
        assert npusim.bisect(program, given).ok
        return time.process_time() - begin

    assert seconds(800) < 6 * seconds(200) + 0.5
