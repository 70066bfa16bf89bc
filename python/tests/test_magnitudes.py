"""Functions of elements wherever a number lies: below normal numbers, far out, at infinity and NaN."""

import math

import pytest
from test_export import Function

torch = pytest.importorskip("torch")
F = torch.nn.functional

OF_ONE = {
    **{name: getattr(torch, name) for name in ("sigmoid", "lgamma", "digamma", "exp", "log", "log2")},
    **{name: getattr(torch, name) for name in ("erf", "erfc", "tan")},
    **{name: getattr(F, name) for name in ("elu", "selu", "celu", "silu", "softplus", "logsigmoid", "softsign")},
    "erfcx": torch.special.erfcx,
    "elu with factors": lambda x: F.elu(x, 0.7),
    "celu with a factor": lambda x: F.celu(x, 1.3),
    "root": lambda x: x ** (1 / 3),
    "power": lambda x: 3.0**x,
    "remainder": lambda x: torch.remainder(x, 0.75),
    "fmod": lambda x: torch.fmod(x, -1.25),
}
ENDS = ("sigmoid", "silu")  # which are 0 where the exponential they divide by is infinite
OF_TWO = {
    "pow": torch.pow,
    "atan2": torch.atan2,
    "hypot": lambda x, y: torch.hypot(x * 0.25, y * 0.25),
    "xlogy": torch.xlogy,
}


def numbers(dtype, seed):
    """Of all magnitudes alike, those below normal ones more often; and special ones."""
    generator = torch.Generator().manual_seed(seed)
    about = torch.finfo(dtype)
    least, most = math.log2(about.smallest_normal), math.log2(about.max)
    part = torch.rand(4, 700, generator=generator, dtype=torch.float64)
    sizes = [2 ** (least + (most - least) * part[0]), part[1] * about.smallest_normal, 2 ** (least * 0.5 * part[2])]
    special = torch.tensor([0, 1, 2, math.inf, math.nan], dtype=torch.float64)
    sizes = torch.cat([*sizes, 2 ** (12 * part[3] - 2), special])
    x = torch.cat([sizes, -sizes])
    return x[torch.randperm(len(x), generator=generator)].to(dtype)


def agree(function, operands, dtype, least=4):
    """As eager PyTorch in float64, to units of the last place; of numbers below normal ones to `least` of theirs."""
    import npusim

    compiled = npusim.compile(npusim.export(Function(lambda self, *x: function(*x)), operands), dtype="float32")
    got = torch.from_numpy(npusim.Session(compiled).run(*operands)["output"])
    want = function(*(x.double() for x in operands)).to(got.dtype)
    about = torch.finfo(dtype)
    relative = 1e-12 if dtype == torch.float64 else 16 * about.eps
    torch.testing.assert_close(got, want, rtol=relative, atol=least * about.tiny * about.eps, equal_nan=True)


@pytest.mark.parametrize("name", OF_ONE)
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64], ids=str)
def test_of_one(name, dtype):
    least = 4 / torch.finfo(dtype).eps if name in ENDS else 4
    agree(OF_ONE[name], (numbers(dtype, 1),), dtype, least)


@pytest.mark.parametrize("name", OF_TWO)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_of_two(name, dtype):
    agree(OF_TWO[name], (numbers(dtype, 2), numbers(dtype, 3)), dtype)
