"""Orders of rows of any length, scatters that combine, folds, against eager PyTorch."""

import npusim
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from modules import Calls

DTYPES = [
    torch.float32, torch.float64, torch.float16, torch.bfloat16,
    torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool,
]  # fmt: skip


def to_torch(array):
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(np.asarray(array))


def run(function, *inputs):
    program = npusim.compile(Calls(function), inputs, dtype="auto")
    return [to_torch(array) for array in npusim.Session(program).run(*inputs).values()]


def compare(function, *inputs):
    with torch.no_grad():
        expected = function(*inputs)
    expected = [expected] if isinstance(expected, torch.Tensor) else list(expected)
    for a, b in zip(expected, run(function, *inputs), strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        torch.testing.assert_close(b, a, rtol=0, atol=0, equal_nan=True)


def drawn(dtype, shape, seed, few):
    g = torch.Generator().manual_seed(seed)
    if not dtype.is_floating_point:
        if dtype == torch.bool or few:
            return torch.randint(0, 3, shape, generator=g).to(dtype)
        info = torch.iinfo(dtype)
        x = torch.randint(info.min, info.max, shape, generator=g, dtype=torch.int64).to(dtype)
        if x.numel() > 1:
            x.view(-1)[0], x.view(-1)[-1] = info.max, info.min
        return x
    x = torch.randn(shape, generator=g, dtype=torch.float64) * (2 if few else 1000)
    x = (x.round() if few else x).to(dtype)
    specials = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, -0.0], dtype=dtype)
    where = torch.rand(shape, generator=g) < 0.05
    return torch.where(where, specials[torch.randint(0, 5, shape, generator=g)], x)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_orders_of_every_dtype(dtype):
    shapes = [((4097,), 0), ((3, 700), 1), ((60, 2, 3), 0), ((1,), 0), ((0, 3), 0)]
    for n, (shape, dim) in enumerate(shapes):
        for few in (False, True):
            x, down = drawn(dtype, shape, n, few), bool(n % 2) != few
            size = shape[dim]

            def orders(x, dim=dim, down=down, size=size):
                first = torch.sort(x, dim=dim, descending=down, stable=True)
                return (*first, *(v.narrow(dim, 0, min(size, 3)) for v in first), torch.argsort(x, dim=dim, descending=not down, stable=True))

            compare(orders, x)


def values_of_topk(x, k, dim, largest):
    return torch.topk(x, k, dim, largest)[0]


@pytest.mark.parametrize("length", [1, 2, 63, 4096, 4097, 200000])
def test_the_first_of_long_rows(length):
    x = torch.randperm(length, generator=torch.Generator().manual_seed(length)).float()
    for k in sorted({0, 1, min(5, length), min(50, length), length}):
        compare(lambda x, k=k: torch.topk(x, k), x)
        compare(lambda x, k=k: torch.topk(x, k, largest=False), x)
    compare(lambda x: (*torch.kthvalue(x, (length + 1) // 2), torch.median(x)), x)


def test_middles_of_long_rows_with_nan():
    x = drawn(torch.float32, (5001, 3), 1, False)
    compare(lambda x: (torch.median(x), torch.nanmedian(x), torch.median(x, 0)[0], torch.nanmedian(x, 0)[0]), x)


def test_unique_of_a_long_vector():
    x = torch.arange(9000) % 4500

    def counts(x):
        values, inverse = torch.unique(x, return_inverse=True)
        torch._check(values.shape[0] == 4500)
        return values, inverse

    compare(counts, x)


@pytest.mark.parametrize("how", ["sum", "prod", "mean", "amin", "amax"])
def test_combining_scatters(how):
    for n, dtype in enumerate([torch.float32, torch.float64, torch.int64, torch.int32, torch.uint8, torch.int8]):
        if how == "mean" and dtype in (torch.uint8, torch.int8):
            continue
        g = torch.Generator().manual_seed(n)
        x = torch.randint(-3 if dtype != torch.uint8 else 0, 4, (40, 3), generator=g).to(dtype)
        self, index = x[:7].clone(), torch.randint(0, 7, (40, 3), generator=g)
        for include_self in (True, False):
            compare(lambda s, i, x, own=include_self: s.scatter_reduce(0, i, x, how, include_self=own), self, index, x)
            if how != "sum":
                compare(
                    lambda s, i, x, own=include_self: s.index_reduce(0, i, x, how, include_self=own), self, index[:, 0].clone(), x
                )


def test_an_index_outside_traps():
    def largest(s, i, x):
        return s.scatter_reduce(0, i, x, "amax")

    good, bad = torch.tensor([0, 2, 1]), torch.tensor([-1, 7, 3])
    session = npusim.Session(npusim.compile(Calls(largest), (torch.zeros(3), good, torch.ones(3))))
    with pytest.raises(npusim.Error, match="index -1 is out of range for a dimension of 3"):
        session.run(torch.zeros(3), bad, torch.ones(3))


def test_folds():
    for kernel, dilation, padding, stride, size in [
        ((3, 3), 1, 1, 1, (9, 8)), ((2, 5), 2, 1, (4, 3), (13, 17)), ((1, 64), 1, 0, (1, 16), (1, 256)),
        ((2, 2), 1, 0, 3, (8, 9)), ((4, 4), (3, 2), 2, (6, 2), (20, 11)),
    ]:  # fmt: skip
        columns = torch.nn.functional.unfold(torch.ones(2, 3, *size), kernel, dilation, padding, stride)
        x = torch.randint(-9, 10, columns.shape, generator=torch.Generator().manual_seed(0)).float()
        compare(lambda x: torch.nn.functional.fold(x, size, kernel, dilation, padding, stride), x)  # noqa: B023
