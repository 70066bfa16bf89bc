"""Models as researchers write them: recurrence, tables, images, weights that are computed."""

import math

import torch
from torch import nn
from torch.nn import functional as F


class Recurrent(nn.Module):
    """All three of them, in both directions and over packed lengths by a mask."""

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(8, 12, 2, batch_first=True, bidirectional=True)
        self.gru, self.rnn = nn.GRU(24, 10), nn.RNN(10, 6, nonlinearity="relu", bias=False)
        self.cell = nn.LSTMCell(6, 6)

    def example(self):
        return torch.randn(3, 7, 8), torch.tensor([6, 2, 4])

    def forward(self, x, last):
        y, (h, c) = self.lstm(x)
        g, _ = self.gru(y.transpose(0, 1))
        r, hr = self.rnn(g, torch.zeros(1, 3, 6, dtype=x.dtype))
        h1, c1 = self.cell(r[-1], (hr[0], hr[0] * 2))
        return y[torch.arange(3), last], h.sum(0), c[-1], h1, c1


class TemporalFusion(nn.Module):
    """Gated residual networks and a choice of variables, as in temporal fusion transformers."""

    def __init__(self):
        super().__init__()
        self.embed = nn.ModuleList(nn.Linear(1, 8) for _ in range(5))
        self.flat, self.a, self.b, self.gate = nn.Linear(40, 5), nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 16)
        self.norm, self.lstm = nn.LayerNorm(8), nn.LSTM(8, 8, batch_first=True)

    def example(self):
        return (torch.randn(2, 6, 5),)

    def forward(self, x):
        each = torch.stack([f(x[..., i : i + 1]) for i, f in enumerate(self.embed)], -2)
        w = self.flat(each.flatten(-2)).softmax(-1)
        y = self.lstm((each * w[..., None]).sum(-2))[0]
        y = self.norm(y + F.glu(self.gate(self.b(F.elu(self.a(y))))))
        return y, w, torch.quantile(y, 0.1, -1)


class Tabular(nn.Module):
    """Categories by offsets into one table, numbers by periodic features, a token for all."""

    def __init__(self):
        super().__init__()
        self.table, self.register = nn.Embedding(17, 8), nn.Parameter(torch.randn(1, 1, 8))
        self.register_buffer("offsets", torch.tensor([0, 3, 10]))
        self.frequency, self.mix = nn.Parameter(torch.randn(4, 4)), nn.Linear(8, 8)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=True, activation="gelu")

    def example(self):
        return torch.stack([torch.randint(0, n, (5,)) for n in (3, 7, 7)], 1), torch.randn(5, 4)

    def forward(self, kinds, x):
        v = 2 * math.pi * self.frequency * x[..., None]
        numbers = self.mix(torch.cat([v.cos(), v.sin()], -1))
        tokens = torch.cat([self.register.expand(5, -1, -1), self.table(kinds + self.offsets), numbers], 1)
        return self.layer(tokens)[:, 0]


class ObliviousTrees(nn.Module):
    """NODE: differentiable decision trees, by products over the corners of a cube."""

    def __init__(self):
        super().__init__()
        self.choose, self.at = nn.Parameter(torch.randn(6, 3, 4)), nn.Parameter(torch.randn(3, 4))
        self.answer = nn.Parameter(torch.randn(3, 16, 2))

    def example(self):
        return (torch.randn(5, 6),)

    def forward(self, x):
        p = torch.einsum("bi,itd->btd", x, self.choose.softmax(0))
        p = ((p - self.at) + 0.5).clamp(0, 1)
        bits = (torch.arange(16)[:, None] >> torch.arange(4)) & 1
        leaf = torch.where(bits == 1, p[:, :, None], 1 - p[:, :, None]).prod(-1)
        return torch.einsum("btl,tlo->bo", leaf, self.answer), leaf.sum(-1)


