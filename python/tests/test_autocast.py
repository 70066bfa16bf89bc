"""Regions of autocast: the dtypes and values of eager PyTorch, of operators that have a rule and of those composed of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import npusim
import numpy as np
import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F

LAYERS = {
    "linear": torch.nn.Linear(6, 6),
    "lstm": torch.nn.LSTM(6, 3, 2, bidirectional=True),
    "projected": torch.nn.LSTM(6, 4, proj_size=3),
    "gru": torch.nn.GRU(6, 3),
    "rnn": torch.nn.RNN(6, 3),
    "attention": torch.nn.MultiheadAttention(6, 2).eval(),
    "bilinear": torch.nn.Bilinear(6, 6, 2),
    "transformer": torch.nn.TransformerEncoderLayer(6, 2, 8, dropout=0.0).train(),
}
# Of x [4, 6] and y = linear(x), which is bfloat16 there.
CALLS: dict[str, Callable[..., Any]] = {
    "einsum": lambda m, x, y: torch.einsum("ij,kj->ik", x, x),
    "einsum of both": lambda m, x, y: torch.einsum("ij,kj->ik", x, y),
    "einsum of no product": lambda m, x, y: torch.einsum("ij->ji", x),
    "tensordot": lambda m, x, y: torch.tensordot(x, y, ([1], [1])),
    "matrix_power": lambda m, x, y: torch.linalg.matrix_power(x[:, :4], 3),
    "multi_dot": lambda m, x, y: torch.linalg.multi_dot([x, x.t(), y]),
    "chain_matmul": lambda m, x, y: torch.chain_matmul(x, x.t(), x),
    "inner": lambda m, x, y: torch.inner(x, y.to(x.dtype)),
    "kron": lambda m, x, y: torch.kron(x, y),
    "mv": lambda m, x, y: torch.mv(x, x[0]),
    "addmv": lambda m, x, y: torch.addmv(x[:, 0], x, x[0]),
    "dot": lambda m, x, y: torch.dot(x[0], x[1]),
    "addr": lambda m, x, y: torch.addr(x, x[:, 0], x[0]),
    "addbmm": lambda m, x, y: torch.addbmm(x[:, :4], x[None], x.t()[None]),
    "baddbmm": lambda m, x, y: torch.baddbmm(x[None, :, :4], x[None], x.t()[None]),
    "linear": lambda m, x, y: m.linear(y) + F.linear(x, x)[:, :1],
    "matmul": lambda m, x, y: x @ x.t(),
    "matmul of rows": lambda m, x, y: x[0] @ x.t(),
    "conv1d": lambda m, x, y: F.conv1d(x[None], x[:, :4, None].float()),
    "conv_transpose1d": lambda m, x, y: F.conv_transpose1d(x[None], x[:, :4, None].float()),
    "prelu": lambda m, x, y: F.prelu(x, x[0].abs()),
    "sdpa": lambda m, x, y: F.scaled_dot_product_attention(x[None], x[None], y[None].to(x.dtype)),
    **{f"pad {mode}": lambda m, x, y, mode=mode: F.pad(y[None], (1, 1), mode=mode) * 1.001
       for mode in ("reflect", "replicate", "circular", "constant")},
    "pad of an image": lambda m, x, y: F.pad(y[None, None], (1, 1, 1, 1), mode="reflect") * 1.001,
    **{name: lambda m, x, y, name=name: m._modules[name](x[:, None]) for name in ("lstm", "projected", "gru", "rnn")},
    "lstm of halves": lambda m, x, y: m.lstm(y[:, None]),
    "attention": lambda m, x, y: m.attention(x[:, None], x[:, None], y[:, None]),
    "bilinear": lambda m, x, y: m.bilinear(x, x),
    "transformer": lambda m, x, y: m.transformer(x[:, None]),
    "affine_grid": lambda m, x, y: F.affine_grid(x[None, :2, :3], [1, 1, 3, 5]),
    "mse_loss": lambda m, x, y: F.mse_loss(y, x.to(y.dtype)),
    "smooth_l1_loss": lambda m, x, y: F.smooth_l1_loss(y, x),
    "cross_entropy": lambda m, x, y: F.cross_entropy(y, torch.arange(4)),
    "nll_loss": lambda m, x, y: F.nll_loss(y, torch.arange(4)),
    "gaussian_nll_loss": lambda m, x, y: F.gaussian_nll_loss(x, y, x.abs() + 1),
    "bce_with_logits": lambda m, x, y: F.binary_cross_entropy_with_logits(y, y.sigmoid()),
    "kl_div": lambda m, x, y: F.kl_div(y, y.sigmoid()),
    "cosine_embedding_loss": lambda m, x, y: F.cosine_embedding_loss(y, y + 1, torch.ones(4)),
    "triplet_margin_loss": lambda m, x, y: F.triplet_margin_loss(y, y + 1, y - 1),
    "cosine_similarity": lambda m, x, y: F.cosine_similarity(y, y + 1),
    "cdist": lambda m, x, y: torch.cdist(y, y + 1),
    "prod": lambda m, x, y: y.prod(1),
    "trace": lambda m, x, y: torch.trace(y),
    "quantile": lambda m, x, y: torch.quantile(y.float(), 0.5),
    "cat": lambda m, x, y: torch.cat([x, y]),
    "stack": lambda m, x, y: torch.stack([x, y]),
    "vstack": lambda m, x, y: torch.vstack([x, y]),
    "block_diag": lambda m, x, y: torch.block_diag(x, y),
    "index_copy": lambda m, x, y: torch.index_copy(x, 0, torch.tensor([1]), y[:1]),
    "layer_norm": lambda m, x, y: F.layer_norm(y, (6,)),
    "group_norm": lambda m, x, y: F.group_norm(y, 2),
    "softmax": lambda m, x, y: y.softmax(1),
    "norm": lambda m, x, y: torch.linalg.norm(y),
    "cov": lambda m, x, y: torch.cov(x),
    "grid_sample": lambda m, x, y: F.grid_sample(y[None, None], x.tanh()[None, :, :2][:, None].to(y.dtype)),
    "interpolate": lambda m, x, y: F.interpolate(y[None], scale_factor=2.0, mode="linear"),
    "adaptive_avg_pool1d": lambda m, x, y: F.adaptive_avg_pool1d(y, 3),
    "off within": lambda m, x, y: _off(x),
    "written": lambda m, x, y: x.clone().addmm_(x, x[:, :4].t() @ x) + torch.einsum("ij,kj->ik", x, x)[:, :1],
}  # fmt: skip


def _off(x: Any) -> Any:
    with torch.autocast("cpu", enabled=False):
        return torch.einsum("ij,kj->ik", x, x)


class InRegion(torch.nn.Module):
    """Several calls; those that are an error in eager PyTorch, as of dtypes that do not go together, are left out."""

    def __init__(self, functions: list[Callable[..., Any]], dtype: Any) -> None:
        super().__init__()
        self.functions, self.dtype = functions, dtype
        for name, layer in LAYERS.items():
            self.add_module(name, layer)

    def forward(self, x: Any) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return [function(self, x.to(self.dtype), self.linear(x)) for function in self.functions]


def runs(function: Callable[..., Any], dtype: Any, x: Any) -> bool:
    try:
        InRegion([function], dtype)(x)
    except RuntimeError:
        return False
    return True


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
@pytest.mark.parametrize("part", range(6))
def test_as_in_eager(part: int, dtype: str) -> None:
    torch.manual_seed(0)
    x = torch.randn(4, 6)
    names = list(CALLS)[part::6] if dtype == "float32" else list(CALLS)[part::12]
    with torch.no_grad(), warnings.catch_warnings(action="ignore"):
        names = [name for name in names if runs(CALLS[name], getattr(torch, dtype), x)]
        model = InRegion([CALLS[name] for name in names], getattr(torch, dtype))
        expected = [
            (name, value)
            for name, values in zip(names, model(x), strict=True)
            for value in torch.utils._pytree.tree_leaves(values)
            if value is not None
        ]
        exported = npusim.export(model, (x,))
    outputs = [output["dtype"] for output in exported.ir["graph_outputs"]]
    wanted = [(name, str(value.dtype).removeprefix("torch.")) for name, value in expected]
    assert wanted == [(name, found) for (name, _), found in zip(expected, outputs, strict=True)]
    found = npusim.Session(npusim.compile(exported, dtype="float32")).run(x)
    for got, (name, want) in zip(found.values(), expected, strict=True):
        assert np.allclose(got.astype("float64"), want.double().numpy(), rtol=0.03, atol=0.03), name


def test_outside_nothing_is_cast() -> None:
    def both(m: Any, x: Any) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            inside = torch.einsum("ij,kj->ik", x, x)
        return inside, torch.einsum("ij,kj->ik", x, x)

    class Both(torch.nn.Module):
        forward = both

    exported = npusim.export(Both(), (torch.randn(3, 4),))
    assert [output["dtype"] for output in exported.ir["graph_outputs"]] == ["bfloat16", "float32"]
