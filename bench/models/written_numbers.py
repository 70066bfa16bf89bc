"""Models as researchers write them: order, dtypes, complex numbers, logic."""

import math

import torch
from torch import nn
from torch.nn import functional as F


class TopkRouter(nn.Module):
    """Experts weighed by their rank; every expert sees every row."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(16, 4)
        self.up, self.down = nn.Parameter(torch.randn(4, 16, 24)), nn.Parameter(torch.randn(4, 24, 16))

    def example(self):
        return (torch.randn(5, 16),)

    def forward(self, x):
        scores, chosen = self.gate(x).softmax(-1).topk(2, -1)
        weights = torch.zeros(5, 4, dtype=x.dtype).scatter_(1, chosen, scores / scores.sum(-1, keepdim=True))
        y = torch.einsum("nef,efd->ned", F.gelu(torch.einsum("nd,edf->nef", x, self.up)), self.down)
        return (y * weights[..., None]).sum(1)


class SortZoo(nn.Module):
    def example(self):
        return (torch.randn(4, 9),)

    def forward(self, x):
        s, at = x.sort(-1, descending=True)
        ranks = at.argsort(-1)
        median = x.median(1)
        kth = x.kthvalue(3, dim=1).values
        q = torch.quantile(x, torch.tensor([0.25, 0.5, 0.9], dtype=x.dtype), dim=1)
        return s, ranks, median.values, kth, q, x.argmin(0), s.diff(dim=1), torch.sort(x, dim=0, stable=True).values


class NucleusFilter(nn.Module):
    """Top-p filtering of logits."""

    def example(self):
        return (torch.randn(3, 20) * 3,)

    def forward(self, logits):
        s, at = logits.sort(descending=True)
        gone = s.softmax(-1).cumsum(-1) - s.softmax(-1) > 0.8
        keep = gone.scatter(1, at, gone)
        return logits.masked_fill(keep, -1e4).softmax(-1)


class CumulativeZoo(nn.Module):
    def example(self):
        return (torch.rand(3, 12) + 0.5,)

    def forward(self, x):
        y = x - 1
        return (
            y.cumsum(1),
            x.cumprod(0),
            y.cummax(1).values,
            y.cummin(1).indices,
            y.logcumsumexp(1),
            y.flip(1).cumsum(1).flip(1),
            torch.trapezoid(x, dim=1),
            torch.cumulative_trapezoid(x, dim=0),
        )


class Sinkhorn(nn.Module):
    def example(self):
        return (torch.randn(2, 6, 6),)

    def forward(self, scores):
        for _ in range(8):
            scores = scores - scores.logsumexp(-1, keepdim=True)
            scores = scores - scores.logsumexp(-2, keepdim=True)
        return scores.exp()


class Rotary(nn.Module):
    """Rotary embedding by complex numbers."""

    def example(self):
        return (torch.randn(2, 6, 4, 8),)

    def forward(self, x):
        turn = 1.0 / 10000 ** (torch.arange(0, 8, 2) / 8)
        turns = torch.polar(torch.ones(6, 4), torch.outer(torch.arange(6).float(), turn))
        pairs = torch.view_as_complex(x.float().reshape(2, 6, 4, 4, 2))
        return torch.view_as_real(pairs * turns[None, :, None]).flatten(-2).type_as(x)


class SpectralFilter(nn.Module):
    """A filter in frequencies, with complex weights."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(9, 4, 2))

    def example(self):
        return (torch.randn(2, 16, 4),)

    def forward(self, x):
        f = torch.fft.rfft(x.float(), dim=1, norm="ortho")
        f = f * torch.view_as_complex(self.weight.float())
        return torch.fft.irfft(f, n=16, dim=1, norm="ortho").to(x.dtype), f.abs(), f.real.mean(1)


