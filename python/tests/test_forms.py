"""Calls of operators without a record: exported as compositions, and right."""

import npusim
import numpy as np
import pytest

torch = pytest.importorskip("torch")
from modules import Calls
from test_export import Function, check
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
X, Y, P = torch.randn(3, 4), torch.randn(3, 4), torch.rand(3, 4)
LABELS, BITS = torch.tensor([1, 0, 3]), torch.tensor([[1.0, 0, 1, 1]] * 3)
SQUARE = torch.randn(3, 3)
IMAGES = torch.randn(2, 4, 9, 8)
REGIONS = torch.tensor([[0, 1.0, 2, 9, 15], [1, -3, -4, 5, 9], [1, 3, 4, 40, 60], [0, 2, 2, 2.2, 2.1]])

PYTORCHS_OWN = {
    "binary_cross_entropy": (F.binary_cross_entropy, P, BITS),
    "cross_entropy": (F.cross_entropy, X, LABELS),
    "cross_entropy, smooth": (lambda x, y: F.cross_entropy(x, y, label_smoothing=0.1), X, LABELS),
    "cross_entropy, images": (F.cross_entropy, IMAGES, torch.randint(0, 4, (2, 9, 8))),
    "triplet_margin_loss": (lambda x, y: F.triplet_margin_loss(x, y, x * 2), X, Y),
    "ndtr": (torch.special.ndtr, X),
    "renorm": (lambda x: torch.renorm(x, 2, 0, 0.5), X),
    "hann_window": (lambda x: x * torch.hann_window(4), X),
    "max_unpool2d": (lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2), IMAGES),
    "vander": (lambda x: torch.vander(x[0]), X),
    "gradient": (lambda x: torch.gradient(x)[0], X),
    "quantile": (lambda x: torch.quantile(x, 0.3, dim=1), X),
    "matrix_norm": (torch.linalg.matrix_norm, X),
    "kron": (torch.kron, X, Y),
}
OURS = {
    "fill_diagonal_": (lambda x: (x * 1).fill_diagonal_(7.0), X),
    "fill_diagonal_, tall": (lambda x: (x * 1).fill_diagonal_(7.0), torch.randn(7, 2)),
    "fill_diagonal_, wrapped": (lambda x: (x * 1).fill_diagonal_(7.0, wrap=True), torch.randn(7, 2)),
    "fill_diagonal_, a cube": (lambda x: (x * 1).fill_diagonal_(7.0), torch.randn(3, 3, 3)),
    "hamming_window": (lambda x: x * torch.hamming_window(4), X),
    "hamming_window, symmetric": (lambda x: x * torch.hamming_window(4, False, 0.5, 0.4), X),
    "blackman_window": (lambda x: x * torch.blackman_window(4, False), X),
}
BAGS = {
    "means of rows": ({"mode": "mean"}, torch.tensor([[0, 1], [2, 3]])),
    "sums, one empty": ({"mode": "sum"}, torch.tensor([0, 1, 2, 3, 8]), torch.tensor([0, 0, 3])),
    "means, one empty": ({"mode": "mean"}, torch.tensor([0, 1, 2, 3, 8]), torch.tensor([0, 0, 3])),
    "largest, one empty": ({"mode": "max"}, torch.tensor([0, 1, 2, 3, 8]), torch.tensor([0, 0, 3])),
    "means with padding": ({"mode": "mean", "padding_idx": 2}, torch.tensor([[0, 2], [2, 2]])),
    "largest with padding": ({"mode": "max", "padding_idx": 2}, torch.tensor([[0, 2], [2, 2]])),
    "with the end": ({"mode": "sum", "include_last_offset": True}, torch.tensor([0, 1, 8]), torch.tensor([0, 2, 3])),
    **{
        f"{mode}, {what} what is behind the end": (
            {"mode": mode, "include_last_offset": True, **padding},
            torch.tensor([1, 2, 3, 4]),
            torch.tensor(offsets),
        )
        for mode in ("sum", "mean", "max")
        for what, padding, offsets in (
            ("", {}, [0, 2]),
            ("an empty bag and", {}, [0, 2, 2]),
            ("a padding and", {"padding_idx": 2}, [0, 2, 3]),
        )
    },
    "weighted": ({"mode": "sum"}, torch.tensor([0, 1, 8]), torch.tensor([0, 2]), torch.rand(3)),
}


