"""Experts that take the tokens which a mask chooses: right for every input, however many tokens each takes."""

import npusim
import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch.nn import functional


class Experts(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function
        self.gate = torch.nn.Linear(16, 4, bias=False)
        self.up = torch.nn.ModuleList([torch.nn.Linear(16, 24, bias=False) for _ in range(4)])
        self.down = torch.nn.ModuleList([torch.nn.Linear(12, 16) for _ in range(4)])

    def forward(self, x):
        tokens = x.reshape(-1, 16)
        return self.function(self, tokens, self.gate(tokens).softmax(-1)).reshape(x.shape)


def of_mixtral(m, x, scores):
    weights, chosen = torch.topk(scores, 2, -1)
    weights = weights / weights.sum(-1, keepdim=True)
    out = torch.zeros_like(x)
    masks = functional.one_hot(chosen, 4).permute(2, 1, 0)
    for e in range(4):
        which, token = torch.where(masks[e])
        gate, up = m.up[e](x[None, token].reshape(-1, 16)).chunk(2, -1)
        rows = m.down[e](functional.silu(gate) * up) * weights[token, which, None]
        out.index_add_(0, token, rows.to(x.dtype))
    return out


def of_hit(m, x, scores):
    """Only experts that have a token: which those are is the example's."""
    chosen = scores.argmax(-1)
    out = torch.zeros_like(x)
    masks = functional.one_hot(chosen, 4).t()
    for e in masks.sum(1).gt(0).nonzero():
        (token,) = torch.where(masks[e].squeeze(0))
        up = torch.stack([up.weight for up in m.up])[e.item()]
        out.index_add_(0, token, (x[token] @ up.t())[:, :16])
    return out


def put(m, x, scores):
    best, chosen = scores.max(-1)
    out = torch.zeros_like(x)
    for e in range(4):
        token = (chosen == e).nonzero(as_tuple=True)[0]
        rows = x[token] @ m.up[e].weight.t()
        out[token] = m.down[e](rows[:, :12] * rows[:, 12:]) * best[token].unsqueeze(-1)
    return out


def squeezed(m, x, scores):
    best, chosen = scores.max(-1)
    out = x.clone()
    for e in range(4):
        token = torch.nonzero(chosen == e).squeeze(-1)
        rows = m.up[e](x.index_select(0, token)).view(-1, 2, 12)
        out = out.index_add(0, token, m.down[e](rows[:, 0].relu()) * best[token, None], alpha=2)
    return out


def accumulated(m, x, scores):
    found = (scores > 0.25).nonzero()
    token, e = found[:, 0], found[:, 1]
    return torch.zeros_like(x).index_put_((token,), x[token] * scores[token, e].unsqueeze(-1), accumulate=True)


def bad_rows(m, x, scores):
    """What is not chosen divides by zero, and nobody sees it."""
    token = (x[:, 0] > 0).nonzero(as_tuple=True)[0]
    return x.index_add(0, token, x[token] / x[token, :1].clamp(min=0).sqrt())


def mask_that_changes(m, x, scores):
    mask = x[:, 0] > 0
    token = mask.nonzero(as_tuple=True)[0]
    mask.logical_not_()
    return torch.where(mask[:, None], x, x.index_add(0, token, x[token].exp()))


def session_of(model, x):
    exported = npusim.export(model, (x,))
    return exported, npusim.Session(npusim.compile(exported, dtype="float32"), exported.weights)


@pytest.mark.parametrize(
    "function", [of_mixtral, of_hit, put, squeezed, accumulated, bad_rows, mask_that_changes], ids=lambda f: f.__name__
)
@pytest.mark.filterwarnings("ignore:the program is made for")
def test_every_input(function):
    torch.manual_seed(3)
    model = Experts(function).eval()
    exported, session = session_of(model, torch.randn(3, 8, 16))
    assert not [what for what in exported.made_for if "index" in what or "where" in what]
    for seed in range(4):
        torch.manual_seed(seed)
        x = torch.randn(3, 8, 16)
        with torch.no_grad():
            assert np.allclose(session.run(x)["output"], model(x).numpy(), rtol=1e-5, atol=1e-6)
    with torch.no_grad():
        few = torch.randn(16).repeat(3, 8, 1)  # all tokens to one expert
        if function is not of_hit:
            assert np.allclose(session.run(few)["output"], model(few).numpy(), rtol=1e-5, atol=1e-6)


def across_rows(m, x, scores):
    token = (x[:, 0] > 0).nonzero(as_tuple=True)[0]
    return x.index_add(0, token, x[token].cumsum(0))


def other_places(m, x, scores):
    first, second = ((x[:, i] > 0).nonzero(as_tuple=True)[0] for i in (0, 0))
    return x.index_add(0, first, x[second])


def put_of_two_dimensions(m, x, scores):
    token, e = torch.where(scores > 0.25)
    out = x.clone()
    out[token] = x[token] * scores[token, e, None]
    return out


def written_between(m, x, scores):
    token = (x[:, 0] > 0).nonzero(as_tuple=True)[0]
    rows = x[token]
    rows[0] = 1
    return x.index_add(0, token, rows)


@pytest.mark.parametrize(
    "function", [across_rows, other_places, put_of_two_dimensions, written_between], ids=lambda f: f.__name__
)
@pytest.mark.filterwarnings("ignore:the program is made for")
def test_other_work_is_made_for_the_example(function):
    torch.manual_seed(3)
    model, x = Experts(function).eval(), torch.randn(3, 8, 16)
    exported, session = session_of(model, x)
    assert exported.made_for
    with torch.no_grad():
        assert np.allclose(session.run(x)["output"], model(x).numpy(), rtol=1e-5, atol=1e-6)
