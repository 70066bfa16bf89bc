"""Resizes by factors that the extents do not show, of images in each memory format."""

import random
import warnings

import npusim
import numpy as np
import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F

from modules import Calls

FORMATS = {2: torch.channels_last, 3: torch.channels_last_3d}


class Resize(torch.nn.Module):
    def __init__(self, **how):
        super().__init__()
        self.how = how

    def forward(self, x):
        return F.interpolate(x * 1.0, **self.how)


@pytest.mark.parametrize("dims, mode", [(1, "nearest"), (1, "linear"), (2, "nearest"), (2, "nearest-exact"),
                                        (2, "bilinear"), (2, "bicubic"), (3, "nearest"), (3, "trilinear")])  # fmt: skip
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("channels", [3, 5])
def test_by_factors(dims, mode, last, channels):
    if last and dims == 1:
        pytest.skip("no memory format")
    for extents, factors in (
        ([5, 7, 6], [1.1, 1.01, 1.0]),
        ([3, 4, 200], [2.2, 1.0, 1.001]),
        ([4, 60, 3], [1.0, 1.01, 2.01]),
        ([124, 9, 2], [1.005, 0.99, 2.5]),
    ):
        x = torch.rand(2, channels, *extents[:dims])
        if last:
            x = x.contiguous(memory_format=FORMATS[dims])
        model = Resize(scale_factor=factors[:dims], mode=mode)
        with warnings.catch_warnings(action="ignore"):
            found = npusim.Session(npusim.compile(model, (x,), dtype="float32")).run(x)
            expected = model(x)
        found = torch.from_numpy(next(iter(found.values())))
        assert found.shape == expected.shape
        if "nearest" in mode:
            assert torch.equal(found, expected), (extents, factors)
        else:
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=3e-5)


class Resizes(torch.nn.Module):
    """Many at once, each of an image of its own."""

    def __init__(self, hows):
        super().__init__()
        self.hows = hows

    def forward(self, *images):
        return tuple(F.interpolate(image, **how) for image, how in zip(images, self.hows, strict=True))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.uint8])
def test_nearest_elements_are_eager_ones(dtype):
    draw = random.Random(str(dtype))
    images, hows = [], []
    for _ in range(60):
        dims = draw.choice([1, 2, 2, 3])
        extents = [draw.choice([1, draw.randint(1, 12), draw.randint(1, 130 // dims)]) for _ in range(dims)]
        x = (torch.rand(draw.choice([1, 2]), draw.choice([1, 3, 4, 6]), *extents) * 200).to(dtype)
        if dims > 1 and draw.random() < 0.6:
            x = x.contiguous(memory_format=FORMATS[dims])
        factors = [draw.choice([1.0, 1.01, 2.0, 2.01, draw.uniform(0.3, 3)]) for _ in range(dims)]
        sizes = [int(f * n) for f, n in zip(factors, extents)]
        if min(sizes) < 1:
            continue
        by = {"scale_factor": factors} if draw.random() < 0.7 else {"size": sizes}
        images.append(x)
        hows.append(by | {"mode": draw.choice(["nearest", "nearest-exact"])})
    model = Resizes(hows)
    with warnings.catch_warnings(action="ignore"):
        found = npusim.Session(npusim.compile(model, tuple(images), dtype="float32")).run(*images)
        expected = model(*images)
    for got, want, x, how in zip(found.values(), expected, images, hows, strict=True):
        got = torch.from_numpy(got) if dtype != torch.bfloat16 else torch.from_numpy(got.astype("float32"))
        assert torch.equal(got, want.to(got.dtype)), (x.shape, x.stride(), how)


def test_nearest_of_any_sizes():
    """Also of sizes for which no line through the outputs has all positions that PyTorch's float32 arithmetic gives."""
    generator = torch.Generator().manual_seed(4)
    pairs = [(216, 171), (720, 603), (7, 3_000_000)]
    pairs += torch.randint(1, 1500, (60, 2), generator=generator).tolist()
    for extent, size in pairs:
        x = torch.arange(float(extent))[None, None]
        for mode in ("nearest", "nearest-exact"):

            def resized(x, size=size, mode=mode):
                return torch.nn.functional.interpolate(x, size=size, mode=mode)

            session = npusim.Session(npusim.compile(Calls(resized), (x,), dtype="float32"))
            assert np.array_equal(next(iter(session.run(x).values())), resized(x).numpy()), (extent, size, mode)
