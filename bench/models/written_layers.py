"""Models as researchers write them: attention, scans, codes, graphs, flows."""

import math

import torch
from torch import nn
from torch.nn import functional as F


class SelectiveScan(nn.Module):
    """Mamba's scan, step by step, with its gate and its convolution."""

    def __init__(self):
        super().__init__()
        self.inside, self.conv = nn.Linear(8, 32), nn.Conv1d(16, 16, 4, groups=16, padding=3)
        self.x_proj, self.dt_proj, self.out = nn.Linear(16, 2 + 8, bias=False), nn.Linear(2, 16), nn.Linear(16, 8)
        self.a_log, self.d = nn.Parameter(torch.arange(1.0, 5).log().repeat(16, 1)), nn.Parameter(torch.ones(16))

    def example(self):
        return (torch.randn(2, 10, 8),)

    def forward(self, u):
        x, z = self.inside(u).chunk(2, -1)
        x = F.silu(self.conv(x.mT)[..., :10]).mT
        dt, b, c = self.x_proj(x).split([2, 4, 4], -1)
        dt = F.softplus(self.dt_proj(dt))
        a = torch.exp(dt[..., None] * -self.a_log.exp())
        bx = (dt * x)[..., None] * b[:, :, None]
        h, ys = x.new_zeros(2, 16, 4), []
        for i in range(10):
            h = a[:, i] * h + bx[:, i]
            ys.append((h @ c[:, i, :, None]).squeeze(-1))
        return self.out((torch.stack(ys, 1) + x * self.d) * F.silu(z))


class ParallelScan(nn.Module):
    """A first-order recurrence by doubling."""

    def example(self):
        return torch.rand(2, 16, 4), torch.randn(2, 16, 4)

    def forward(self, a, b):
        step = 1
        while step < 16:
            b = b + a * F.pad(b, (0, 0, step, 0))[:, :-step]
            a = a * F.pad(a, (0, 0, step, 0), value=1.0)[:, :-step]
            step *= 2
        return b


class Conformer(nn.Module):
    def __init__(self, d=32):
        super().__init__()
        self.ff1 = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.SiLU(), nn.Linear(4 * d, d))
        self.norm, self.attention = nn.LayerNorm(d), nn.MultiheadAttention(d, 4, batch_first=True)
        self.cnorm, self.pw1, self.dw = nn.LayerNorm(d), nn.Conv1d(d, 2 * d, 1), nn.Conv1d(d, d, 7, padding=3, groups=d)
        self.bn, self.pw2, self.last = nn.BatchNorm1d(d), nn.Conv1d(d, d, 1), nn.LayerNorm(d)
        self.ff2 = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.SiLU(), nn.Linear(4 * d, d))

    def example(self):
        return torch.randn(2, 11, 32), torch.tensor([11, 7])

    def forward(self, x, lengths):
        gone = torch.arange(11) >= lengths[:, None]
        x = x + 0.5 * self.ff1(x)
        y = self.norm(x)
        x = x + self.attention(y, y, y, key_padding_mask=gone, need_weights=False)[0]
        y = F.glu(self.pw1(self.cnorm(x).mT), 1).masked_fill(gone[:, None], 0)
        x = x + self.pw2(F.silu(self.bn(self.dw(y)))).mT
        return self.last(x + 0.5 * self.ff2(x)).masked_fill(gone[..., None], 0)