RARE = {
    "addcmul of integers by a fraction": (
        lambda x: torch.stack([torch.addcmul(x, x, x, value=v) for v in (0.5, 1.9, -1.9)]), torch.tensor([6, 3])
    ),
    "addcmul of integers and others by a fraction": (
        lambda x, y: torch.cat(
            [torch.addcmul(*operands, value=v) for v in (0.5, -1.9) for operands in ((y, x, x), (x, x, y), (x, y, x))]
        ),
        torch.tensor([6, 3]), torch.tensor([1.5, 2.5]),
    ),
    "elu of a negative zero, scaled without end": (
        lambda x: torch.ops.aten.elu(x, 1.0, 1.0, float("inf")), torch.tensor([-0.0, 0.5, -0.5])
    ),
    "logit with an eps beyond a half": (
        lambda x: torch.logit(x, eps=0.7), torch.tensor([0.25, 0.5, 0.9, -1.0, 2.0])
    ),
    "median of nothing": (lambda x: torch.stack([x.median(), x.nanmedian()]).isnan(), torch.zeros(0)),
}  # fmt: skip


@pytest.mark.parametrize("name", RARE)
def test_rare_arguments(name):
    call, *args = RARE[name]
    check(Function(lambda m, *tensors: call(*tensors)), tuple(args))


@pytest.mark.parametrize("name", [*PYTORCHS_OWN, *OURS])
def test_a_composition(name):
    call, *args = (PYTORCHS_OWN | OURS)[name]
    check(Function(lambda m, *tensors: call(*tensors)), tuple(args))


NUMBERS = [(5, 2), (-7, 3), (5.0, 2), (5, 2.5), (True, 2), (2.0, 3.5)]
OF_NUMBERS = {
    **{name: getattr(torch, name) for name in ("add", "sub", "mul", "div", "floor_divide", "true_divide")},
    "div, rounded": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "div, down": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "add, scaled": lambda a, b: torch.add(a, b, alpha=2),
    "sub, scaled": lambda a, b: torch.sub(a, b, alpha=3),
}


@pytest.mark.parametrize("name", OF_NUMBERS)
def test_numbers_for_tensors(name):
    function = OF_NUMBERS[name]
    for a, b in NUMBERS:
        if name.startswith("sub") and isinstance(a, bool):
            continue

        def call(m, x, a=a, b=b):
            i = (x * 3).to(torch.int32)
            return x + function(a, b), function(a, b), function(a, x), function(a, i), function(a, i[0, 0]), function(x, b)

        check(Function(call), (P + 0.5,))


def losses(shape):
    """Calls of losses of operands in such a shape: a batch of samples, one sample or one number."""
    x, y, z = (torch.rand(shape) * 0.8 + 0.1 for _ in range(3))
    signs, classes = torch.where(y > 0.5, 1.0, -1.0), torch.zeros(shape[:-1], dtype=torch.int64)
    for name in ("l1_loss", "mse_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy", "kl_div", "poisson_nll_loss"):
        yield name, (x, y)
    for name in ("binary_cross_entropy_with_logits", "multilabel_soft_margin_loss", "soft_margin_loss", "hinge_embedding_loss"):
        yield name, (x, signs)
    yield "gaussian_nll_loss", (x, y, z)
    yield "margin_ranking_loss", (x, y, signs)
    yield "triplet_margin_loss", (x, y, z)
    yield "cosine_embedding_loss", (x, y, signs[..., 0] if shape else signs)
    yield "multilabel_margin_loss", (x, torch.zeros(shape, dtype=torch.int64))
    for name in ("multi_margin_loss", "nll_loss", "cross_entropy"):
        yield name, (x, classes)
    yield "multi_margin_loss", (x, classes.reshape(-1))


