"""Convolutions whose padding is as wide as their windows or wider, or negative: what lies beside the image altogether is
the bias alone. Transposed ones of every stride and dilation."""

import random

import pytest

torch = pytest.importorskip("torch")

from test_export import Function  # noqa: E402

DTYPES = [torch.float32, torch.float32, torch.float64, torch.int64, torch.float16]


def drawn(draw: random.Random):
    """A convolution and its operands."""
    rank, dtype = draw.randint(1, 3), draw.choice(DTYPES)
    groups, per_group = draw.choice([1, 1, 2, 3, 8]), draw.randint(1, 3)
    transposed = draw.random() < 0.4
    kernel = [draw.randint(1, 4) for _ in range(rank)]
    dilation = [draw.randint(1, 4 if transposed else 2) for _ in range(rank)]
    extents = [draw.randint(1, 9) for _ in range(rank)]
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation)]
    stride = [draw.randint(1, 4) for _ in range(rank)]
    options = {"stride": stride, "dilation": dilation, "groups": groups}
    if transposed:
        most = [((e - 1) * s + r - 1) // 2 for e, s, r in zip(extents, stride, reach)]
        options["padding"] = [draw.randint(0, max(m, 0)) for m in most]
        options["output_padding"] = [draw.randint(0, max(s, d) - 1) for s, d in zip(stride, dilation)]
    else:
        options["padding"] = [draw.randint(0, 3) * draw.randint(0, r) + draw.choice([0, r]) for r in reach]
    filters = (groups * per_group, draw.randint(1, 3)) if transposed else (groups * draw.randint(1, 3), per_group)
    made = (lambda *s: torch.randint(-9, 9, s)) if dtype is torch.int64 else (lambda *s: torch.randn(s).to(dtype))
    image, weight = made(draw.randint(1, 2), groups * per_group, *extents), made(*filters, *kernel)
    bias = made(filters[1] * groups if transposed else filters[0]) if draw.random() < 0.6 else None
    name = f"conv{'_transpose' if transposed else ''}{rank}d"
    return name, getattr(torch.nn.functional, name), image, weight, bias, options


@pytest.mark.parametrize("seed", range(40))
def test_windows_beside_the_image(seed):
    import npusim

    draw = random.Random(seed)
    torch.manual_seed(seed)
    name, function, image, weight, bias, options = drawn(draw)
    exact = torch.int64 if image.dtype is torch.int64 else torch.float64
    try:
        wanted = function(image.to(exact), weight.to(exact), None if bias is None else bias.to(exact), **options)
        function(image, weight, bias, **options)
    except RuntimeError:
        pytest.skip("what PyTorch does not take")
    module = Function(lambda self, x, w: torch.relu(function(x, w, bias, **options)))
    dtype = "float32" if image.dtype is torch.float32 else "auto"
    program = npusim.compile(npusim.export(module, (image, weight)), dtype=dtype)
    got = torch.from_numpy(next(iter(npusim.Session(program, threads=1).run(image, weight).values())).copy())
    scale = {torch.float64: 1e-12, torch.float32: 1e-5, torch.float16: 4e-3}.get(image.dtype, 0)
    torch.testing.assert_close(got.to(exact), wanted.relu(), rtol=scale, atol=8 * scale, msg=lambda m: f"{name} {options}: {m}")
