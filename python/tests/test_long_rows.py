"""Few long rows, which the CPU reduces in pieces: near float64, and of the same bits whatever the number of threads."""

import pytest

torch = pytest.importorskip("torch")

from test_export import Function  # noqa: E402

SHAPES = [(262144,), (300001,), (3, 131073), (2, 300, 777)]
OF_ONE = {
    "sum": torch.sum,
    "mean": torch.mean,
    "nansum": lambda x: torch.where(x > 3, float("nan"), x).nansum(),
    "norm": torch.linalg.vector_norm,
    "amax": torch.amax,
    "amin": torch.amin,
    "aminmax": lambda x: torch.stack(torch.aminmax(x)),
    "argmax": torch.argmax,
    "sum of rows": lambda x: x.sum(-1),
    "largest of rows": lambda x: x.amax(-1),
    "product": lambda x: torch.where(x > 4, x, 1.0).prod(),
    "count": lambda x: (x > 0).sum(),
    "any": lambda x: (x > 4.4).any(-1),
    "variance": lambda x: x.var(),
    "sum of a function": lambda x: (x * 0.5 + 1).exp().sum(),
}


def found(functions, *operands):
    """All of one program, by name; of the same bits with one thread and with several."""
    import npusim

    module = Function(lambda self, *x: tuple(f(*x) for f in functions.values()))
    compiled = npusim.compile(npusim.export(module, operands), dtype="float32")
    results = []
    for threads in (1, 3):
        values = npusim.Session(compiled, threads=threads).run(*operands).values()
        results.append([torch.from_numpy(value.copy()) for value in values])
    for one, other in zip(*results):
        torch.testing.assert_close(other, one, rtol=0, atol=0, equal_nan=True)
    return dict(zip(functions, results[0]))


def near(got, want, rtol, atol):
    if not want.dtype.is_floating_point:
        assert torch.equal(got, want)
    else:
        torch.testing.assert_close(got.double(), want.double(), rtol=rtol, atol=atol, equal_nan=True)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_of_one(shape, dtype):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(len(shape))).to(dtype)
    for name, got in found(OF_ONE, x).items():
        near(got, OF_ONE[name](x.double()), 3e-6, 2e-4 if "sum" in name else 1e-6)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int32, torch.int64], ids=str)
def test_dtypes(dtype):
    x = (torch.randn(300001, generator=torch.Generator().manual_seed(1)) * 3).to(dtype)
    functions = {"sum": torch.sum, "amax": torch.amax}
    for name, got in found(functions, x).items():
        want = functions[name](x.double() if dtype.is_floating_point else x)
        near(got, want, 2**-7, 1e-2)


def test_of_what_is_no_number():
    functions = {"sum": torch.sum, "amax": torch.amax, "amin": torch.amin, "prod": torch.prod}
    for value in (float("nan"), float("inf"), -float("inf")):
        x = torch.ones(400000)
        x[399999] = value
        for name, got in found(functions, x).items():
            near(got, functions[name](x.double()), 0, 0)


@pytest.mark.parametrize("size", [1, 63, 32767, 32768, 65536, 300001])
def test_of_two(size):
    generator = torch.Generator().manual_seed(size)
    x, y = torch.randn(size, generator=generator), torch.randn(size, generator=generator)
    # What is done with the sum keeps its size: the bound is the sum's.
    functions = {"dot": torch.dot, "vdot": torch.vdot, "more": lambda x, y: 1 - torch.dot(x, y)}
    for operands in ((x, y), (x.double(), y.double()), (x.half(), y.half())):
        wide = [one.double() for one in operands]
        for name, got in found(functions, *operands).items():
            half = operands[0].dtype == torch.float16
            near(got, functions[name](*wide), 2**-9 if half else 3e-6, 1.0 if half else 3e-7 * size**0.5)