class Retention(nn.Module):
    """Retention in parallel and step by step."""

    def __init__(self):
        super().__init__()
        self.qkv, self.norm = nn.Linear(24, 72), nn.GroupNorm(3, 24)

    def example(self):
        return (torch.randn(2, 9, 24),)

    def forward(self, x):
        q, k, v = (t.view(2, 9, 3, 8).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        decay = 1 - 2.0 ** -(5 + torch.arange(3, dtype=x.dtype))
        apart = torch.arange(9)[:, None] - torch.arange(9)
        mask = torch.where(apart >= 0, decay[:, None, None] ** apart.clamp(min=0), 0.0)
        y = (q @ k.mT * mask) @ v
        state, steps = x.new_zeros(2, 3, 8, 8), []
        for i in range(9):
            state = state * decay[:, None, None] + k[:, :, i, :, None] * v[:, :, i, None]
            steps.append((q[:, :, i, None] @ state).squeeze(-2))
        return self.norm(y.transpose(1, 2).reshape(18, 24)).view(2, 9, 24), torch.stack(steps, 2)


class DeltaRule(nn.Module):
    """Fast weights that are corrected in place of being summed."""

    def example(self):
        return torch.randn(2, 7, 8), torch.randn(2, 7, 8), torch.randn(2, 7, 8), torch.rand(2, 7)

    def forward(self, q, k, v, beta):
        k, s, out = F.normalize(k, dim=-1), q.new_zeros(2, 8, 8), []
        for i in range(7):
            old = torch.einsum("bij,bi->bj", s, k[:, i])
            s = s + torch.einsum("bi,bj->bij", k[:, i], beta[:, i, None] * (v[:, i] - old))
            out.append(torch.einsum("bij,bi->bj", s, q[:, i]))
        return torch.stack(out, 1), s


class LinearAttention(nn.Module):
    def example(self):
        return torch.randn(2, 4, 12, 8), torch.randn(2, 4, 12, 8), torch.randn(2, 4, 12, 6)

    def forward(self, q, k, v):
        q, k = F.elu(q) + 1, F.elu(k) + 1
        whole = q @ (k.mT @ v) / (q * k.sum(2, keepdim=True)).sum(-1, keepdim=True)
        kv = torch.einsum("bhnd,bhne->bhnde", k, v).cumsum(2)
        causal = torch.einsum("bhnd,bhnde->bhne", q, kv) / torch.einsum("bhnd,bhnd->bhn", q, k.cumsum(2))[..., None]
        return whole, causal


class AttentionForms(nn.Module):
    """Grouped queries, a bias, a window, a sink, a cap of the scores."""

    def __init__(self):
        super().__init__()
        self.sink = nn.Parameter(torch.randn(4))

    def example(self):
        return torch.randn(2, 4, 10, 8), torch.randn(2, 2, 10, 8), torch.randn(2, 2, 10, 8)

    def forward(self, q, k, v):
        apart = torch.arange(10)[:, None] - torch.arange(10)
        window = (apart >= 0) & (apart < 4)
        slopes = 2.0 ** -torch.arange(1, 5, dtype=q.dtype)
        a = F.scaled_dot_product_attention(q, k, v, window, enable_gqa=True)
        k, v = k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)
        b = F.scaled_dot_product_attention(q, k, v, -slopes[:, None, None] * apart.abs(), scale=0.2)
        scores = 5 * torch.tanh(q @ k.mT / math.sqrt(8) / 5)
        scores = scores.masked_fill(~window, float("-inf"))
        scores = torch.cat([scores, self.sink.view(1, 4, 1, 1).expand(2, -1, 10, 1)], -1)
        return a, b, scores.softmax(-1)[..., :-1] @ v, F.scaled_dot_product_attention(q, k, v, is_causal=True)


class AxialAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.rows, self.columns = (nn.MultiheadAttention(16, 2, batch_first=True) for _ in range(2))

    def example(self):
        return (torch.randn(2, 16, 5, 6),)

    def forward(self, x):
        r = x.permute(0, 2, 3, 1).reshape(10, 6, 16)
        c = x.permute(0, 3, 2, 1).reshape(12, 5, 16)
        r, weights = self.rows(r, r, r)
        c = self.columns(c, c, c, need_weights=False)[0]
        return r.view(2, 5, 6, 16).permute(0, 3, 1, 2) + c.view(2, 6, 5, 16).permute(0, 3, 2, 1), weights


class VectorQuantiser(nn.Module):
    """The nearest code, straight through, and how often each is taken."""

    def __init__(self):
        super().__init__()
        self.codes = nn.Embedding(12, 6)

    def example(self):
        return (torch.randn(2, 6, 5, 5),)

    def forward(self, x):
        flat = x.permute(0, 2, 3, 1).reshape(-1, 6)
        far = flat.pow(2).sum(1, keepdim=True) - 2 * flat @ self.codes.weight.T + self.codes.weight.pow(2).sum(1)
        one_hot = F.one_hot(far.argmin(1), 12).to(x.dtype)
        q = (one_hot @ self.codes.weight).view(2, 5, 5, 6).permute(0, 3, 1, 2)
        use = one_hot.mean(0)
        return x + (q - x).detach(), F.mse_loss(q, x), torch.exp(-(use * (use + 1e-10).log()).sum())


