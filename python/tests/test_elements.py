"""Functions of elements that are computed in another way than PyTorch's: zeros of both signs, infinities, NaN."""

import itertools

import pytest
from test_export import Function

torch = pytest.importorskip("torch")

INF, NAN = float("inf"), float("nan")
SPECIAL = [0.0, -0.0, INF, -INF, NAN, 1.0, -1.0, 0.5, -0.5, 0.7, 3e38, -3e38, 1e-40, -1e-40, 6.0, -2.0]

EXACT = {
    "sign": torch.sign,
    "signbit": torch.signbit,
    "nan_to_num": torch.nan_to_num,
    "nan_to_num with a number": lambda x: torch.nan_to_num(x, 3.0),
    "nan_to_num of infinities": lambda x: torch.nan_to_num(x, posinf=7.0),
    "softshrink": lambda x: torch.nn.functional.softshrink(x, 0.7),
    "hardshrink": lambda x: torch.nn.functional.hardshrink(x, 0.7),
    "leaky_relu": lambda x: torch.nn.functional.leaky_relu(x, 0.3),
    "logical_not": torch.logical_not,
    "relu6": torch.nn.functional.relu6,
}
OF_TWO = {
    "copysign": lambda x, y: torch.copysign(x, torch.where(y.isnan(), 1.0, y)),
    "fmod": torch.fmod,
    "remainder": torch.remainder,
    "floor_divide": torch.floor_divide,
    "logical_xor": torch.logical_xor,
    "where": lambda x, y: torch.where(x <= y, x * 0.5, y),
}


# A rest jumps: the number beside the tensor has to be the one that PyTorch takes.
RESTS = {
    "remainder by a number": lambda x, y: torch.remainder(x, -0.1),
    "remainder by a whole number": lambda x, y: torch.remainder(x, 3),
    "remainder of a number": lambda x, y: torch.remainder(0.7, x),
    "remainder by an element": lambda x, y: torch.remainder(x, y),
    "remainder of an element": lambda x, y: torch.remainder(y, x),
    "fmod by a number": lambda x, y: torch.fmod(x, 3.7),
    "fmod by an element": lambda x, y: torch.fmod(x, y),
    "fmod of an element": lambda x, y: torch.fmod(y, x),
    "operator": lambda x, y: x % 0.3,
}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("name", RESTS)
def test_rests_beside_numbers(name, dtype):
    import npusim

    numbers = torch.randn(500, generator=torch.Generator().manual_seed(1)) * 10.0 ** torch.arange(5).repeat(100)
    x, y = numbers.to(dtype), torch.tensor(0.1)
    model = Function(lambda self, x, y: RESTS[name](x, y))
    value = npusim.Session(npusim.compile(model, (x, y), dtype="auto")).run(x, y)["output"].astype("float64")
    torch.testing.assert_close(torch.from_numpy(value), model(x, y).double(), rtol=1e-12, atol=0)


@pytest.mark.parametrize("alpha", [0, 1, -1, 2, 7, True])
def test_sums_of_booleans_with_a_factor(alpha):
    import npusim

    a, b = torch.tensor([False, False, True, True]), torch.tensor([False, True, False, True])
    model = Function(lambda self, a, b: (torch.add(a, b, alpha=alpha), torch.add(a, True, alpha=alpha), torch.add(a, a, alpha=alpha)))
    values = npusim.Session(npusim.compile(model, (a, b), dtype="float32")).run(a, b).values()
    for value, expected in zip(values, model(a, b), strict=True):
        assert torch.equal(torch.from_numpy(value), expected)


def found(function, *operands):
    import npusim

    compiled = npusim.compile(npusim.export(Function(lambda self, *x: function(*x)), operands), dtype="float32")
    return torch.from_numpy(npusim.Session(compiled).run(*operands)["output"])


def same(got, want):
    torch.testing.assert_close(got, want, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_of_one(name, dtype):
    x = torch.cat([torch.tensor(SPECIAL), torch.randn(67, generator=torch.Generator().manual_seed(1))]).to(dtype)
    want = EXACT[name](x)
    got = found(EXACT[name], x)
    same(got, want)
    if name in ("softshrink", "leaky_relu"):
        zeros = (x == 0) & (want == 0)
        assert torch.equal(got[zeros].signbit(), x[zeros].signbit())


@pytest.mark.parametrize("name", OF_TWO)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_of_two(name, dtype):
    x, y = torch.tensor(list(itertools.product(SPECIAL, repeat=2)), dtype=dtype).unbind(1)
    more = torch.randn(2, 300, generator=torch.Generator().manual_seed(2), dtype=dtype)
    more = more * 10 ** torch.linspace(-6, 6, 300, dtype=dtype) ** torch.tensor([[1.0], [0.0]], dtype=dtype)
    x, y = torch.cat([x, more[0]]), torch.cat([y, more[1]])
    want = OF_TWO[name](x, y)
    if name in ("fmod", "remainder"):  # exact, which PyTorch's vectors are not where a quotient is large
        want = OF_TWO[name](x.double(), y.double()).to(dtype)
    same(found(OF_TWO[name], x, y), want)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.uint8, torch.bool], ids=str)
def test_bits_and_relations(dtype):
    generator = torch.Generator().manual_seed(3)
    most = 2 if dtype == torch.bool else 100
    x, y = (torch.randint(0, most, (211,), generator=generator).to(dtype) for _ in range(2))
    for function in (torch.bitwise_and, torch.bitwise_or, torch.bitwise_xor, torch.eq, torch.lt, torch.ge):
        same(found(function, x, y), function(x, y))
