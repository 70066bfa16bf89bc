"""Models as researchers write them: sound, frequencies, images, attention that knows places."""

import math

import torch
from torch import nn
from torch.nn import functional as F


class MelFeatures(nn.Module):
    """An audio front end: emphasis, short-time spectra, mel filters, decibels, cepstra, differences, normalised."""

    def __init__(self):
        super().__init__()
        self.register_buffer("window", torch.hann_window(32, periodic=False))
        points = torch.linspace(0, 1, 10) ** 1.5 * 16
        up = (torch.arange(17.0)[None] - points[:-2, None]) / (points[1:-1] - points[:-2])[:, None]
        down = (points[2:, None] - torch.arange(17.0)[None]) / (points[2:] - points[1:-1])[:, None]
        self.register_buffer("mel", torch.minimum(up, down).clamp(min=0))
        k = torch.arange(8.0)
        self.register_buffer("dct", torch.cos(math.pi / 8 * (k[:, None] + 0.5) * k[None, :5]), persistent=False)

    def example(self):
        return (torch.randn(2, 200),)

    def forward(self, sound):
        x = torch.cat([sound[:, :1], sound[:, 1:] - 0.97 * sound[:, :-1]], 1).float()
        s = torch.stft(x, 32, 16, window=self.window.float(), center=True, pad_mode="reflect", return_complex=True)
        power = s.real**2 + s.imag**2
        mel = self.mel.float() @ power
        db = 10 * torch.log10(mel.clamp(min=1e-6))
        db = torch.maximum(db, db.amax((1, 2), keepdim=True) - 60)
        cep = (db.transpose(1, 2) @ self.dct.float()).transpose(1, 2)
        delta = F.conv1d(F.pad(cep, (2, 2), mode="replicate"), torch.arange(-2.0, 3).div(10).repeat(5, 1, 1), groups=5)
        return (
            (cep - cep.mean(-1, keepdim=True)) / (cep.std(-1, keepdim=True) + 1e-5),
            delta,
            s.angle().cos().mean((1, 2)),
        )


class SpectralMask(nn.Module):
    """Speech is taken apart: a mask on a complex spectrum, and back to sound."""

    def __init__(self):
        super().__init__()
        self.gru, self.mask = nn.GRU(17, 12, batch_first=True), nn.Linear(12, 34)
        self.register_buffer("window", torch.hann_window(32))

    def example(self):
        return (torch.randn(2, 160),)

    def forward(self, x):
        w = self.window.float()
        s = torch.stft(x.float(), 32, 8, 32, w, return_complex=True)
        h = self.gru(s.abs().log1p().mT.to(x.dtype))[0]
        m = torch.tanh(self.mask(h)).float().unflatten(-1, (2, 17)).permute(2, 0, 3, 1)
        s = s * torch.complex(m[0].contiguous(), m[1].contiguous())
        return torch.istft(s, 32, 8, 32, w, length=160)


class TokenFourier(nn.Module):
    """FNet and a global filter: transforms in both dimensions, weights on half a spectrum."""

    def __init__(self):
        super().__init__()
        self.filter, self.ff = nn.Parameter(torch.randn(6, 4, 8, 2) * 0.2), nn.Linear(8, 8)

    def example(self):
        return (torch.randn(2, 6, 6, 8),)

    def forward(self, x):
        y = x.float()
        mixed = torch.fft.fft(torch.fft.fft(y.flatten(1, 2), dim=-1), dim=-2).real
        spectrum = torch.fft.rfft2(y, dim=(1, 2), norm="ortho") * torch.view_as_complex(self.filter.float())
        y = torch.fft.irfft2(spectrum, s=(6, 6), dim=(1, 2), norm="ortho") + mixed.view_as(y)
        return self.ff(torch.fft.fftshift(y, dim=1).to(x.dtype))