class FiniteScalar(nn.Module):
    """Finite scalar quantisation: rounded bounded numbers as digits of an index."""

    def __init__(self):
        super().__init__()
        self.register_buffer("levels", torch.tensor([8, 5, 5]))
        self.register_buffer("basis", torch.tensor([1, 8, 40]))

    def example(self):
        return (torch.randn(2, 7, 3),)

    def forward(self, z):
        half = (self.levels - 1) * (1 + 1e-3) / 2
        shift = torch.where(self.levels % 2 == 0, 0.5, 0.0)
        z = (z + (shift / half).atanh()).tanh() * half - shift
        q = z + (z.round() - z).detach()
        width = self.levels // 2
        index = ((q + width) * self.basis).sum(-1).to(torch.int32)
        return q / width, index, (index[..., None] // self.basis) % self.levels


class GraphAttention(nn.Module):
    """GAT over a list of edges: softmax over what comes to each node."""

    def __init__(self):
        super().__init__()
        self.lin, self.a = nn.Linear(6, 16, bias=False), nn.Parameter(torch.randn(2, 2, 8))

    def example(self):
        return torch.randn(7, 6), torch.randint(0, 7, (2, 20))

    def forward(self, x, edges):
        h, (source, target) = self.lin(x).view(7, 2, 8), edges
        e = F.leaky_relu((h * self.a[0]).sum(-1)[source] + (h * self.a[1]).sum(-1)[target], 0.2)
        at = target[:, None].expand(-1, 2)
        most = e.new_full((7, 2), float("-inf")).scatter_reduce(0, at, e, "amax")
        w = (e - most[target]).exp()
        w = w / e.new_zeros(7, 2).scatter_add(0, at, w)[target]
        return h.new_zeros(7, 2, 8).index_add(0, target, w[..., None] * h[source]).mean(1)


class Equivariant(nn.Module):
    """EGNN: messages from distances move the coordinates."""

    def __init__(self):
        super().__init__()
        self.edge = nn.Sequential(nn.Linear(17, 16), nn.SiLU(), nn.Linear(16, 16), nn.SiLU())
        self.move, self.node = nn.Linear(16, 1, bias=False), nn.Linear(24, 8)

    def example(self):
        return torch.randn(2, 6, 8), torch.randn(2, 6, 3), torch.rand(2, 6) > 0.2

    def forward(self, h, x, there):
        apart = x[:, :, None] - x[:, None]
        pair = torch.cat(
            [h[:, :, None].expand(-1, -1, 6, -1), h[:, None].expand(-1, 6, -1, -1), apart.norm(dim=-1, keepdim=True)],
            -1,
        )
        both = (there[:, :, None] & there[:, None] & ~torch.eye(6, dtype=torch.bool))[..., None]
        m = self.edge(pair) * both
        x = x + (apart * self.move(m)).sum(2) / both.sum(2).clamp(min=1)
        return h + self.node(torch.cat([h, m.sum(2)], -1)), x


class SphericalHarmonics(nn.Module):
    """Degrees 0 to 2 and their products with weights, as in tensor products of e3nn."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(4, 9, 5))

    def example(self):
        return torch.randn(6, 3), torch.randn(6, 4)

    def forward(self, r, features):
        x, y, z = F.normalize(r, dim=-1).unbind(-1)
        sh = torch.stack(
            [
                torch.ones_like(x),
                x,
                y,
                z,
                x * z * 3**0.5,
                x * y * 3**0.5,
                y * y - (x * x + z * z) / 2,
                y * z * 3**0.5,
                (z * z - x * x) * 3**0.5 / 2,
            ],
            -1,
        )
        return torch.einsum("nu,ni,uik->nk", features, sh, self.w), sh


class CouplingFlow(nn.Module):
    """RealNVP there and back, with the determinant."""

    def __init__(self):
        super().__init__()
        self.nets = nn.ModuleList(nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 6)) for _ in range(4))

    def example(self):
        return (torch.randn(5, 6),)

    def forward(self, x):
        z, log = x, x.new_zeros(5)
        for i, net in enumerate(self.nets):
            a, b = z[:, i % 2 :: 2], z[:, 1 - i % 2 :: 2]
            s, t = net(a).chunk(2, 1)
            b = b * s.tanh().exp() + t
            log = log + s.tanh().sum(1)
            z = torch.stack([a, b] if i % 2 == 0 else [b, a], 2).flatten(1)
        return z, -0.5 * (z**2 + math.log(2 * math.pi)).sum(1) + log
