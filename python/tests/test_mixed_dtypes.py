"""Operators of two tensors of every pair of dtypes: each computes in what PyTorch converts both to, with extremes."""

import itertools
import warnings

import npusim
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from modules import Calls

INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
DTYPES = [torch.bool, *INTEGERS, torch.float32, torch.float64]
CALLS = {
    **{name: getattr(torch, name) for name in ("add", "sub", "mul", "div", "floor_divide", "fmod", "remainder", "pow")},
    **{name: getattr(torch, name) for name in ("float_power", "hypot", "atan2", "copysign", "logaddexp", "logaddexp2")},
    **{name: getattr(torch, name) for name in ("xlogy", "heaviside", "maximum", "fmax", "ldexp", "eq", "lt", "rsub")},
    **{name: getattr(torch.special, name) for name in ("xlog1py",)},
    "floored": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "cut": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "twice": lambda a, b: torch.add(a, b, alpha=2),
    "chosen": lambda a, b: torch.where(a > b, a, b),
    "between": lambda a, b: torch.lerp(a, b, 0.3),
    **{
        name: lambda a, b, call=getattr(torch.nn.functional, name): call(a, b, reduction="none")
        for name in ("smooth_l1_loss", "huber_loss", "soft_margin_loss", "l1_loss", "mse_loss", "poisson_nll_loss")
    },
}


def operands(dtype):
    """Small numbers and the ends of integers, on either side."""
    if dtype == torch.bool:
        return torch.tensor([True, False, True, True, False, True]), torch.tensor([True, True, False, True, True, False])
    if dtype.is_floating_point:
        return (torch.tensor(x, dtype=dtype) for x in ([1.3, 2.7, -0.6, 3.0, 0.0, 7.5], [3.0, 7.0, 0.4, 2.0, 1.0, -1.5]))
    ends = torch.iinfo(dtype)
    return torch.tensor([ends.min, ends.max, 0, 3, 7, 5], dtype=dtype), torch.tensor([3, 7, 2, ends.min, 1, ends.max], dtype=dtype)


def differs(found, wanted):
    if found.dtype != wanted.dtype:
        return True
    if not wanted.is_floating_point():
        return not torch.equal(found, wanted)
    near = 1e-13 if wanted.dtype == torch.float64 else 1e-5
    return not torch.allclose(found.double(), wanted.double(), rtol=near, atol=0, equal_nan=True)


@pytest.mark.parametrize("name", CALLS)
def test_pairs_of_dtypes(name):
    pairs, wanted = [], []
    for one, other in itertools.product(DTYPES, DTYPES):
        a, b = list(operands(one))[0], list(operands(other))[1]
        try:  # what PyTorch has of it
            result = CALLS[name](a, b)
        except RuntimeError:
            continue
        pairs.append((a, b))
        wanted.append(result)
    flat = [x for pair in pairs for x in pair]
    model = Calls(lambda *given: [CALLS[name](a, b) for a, b in zip(given[::2], given[1::2])])
    with warnings.catch_warnings(action="ignore"):
        program = npusim.compile(model, tuple(flat), dtype="float32")
    found = npusim.Session(program, threads=1).run(*flat).values()
    wrong = [(a, b, w, f) for (a, b), w, f in zip(pairs, wanted, map(torch.from_numpy, found), strict=True) if differs(f, w)]
    assert not wrong and pairs


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_ldexp_where_its_power_is_no_number(dtype):
    ends = torch.finfo(dtype)
    numbers = [0.0, -0.0, 1.0, -1.5, 1 / 3, ends.max, ends.max / 3, ends.tiny, ends.tiny * 1.3, ends.tiny * ends.eps]
    x = torch.tensor([*numbers, float("inf"), float("-inf"), float("nan")], dtype=dtype)[:, None]
    powers = torch.cat([torch.arange(-2300, 2301), torch.tensor([2**31, 2**32 + 1, -(2**31) - 1])])[None]
    x, powers = x.expand(-1, powers.shape[1]).contiguous(), powers.expand(x.shape[0], -1).contiguous()
    wanted = torch.from_numpy(np.ldexp(x.numpy(), powers.to(torch.int32).numpy()))  # the C library's
    for call in (torch.ldexp, lambda x, n: torch.ldexp(x, n.to(torch.int32)), lambda x, n: (x + 0).ldexp_(n)):
        model = Calls(call)
        found = npusim.Session(npusim.compile(model, (x, powers), dtype="float32")).run(x, powers)
        assert torch.equal(torch.from_numpy(next(iter(found.values()))).nan_to_num(7), wanted.nan_to_num(7))


def test_what_frexp_takes_apart():
    x = torch.tensor([3e38, 1.0, 1e-40, -2.5, 0.0])
    parts = tuple(torch.frexp(x))
    found = npusim.Session(npusim.compile(Calls(torch.ldexp), parts, dtype="float32")).run(*parts)
    assert torch.equal(torch.from_numpy(next(iter(found.values()))), x)


def test_logit_of_the_least_integer():
    x = torch.tensor([-(2**63), 0, 1])
    found = npusim.Session(npusim.compile(Calls(torch.logit), (x,), dtype="float32")).run(x)
    assert torch.equal(torch.from_numpy(next(iter(found.values()))).nan_to_num(7), torch.logit(x).nan_to_num(7))
