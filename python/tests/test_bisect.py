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
