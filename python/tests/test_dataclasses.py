"""Dataclasses of the model's own, of which nobody told PyTorch."""

import dataclasses

import npusim
import numpy as np
import pytest

torch = pytest.importorskip("torch")


@dataclasses.dataclass
class Inner:
    z: torch.Tensor
    scale: float = 2.0


@dataclasses.dataclass
class Given:
    x: torch.Tensor
    more: list[Inner]


@dataclasses.dataclass
class Result:
    total: torch.Tensor
    inner: Inner
    count: int = 3


class Model(torch.nn.Module):
    def forward(self, given, *, last):
        return Result(given.x + given.more[0].z, Inner(last.z * last.scale))


@dataclasses.dataclass
class Other(Result):
    pass


class OtherModel(torch.nn.Module):
    def forward(self, x):
        return Other(x * 2, Inner(x + 1))


X, Y, Z = torch.arange(2.0), torch.tensor([5.0, 7.0]), torch.tensor([1.0, 0.5])


@pytest.mark.parametrize("strict", [False, True])
def test_given_and_returned(strict):
    # Non-strict tracing meets the results' classes before strict tracing has to know them.
    exported = npusim.export(Model(), (Given(X, [Inner(Y)]),), {"last": Inner(Z)})
    if strict:
        exported = npusim.export(Model(), (Given(X, [Inner(Y)]),), {"last": Inner(Z)}, strict=True)
    assert [output["name"] for output in exported.ir["graph_outputs"]] == ["total", "inner.z", "inner.scale", "count"]
    found = npusim.Session(npusim.compile(exported, dtype="float32")).run(X, Y, Z)
    assert np.array_equal(found["total"], (X + Y).numpy()) and np.array_equal(found["inner.z"], (Z * 2).numpy())
    assert found["inner.scale"] == 2.0 and found["count"] == 3


def test_the_model_is_left_as_it_was():
    model = OtherModel()
    exported = npusim.export(model, (X,))
    assert exported.leaves == [("output", "total"), ("output", "inner.z"), ("constant", 2.0), ("constant", 3)]
    assert not model._forward_hooks