class HyperNetwork(nn.Module):
    """Convolutions whose weights are computed, one for each image, by groups."""

    def __init__(self):
        super().__init__()
        self.make = nn.Linear(6, 4 * 3 * 9)

    def example(self):
        return torch.randn(2, 3, 8, 8), torch.randn(2, 6)

    def forward(self, x, z):
        w = self.make(z).view(2, 4, 3, 3, 3)
        w = w * torch.rsqrt(w.pow(2).sum((2, 3, 4), keepdim=True) + 1e-8)
        y = F.conv2d(x.reshape(1, 6, 8, 8), w.view(8, 3, 3, 3), padding=1, groups=2).view(2, 4, 8, 8)
        return y, F.conv_transpose2d(y.view(1, 8, 8, 8), w.view(8, 3, 3, 3), stride=2, padding=1, groups=2)


class Normalised(nn.Module):
    """Weights that are normalised when they are used, in each of PyTorch's ways."""

    def __init__(self):
        super().__init__()
        self.a = nn.utils.parametrizations.weight_norm(nn.Linear(8, 8))
        self.b = nn.utils.parametrizations.spectral_norm(nn.Linear(8, 8))
        self.c = nn.utils.parametrizations.orthogonal(nn.Linear(8, 8, bias=False), use_trivialization=False)
        self.d = nn.utils.weight_norm(nn.Conv1d(8, 8, 3, padding=1))

    def example(self):
        return (torch.randn(4, 8),)

    def forward(self, x):
        return self.c(self.b(self.a(x))), self.d(x.T[None])


class KolmogorovArnold(nn.Module):
    """B-splines of degree 3 by recursion."""

    def __init__(self):
        super().__init__()
        self.coefficients = nn.Parameter(torch.randn(4, 6, 8))

    def example(self):
        return (torch.rand(5, 6) * 2 - 1,)

    def forward(self, x):
        knots = (torch.arange(-3, 9) * 0.4 - 1).to(x.dtype)
        x = x[..., None]
        b = ((x >= knots[:-1]) & (x < knots[1:])).to(x.dtype)
        for k in range(1, 4):
            left = (x - knots[: -k - 1]) / (knots[k:-1] - knots[: -k - 1])
            right = (knots[k + 1 :] - x) / (knots[k + 1 :] - knots[1:-k])
            b = left * b[..., :-1] + right * b[..., 1:]
        return torch.einsum("bik,oik->bo", b, self.coefficients), b.sum(-1)


class UNet(nn.Module):
    """Time as sines, group norms, attention at the bottom, skips that are cropped."""

    def __init__(self):
        super().__init__()
        self.first, self.down = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 32, 3, 2, 1)
        self.norm, self.time, self.attention = (
            nn.GroupNorm(4, 32),
            nn.Linear(16, 64),
            nn.MultiheadAttention(32, 4, batch_first=True),
        )
        self.up, self.last = nn.ConvTranspose2d(32, 16, 4, 2, 1), nn.Conv2d(32, 3, 1)

    def example(self):
        return torch.randn(2, 3, 9, 9), torch.tensor([3, 700])

    def forward(self, x, t):
        angle = t[:, None] * torch.exp(-math.log(1e4) * torch.arange(8) / 8)
        scale, shift = self.time(torch.cat([angle.sin(), angle.cos()], -1).to(x.dtype))[..., None, None].chunk(2, 1)
        a = F.silu(self.first(x))
        h = self.norm(self.down(a)) * (1 + scale) + shift
        tokens = F.silu(h).flatten(2).mT
        h = h + self.attention(tokens, tokens, tokens, need_weights=False)[0].mT.unflatten(2, (5, 5))
        return self.last(torch.cat([self.up(h)[..., :9, :9], a], 1))


class Capsules(nn.Module):
    """Routing by agreement."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(10, 4, 8, 6) * 0.3)

    def example(self):
        return (torch.randn(2, 10, 8),)

    def forward(self, x):
        u = torch.einsum("bid,ijdk->bijk", x, self.w)
        b = x.new_zeros(2, 10, 4)
        for _ in range(3):
            s = (b.softmax(2)[..., None] * u).sum(1)
            n = s.pow(2).sum(-1, keepdim=True)
            v = n / (1 + n) * s / (n + 1e-8).sqrt()
            b = b + (u * v[:, None]).sum(-1)
        return v.norm(dim=-1)
