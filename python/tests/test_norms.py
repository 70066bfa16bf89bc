"""Norms and what is made of them, of numbers whose squares are no floats: as eager PyTorch has them."""

import pytest

torch = pytest.importorskip("torch")

import npusim
from modules import Calls

F = torch.nn.functional
SIZES = {torch.float32: (1e20, 1e-25, 1.5), torch.float64: (1e160, 1e-170, 1.5)}


def compare(function, *inputs):
    program = npusim.compile(Calls(function), inputs, dtype="float32" if inputs[0].dtype is torch.float32 else "auto")
    found = torch.from_numpy(next(iter(npusim.Session(program, threads=1).run(*inputs).values())).copy())
    exact = 1e-5 if found.dtype is torch.float32 else 1e-12
    torch.testing.assert_close(found, function(*inputs), rtol=exact, atol=0, equal_nan=True)


@pytest.mark.parametrize("shape", [(3, 1), (1,), (2, 1, 1), (1, 3), (2, 5)], ids=str)
@pytest.mark.parametrize("dtype", SIZES, ids=str)
def test_norms_of_one_and_of_some(dtype, shape):
    for size in SIZES[dtype]:
        x = torch.full(shape, size, dtype=dtype)
        for order in (2, 1, 3, 0, 0.5, float("inf")):
            compare(lambda x, order=order: torch.linalg.vector_norm(x, order, dim=-1), x)
        compare(lambda x: torch.norm(x), x)
        compare(lambda x: F.normalize(x, dim=-1), x)
        compare(lambda x: F.pairwise_distance(x, -x), x)
        compare(lambda x: torch.dist(x, -x, 3), x)
        compare(lambda x: F.cosine_similarity(x, x * 0.5, dim=-1), x)


@pytest.mark.parametrize("sizes", [(1e30, 1e8), (1.0, 1.0), (1e-30, 1e10), (1e19, 1e19)], ids=str)
@pytest.mark.parametrize("dtype", SIZES, ids=str)
def test_cosines_of_large_and_small(dtype, sizes):
    torch.manual_seed(3)
    x, y = (torch.randn(5, 7, dtype=dtype) * size for size in sizes)
    for dim in (0, -1):
        compare(lambda x, y, dim=dim: F.cosine_similarity(x, y, dim=dim), x, y)
