"""A product and a sum of it are rounded apart, as PyTorch rounds them: what cancels there cancels here."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import npusim

FORMS = {
    "determinant": lambda a, b, c: a * b - b * a,
    "discriminant": lambda a, b, c: (2 * a) * (2 * a) - 4 * a * a,
    "sign": lambda a, b, c: torch.where(a * b - b * a >= 0, a, -a),
    "real": lambda a, b, c: torch.isreal(torch.complex(a, b) * torch.complex(a, b).conj()),
    "imaginary": lambda a, b, c: (torch.complex(a, b) * torch.complex(a, -b)).imag,
    "sum": lambda a, b, c: a * b + c,
    "difference": lambda a, b, c: c - a * b,
    "squares": lambda a, b, c: a * a + b * b,
    "affine": lambda a, b, c: a * 1.7 + 0.3,
    "row": lambda a, b, c: a * b[..., :1] + c[..., :1],
    "mixture": lambda a, b, c: a * (1 - c) + b * c,
    "way": lambda a, b, c: a + (b - a) * c,
    "normalised": lambda a, b, c: (a - b[..., :1]) * c[..., :1] * b + c,
    "count": lambda a, b, c: ((a * b - b * a) != 0).sum(),
}
# PyTorch itself contracts what is left of a complex product behind the last whole vector.
EXACT = {
    "real": lambda a, b, c: torch.ones_like(a, dtype=torch.bool),
    "imaginary": lambda a, b, c: torch.zeros_like(a),
}


class Form(torch.nn.Module):
    def __init__(self, name):
        super().__init__()
        self.name = name

    def forward(self, a, b, c):
        return FORMS[self.name](a, b, c)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", FORMS)
def test_apart(name, dtype):
    for shape in ((1,), (7,), (3, 33), (2, 5, 64), (300, 17)):
        given = [torch.randn(shape, dtype=dtype) for _ in range(3)]
        given[2][..., :1] = given[0][..., :1]
        exported = npusim.export(Form(name), tuple(given))
        for options in ({"dtype": "float32"}, {"dtype": "float32", "strict": True}):
            found = npusim.Session(npusim.compile(exported, **options)).run(*given)["output"]
            np.testing.assert_array_equal(found, EXACT.get(name, FORMS[name])(*given).numpy())
