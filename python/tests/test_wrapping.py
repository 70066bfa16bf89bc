"""Integers beside numbers that are none of theirs: PyTorch converts all operands to one dtype first, in which they wrap."""

from collections.abc import Callable

import npusim
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from modules import Calls

ONE = "eq ne lt le gt ge floor_divide remainder fmod bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift isin"
TWO = "add mul eq lt ge maximum minimum floor_divide remainder fmod bitwise_and logical_and logical_or"


def of_a_number(number: int) -> list[Callable]:
    def beside(name: str) -> Callable:
        return lambda x: getattr(torch, name)(x, number)

    return [beside(name) for name in ONE.split()] + [
        lambda x: torch.div(x, number, rounding_mode="trunc"),
        lambda x: torch.div(x, number, rounding_mode="floor"),
        lambda x: torch.true_divide(x, number),
        lambda x: number - x,
        lambda x: number // (x | 1),
        lambda x: number % (x | 1),
        lambda x: number >> (x & 3),
        lambda x: number << (x & 3),
        lambda x: torch.isin(number, x),
        lambda x: torch.searchsorted(x.sort()[0], number),
        lambda x: torch.bucketize(number, x.sort()[0]),
        lambda x: torch.nn.functional.threshold(x, number, number),
        lambda x: torch.where(x > 3, x, number),
        lambda x: x * 1.5 - number,
    ]


def of_a_scalar(number: int) -> list[Callable]:
    def beside(name: str) -> Callable:
        return lambda x: getattr(torch, name)(x, torch.tensor(number))

    return [beside(name) for name in TWO.split()] + [
        lambda x: torch.where(x > 3, torch.tensor(number), x),
        lambda x: torch.tensor(number) // (x | 1),
        lambda x: torch.addcmul(x, x, torch.tensor(number)),
    ]


def accepted(functions: list[Callable], x: torch.Tensor) -> list[Callable]:
    def runs(function: Callable) -> bool:
        try:
            function(x)
        except (RuntimeError, TypeError):
            return False
        return True

    return [function for function in functions if runs(function)]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64], ids=str)
@pytest.mark.parametrize("number", [-1, -2, 255, 300, 2**31 + 5, -(2**40) + 3])
def test_numbers_wrap_to_the_dtype_beside_them(dtype, number):
    x = torch.tensor([0, 1, 5, 6, 7, 100, 127, 128, 250, 255] if dtype == torch.uint8 else [0, 1, 5, 6, 7, 100, 127, -1, -7, -128]).to(dtype)
    functions = accepted(of_a_number(number) + of_a_scalar(number), x)
    assert len(functions) > 25
    model = Calls(lambda x: tuple(function(x) for function in functions))
    found = npusim.Session(npusim.compile(npusim.export(model, (x,)), dtype="float32")).run(x)
    for (name, result), wanted in zip(found.items(), model(x)):
        result = np.asarray(result)
        assert str(result.dtype) == str(wanted.dtype).removeprefix("torch."), name
        near = wanted.is_floating_point() and np.allclose(result, wanted.numpy(), rtol=1e-5)
        assert near or np.array_equal(result, wanted.numpy()), (name, result, wanted)


def test_scalars_of_float64_are_of_the_dtype_beside_them():
    x = torch.tensor([0.1, 0.2, 0.3, -0.7])
    names = "add mul remainder fmod floor_divide eq lt isin maximum atan2 pow".split()
    model = Calls(lambda x, y: tuple(getattr(torch, name)(x, y) for name in names))
    args = (x, torch.tensor(0.1, dtype=torch.float64))
    found = npusim.Session(npusim.compile(npusim.export(model, args), dtype="float32")).run(*args)
    for result, wanted in zip(found.values(), model(*args)):
        assert np.allclose(np.asarray(result, dtype=np.float64), wanted.double().numpy(), rtol=1e-6, atol=0, equal_nan=True)


@pytest.mark.parametrize("bounds", [(2**53 + 1, 2**53 + 4, 1), (-(2**63), -(2**63) + 7, 2), (2**60 + 9, 2**60, -3), (5, 5, 1)])
def test_ranges_of_integers_are_exact(bounds):
    model = Calls(lambda x: torch.arange(*bounds) + x)
    x = torch.zeros(1, dtype=torch.int64)
    found = npusim.Session(npusim.compile(npusim.export(model, (x,)))).run(x)
    assert np.array_equal(found["output"], model(x).numpy())


@pytest.mark.parametrize("number", [0.5, -0.25, 0.0, 3, -1, float("nan")])
def test_numbers_beside_truths_are_true_where_they_are_not_zero(number):
    def call(x):
        truths, first = x > 0, torch.tensor([0])
        made = torch.full((2,), number, dtype=torch.bool), truths.new_full((2,), number)
        made += torch.full_like(truths, number), torch.fill(truths, number), torch.scalar_tensor(number, dtype=torch.bool)
        made += torch.index_fill(truths, 0, first, number), torch.scatter(truths, 0, first, number)
        return (*made, torch.nn.functional.pad(truths, (1, 1), value=number), truths.masked_fill(~truths, number))

    x = torch.tensor([1.0, -1.0, 2.0])
    found = npusim.Session(npusim.compile(npusim.export(Calls(call), (x,)), dtype="float32")).run(x)
    for (name, result), wanted in zip(found.items(), call(x)):
        assert np.array_equal(np.asarray(result), wanted.numpy()), name


def test_the_largest_of_a_bag_with_nan():
    weight = torch.tensor([[1.0, float("nan")], [float("nan"), 2.0], [3.0, 0.5]])
    model = Calls(lambda i: torch.nn.functional.embedding_bag(i, weight, torch.tensor([0, 2, 3]), mode="max"))
    indices = torch.tensor([0, 1, 2, 1, 2, 0])
    found = npusim.Session(npusim.compile(npusim.export(model, (indices,)), dtype="float32")).run(indices)
    assert np.array_equal(found["output"], model(indices).numpy(), equal_nan=True)


class IsIn(torch.nn.Module):
    """A number among the elements of a tensor in all forms."""

    def __init__(self, number):
        super().__init__()
        self.number = number
        self.register_buffer("tensor", torch.tensor(number))

    def forward(self, x):
        one, row = torch.tensor(self.number), torch.tensor([self.number])
        return [torch.isin(e, x) for e in (self.number, one, row, self.tensor)] + [torch.isin(x, e) for e in (self.number, one)]


# ATen compares with fewer than 10 test elements, and sorts more: the number is one of their dtype, or itself.
@pytest.mark.parametrize("count", [1, 9, 10, 16, 17, 50])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float32], ids=str)
def test_a_number_among_integers(dtype, count):
    torch.manual_seed(count)
    x = torch.randint(0, 100, (count,)).to(dtype)
    x[-1] = 255 if dtype == torch.uint8 else -1
    for number in (-1, 255, 3, 2**16 - 1, 2**32 - 1, 0.5, -1.0, True):
        model = IsIn(number)
        try:
            wanted = model(x)
        except RuntimeError:  # PyTorch's
            continue
        found = npusim.Session(npusim.compile(npusim.export(model, (x,)), dtype="float32")).run(x)
        for (name, result), want in zip(found.items(), wanted, strict=True):
            np.testing.assert_array_equal(result, want.numpy(), err_msg=f"{number} {name}")
