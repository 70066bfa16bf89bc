"""What a model returns beside tensors: numbers are arrays of no dimension, None is nothing, and all else is refused by name."""

from __future__ import annotations

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import npusim
from modules import Calls

X = torch.tensor([[1.0, -2, 3], [4, 5, -6]])
NUMBERS = {
    "a fraction": lambda x: 3.5,
    "a fraction that float32 does not hold": lambda x: 0.1,
    "a large one": lambda x: 1e300,
    "infinity": lambda x: -math.inf,
    "nan": lambda x: math.nan,
    "whole": lambda x: 7,
    "large and whole": lambda x: -(2**63),
    "truth": lambda x: True,
    "a size": lambda x: x.shape[1],
    "a sum": lambda x: x.sum().item(),
    "of whole numbers": lambda x: (x > 0).sum().item(),
    "whether": lambda x: (x > 0).any().item(),
    "of numbers": lambda x: x.max().item() * 2 + 1,
    "how many": lambda x: (x > 0).sum().item() + x.shape[0],
    "of its own making": lambda x: torch.arange(5).max().item(),
    "of 16 bits": lambda x: x.half().min().item(),
}


def leaves(value) -> list:
    return torch.utils._pytree.tree_leaves(value)


def check(function, x: torch.Tensor = X, more: tuple = (), dtype: str = "float32") -> dict[str, np.ndarray]:
    """Outputs are the leaves that are not None, of the example and of other values, in their order."""
    exported = npusim.export(Calls(function), (x, *more))
    assert not exported.made_for
    session = npusim.Session(npusim.compile(exported, dtype=dtype))
    for given in (x, x * 3 - 1):
        expected = [value for value in leaves(function(given, *more)) if value is not None]
        found = session.run(given)
        assert len(found) == len(expected)
        for (name, array), value in zip(found.items(), expected, strict=True):
            want = value.numpy() if isinstance(value, torch.Tensor) else np.asarray(value)
            assert (array.dtype, array.shape) == (want.dtype, want.shape), name
            assert np.array_equal(array, want, equal_nan=want.dtype.kind == "f"), name
    return found


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize(
    "among",
    [
        lambda n, x: (n, x + 1),
        lambda n, x: {"y": x * 2, "inner": [None, {"n": n}]},
        lambda n, x: n,
    ],
    ids=["tuple", "nested", "alone"],
)
def test_numbers(number, among):
    check(lambda x: among(NUMBERS[number](x), x))


def test_all_of_them_in_every_dtype():
    for dtype in ("float16", "bfloat16", "float32"):
        check(lambda x: {**{name: number(x) for name, number in NUMBERS.items()}, "x": x > 0}, dtype=dtype)


def test_names_and_leaves():
    found = check(lambda x: (3.5, x + 1, x.sum().item(), None, {"k": 2}))
    assert list(found) == ["output_0", "output_1", "output_2", "output_4.k"]
    exported = npusim.export(Calls(lambda x: (3.5, x + 1, x.sum().item(), None, {"k": 2})), (X,))
    assert [kind for kind, _ in exported.leaves] == ["constant", "output", "output", "constant", "constant"]
    assert [value for kind, value in exported.leaves if kind == "constant"] == [3.5, None, 2]


def test_an_argument_that_is_a_number():
    check(lambda x, n: (x + n, n, n + 1), more=(4,))


@pytest.mark.parametrize("alone", [False, True])
def test_numbers_that_the_tracer_follows_for_the_example(alone):
    with pytest.warns(UserWarning, match="made for"):
        exported = npusim.export(Calls(lambda x: int(x.max()) if alone else (x + 1, int(x.max()))), (X,))
    session = npusim.Session(npusim.compile(exported, dtype="float32"))
    assert [*session.run(X).values()][-1] == 5
    with pytest.raises(npusim.Error):
        session.run(X * 2)


def test_the_number_is_a_size():
    """One that is a size too is what the program is made for."""
    with pytest.warns(UserWarning, match="made for"):
        exported = npusim.export(Calls(lambda x, n: (x[: n.item()], n.item())), (X, torch.tensor(1)))
    session = npusim.Session(npusim.compile(exported, dtype="float32"))
    found = session.run(X, np.array(1))
    assert found["output_0"].shape == (1, 3) and found["output_1"] == 1
    with pytest.raises(npusim.Error):
        session.run(X, np.array(2))


@pytest.mark.parametrize(
    ("value", "said"),
    [("a word", "'a word', a str"), (2**63, "9223372036854775808, a int"), (-(2**70), "a int")],
)
def test_what_is_refused(value, said):
    def call(x):
        return {"y": x + 1, "inner": [value, None]}

    with pytest.raises(npusim.UnsupportedError) as caught:
        npusim.export(Calls(call), (X,))
    (where, why), *others = caught.value.problems
    assert not others and where == "output 'inner.0'" and said in why and "expected a tensor" in why


def test_torch_compile_gives_what_python_has():
    def call(x):
        return 3.5, x + 1, None, "word", x.shape[0]

    with torch.no_grad():
        found = torch.compile(Calls(call), backend="npusim")(X)
    assert found[0] == 3.5 and found[2:] == (None, "word", 2) and torch.equal(found[1], X + 1)
