"""A narrower dtype that the model asks for is a rounding, whatever its value is fused with and stored in."""

import itertools
import warnings

import npusim
import pytest

torch = pytest.importorskip("torch")

from modules import Calls

HALVES = [torch.float16, torch.bfloat16]
VALUES = torch.tensor([1e6, -1e6, 65504.0, 65519.9, 65520.0, 1e-8, 6e-8, 0.1, -0.3, 1 / 3, 1.0009765, 2049.0, 3.3e38, 0.0])

# What is exact behind the cast, so that eager's answer is the only one.
EXACT = {
    "isinf": lambda x, h: h.isinf(),
    "error": lambda x, h: h.float() - x,
    "equal": lambda x, h: h.float() == x,
    "twice": lambda x, h: h.float().to(torch.bfloat16).to(torch.float16).float(),
    "relu": lambda x, h: h.relu().float(),
    "sign": lambda x, h: (h - h.to(torch.float32).to(h.dtype)).float(),
    "floor": lambda x, h: h.floor().float(),
    "zero": lambda x, h: (h == 0).float(),
    "largest": lambda x, h: h.float().amax(),
    "itself": lambda x, h: h,
    "two outputs": lambda x, h: (h, h.float()),
    "gathered": lambda x, h: h.float()[torch.arange(3)],
    "joined": lambda x, h: torch.cat((h.float(), x)),
    "other": lambda x, h: h.type_as(x) - x,
}
# Ways to ask for it.
ASKED = {
    "to": lambda x, dtype: x.to(dtype),
    "copy": lambda x, dtype: x.to(dtype, copy=True),
    "method": lambda x, dtype: x.half() if dtype == torch.float16 else x.bfloat16(),
    "type": lambda x, dtype: x.type(dtype),
    "computed": lambda x, dtype: (x + 0).to(dtype),
    "of a view": lambda x, dtype: x.reshape(2, -1).t().to(dtype).t().reshape(-1),
    "of another": lambda x, dtype: x.to(torch.zeros(1, dtype=dtype)),
}


def answers(model, inputs, **options):
    with warnings.catch_warnings(action="ignore"):
        found = npusim.Session(npusim.compile(model, inputs, **options)).run(*inputs)
    return [torch.from_numpy(one.astype("float64")) for one in found.values()]


def expected(model, inputs):
    results = model(*inputs)
    return [one.double() for one in (results if isinstance(results, tuple) else (results,))]


@pytest.mark.parametrize("name, asked", [*itertools.product(EXACT, ["to"]), *itertools.product(["isinf", "error"], ASKED)])
def test_casts_round(name, asked):
    for dtype in HALVES:
        model = Calls(lambda x, d=dtype: EXACT[name](x, ASKED[asked](x, d)))
        for options in ({"dtype": "float32"}, {"dtype": "auto"}, {"dtype": "float32", "strict": True}):
            wanted = expected(model, (VALUES,))
            for found, right in zip(answers(model, (VALUES,), **options), wanted, strict=True):
                assert torch.equal(found.nan_to_num(nan=7.0), right.nan_to_num(nan=7.0)), (dtype, options)


def test_integers_and_wide_floats_round_too():
    whole = torch.tensor([2049, 70000, -70000, 3, 16777217])
    wide = torch.tensor([1 / 3, 1e300, 2049.0], dtype=torch.float64)
    for dtype in HALVES:
        model = Calls(lambda n, w, d=dtype: (n.to(d).float(), w.to(d).double(), w.float().to(d).float()))
        for found, right in zip(answers(model, (whole, wide), dtype="float32"), expected(model, (whole, wide))):
            assert torch.equal(found, right), dtype


@pytest.mark.parametrize("dtype", HALVES)
def test_between_layers(dtype):
    """A normalised row that the model casts is what the next product is given; casts of an epilogue are the store's."""
    torch.manual_seed(0)
    norm, linear = torch.nn.LayerNorm(32), torch.nn.Linear(32, 8)

    def forward(x):
        narrow = norm(x).to(dtype).float()
        return linear(narrow), linear(narrow).to(dtype)

    model, x = Calls(forward), torch.randn(5, 32)
    model.norm, model.linear = norm, linear
    for found, right in zip(answers(model, (x,), dtype="float32"), expected(model, (x,))):
        distance = (found - right).norm() / right.norm()
        # Rarely a normalised number lies so near the middle that its last bit decides where it is rounded to.
        assert distance < (2e-3 if dtype == torch.bfloat16 else 3e-4)
    exact = Calls(lambda x: norm(x).to(dtype).float() - norm(x).to(dtype).float().to(dtype).float())
    exact.norm = norm
    assert answers(exact, (x,), dtype="float32")[0].abs().max() == 0