class LongConvolution(nn.Module):
    """Hyena: long filters made of sines and decays, applied by Fourier, gated."""

    def __init__(self):
        super().__init__()
        self.into, self.out, self.short = nn.Linear(6, 18), nn.Linear(6, 6), nn.Conv1d(18, 18, 3, padding=2, groups=18)
        self.filter = nn.Sequential(nn.Linear(5, 16), nn.Hardtanh(), nn.Linear(16, 6))

    def example(self):
        return (torch.randn(2, 12, 6),)

    def forward(self, u):
        t = torch.linspace(0, 1, 12)[:, None]
        bands = torch.linspace(1e-4, 1, 2)[None] * 2 * math.pi * torch.arange(12.0)[:, None] / 12
        z = torch.cat([t, torch.exp(-1j * bands).real, torch.exp(-1j * bands).imag], -1).to(u.dtype)
        k = (self.filter(z) * torch.exp(-t * torch.linspace(1, 4, 6)).to(u.dtype)).mT.float()
        x1, x2, v = self.short(self.into(u).mT)[..., :12].split(6, 1)
        v = (v * x1).float()
        y = torch.fft.irfft(torch.fft.rfft(v, n=24) * torch.fft.rfft(k, n=24), n=24)[..., :12]
        return self.out((y.to(u.dtype) * x2).mT)


class ComplexAttention(nn.Module):
    """Attention over complex features by complex einsum, rotated in complex form."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(8, 16) for _ in range(3))
        turn = torch.outer(torch.arange(6.0), 1 / 100 ** (torch.arange(4) / 4))
        self.register_buffer("turn", torch.stack([turn.cos(), turn.sin()], -1))

    def example(self):
        return (torch.randn(2, 6, 8),)

    def forward(self, x):
        turn = torch.view_as_complex(self.turn.float())
        q, k, v = (torch.view_as_complex(f(x).float().view(2, 6, 2, 4, 2)) for f in (self.q, self.k, self.v))
        q, k = q * turn[:, None], k * turn[None, :, None]
        scores = torch.einsum("bqhc,bkhc->bhqk", q, k.conj())
        weight = (scores.real / 4).softmax(-1)
        y = torch.einsum("bhqk,bkhc->bqhc", weight.to(v.dtype), v)
        back = torch.view_as_real(y / (1 + y.abs())).flatten(2).to(x.dtype)
        return back, scores.abs().amax(-1), torch.angle(scores[..., 0, 1:])


class AlibiWindows(nn.Module):
    """Slopes on distances, causal windows in blocks that look at the one before, and a clipped relative bias."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)
        self.bias = nn.Embedding(9, 4)

    def example(self):
        return (torch.randn(2, 12, 16),)

    def forward(self, x):
        q, k, v = self.qkv(x).view(2, 12, 3, 4, 4).permute(2, 0, 3, 1, 4)
        slopes = torch.tensor([2.0 ** (-2 * (h + 1)) for h in range(4)], dtype=x.dtype)
        far = torch.arange(12)[None] - torch.arange(12)[:, None]
        alibi = slopes[:, None, None] * far
        relative = self.bias(far.clamp(-4, 4) + 4).permute(2, 0, 1)
        scores = q @ k.mT / 2 + alibi + relative
        whole = scores.masked_fill(far > 0, torch.finfo(x.dtype).min).softmax(-1) @ v
        q, k, v = (t.reshape(2, 4, 3, 4, 4) for t in (q, k, v))
        k, v = (torch.cat([F.pad(t, (0, 0, 0, 0, 1, 0))[:, :, :-1], t], 3) for t in (k, v))
        at = torch.arange(8)[None] - 4 - torch.arange(4)[:, None]
        allowed = ((at <= 0) & (at > -4)).expand(3, -1, -1).clone()
        allowed[0, :, :4] = False
        local = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed).reshape(2, 4, 12, 4)
        return self.out((whole + local).transpose(1, 2).flatten(2))


