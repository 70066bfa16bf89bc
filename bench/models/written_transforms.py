"""Models as researchers write them: functions of functions, weights that are computed, numbers by hand, aliases."""

import math

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations, parametrize, prune


class VmapForms(nn.Module):
    """vmap within a model: weights for each example, nested, along other dimensions."""

    def example(self):
        return torch.randn(5, 4), torch.randn(5, 4, 3)

    def forward(self, x, w):
        one = torch.vmap(lambda a, b: (a @ b).tanh() + a.sum())(x, w)
        two = torch.vmap(torch.vmap(lambda a, b: (a * b).sum(), (0, None)), (None, 0))(x, w[0].T[:, :4])
        three = torch.vmap(lambda a: a.softmax(0) * a.amax(), in_dims=2)(w)
        return one, two, three


class Derivatives(nn.Module):
    """Derivatives by hand of what jvp and grad are asked elsewhere: a score, its trace, a Newton step."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(3, 8), nn.Linear(8, 1)

    def example(self):
        return torch.randn(6, 3), torch.randn(6, 3)

    def forward(self, x, v):
        z = self.a(x)
        h = torch.tanh(z)
        slope = 1 - h * h
        score = (slope * self.b.weight) @ self.a.weight
        curve = -2 * h * slope * self.b.weight
        hessian = torch.einsum("nh,hi,hj->nij", curve, self.a.weight, self.a.weight)
        hv = torch.einsum("nij,nj->ni", hessian, v)
        wide = torch.promote_types(x.dtype, torch.float32)
        step = torch.linalg.solve(hessian.to(wide) + 3 * torch.eye(3, dtype=wide), score.to(wide))
        return self.b(h), score, hv, step, hessian.diagonal(dim1=1, dim2=2).sum(-1)


class Symmetric(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).mT


class Parametrised(nn.Module):
    """Weights that are computed each time: normalised, spectral, symmetric, low rank, pruned."""

    def __init__(self):
        super().__init__()
        self.normal = parametrizations.weight_norm(nn.Conv1d(4, 6, 3), dim=0)
        self.spectral = parametrizations.spectral_norm(nn.Linear(6, 6), n_power_iterations=2)
        self.sym = nn.Linear(6, 6)
        parametrize.register_parametrization(self.sym, "weight", Symmetric())
        self.old = nn.utils.weight_norm(nn.Linear(6, 4))
        self.pruned = nn.Linear(4, 4)
        prune.l1_unstructured(self.pruned, "weight", 0.5)
        prune.remove(self.pruned, "weight")
        self.down, self.up = nn.Linear(4, 2, bias=False), nn.Linear(2, 4, bias=False)

    def example(self):
        return (torch.randn(2, 4, 8),)

    def forward(self, x):
        y = self.sym(F.relu(self.spectral(self.normal(x).mT)))
        y = self.old(y)
        return F.linear(y, self.pruned.weight + 0.5 * self.up.weight @ self.down.weight, self.pruned.bias)


class Aliases(nn.Module):
    """Views of views that are written, read before and after, and a base that is written after its views were taken."""

    def example(self):
        return (torch.randn(4, 6, 8),)

    def forward(self, x):
        y = x.clone()
        flat = y.view(4, 48)
        head, tail = y.split([2, 4], 1)
        before = head.sum()
        flat[:, ::5] += 1
        tail.transpose(1, 2)[:, 3].mul_(2)
        y[1:3, :, 2:4] = y[:2, :, 4:6]
        column = y[..., 0]
        column.copy_(column.flip(0).clone())
        last = y.select(2, -1).unsqueeze(-1).squeeze(-1)
        last.clamp_(-0.5, 0.5)
        y.view(-1)[7::11].zero_()
        window = y.unfold(2, 4, 2)
        y.diagonal(dim1=0, dim2=1).add_(3)
        part = y.narrow(0, 1, 2).chunk(2, 2)[1]
        part.index_fill_(1, torch.tensor([0, 4]), -1.0)
        part[0].masked_fill_(part[0] > 1, 9.0)
        return y, window * 1, before, head.sum(), flat.sum(1), column, tail.mT.contiguous().view(4, -1).cumsum(1)


class InPlaceChain(nn.Module):
    """What is written in place in a loop through slices that overlap what is read next, as in finite differences."""

    def example(self):
        return torch.randn(2, 7, 7), torch.rand(2, 7, 7)

    def forward(self, u, c):
        u, old = u.clone(), u.clone()
        for step in range(4):
            lap = torch.zeros_like(u)
            lap[:, 1:-1, 1:-1] = u[:, 2:, 1:-1] + u[:, :-2, 1:-1] + u[:, 1:-1, 2:] + u[:, 1:-1, :-2]
            lap[:, 1:-1, 1:-1] -= 4 * u[:, 1:-1, 1:-1]
            new = 2 * u - old + 0.1 * c * lap
            new[:, 0], new[:, -1] = new[:, 1], new[:, -2]
            new[:, :, 0], new[:, :, -1] = new[:, :, -2], new[:, :, 1]
            old, u = u, new
            if step % 2:
                u[:, ::2, ::2] += 0.01 * step
                u[:, 1::2, 1::2].sub_(u[:, ::2, ::2][:, :3, :3], alpha=0.1)
        red = u.clone()
        for parity in (0, 1):
            mask = (torch.arange(7)[:, None] + torch.arange(7)) % 2 == parity
            around = F.avg_pool2d(F.pad(red[:, None], (1, 1, 1, 1)), 3, 1)[:, 0]
            red[:, mask] = around[:, mask]
        return u, red


class Counters(nn.Module):
    """Buffers of several dtypes that forward changes: a count, a moving mean, a table, a flag, a ring."""

    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(1, dtype=torch.int32))
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("hits", torch.zeros(6, dtype=torch.long))
        self.register_buffer("begun", torch.tensor(False))
        self.register_buffer("ring", torch.zeros(3, 4))

    def example(self):
        return torch.randn(5, 4), torch.randint(0, 6, (5,))

    def forward(self, x, at):
        batch = x.mean(0)
        self.mean.copy_(torch.where(self.begun, torch.lerp(self.mean, batch, 0.1), batch))
        self.begun.fill_(True)
        self.hits.index_add_(0, at, torch.ones_like(at))
        self.ring[self.count.long() % 3] = batch
        self.count.add_(1)
        return (x - self.mean) / (self.count + 1), self.hits.argmax(), self.ring.sum(0), self.hits / self.count


class IntegerNet(nn.Module):
    """A net in int8 by hand: scales for each channel, products in int32, multipliers by shifts, saturated."""

    def __init__(self):
        super().__init__()
        self.register_buffer("w1", torch.randint(-127, 128, (12, 8), dtype=torch.int8))
        self.register_buffer("w2", torch.randint(-127, 128, (4, 12), dtype=torch.int8))
        self.register_buffer("bias", torch.randint(-500, 500, (12,), dtype=torch.int32))
        self.scale = nn.Parameter(torch.rand(4) * 1e-3 + 1e-3)

    def example(self):
        return (torch.randn(5, 8),)

    def forward(self, x):
        step = x.abs().amax(-1, keepdim=True).clamp(min=1e-5) / 127
        q = torch.round(x / step).clamp(-128, 127).to(torch.int8)
        acc = q.to(torch.int32) @ self.w1.to(torch.int32).t() + self.bias
        acc = (acc.to(torch.int64) * 1518500249) >> 37
        h = acc.clamp(0, 127).to(torch.int8)
        zero = h.sum(-1, keepdim=True, dtype=torch.int32) // 12
        out = (h.to(torch.int32) - zero) @ self.w2.to(torch.int32).T
        packed = (h[:, ::2] & 0xF) | (h[:, 1::2] << 4)
        low, high = (packed << 4) >> 4, packed >> 4
        same = low.add(high, alpha=16).to(torch.int8) == packed
        return out.to(x.dtype) * self.scale, h.to(x.dtype) / 127, zero.to(x.dtype), same


class DtypeMix(nn.Module):
    """Half, double, integers and truth in one expression, with the dtypes that PyTorch gives them."""

    def example(self):
        return torch.randn(4, 5), torch.randint(-9, 9, (4, 5)), torch.rand(4, 5) > 0.5

    def forward(self, x, i, b):
        h = x.half() * i.to(torch.int8)
        d = x.double() / (i.short() | 1)
        mean = i.float().mean() + b.sum() / 3
        y = torch.where(b, i, x) + h.to(x.dtype) * b
        counted = (i * b).cumsum(1) // 2
        z = i**2 % 7 - b.int() * 3
        wide = torch.full((4, 1), 3) * x
        u = (i.to(torch.uint8) >> 1) + b
        return y.float(), d, mean, counted, z, torch.result_type(x, 3) == x.dtype, wide.sum(1), u, i / 4, ~b & (i > 0)


class NormalisingFlow(nn.Module):
    """Glow: activation norm, an invertible convolution with its determinant, coupling; there and back."""

    def __init__(self):
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.rand(1, 4, 1, 1) + 0.5), nn.Parameter(torch.randn(1, 4, 1, 1))
        q = torch.linalg.qr(torch.randn(4, 4))[0]
        self.w = nn.Parameter(q)
        self.net = nn.Sequential(nn.Conv2d(2, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 4, 3, padding=1))

    def example(self):
        return (torch.randn(2, 4, 4, 6),)

    def forward(self, x):
        y = (x + self.shift) * self.scale.abs()
        log = 24 * self.scale.abs().log().sum()
        y = F.conv2d(y, self.w[..., None, None])
        log = log + 24 * torch.linalg.slogdet(self.w)[1]
        a, b = y.chunk(2, 1)
        s, t = self.net(a).chunk(2, 1)
        s = torch.sigmoid(s + 2)
        z = torch.cat([a, (b + t) * s], 1)
        log = log + s.log().flatten(1).sum(1) - 0.5 * z.square().sum((1, 2, 3))
        a, b = z.tensor_split(2, 1)
        s, t = self.net(a).chunk(2, 1)
        back = F.conv2d(torch.cat([a, b / torch.sigmoid(s + 2) - t], 1), torch.inverse(self.w)[..., None, None])
        return z, log, back / self.scale.abs() - self.shift


class MaskedAutoregression(nn.Module):
    """MADE inverted one place at a time, with a mixture of logistics for its likelihood."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(5, 20), nn.Linear(20, 10)
        order = torch.arange(5)
        hidden = torch.arange(20) % 4
        self.register_buffer("ma", hidden[:, None] >= order[None])
        self.register_buffer("mb", (order[:, None] > hidden[None]).repeat(2, 1))

    def example(self):
        return (torch.randn(3, 5),)

    def net(self, x):
        h = F.relu(F.linear(x, self.a.weight * self.ma, self.a.bias))
        return F.linear(h, self.b.weight.masked_fill(~self.mb, 0), self.b.bias).chunk(2, -1)

    def forward(self, u):
        x = torch.zeros_like(u)
        for i in range(5):
            mean, scale = self.net(x)
            x[:, i] = u[:, i] * scale[:, i].tanh().exp() + mean[:, i]
        mean, scale = self.net(x)
        z = (x - mean) * torch.exp(-scale.tanh())
        mid = F.logsigmoid((z[..., None] - torch.linspace(-1, 1, 3, dtype=z.dtype)) * 2)
        return x, z, torch.logsumexp(2 * mid - math.log(3), -1).sum(-1)