@pytest.mark.filterwarnings("ignore:the program is made for", "ignore:reduction. 'mean' divides")
@pytest.mark.parametrize("reduction", ["none", "mean"])
@pytest.mark.parametrize("shape", [(3, 4), (1, 1), (4,), (1,), ()])
def test_losses_of_batches_samples_and_numbers(shape, reduction):
    for name, args in losses(shape):
        loss = getattr(F, name)
        try:
            loss(*args, reduction=reduction)
        except (IndexError, RuntimeError, ValueError):
            continue  # eager PyTorch does not take these either

        def call(m, *tensors, loss=loss, expected=loss(*args, reduction=reduction).shape):
            found = loss(*tensors, reduction=reduction)
            assert found.shape == expected, name  # where the model is traced too
            return found

        check(Function(call), args)


@pytest.mark.parametrize("name", BAGS)
def test_bags(name):
    how, *args = BAGS[name]
    check(nn.EmbeddingBag(9, 4, **how), tuple(args))


def test_what_is_written_to_out_is_copied_there():
    check(Function(lambda m, x, y: torch.add(x, y, out=torch.empty(3, 4))), (X, Y))
    check(Function(lambda m, x, y: torch.mm(x, y.t(), out=torch.zeros(3, 3)) + 1), (X, Y))
    check(Function(lambda m, x: torch.max(x, 1, out=(torch.empty(3), torch.empty(3, dtype=torch.long)))[0]), (X,))

    def into_a_part(m, x, y):
        all_of_it = torch.zeros(2, 3, 4)
        torch.mul(x, y, out=all_of_it[1])
        return all_of_it

    check(Function(into_a_part), (X, Y))

    def into_a_buffer(m, x, y):
        torch.add(x, y, out=m.total)
        return m.total * 2

    exported = npusim.export(Function(into_a_buffer, total=torch.zeros(3, 4)), (X, Y))
    assert exported.ir["states"] == {"total": "total_next"}
    found = npusim.Session(npusim.compile(exported, dtype="float32")).run(X, Y)
    assert torch.allclose(torch.from_numpy(found["output"]), (X + Y) * 2)


def test_in_16_bits():
    exported = npusim.export(Function(lambda m, x, y: F.mse_loss(x, y, reduction="none")), (X.bfloat16(), Y.bfloat16()))
    found = npusim.Session(npusim.compile(exported)).run(X.bfloat16(), Y.bfloat16())["output"]
    expected = (X.bfloat16().double() - Y.bfloat16().double()) ** 2
    assert torch.allclose(torch.from_numpy(found.astype("float64")), expected, rtol=2e-2)


def test_what_has_no_composition_keeps_its_name():
    for call, named in ((torch.i0, "aten.i0"), (torch.poisson, "aten.poisson")):
        exported = npusim.export(Function(lambda m, x, call=call: call(x)), (P,))
        assert [n["op_type"] for n in exported.ir["nodes"]] == [f"{named}.default"]
        with pytest.raises(npusim.UnsupportedError, match=named):
            npusim.compile(exported)


@pytest.mark.parametrize("call", [lambda h: h.hist, lambda h: h.bin_edges[1], lambda h: h.bin_edges])
def test_a_list_among_the_results_of_what_has_no_form(call):
    exported = npusim.export(Function(lambda m, x: call(torch.histogramdd(x, (3, 2, 2, 2)))), (P,))
    with pytest.raises(npusim.UnsupportedError, match="aten.histogramdd"):
        npusim.compile(exported)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("channels", [3, 5])
def test_images_in_uint8(mode, channels):
    images = torch.randint(0, 256, (2, channels, 24, 20), dtype=torch.uint8)
    for size, factor in (((10, 47), None), ((40, 20), None), (None, (1.3, 0.45))):
        for how in ({"antialias": True}, {}, {"align_corners": True}):
            exported = npusim.export(
                Function(lambda m, x, s=size, f=factor, k=how: F.interpolate(x, s, f, mode, **k)), (images,)
            )
            found = npusim.Session(npusim.compile(exported, dtype="float32")).run(images)["output"]
            expected = F.interpolate(images, size, factor, mode, **how)
            assert (found == expected.numpy()).all()