class DecomposedPositions(nn.Module):
    """SAM: relative positions of rows and columns apart, interpolated from tables of another size."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(12, 36)
        self.rows, self.columns = nn.Parameter(torch.randn(5, 6)), nn.Parameter(torch.randn(9, 6))

    def example(self):
        return (torch.randn(2, 4, 5, 12),)

    def table(self, rel, size):
        rel = F.interpolate(rel.T[None], size=2 * size - 1, mode="linear")[0].T
        return rel[torch.arange(size)[:, None] - torch.arange(size)[None] + size - 1]

    def forward(self, x):
        q, k, v = self.qkv(x).reshape(2, 20, 3, 2, 6).permute(2, 0, 3, 1, 4).reshape(3, 4, 20, 6).unbind(0)
        rq = q.reshape(4, 4, 5, 6)
        a = q * 6**-0.5 @ k.transpose(-2, -1)
        h = torch.einsum("bhwc,hkc->bhwk", rq, self.table(self.rows, 4))
        w = torch.einsum("bhwc,wkc->bhwk", rq, self.table(self.columns, 5))
        a = (a.view(4, 4, 5, 4, 5) + h[..., None] + w[..., None, :]).view(4, 20, 20)
        return (a.softmax(-1) @ v).view(2, 2, 4, 5, 6).permute(0, 2, 3, 1, 4).reshape(2, 4, 5, 12)


class DeformableAttention(nn.Module):
    """Samples of several scales at learned offsets, weighed: grid_sample of zeros and of borders."""

    def __init__(self):
        super().__init__()
        self.offset, self.weight, self.value = nn.Linear(8, 2 * 2 * 3 * 2), nn.Linear(8, 2 * 6), nn.Linear(8, 8)

    def example(self):
        return torch.randn(2, 5, 8), torch.rand(2, 5, 2), torch.randn(2, 16 + 4, 8)

    def forward(self, query, reference, memory):
        v = self.value(memory).view(2, 20, 2, 4)
        off = self.offset(query).view(2, 5, 2, 2, 3, 2)
        weight = self.weight(query).view(2, 5, 2, 6).softmax(-1)
        sizes = torch.tensor([[4, 4], [2, 2]], dtype=query.dtype)
        at = reference[:, :, None, None, None] + off / sizes.flip(-1)[None, None, None, :, None]
        grid, start, sampled = 2 * at - 1, 0, []
        for level, side in enumerate((4, 2)):
            image = v[:, start : start + side * side].permute(0, 2, 3, 1).reshape(4, 4, side, side)
            g = grid[:, :, :, level].transpose(1, 2).flatten(0, 1)
            mode = {"padding_mode": "border", "mode": "bilinear"} if level else {"padding_mode": "zeros"}
            sampled.append(F.grid_sample(image, g, align_corners=False, **mode))
            start += side * side
        w = weight.transpose(1, 2).reshape(4, 1, 5, 6)
        return (torch.cat(sampled, -1) * w).sum(-1).view(2, 8, 5).mT


class WarpedFlow(nn.Module):
    """Optical flow: images warped, all-pairs correlation and its pyramid read around places, convex upsampling."""

    def __init__(self):
        super().__init__()
        self.features, self.mask = nn.Conv2d(3, 6, 3, 2, 1), nn.Conv2d(6, 9 * 4, 1)
        self.flow = nn.Conv2d(2 * 9 + 2, 2, 3, padding=1)

    def example(self):
        return torch.randn(2, 3, 8, 12), torch.randn(2, 3, 8, 12)

    def forward(self, a, b):
        fa, fb = self.features(a), self.features(b)
        corr = torch.einsum("bchw,bcij->bhwij", fa, fb).reshape(48, 1, 4, 6) / 6**0.5
        y, x = torch.meshgrid(torch.arange(4), torch.arange(6), indexing="ij")
        base = torch.stack([x, y], 0).to(a.dtype)[None].repeat(2, 1, 1, 1)
        flow = torch.zeros_like(base)
        d = torch.stack(torch.meshgrid(*[torch.arange(-1, 2, dtype=a.dtype)] * 2, indexing="ij"), -1).flip(-1)
        for _ in range(3):
            at = (base + flow).permute(0, 2, 3, 1).reshape(48, 1, 1, 2)
            found = []
            for level in range(2):
                c = F.avg_pool2d(corr, 2, 2) if level else corr
                size = a.new_tensor([c.shape[-1] - 1, c.shape[-2] - 1])
                grid = 2 * (at / 2**level + d) / size.clamp(min=1) - 1
                found.append(F.grid_sample(c, grid, align_corners=True).view(2, 4, 6, 9))
            update = self.flow(torch.cat([torch.cat(found, -1).permute(0, 3, 1, 2), flow], 1))
            flow = flow + update.clamp(-1, 1)
        mask = self.mask(fa).view(2, 1, 9, 2, 2, 4, 6).softmax(2)
        up = F.unfold(2 * flow, 3, padding=1).view(2, 2, 9, 1, 1, 4, 6)
        return (mask * up).sum(2).permute(0, 1, 4, 2, 5, 3).reshape(2, 2, 8, 12)


class SpatialTransformer(nn.Module):
    """An affine grid that a net makes, a perspective one by hand, bicubic and nearest samples, reflected."""

    def __init__(self):
        super().__init__()
        self.loc = nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(16, 6))

    def example(self):
        return torch.randn(2, 2, 9, 7), torch.rand(2, 3, 3) * 0.2

    def forward(self, x, h):
        theta = self.loc(x).view(2, 2, 3) * 0.1 + torch.eye(2, 3, dtype=x.dtype)
        grid = F.affine_grid(theta, (2, 2, 5, 6), align_corners=False)
        one = F.grid_sample(x, grid, mode="bicubic", padding_mode="reflection", align_corners=False)
        ys, xs = torch.meshgrid(torch.linspace(-1, 1, 4), torch.linspace(-1, 1, 5), indexing="ij")
        places = torch.stack([xs, ys, torch.ones_like(xs)], -1).to(x.dtype).view(1, -1, 3)
        p = places @ (h + torch.eye(3, dtype=x.dtype)).mT
        p = (p[..., :2] / p[..., 2:]).view(2, 4, 5, 2)
        return one, F.grid_sample(x, p, align_corners=True, padding_mode="reflection")


class Kernels(nn.Module):
    """A bilateral filter, a Sobel gradient with its suppression along angles, a median and a morphology by unfold."""

    def example(self):
        return (torch.rand(2, 1, 8, 9),)

    def forward(self, x):
        patches = F.unfold(F.pad(x, (1, 1, 1, 1), mode="reflect"), 3).view(2, 9, 8, 9)
        near = torch.exp(-(patches - x).square() / 0.1)
        smooth = (near * patches).sum(1) / near.sum(1)
        sobel = torch.tensor([[-1.0, 0, 1], [-2, 0, 2], [-1, 0, 1]], dtype=x.dtype)
        g = F.conv2d(x, torch.stack([sobel, sobel.T])[:, None], padding=1)
        size, angle = torch.hypot(g[:, 0], g[:, 1]), torch.atan2(g[:, 1], g[:, 0])
        centres = torch.arange(8, dtype=x.dtype) * (math.pi / 4)
        near = F.relu(torch.cos(angle[:, None] - centres[:, None, None])).square()
        histogram = torch.einsum("nbhw,nhw->nb", near, size)
        opened = -F.max_pool2d(F.max_pool2d(-x, 3, 1, 1).neg(), 3, 1, 1)
        summed = x.cumsum(-1).cumsum(-2)
        box = summed[..., 3:, 3:] - summed[..., :-3, 3:] - summed[..., 3:, :-3] + summed[..., :-3, :-3]
        return smooth, patches.median(1).values, histogram, opened, box


class Rendering(nn.Module):
    """NeRF: rays, encoded places, densities composed along the ray, resampled by the inverse of their sums."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3 + 3 * 2 * 3, 24), nn.ReLU(), nn.Linear(24, 4))

    def example(self):
        return torch.randn(5, 3), F.normalize(torch.randn(5, 3), dim=-1)

    def colours(self, o, d, t):
        p = o[:, None] + d[:, None] * t[..., None]
        turns = (p[..., None] * 2 ** torch.arange(3)).flatten(-2)
        out = self.net(torch.cat([p, turns.sin(), turns.cos()], -1))
        step = torch.cat([t[:, 1:] - t[:, :-1], torch.full_like(t[:, :1], 1.0)], 1)
        alpha = 1 - torch.exp(-F.softplus(out[..., 3]) * step)
        through = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha + 1e-10], 1), 1)[:, :-1]
        weight = alpha * through
        return (weight[..., None] * out[..., :3].sigmoid()).sum(1), weight

    def forward(self, o, d):
        t = torch.linspace(0.5, 2, 8, dtype=o.dtype).expand(5, 8)
        colour, weight = self.colours(o, d, t)
        middle, w = (t[:, 1:] + t[:, :-1]) / 2, weight[:, 1:-1] + 1e-3
        cdf = F.pad((w / w.sum(-1, keepdim=True)).cumsum(-1), (1, 0))
        u = torch.linspace(0.05, 0.95, 6, dtype=o.dtype).expand(5, 6).contiguous()
        at = torch.searchsorted(cdf.contiguous(), u, right=True)
        low, high = (at - 1).clamp(0), at.clamp(max=6)
        c0, c1, m0, m1 = cdf.gather(1, low), cdf.gather(1, high), middle.gather(1, low), middle.gather(1, high)
        part = torch.where(c1 - c0 < 1e-5, torch.ones_like(c0), c1 - c0)
        fine = m0 + (u - c0) / part * (m1 - m0)
        both = torch.cat([t, fine], 1).sort(-1).values
        return colour, self.colours(o, d, both)[0], fine