class ResidualQuantiser(nn.Module):
    """Codes of what is left, level by level, with masks of unused codes, perplexity and a decoder by sums of tables."""

    def __init__(self):
        super().__init__()
        self.codes = nn.Parameter(torch.randn(3, 16, 6))
        self.decode = nn.ConvTranspose1d(6, 2, 4, 2, 1)

    def example(self):
        return (torch.randn(2, 10, 6),)

    def forward(self, x):
        left, total, at = x, torch.zeros_like(x), []
        for book in self.codes:
            d = left.pow(2).sum(-1, keepdim=True) - 2 * left @ book.t() + book.pow(2).sum(-1)
            i = d.argmin(-1)
            q = F.embedding(i, book)
            left, total = left - q, total + q
            at.append(i)
        codes = torch.stack(at)
        again = torch.stack([b[c] for b, c in zip(self.codes, codes)]).sum(0)
        used = F.one_hot(codes.flatten(1), 16).to(x.dtype).mean(1)
        perplexity = torch.exp(-torch.special.xlogy(used, used).sum(-1))
        return self.decode(again.mT), codes, perplexity, x + (total - x).detach()


class ExpertChoice(nn.Module):
    """Experts that choose their tokens, and tokens with a capacity that drop what does not fit."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(8, 4, bias=False)
        self.up, self.down = nn.Parameter(torch.randn(4, 8, 12) * 0.3), nn.Parameter(torch.randn(4, 12, 8) * 0.3)

    def example(self):
        return (torch.randn(10, 8),)

    def forward(self, x):
        p = self.gate(x).softmax(-1)
        weight, rows = p.t().topk(3, -1)
        inside = torch.bmm(F.silu(torch.bmm(x[rows], self.up)), self.down) * weight[..., None]
        chosen = torch.zeros_like(x).index_add_(0, rows.flatten(), inside.flatten(0, 1))
        best, at = p.max(-1)
        mask = F.one_hot(at, 4)
        place = (mask.cumsum(0) * mask).sum(-1) - 1
        kept = place < 3
        slots = torch.zeros(4, 3, 8, dtype=x.dtype)
        slots[at, place.clamp(max=2)] += x * kept[:, None]
        out = torch.einsum("ecf,efd->ecd", F.gelu(torch.einsum("ecd,edf->ecf", slots, self.up)), self.down)
        back = out[at, place.clamp(max=2)] * (best * kept)[:, None]
        load = mask.to(x.dtype).mean(0) * p.mean(0)
        return chosen, back, 4 * load.sum(), place


class EmCapsules(nn.Module):
    """Capsules routed by expectation and maximisation, votes by pose matrices."""

    def __init__(self):
        super().__init__()
        self.w, self.bu, self.ba = (nn.Parameter(torch.randn(*s) * 0.4) for s in ((6, 3, 4, 4), (3,), (3,)))

    def example(self):
        return torch.randn(2, 6, 4, 4), torch.rand(2, 6)

    def forward(self, pose, a):
        votes = torch.einsum("nipq,ioqr->niopr", pose, self.w).flatten(3)
        r = torch.full((2, 6, 3), 1 / 3, dtype=pose.dtype)
        for i in range(3):
            ra = (r * a[..., None])[..., None]
            total = ra.sum(1, keepdim=True) + 1e-6
            mean = (ra * votes).sum(1, keepdim=True) / total
            var = (ra * (votes - mean) ** 2).sum(1, keepdim=True) / total + 1e-2
            cost = (self.bu[:, None] + 0.5 * var.log()) * total
            out = torch.sigmoid((1 + i) * 0.3 * (self.ba - cost.sum(-1)))
            logp = (-((votes - mean) ** 2) / (2 * var) - 0.5 * torch.log(2 * math.pi * var)).sum(-1)
            r = torch.softmax(logp / 4 + torch.log(out + 1e-6), 2)
        return mean.view(2, 3, 4, 4), out.squeeze(1)


class Gaussian(nn.Module):
    """A Gaussian process: kernels, Cholesky, posterior, its likelihood; mixtures by distributions of torch."""

    def __init__(self):
        super().__init__()
        self.length, self.noise = nn.Parameter(torch.rand(3) + 0.5), nn.Parameter(torch.rand(1) + 0.5)

    def example(self):
        return torch.randn(8, 3), torch.randn(8), torch.randn(5, 3)

    def kernel(self, a, b):
        d = torch.cdist(a / self.length, b / self.length)
        return (1 + 5**0.5 * d + 5 / 3 * d * d) * torch.exp(-(5**0.5) * d)

    def forward(self, x, y, new):
        x, y, new = (t.to(torch.promote_types(t.dtype, torch.float32)) for t in (x, y, new))
        k = self.kernel(x, x) + self.noise.square() * torch.eye(8, dtype=x.dtype)
        factor = torch.linalg.cholesky(k)
        alpha = torch.cholesky_solve(y[:, None], factor)
        cross = self.kernel(new, x)
        mean = (cross @ alpha).squeeze(-1)
        v = torch.linalg.solve_triangular(factor, cross.T, upper=False)
        var = 1 - v.square().sum(0) + self.noise.square()
        logp = torch.distributions.Normal(mean, var.sqrt(), validate_args=False).log_prob(mean + 1)
        kl = torch.distributions.kl_divergence(
            torch.distributions.Normal(mean, var.sqrt(), validate_args=False),
            torch.distributions.Normal(torch.zeros_like(mean), torch.ones_like(var), validate_args=False),
        )
        fit = -0.5 * y @ alpha.squeeze(-1) - torch.log(torch.diagonal(factor)).sum()
        return mean, var, logp, kl, fit


class HyperField(nn.Module):
    """A net whose weights another makes for each example, called by functional_call with them and by bmm."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, 1))
        self.make = nn.Linear(5, 2 * 6 + 6 + 6 + 1)

    def example(self):
        return torch.randn(3, 5), torch.randn(3, 7, 2)

    def forward(self, code, places):
        made = self.make(code)
        w1, b1, w2, b2 = made.split([12, 6, 6, 1], -1)
        batched = torch.baddbmm(b1[:, None], places, w1.view(3, 6, 2).mT).tanh()
        batched = torch.baddbmm(b2[:, None], batched, w2.view(3, 1, 6).mT)
        single = []
        for i in range(3):
            weights = {"0.weight": w1[i].view(6, 2), "0.bias": b1[i], "2.weight": w2[i].view(1, 6), "2.bias": b2[i]}
            single.append(torch.func.functional_call(self.inner, weights, places[i]))
        return batched, torch.stack(single)


