"""Special functions that are composed of others."""

import math

import pytest
from test_export import Function, check

torch = pytest.importorskip("torch")

POINTS = [0.0, -0.0, 1.0, 2.0, -1.0, -7.0, 1e-10, -1e-10, 19.999, 20.0, 1e30, math.inf, -math.inf, math.nan]


def values(dtype):
    return torch.cat(
        [torch.linspace(-9.3, 40, 200, dtype=torch.float64), torch.tensor(POINTS, dtype=torch.float64)]
    ).to(dtype)


def agree(function, x, tolerance):
    """As PyTorch answers in float64, what is not finite included."""
    import npusim

    found = npusim.Session(npusim.compile(npusim.export(Function(lambda self, v: function(v)), (x,)), dtype="float32"))
    found = torch.from_numpy(found.run(x)["output"])
    expected = function(x.double() if x.is_floating_point() else x).to(found.dtype)
    assert found.dtype == function(x).dtype
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance, equal_nan=True)


@pytest.mark.parametrize("name", ["lgamma", "digamma"])
def test_gamma(name):
    function = getattr(torch, name)
    agree(function, values(torch.float32), 1e-6)
    agree(function, values(torch.float64), 1e-12)
    agree(function, torch.arange(-3, 30), 1e-6)


def test_lgamma_beside_its_zeros():
    small = torch.logspace(-15, -1, 200, dtype=torch.float64)
    between = torch.linspace(0.5, 2.6, 400, dtype=torch.float64)
    x = torch.cat([1 - small, 1 + small, 2 - small, 2 + small, between])
    distance = torch.lgamma(x).abs()
    agree(lambda v: torch.lgamma(v) / distance.clamp(min=1e-300), x, 1e-14)


def test_lgamma_below_normal_numbers():
    agree(torch.lgamma, torch.tensor([5e-324, 1e-310, -1e-310, 2.3e-308, -3e-308], dtype=torch.float64), 1e-14)
    agree(torch.lgamma, torch.tensor([1e-45, -1e-40, 1.2e-38]), 1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32], ids=str)
def test_zeros_of_lgamma(dtype):
    agree(torch.lgamma, torch.tensor([1, 2] * 11, dtype=dtype), 0)


def test_the_inverse_error_function():
    tails = 1 - torch.logspace(-15, -1, 50, dtype=torch.float64)
    y = torch.cat(
        [torch.linspace(-1, 1, 301, dtype=torch.float64), tails, -tails, torch.tensor([1e-20, -1e-9, 1.5, math.nan])]
    )
    agree(torch.erfinv, y, 1e-15)
    agree(torch.special.erfinv, y.float(), 1e-6)
    agree(torch.erfinv, torch.tensor([-2, -1, 0, 1, 2]), 1e-6)


def test_the_inverse_error_function_of_floats():
    """Within three units of the last place of it in doubles, up to the floats next to ±1, with the zeros' signs."""
    import npusim

    ends = 1 - torch.logspace(-7.3, 0, 40000, dtype=torch.float64)
    small = torch.logspace(-45, 0, 2001, dtype=torch.float64)
    y = torch.cat([ends, small, torch.linspace(0, 1, 100003, dtype=torch.float64), torch.tensor([1.5, math.inf])]).float()
    y = torch.cat([y, -y])
    session = npusim.Session(npusim.compile(npusim.export(Function(lambda self, v: v.erfinv()), (y,)), dtype="float32"))
    found, exact = torch.from_numpy(session.run(y)["output"]), y.double().erfinv()
    same = (found == exact.float()) | (found.isnan() & exact.isnan())
    size = exact.abs().float()
    unit = torch.nextafter(size, torch.tensor(math.inf)) - size
    assert (same | ((found.double() - exact).abs() <= 3 * unit.double())).all()
    assert (found.signbit() == y.signbit())[~found.isnan()].all()



def test_the_scaled_complement():
    points = torch.tensor([9.999, 10.0, 10.001, 12.0, -27.0, 1e200], dtype=torch.float64)
    x = torch.cat([values(torch.float64), points])
    agree(torch.special.erfcx, x, 1e-13)
    agree(torch.special.erfcx, torch.arange(-3, 30), 1e-6)
    agree(torch.special.log_ndtr, x, 1e-12)  # which PyTorch makes of it


def test_a_likelihood_of_counts():
    """A negative binomial's, as models of single cells have it."""

    def likelihood(self, x, mean, spread):
        rate = torch.log(spread + mean + 1e-8)
        ways = torch.lgamma(x + spread) - torch.lgamma(spread) - torch.special.gammaln(x + 1)
        return spread * (spread.log() - rate) + x * (mean.log() - rate) + ways

    check(Function(likelihood), (torch.randint(0, 50, (4, 6)).float(), torch.rand(4, 6) * 9, torch.rand(6) + 0.2))
