"""Dataclasses of the model's own, of which nobody told PyTorch."""

import dataclasses
import itertools

import npusim
import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch.utils import _pytree as pytree


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
    exported = npusim.export(Model(), (Given(X, [Inner(Y)]),), {"last": Inner(Z)}, strict=strict)
    assert [output["name"] for output in exported.ir["graph_outputs"]] == ["total", "inner.z", "inner.scale", "count"]
    found = npusim.Session(npusim.compile(exported, dtype="float32")).run(X, Y, Z)
    assert np.array_equal(found["total"], (X + Y).numpy()) and np.array_equal(found["inner.z"], (Z * 2).numpy())
    assert found["inner.scale"] == 2.0 and found["count"] == 3


def test_the_model_is_left_as_it_was():
    model = OtherModel()
    exported = npusim.export(model, (X,))
    assert exported.leaves == [("output", "total"), ("output", "inner.z"), ("constant", 2.0), ("constant", 3)]
    assert not model._forward_hooks


def registries():
    """What PyTorch knows of classes, but of those that its own modules register when they are imported."""
    tables = pytree.SUPPORTED_NODES, pytree.SUPPORTED_SERIALIZED_TYPES, pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE
    return [{key: value for key, value in table.items() if "torch." not in str(key)} for table in tables]


def registering(where, memory, keys, kind):
    """A class of results and a model that returns it. where: what registers it, the class or forward(). memory: where that is
    noted: in the model, in a set that no one puts back, or there with the guard of transformers. keys: whether by name."""
    seen = set()

    def register(cls, done):
        if (memory == "guard" and torch.compiler.is_compiling()) or done:
            return
        named = {"flatten_with_keys_fn": lambda o: ([(pytree.GetAttrKey("y"), o.y)], None)} if keys else {}
        pytree.register_pytree_node(cls, lambda o: ([o.y], None), lambda values, _: cls(*values), **named)
        done.add(cls.__name__)

    class Plain:
        def __init__(self, y):
            self.y = y
            self.__post_init__()

        def __post_init__(self):
            if where == "class":
                register(type(self), SEEN)
            self.rows = self.y.shape[0] if hasattr(self.y, "shape") else 0

    SEEN = seen  # of the class: what is around it
    result = dataclasses.make_dataclass("Result", ["y"], namespace={"__post_init__": Plain.__post_init__})
    result = result if kind == "dataclass" else Plain

    class Registering(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.done = set()
            self.register_buffer("h", torch.zeros(2))

        def forward(self, x):
            if where == "forward":
                register(result, self.done if memory == "model" else OUTSIDE.setdefault(id(seen), seen))
            self.h = self.h + x  # has the model run again
            return result(self.h * 2)

    return Registering()


OUTSIDE = {}  # of sets by identity: what kept() does not follow
WAYS = [*itertools.product(("class", "forward"), ("model", "set", "guard"), (True, False), ("dataclass", "plain"))]


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(("where", "memory", "keys", "kind"), WAYS)
def test_classes_that_register_themselves(where, memory, keys, kind, strict):
    model = registering(where, memory, keys, kind)
    for _ in range(2):
        try:
            exported = npusim.export(model, (X,), strict=strict)
        except npusim.UnsupportedError:
            assert strict or (kind == "plain" and memory == "guard")
        else:
            assert exported.ir["graph_outputs"][0]["name"] in ("y", "output")
            assert np.array_equal(npusim.Session(npusim.compile(exported, dtype="float32")).run(X)["h_next"], X.numpy())
    for run in (1, 2):  # eager PyTorch goes on
        assert torch.equal(model(X).y, X * 2 * run)


class Raising(torch.nn.Module):
    def forward(self, given, *, last):
        raise ValueError("no")


class Nested(torch.nn.Module):
    def forward(self, given, *, last):
        npusim.export(Model(), (Given(torch.ones(2), [Inner(torch.ones(2))]),), {"last": Inner(torch.ones(2))})
        return Result(given.x * 2, last)


class Fixed(torch.nn.Module):
    def forward(self, given, *, last):
        return Inner(last.z * 2 + given.x)


@pytest.mark.parametrize("model", [Model, Raising, Nested, Fixed])
@pytest.mark.parametrize("options", [{}, {"strict": True}, {"fixed": ["last"]}], ids=str)
def test_registries_are_left_as_they_were(model, options):
    before = registries()
    for _ in range(2):
        try:
            npusim.export(model(), (Given(X, [Inner(Y)]),), {"last": Inner(Z)}, **options)
        except npusim.Error as error:
            assert not isinstance(error, npusim.InternalError), error
        assert registries() == before


@dataclasses.dataclass
class Known:
    y: torch.Tensor
    other: torch.Tensor


def test_what_the_user_registered_stays():
    pytree.register_pytree_node(Known, lambda o: ([o.other, o.y], None), lambda parts, _: Known(parts[1], parts[0]))
    before = registries()
    shown = type("Shown", (torch.nn.Module,), {"forward": lambda _self, x: Known(x * 2, x + 1)})()
    exported = npusim.export(shown, (X,))
    assert registries() == before and [one["name"] for one in exported.ir["graph_outputs"]] == ["output_0", "output_1"]
    found = npusim.Session(npusim.compile(exported, dtype="float32")).run(X)
    assert np.array_equal(found["output_0"], (X + 1).numpy()) and np.array_equal(found["output_1"], (X * 2).numpy())
    program = torch.export.export(torch.nn.Linear(2, 2), (torch.ones(1, 2),))
    npusim.export(program)
    assert registries() == before


class Flagged:
    def __init__(self, value):
        self.value = value


class AsksAnAttribute(torch.nn.Module):
    """Registers its class once, and notes that in itself: PyTorch puts the note back before the export ends."""

    def __init__(self):
        super().__init__()
        self.told = False

    def forward(self, x):
        if not self.told:
            torch.utils._pytree.register_pytree_node(Flagged, lambda f: ([f.value], None), lambda values, _: Flagged(*values))
            self.told = True
        return Flagged(x + 1)


def test_a_class_whose_registration_an_attribute_notes():
    model, x = AsksAnAttribute(), torch.ones(2)
    for _ in range(2):
        found = npusim.Session(npusim.compile(npusim.export(model, (x,)), dtype="float32")).run(x)
        np.testing.assert_array_equal(*found.values(), [2, 2])
        assert not model.told and Flagged not in torch.utils._pytree.SUPPORTED_NODES
    assert torch.equal(model(x).value, x + 1) and torch.equal(model(x).value, x + 1)
