"""Products of 64-bit numbers beside other operands, whose sums may lie in the result's memory only if they lie there in its
order: of integers, which are exact."""

import npusim
import pytest

torch = pytest.importorskip("torch")
from modules import Calls  # noqa: E402

FORMS = {
    "second": lambda x, y, z, w: x + w @ x,
    "first": lambda x, y, z, w: w @ x + x,
    "first, within": lambda x, y, z, w: (w @ x + x).abs(),
    "times": lambda x, y, z, w: x * (w @ x),
    "less": lambda x, y, z, w: x - w @ x,
    "of another": lambda x, y, z, w: y + w @ x,
    "of what is computed": lambda x, y, z, w: (y + 1) * 2 + w @ x,
    "permuted": lambda x, y, z, w: y + (z @ w).permute(0, 2, 1),
    "moved batch": lambda x, y, z, w: y.permute(1, 0, 2) + torch.einsum("oc,bcl->obl", w, x),
    "chosen": lambda x, y, z, w: torch.where(x > 0, y, w @ x),
    "twice": lambda x, y, z, w: x + w @ (x + w @ x),
    "transposed": lambda x, y, z, w: z + (w @ x).mT,
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.int64])
@pytest.mark.parametrize("name", FORMS)
def test_sums_are_where_they_are_read(name, dtype):
    for batch in (1, 2, 3):
        for channels, length in ((2, 2), (4, 3), (8, 16), (8, 65), (32, 64), (128, 49)):
            rng = torch.Generator().manual_seed(batch * length)
            shapes = (batch, channels, length), (batch, channels, length), (batch, length, channels), (channels, channels)
            given = [torch.randint(-4, 5, shape, generator=rng).to(dtype) for shape in shapes]
            program = npusim.compile(Calls(FORMS[name]), tuple(given), dtype="float32")
            found = npusim.Session(program, threads=1 + batch % 2).run(*given)["output"]
            assert torch.equal(torch.from_numpy(found), FORMS[name](*given)), (batch, channels, length)


def test_a_residual_block():
    for kind, shape in ((torch.nn.Conv1d, (3, 8, 11)), (torch.nn.Conv2d, (3, 8, 7, 7)), (torch.nn.ConvTranspose1d, (3, 8, 11))):
        layer = kind(8, 8, 3, padding=1).double()
        x = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
        found = npusim.Session(npusim.compile(Calls(lambda x, layer=layer: x + layer(x)), (x,), dtype="float32")).run(x)
        torch.testing.assert_close(torch.from_numpy(found["output"]), x + layer(x).detach())
