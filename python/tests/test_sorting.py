"""Orders of rows of any length, running extremes, searches, distances, scatters that combine, bags, folds, against
eager PyTorch."""

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


@pytest.mark.parametrize("n", [16383, 16384, 30011, 65535, 65536])
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.float64, torch.float32], ids=str)
def test_orders_of_long_rows(dtype, n):
    """Keys whose highest bits are all different, or those of some dozens, near each other behind them, in any order."""
    g = torch.Generator().manual_seed(n)
    wide = torch.randint(-(2**31), 2**31, (n,), generator=g)
    group = torch.randint(0, 1200, (n,), generator=g) - 600
    near = torch.randint(0, 200, (n,), generator=g)
    shift = 52 if dtype == torch.int64 else 20
    for x in (wide << 32 if dtype == torch.int64 else wide, (group << shift) + near, (group << shift) - torch.arange(n) % 997, near):
        compare(lambda x: torch.sort(x, stable=True, descending=bool(n % 2)), x.to(dtype))


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


def picks(x, dim):
    n = x.shape[dim]
    found = (*torch.kthvalue(x, 1 + n // 3, dim), *torch.median(x, dim))
    return (*found, *torch.nanmedian(x, dim)) if x.is_floating_point() else found


def drawn_rows(dtype, shapes):
    """Of each shape a tensor of few values and one of many; every other one lies in memory the other way around."""
    for n, shape in enumerate(shapes):
        for few in (False, True):
            x = drawn(dtype, shape, n, few)
            yield x.transpose(0, -1).contiguous().transpose(0, -1) if n % 2 and shape else x


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d != torch.bool], ids=str)
def test_one_of_rows_and_where_it_is(dtype):
    """Of equal elements any place will do."""
    dims = [0, 1, 0, -2, 0]
    inputs = list(drawn_rows(dtype, [(4097,), (3, 700), (60, 2, 3), (7, 48, 5), (1,)]))
    found = run(lambda *xs: [one for n, x in enumerate(xs) for one in picks(x, dims[n // 2])], *inputs)
    for n, x in enumerate(inputs):
        dim, expected = dims[n // 2], picks(x, dims[n // 2])
        own, found = found[: len(expected)], found[len(expected) :]
        for values, places, wanted in zip(own[::2], own[1::2], expected[::2], strict=True):
            torch.testing.assert_close(values, wanted, rtol=0, atol=0, equal_nan=True)
            there = x.gather(dim, places.unsqueeze(dim)).squeeze(dim)
            torch.testing.assert_close(there, wanted, rtol=0, atol=0, equal_nan=True)


def test_middles_that_are_infinite():
    inf, nan = float("inf"), float("nan")
    rows = [[-inf, nan, 5], [inf, nan, nan], [nan, nan, nan], [nan, inf, -inf], [nan, -inf, -inf], [1, nan, inf]]
    x = torch.tensor(rows)
    values, places = run(lambda x: torch.nanmedian(x, 1), x)
    torch.testing.assert_close(values, torch.nanmedian(x, 1)[0], rtol=0, atol=0, equal_nan=True)
    torch.testing.assert_close(x.gather(1, places[:, None])[:, 0], values, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_running_extremes(dtype):
    """The last of equal ones, and NaN from the first one on."""
    dims = [0, -1, 0, 1, 0, 0]
    inputs = list(drawn_rows(dtype, [(5000,), (3, 700), (70, 2, 33), (4, 50, 3), (), (0, 3)]))

    def extremes(*xs):
        return [one for n, x in enumerate(xs) for f in (torch.cummax, torch.cummin) for one in f(x, dims[n // 2])]

    compare(extremes, *inputs)


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d != torch.bool], ids=str)
def test_searches(dtype):
    inputs = []
    for n, count in enumerate([1, 2, 7, 64, 1000, 4097]):
        few = n % 2 == 0
        row, rows = drawn(dtype, (count,), n, few).sort()[0], drawn(dtype, (9, count), n, few)
        x = torch.cat((drawn(dtype, (9, 40), n + 50, few), row[:1].expand(9, 1), row[-1:].expand(9, 1)), 1)
        inputs += [x, row, rows if n > 3 else rows.sort(1)[0]]  # in no order too

    def found(*inputs):
        for x, row, rows in zip(inputs[::3], inputs[1::3], inputs[2::3], strict=True):
            for right in (False, True):
                yield torch.bucketize(x, row, right=right)
                yield torch.searchsorted(rows, x, right=right, out_int32=True)
                yield torch.searchsorted(row, x * 1, right=right) * 2 + 1

    compare(lambda *inputs: list(found(*inputs)), *inputs)
    order = torch.randperm(50, generator=torch.Generator().manual_seed(0))
    compare(lambda x, row, order: torch.searchsorted(row, x, sorter=order), torch.arange(60), order.argsort(), order)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 3.5, float("inf")])
def test_distances(p, dtype):
    """As near to those of doubles as rounding of each sum allows; PyTorch's own of many rows are further off."""
    g = torch.Generator().manual_seed(int(min(p, 9) * 2))
    inputs = []
    for a, b, width in [
        ((3,), (5,), 4), ((8,), (9,), 4), ((26,), (31,), 3), ((2, 70), (33,), 65), ((130,), (1, 47), 300), ((9,), (8,), 1),
    ]:  # fmt: skip
        x, y = torch.randn(*a, width, generator=g), torch.randn(*b, width, generator=g)
        y.view(-1, width)[0] = x.view(-1, width)[0]
        if width in (65, 300):  # PyTorch's largest of absolute differences loses NaN
            x.view(-1, width)[-1, -1] = float("inf" if width == 65 or p == float("inf") else "nan")
        inputs += [x.to(dtype), y.to(dtype)]
    found = run(lambda *xs: [torch.cdist(x, y, p) for x, y in zip(xs[::2], xs[1::2], strict=True)], *inputs)
    for one, x, y in zip(found, inputs[::2], inputs[1::2], strict=True):
        wanted = torch.cdist(x.double(), y.double(), p, compute_mode="donot_use_mm_for_euclid_dist")
        assert one.dtype == dtype and one.reshape(-1)[0] == 0
        torch.testing.assert_close(one.double(), wanted, rtol=4e-6, atol=0, equal_nan=True)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str)
def test_bags(mode, dtype):
    g = torch.Generator().manual_seed(len(mode))
    width, count = (70, 1000) if dtype == torch.float32 else (16, 300)
    weight = torch.randint(-8, 9, (50, width), generator=g).to(dtype)
    indices = torch.randint(0, 50, (count,), generator=g)
    starts = torch.cat((torch.tensor([0, 0]), torch.randint(0, count + 1, (20,), generator=g))).sort()[0]
    if dtype == torch.float64:
        starts[-1] = count  # PyTorch's own way for doubles adds what is behind the last offset
    scales = torch.randint(-2, 3, (count,), generator=g).to(dtype)

    def bags(w, i, o, s):
        for last, pad, scaled in [
            (False, None, False), (False, 3, False), (True, None, False), (True, 3, False),
            (False, None, True), (True, -1, True),
        ]:  # fmt: skip
            if mode == "sum" or not scaled:
                more = {"include_last_offset": last, "padding_idx": pad, "per_sample_weights": s if scaled else None}
                yield torch.nn.functional.embedding_bag(i, w, o, mode=mode, **more)

    for integer in (torch.int64, torch.int32):
        compare(lambda *xs: list(bags(*xs)), weight, indices.to(integer), starts.to(integer), scales)


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
        rows, columns = (40, 3) if n % 2 else (300, 70)
        x = torch.randint(-3 if dtype != torch.uint8 else 0, 4, (rows, columns), generator=g).to(dtype)
        self, index = x[:7].clone(), torch.randint(0, 7, (rows, columns), generator=g)
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
