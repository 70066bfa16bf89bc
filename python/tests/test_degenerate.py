"""Operands without elements, ends and orders beyond a dtype, NaN that is left out: what PyTorch gives there, many calls to a
program."""

from __future__ import annotations

import itertools
import math
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import npusim

from modules import Calls

NAN, INF = math.nan, math.inf
INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
FLOATS = [torch.float32, torch.float64]


def check(functions, *operands):
    """That each function gives what it gives in PyTorch, where that takes it."""
    taken = []
    for function in functions:
        try:
            with warnings.catch_warnings(action="ignore"):
                taken.append((function, function(*operands)))
        except (RuntimeError, IndexError):
            continue
    assert taken
    with warnings.catch_warnings(action="ignore"):
        program = npusim.compile(Calls(lambda *x: [function(*x) for function, _ in taken]), operands, dtype="float32")
    found = npusim.Session(program).run(*operands)
    for i, ((_, wanted), one) in enumerate(zip(taken, found.values(), strict=True)):
        assert one.shape == tuple(wanted.shape) and str(one.dtype) in str(wanted.dtype), i
        np.testing.assert_allclose(one, wanted.numpy(), 1e-6, 1e-30, err_msg=str(i))


@pytest.mark.parametrize("dtype", FLOATS)
def test_nansum_leaves_nan_out_before_it_converts(dtype):
    x = torch.tensor([[NAN, 1, 2], [NAN, NAN, 5], [-3, 0.5, 7]], dtype=dtype)
    dtypes = [*INTEGERS, *FLOATS, None]
    functions = [lambda a, t=t, d=d: torch.nansum(a, d, dtype=t) for t in dtypes for d in (None, 0, 1)]
    check(functions, x)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (4,), (1,)])
def test_variances_of_few(shape, dtype):
    x = torch.arange(math.prod(shape), dtype=dtype).reshape(shape)
    kinds = itertools.product((torch.var, torch.std), (-1, -1e-50, 0, 1, 2, 0.5, NAN, 5), (None, 0, -1))
    check([lambda a, f=f, c=c, d=d: f(a, d, correction=c) for f, c, d in kinds], x)


@pytest.mark.parametrize("dtype", FLOATS)
def test_products_of_nothing(dtype):
    operands = [torch.ones(s, dtype=dtype) for s in ((2, 3), (2, 0), (0, 3), (4, 2, 0), (4, 0, 3), (2,), (0,))]
    functions = []
    for alpha, beta in itertools.product((INF, NAN, 1e300, 2), (0, 1, 2)):
        by = {"alpha": alpha, "beta": beta}
        functions += [
            lambda c, a, b, a3, b3, v, n, by=by: torch.addmm(c, a, b, **by),
            lambda c, a, b, a3, b3, v, n, by=by: torch.baddbmm(c, a3, b3, **by),
            lambda c, a, b, a3, b3, v, n, by=by: torch.addbmm(c, a3, b3, **by),
            lambda c, a, b, a3, b3, v, n, by=by: torch.addmv(v, a, n, **by),
        ]
    check(functions, *operands)


def test_orders_beyond_the_dtype():
    a, b = torch.tensor([[1.0, 5], [2, 2]]), torch.tensor([[3.0, -7]])
    orders = (1e39, 1e300, INF, 3.0)
    check([lambda x, y, p=p: torch.cdist(x, y, p=p) for p in orders], a, b)
    check([lambda x, y, p=p: torch.linalg.vector_norm(x, p, -1) for p in (INF, 3.0, -INF)], a, b)


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS])
def test_linspace_takes_ends_as_its_dtype_has_them(dtype):
    ends = [(-1, 0), (0, -1), (2.5, -100), (2.5, 100.7), (0, 200), (-3, 3), (1, 1), (127, -128)]
    functions = [
        lambda x, a=a, b=b, n=n: torch.linspace(a, b, n, dtype=dtype) + x.to(dtype)
        for (a, b), n in itertools.product(ends, (1, 2, 3, 5, 8, 17))
    ]
    check(functions, torch.zeros(1))


@pytest.mark.parametrize("index", [(0,), (2, 0, 3), (0, 1, 1, 1), (2, 0, 6, 6)])
@pytest.mark.parametrize("dim", [0, 2, -1])
def test_gather_of_no_index(index, dim):
    check([lambda x, i: torch.gather(x, dim, i)], torch.randn(2, 2, 6, 6), torch.zeros(index, dtype=torch.int64))


def test_rows_of_nothing_are_left_out():
    """ATen's old rule: of shape [0], whatever the others' rank."""
    operands = torch.zeros(0), torch.ones(2, 3), torch.ones(1, 2, 1), torch.ones(3)
    functions = [
        lambda z, a, b, v: torch.hstack([z, b]),
        lambda z, a, b, v: torch.hstack([a, z]),
        lambda z, a, b, v: torch.hstack([z, a, a]),
        lambda z, a, b, v: torch.hstack([z, v]),
        lambda z, a, b, v: torch.hstack([z, z]),
        lambda z, a, b, v: torch.hstack([a, a]),
        lambda z, a, b, v: torch.vstack([v, a]),
        lambda z, a, b, v: torch.cat([z, z], 2),
        lambda z, a, b, v: torch.cat([z, b, z], 2),
    ]
    check(functions, *operands)
