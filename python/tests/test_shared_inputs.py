"""Products of which several read the same columns, no constant: these are packed once in each run, and are that run's."""

import npusim
import numpy as np
import pytest

torch = pytest.importorskip("torch")


class Again(torch.nn.Module):
    """h through one matrix again and again; `kept`: which is a buffer that each run changes, too."""

    def __init__(self, size, times, transposed, kept):
        super().__init__()
        self.times, self.transposed, self.kept = times, transposed, kept
        self.register_buffer("added", torch.zeros(size, size))

    def forward(self, h, w):
        if self.kept:
            self.added += w
            w = self.added + 0
        for _ in range(self.times):
            h = torch.tanh(h @ (w.mT if self.transposed else w))
        return h, h @ w


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(("rows", "size"), [(1, 64), (16, 256), (33, 65), (70, 130), (300, 96)])
def test_each_run_has_its_own(rows, size, transposed, kept):
    rng = torch.Generator().manual_seed(rows)

    def draw(*shape):
        return torch.randn(*shape, generator=rng) / size**0.5

    model = Again(size, 4, transposed, kept)
    exported = npusim.export(model, (draw(rows, size), draw(size, size)))
    for threads in (1, 2):
        program = npusim.compile(exported, dtype="float32")
        session = npusim.Session(program, threads=threads)
        other = session.sibling()
        executor = npusim.DAGExecutor(program, threads=threads)
        eager = [Again(size, 4, transposed, kept) for _ in range(3)]
        for run in range(4):
            for at, runs in enumerate((session, other, executor)):
                h, w = draw(rows, size), draw(size, size)
                if run == 2 and at == 0 and not kept:
                    npusim.profile(session, h, w + 1, times=1)  # each step by itself, of other values
                with torch.no_grad():
                    want = eager[at](h, w)
                found = runs.run(h, w)
                results = [value for name, value in found.items() if not name.startswith("added")]
                for one, value in zip(results, want, strict=True):
                    off = np.linalg.norm(one - value.numpy()) / np.linalg.norm(value.numpy())
                    assert off < 1e-5, (threads, run, at, off)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_of_16_bits(dtype):
    rng = torch.Generator().manual_seed(16)
    model = Again(96, 4, True, False)
    given = [torch.randn(rows, 96, generator=rng) / 96**0.5 for rows in (16, 96)]
    session = npusim.Session(npusim.compile(model, tuple(given), dtype=dtype), threads=2)
    for scale in (1, -2):
        h, w = (scale * one.to(getattr(torch, dtype)).float() for one in given)
        found = session.run(h, w)
        for one, value in zip(found.values(), model(h, w), strict=True):
            assert np.linalg.norm(one - value.numpy()) < 3e-2 * np.linalg.norm(value.numpy())