@pytest.mark.parametrize(
    "name", ["upsample_bilinear2d", "upsample_bicubic2d", "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa"]
)
def test_images_in_uint8_by_the_operators_themselves(name):
    images, op = torch.randint(0, 256, (2, 3, 24, 20), dtype=torch.uint8), getattr(torch.ops.aten, name)
    calls = {
        "default": lambda m, x: op.default(x, [10, 47], False, None, None),
        "default, with corners": lambda m, x: op.default(x, [40, 20], True, None, None),
        "default, with factors": lambda m, x: op.default(x, [31, 9], False, 1.3, 0.45),
        "out": lambda m, x: op.out(x, [10, 47], False, None, None, out=torch.empty(2, 3, 10, 47, dtype=x.dtype)),
        "vec": lambda m, x: op.vec(x, None, False, [1.3, 0.45]),
    }
    for how, call in calls.items():
        session = npusim.Session(npusim.compile(npusim.export(Function(call), (images,)), dtype="float32"))
        assert (session.run(images)["output"] == call(None, images).numpy()).all(), how


def test_torchvisions():
    ops = pytest.importorskip("torchvision").ops
    for ratio, aligned in ((2, True), (3, False)):
        check(Function(lambda m, x, r, a=aligned, s=ratio: ops.roi_align(x, r, (3, 2), 0.5, s, a)), (IMAGES, REGIONS))
    with pytest.raises(npusim.UnsupportedError, match="roi_align"):
        npusim.compile(Function(lambda m, x, r: ops.roi_align(x, r, (3, 2))), (IMAGES, REGIONS))
    offset, mask = torch.randn(2, 2 * 2 * 6, 5, 10) * 2, torch.rand(2, 2 * 6, 5, 10)
    layer = ops.DeformConv2d(4, 6, (3, 2), stride=(2, 1), padding=(1, 2), dilation=(1, 2), groups=2)
    check(layer, (IMAGES, offset, mask), tolerance=1e-4)
    check(ops.DeformConv2d(4, 6, 3, padding=1, bias=False), (IMAGES, torch.randn(2, 18, 9, 8) * 3), tolerance=1e-4)


@pytest.mark.parametrize("told", [None, True, False])
def test_transformers_with_masks(told):
    """A mask is what counts, whether or not it is said, or seen, to be causal."""
    x, y = torch.randn(2, 6, 16), torch.randn(2, 6, 16)
    causal = nn.Transformer.generate_square_subsequent_mask(6)
    band = causal.masked_fill(torch.ones(6, 6).tril(-3) > 0, float("-inf"))
    padding = torch.tensor([[False] * 6, [False] * 4 + [True] * 2])

    def holding(inner, function):
        model = Function(function)
        model.inner = inner.eval()
        return model

    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, norm_first=True)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    check(holding(encoder, lambda m, x: m.inner(x, mask=torch.ones(6, 6).triu(1) > 0, is_causal=told)), (x,))
    for mask in (causal,) if told else (causal, causal != 0, band):
        check(holding(encoder, lambda m, x, mask=mask: m.inner(x, mask=mask, is_causal=told)), (x,))
    whole = nn.Transformer(16, 2, 1, 1, 32, batch_first=True)
    named = {"tgt_mask": causal, "src_key_padding_mask": padding, "memory_key_padding_mask": padding}
    check(holding(whole, lambda m, x, y: m.inner(x, y, tgt_is_causal=told, **named)), (x, y))


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_loss_keeps_its_weight(reduction, weighted):
    """PyTorch 2.15 traces l1_loss() without it."""
    x, y, weight = (torch.randn(3, 4, generator=torch.Generator().manual_seed(seed)) for seed in range(3))

    def loss(x, y, weight):
        return torch.nn.functional.l1_loss(x, y, reduction=reduction, weight=weight if weighted else None)

    wanted = loss(x, y, weight).numpy()
    for strict in (False, True):
        exported = npusim.export(Calls(loss), (x, y, weight), strict=strict)
        found = npusim.Session(npusim.compile(exported, dtype="float32")).run(x, y, weight)["output"]
        assert np.allclose(found, wanted, rtol=1e-6)
    torch.compiler.reset()
    assert np.allclose(torch.compile(loss, backend="npusim")(x, y, weight).numpy(), wanted, rtol=1e-6)
    assert np.allclose(loss(x, y, weight).numpy(), wanted, rtol=0)  # PyTorch's own stays as it is