class FourierLayer(nn.Module):
    """A Fourier neural operator: products of low modes in two dimensions."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(2, 3, 3, 4, 4, 2) / 3)

    def example(self):
        return (torch.randn(2, 3, 12, 12),)

    def forward(self, x):
        f = torch.fft.rfft2(x.float())
        w = torch.view_as_complex(self.w.float())
        top = torch.einsum("bixy,ioxy->boxy", f[:, :, :4, :4], w[0])
        low = torch.einsum("bixy,ioxy->boxy", f[:, :, -4:, :4], w[1])
        middle = torch.zeros(2, 3, 4, 4, dtype=top.dtype)
        left = torch.cat([top, middle, low], 2)
        out = torch.cat([left, torch.zeros(2, 3, 12, 3, dtype=top.dtype)], 3)
        return torch.fft.irfft2(out, s=(12, 12)).to(x.dtype)


class DiagonalStateSpace(nn.Module):
    """S4D: a kernel of complex exponentials, by the real part, and a long convolution by Fourier."""

    def __init__(self):
        super().__init__()
        self.log_step = nn.Parameter(torch.rand(4) - 3)
        self.real, self.imag = nn.Parameter(torch.zeros(4, 8)), nn.Parameter(math.pi * torch.arange(8.0).repeat(4, 1))
        self.c, self.d = nn.Parameter(torch.randn(4, 8, 2)), nn.Parameter(torch.randn(4))

    def example(self):
        return (torch.randn(2, 4, 16),)

    def forward(self, u):
        a = torch.complex(-self.real.float().exp(), self.imag.float())
        dt = self.log_step.float().exp()[:, None]
        k = torch.exp((a * dt)[..., None] * torch.arange(16))
        c = torch.view_as_complex(self.c.float()) * (torch.exp(a * dt) - 1) / a
        kernel = 2 * torch.einsum("hn,hnl->hl", c, k).real
        y = torch.fft.irfft(torch.fft.rfft(u.float(), n=32) * torch.fft.rfft(kernel, n=32), n=32)[..., :16]
        return (y + u * self.d[:, None]).to(u.dtype)


class Spectrogram(nn.Module):
    def example(self):
        return (torch.randn(2, 256),)

    def forward(self, x):
        s = torch.stft(x.float(), 32, 8, window=torch.hann_window(32), return_complex=True)
        p = s.abs().pow(2)
        back = torch.istft(s, 32, 8, window=torch.hann_window(32), length=256)
        return p.clamp(min=1e-5).log10().to(x.dtype), back, s.angle().cos() * s.abs()


class DoubleInside(nn.Module):
    """A sum that is kept in float64."""

    def example(self):
        return (torch.randn(4, 50) * 100,)

    def forward(self, x):
        y = x.double()
        var = (y * y).mean(1) - y.mean(1) ** 2
        return var.to(x.dtype), (y.cumsum(1) / torch.arange(1, 51, dtype=torch.float64)).to(x.dtype)


class FakeQuantised(nn.Module):
    """Weights and activations through int8 and back, products in int32."""

    def __init__(self):
        super().__init__()
        self.register_buffer("weight", torch.randint(-127, 128, (12, 16), dtype=torch.int8))
        self.register_buffer("scale", torch.rand(12) * 0.02 + 0.005)

    def example(self):
        return (torch.randn(3, 16),)

    def forward(self, x):
        step = x.abs().amax(-1, keepdim=True).clamp(min=1e-5) / 127
        q = (x / step).round().clamp(-128, 127).to(torch.int8)
        total = (q.to(torch.int32)[:, None] * self.weight.to(torch.int32)).sum(-1)
        return total * step * self.scale.to(x.dtype)


class PackedInt4(nn.Module):
    """Weights of four bits, two in a byte, unpacked by shifts."""

    def __init__(self):
        super().__init__()
        self.register_buffer("packed", torch.randint(0, 256, (8, 16), dtype=torch.uint8))
        self.register_buffer("scale", torch.rand(8, 1) * 0.1)

    def example(self):
        return (torch.randn(2, 32),)

    def forward(self, x):
        low, high = (self.packed & 15).to(torch.int8) - 8, (self.packed >> 4).to(torch.int8) - 8
        w = torch.stack((low, high), -1).flatten(1).to(x.dtype) * self.scale.to(x.dtype)
        return F.linear(x, w)


class IntegerZoo(nn.Module):
    def example(self):
        return torch.randint(-50, 50, (3, 7)), torch.randint(1, 9, (3, 7))

    def forward(self, a, b):
        return (
            a // b,
            a % b,
            torch.div(a, b, rounding_mode="trunc"),
            torch.fmod(a, b),
            a / b,
            a ^ b,
            a | b,
            ~a,
            a << 2,
            a >> 1,
            torch.gcd(a, b),
            a.sign(),
            a.abs().float().sqrt(),
            a.remainder(-b),
            (a > b) ^ (b > 3),
            a.clamp(-5, 5),
            a.to(torch.int8) + a.to(torch.uint8),
            a.prod(1),
            a.sum(dtype=torch.int32),
            torch.bitwise_not(a > 0),
            a**2,
        )


class WrappingInts(nn.Module):
    """A hash by products that wrap around."""

    def example(self):
        return (torch.randint(0, 2**31, (4, 6)),)

    def forward(self, x):
        h = torch.full((4,), 1469598103934665603)
        for i in range(6):
            h = (h ^ x[:, i]) * 1099511628211
        small = (x * 31).to(torch.int32) * 7 + x.to(torch.int16)
        return h % 1009, small, x.to(torch.uint8) * 3, (x.to(torch.int8) * 5).sum(1)


class BoolLogic(nn.Module):
    def example(self):
        return torch.randn(4, 6), torch.randn(4, 6)

    def forward(self, a, b):
        m, n = a > 0, b > a
        near = torch.isclose(a, b, atol=0.5)
        return (
            m & n | ~near,
            m.logical_xor(n),
            m.sum(),
            m.float().mean(),
            torch.where(m, a, b),
            m.cumsum(1),
            (m * a) - n.int(),
            torch.logical_not(a),
            m.any(1) & n.all(1),
            m.to(torch.int8).argmax(1),
            a.isfinite(),
        )


class ScalarTensors(nn.Module):
    """Numbers as tensors without dimensions, and dtypes that they do or do not raise."""

    def __init__(self):
        super().__init__()
        self.temperature = nn.Parameter(torch.tensor(0.7))
        self.register_buffer("two", torch.tensor(2, dtype=torch.long))

    def example(self):
        return torch.randn(3, 4), torch.tensor(1.5), torch.randint(0, 9, (3,))

    def forward(self, x, s, i):
        return (
            x * s + self.two,
            i * self.two,
            i / self.two,
            i * 0.5,
            i + True,
            x**self.two,
            self.two ** i.abs().clamp(max=5),
            x / self.temperature.exp(),
            torch.maximum(x, s),
            s * self.two,
            x.max() - x.min(),
            x.new_tensor(3.0) * i[:, None],
        )