class StraightThrough(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, bits):
        ctx.save_for_backward(x)
        levels = 2**bits - 1
        x = x.clamp(-1, 1).add(1).mul(levels / 2)
        return x.round().mul_(2 / levels).sub_(1)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * (x.abs() <= 1), None


class Binarised(nn.Module):
    """Signs for weights, few bits for activations by an autograd function, products as counts of equal bits."""

    def __init__(self):
        super().__init__()
        self.conv, self.fc = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.Linear(8, 5)

    def example(self):
        return (torch.randn(2, 3, 6, 6),)

    def forward(self, x):
        w = self.conv.weight
        alpha = w.abs().mean((1, 2, 3), keepdim=True)
        y = F.conv2d(StraightThrough.apply(x, 3), alpha * torch.sign(w), padding=1)
        y = StraightThrough.apply(F.hardtanh(y).mean((2, 3)), 2)
        bits = (y > 0).long() @ (2 ** torch.arange(8))
        other = bits[:, None] ^ bits[None]
        count = torch.zeros_like(other)
        for i in range(8):
            count += (other >> i) & 1
        return self.fc(y), bits, 8 - 2 * count


class Memory(nn.Module):
    """A neural Turing machine's head: content, interpolation, circular shifts, sharpening, erasing and adding."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(6, 5 + 1 + 1 + 3 + 1 + 5 + 5)

    def example(self):
        return torch.randn(2, 4, 6), torch.randn(2, 8, 5)

    def forward(self, steps, memory):
        w, read = torch.zeros(2, 8, dtype=steps.dtype), []
        w[:, 0] = 1
        for x in steps.unbind(1):
            key, beta, gate, shift, sharp, erase, add = self.head(x).split([5, 1, 1, 3, 1, 5, 5], -1)
            content = F.cosine_similarity(memory + 1e-8, key.unsqueeze(1) + 1e-8, dim=-1)
            w = torch.lerp(w, (F.softplus(beta) * content).softmax(-1), gate.sigmoid())
            s = shift.softmax(-1)
            around = torch.cat([w[:, -1:], w, w[:, :1]], 1)
            w = torch.stack([F.conv1d(around[i].view(1, 1, -1), s[i].view(1, 1, -1)).view(-1) for i in range(2)])
            w = w ** (1 + F.softplus(sharp))
            w = w / (w.sum(-1, keepdim=True) + 1e-8)
            memory = memory * (1 - w[..., None] * erase.sigmoid()[:, None]) + torch.einsum("bn,bd->bnd", w, add.tanh())
            read.append(torch.bmm(w[:, None], memory)[:, 0])
        return torch.stack(read, 1), memory


class Tensorised(nn.Module):
    """Products of many tensors: a tensor train, a Tucker core, Khatri-Rao and Kronecker products, traces."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = (nn.Parameter(torch.randn(*s)) for s in ((1, 2, 3, 3), (3, 3, 2, 3), (3, 2, 2, 1)))
        self.core = nn.Parameter(torch.randn(3, 3, 3))

    def example(self):
        return torch.randn(4, 2, 3, 2), torch.randn(4, 3)

    def forward(self, x, y):
        train = torch.einsum("nabc,ialk,kbmp,pcoi->nlmo", x, self.a, self.b, self.c)
        tucker = torch.einsum("ijk,ni,nj->nk", self.core, y, y)
        outer = torch.einsum("ni,nj->nij", y, y).flatten(1)
        kron = torch.kron(y[:2], self.core[0])
        trace = torch.einsum("ijj->i", self.core) + torch.einsum("iji->j", self.core)
        left = torch.tensordot(x, self.core, dims=([2], [1]))
        return train, tucker, outer @ outer.T, kron, trace, left, torch.linalg.multi_dot([y.T, y, self.core[1]])


class UniqueRows(nn.Module):
    """Rows that are there more than once: which, how often, and sums over what is equal, in each of the ways."""

    def example(self):
        return torch.cat([torch.tensor([[0, 0], [0, 1], [1, 0], [1, 1]]), torch.randint(0, 2, (5, 2))]), torch.randn(
            9, 3
        )

    def forward(self, keys, x):
        rows, place, count = keys.unique(dim=0, return_inverse=True, return_counts=True)
        pooled = torch.zeros(rows.shape[0], 3, dtype=x.dtype).index_add(0, place, x) / count[:, None]
        code = keys[:, 0] * 2 + keys[:, 1]
        same = code[:, None] == code[None]
        first = same.int().argmax(1)
        rank = (same & (torch.arange(9)[None] < torch.arange(9)[:, None])).sum(1)
        order = torch.argsort(code * 9 + torch.arange(9))
        return rows, pooled, first, rank, x[order], torch.isin(code, torch.tensor([0, 3])), pooled[place] - x
