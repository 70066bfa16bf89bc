"""Zeros have signs: those of PyTorch, on every way through the compiler."""

import math

import npusim
import numpy as np
import pytest

torch = pytest.importorskip("torch")
from test_export import Function

ODD = "sin tan asin atan sinh tanh asinh atanh expm1 log1p sqrt neg trunc floor ceil round erf".split()
CALLS = {
    **{name: getattr(torch, name) for name in ODD},
    "abs": torch.abs,
    "reciprocal": lambda x: (x.reciprocal() > 0).float(),
    "one of two zeros": lambda x: torch.where(x.signbit(), -0.0, 0.0),
    "copysign of zeros": lambda x: torch.copysign(torch.zeros_like(x), x),
    "negated zeros": lambda x: -torch.zeros_like(x) + x * -0.0,
    "a product with -0": lambda x: x * -0.0,
    "plus 0": lambda x: x + 0.0,
    "minus 0": lambda x: x - 0.0,
    "0 minus": lambda x: 0.0 - x,
    "plus -0": lambda x: x + -0.0,
    "divided": lambda x: x / -2.0,
    "atan2": lambda x: torch.atan2(x, -torch.ones_like(x)),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("fused", [False, True])
def test_signs(dtype, fused):
    """Alone, and behind a product: of few numbers and of many, in range of the fast polynomials and not."""
    for values in ([-0.0, 0.0, 0.3, -0.3], [-0.0, 0.0, -0.5, 1e-30, -1e-30, 0.4] * 9, [-0.0, 0.0, math.inf, math.nan, 1e25]):
        x = torch.tensor(values, dtype=dtype)
        model = Function(lambda m, x: [f(x * 1.0 if fused else x) for f in CALLS.values()])
        found = npusim.Session(npusim.compile(model, (x,), dtype="float32")).run(x)
        for i, (name, call) in enumerate(CALLS.items()):
            expected = call(x).numpy()
            zero = (expected == 0) & ~np.isnan(expected)
            assert (np.signbit(found[f"output_{i}"][zero]) == np.signbit(expected[zero])).all(), name
