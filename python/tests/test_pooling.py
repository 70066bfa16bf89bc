"""Pooling into windows that overlap or do not, and resizes with filters, of images of many extents."""

import itertools
import random
import warnings

import npusim
import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F
from test_export import Function

FORMATS = {1: torch.contiguous_format, 2: torch.channels_last, 3: torch.channels_last_3d}
SPECIAL = torch.tensor([float("inf"), -float("inf"), float("nan"), 0.0, -0.0])


class Calls(torch.nn.Module):
    """Many at once, each of an image of its own."""

    def __init__(self, calls):
        super().__init__()
        self.calls = calls

    def forward(self, *images):
        results = []
        for image, (function, how) in zip(images, self.calls, strict=True):
            result = function(image, **how)
            results += result if isinstance(result, tuple) else (result,)
        return tuple(results)


def both(calls, images):
    model = Calls(calls)
    with warnings.catch_warnings(action="ignore"):
        found = npusim.Session(npusim.compile(model, tuple(images), dtype="float32")).run(*images)
        expected = model(*images)
    return zip([torch.from_numpy(value) for value in found.values()], expected, strict=True)


def image(draw, dims, most, dtype):
    """Some with equal elements among them; some with infinities and NaN; some with channels innermost."""
    extents = [draw.randint(1, most) for _ in range(dims)]
    lead = draw.choice([(2, 3), (1, 17), (5,)])
    x = torch.randn(*lead, *extents)
    if draw.random() < 0.5:
        x = x.mul(2).round()
    if draw.random() < 0.3:
        at = torch.rand(x.shape) < 0.1
        x[at] = SPECIAL[torch.randint(0, 5, (int(at.sum()),))]
    if len(lead) == 2 and draw.random() < 0.5:
        x = x.contiguous(memory_format=FORMATS[dims])
    return x.to(dtype)


@pytest.mark.parametrize("dims, most", [(1, 300), (2, 40), (3, 12)])
@pytest.mark.parametrize("kind", ["avg", "max"])
def test_adaptive_pools(dims, most, kind):
    draw = random.Random(dims * 2 + (kind == "max"))
    torch.manual_seed(dims)
    function = getattr(F, f"adaptive_{kind}_pool{dims}d")
    images, calls = [], []
    for turn in range(16):
        x = image(draw, dims, most, torch.float64 if turn == 3 else torch.float32)
        sizes = [draw.choice([1, n, draw.randint(1, n), draw.randint(1, 2 * n)]) for n in x.shape[-dims:]]
        images.append(x)
        calls.append((function, {"output_size": sizes} | ({"return_indices": True} if kind == "max" else {})))
    for got, want in both(calls, images):
        if kind == "max":
            assert torch.equal(got.nan_to_num(7.5), want.nan_to_num(7.5))
        else:
            torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_antialiased_resizes(mode):
    draw = random.Random(mode)
    torch.manual_seed(1)
    images, calls = [], []
    for turn in range(24):
        extents = [draw.randint(1, 60) for _ in range(2)]
        x = torch.rand(*draw.choice([(1, 3), (2, 5)]), *extents, dtype=torch.float64 if turn == 3 else torch.float32)
        if draw.random() < 0.5:
            x = x.contiguous(memory_format=torch.channels_last)
        factors = [draw.choice([0.3, 0.77, 1.0, 1.5, 2.2]) for _ in range(2)]
        by = {"size": [draw.choice([n, draw.randint(1, 9), draw.randint(1, 3 * n)]) for n in extents]}
        if draw.random() < 0.3 and all(int(f * n) > 0 for f, n in zip(factors, extents)):
            by = {"scale_factor": factors}
        images.append(x)
        calls.append((F.interpolate, by | {"mode": mode, "antialias": True, "align_corners": draw.random() < 0.3}))
    for got, want in both(calls, images):
        tolerance = 1e-11 if want.dtype == torch.float64 else 2e-5
        torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance)


def test_a_filter_reaches_no_infinities_beside_it():
    x = torch.rand(1, 2, 40, 37)
    x[0, 0, 11, 13], x[0, 1, 30, 8] = float("inf"), float("nan")
    calls = [(F.interpolate, {"size": sizes, "mode": mode, "antialias": True})
             for sizes in ([19, 23], [80, 74], [40, 11], [13, 37]) for mode in ("bilinear", "bicubic")]  # fmt: skip
    for got, want in both(calls, [x] * len(calls)):
        assert torch.equal(got.isfinite(), want.isfinite())
        torch.testing.assert_close(got, want, rtol=2e-5, atol=2e-5, equal_nan=True)


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8])
def test_windows_of_integers(dims, dtype):
    """Some of them wholly in the padding, where each dtype has its own least number; averages are of int64 alone."""
    low = 0 if dtype == torch.uint8 else -100
    generator = torch.Generator().manual_seed(dims)
    forms = [(3, 2, 1, 1, False), (2, 2, 0, 1, True), ((1,) * (dims - 1) + (2,), (1,) * (dims - 1) + (2,), (0,) * (dims - 1) + (1,), 2, True)]
    for extents, (size, stride, padding, dilation, ceil) in itertools.product(((1,) * dims, (5, 7, 4)[:dims], (17, 6, 3)[:dims]), forms):
        x = torch.randint(low, 100, (2, 3, *extents), generator=generator).to(dtype)
        pools = [lambda x: getattr(F, f"max_pool{dims}d")(x, size, stride, padding, dilation, ceil)]
        if dims > 1:
            pools.append(lambda x: getattr(F, f"max_pool{dims}d")(x, size, stride, padding, dilation, ceil, return_indices=True))
        if dtype == torch.int64:
            pools.append(lambda x: getattr(F, f"avg_pool{dims}d")(x, size, stride, padding, ceil, dims == 2))
        for pool in pools:
            try:
                expected = pool(x)
            except RuntimeError:  # less than a window
                continue
            session = npusim.Session(npusim.compile(Function(lambda self, x: pool(x)), (x,), dtype="float32"))
            expected = expected if isinstance(expected, tuple) else (expected,)
            for found, value in zip(session.run(x).values(), expected, strict=True):
                assert torch.equal(torch.from_numpy(found), value), (extents, size, padding)
