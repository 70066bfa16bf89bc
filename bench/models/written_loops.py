"""Models as researchers write them: samplers, recursions over time, dynamic programmes, searches."""

import math

import torch
from torch import nn
from torch.nn import functional as F


class Sampler(nn.Module):
    """DDIM with guidance: a loop over times with a net that is told the time."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6 + 8 + 4, 32), nn.SiLU(), nn.Linear(32, 6))
        self.classes = nn.Embedding(5, 4)
        self.register_buffer("kept", torch.cumprod(1 - torch.linspace(1e-3, 0.1, 50), 0))

    def example(self):
        return torch.randn(3, 6), torch.randint(0, 4, (3,))

    def noise(self, x, t, label):
        turn = t * torch.exp(-math.log(1e4) * torch.arange(4) / 4)
        time = torch.cat([turn.sin(), turn.cos()], -1).to(x.dtype).expand(x.shape[0], -1)
        return self.net(torch.cat([x, time, self.classes(label)], -1))

    def forward(self, x, label):
        times = torch.linspace(49, 0, 8).long()
        for i, t in enumerate(times):
            both = self.noise(torch.cat([x, x]), t, torch.cat([label, torch.full_like(label, 4)]))
            cond, free = both.chunk(2)
            e = free + 3.0 * (cond - free)
            a = self.kept[t]
            after = self.kept[times[i + 1]] if i < 7 else torch.ones((), dtype=x.dtype)
            clean = ((x - (1 - a).sqrt() * e) / a.sqrt()).clamp(-2, 2)
            x = after.sqrt() * clean + (1 - after).sqrt() * e
        return x


class HeunSampler(nn.Module):
    """Karras's second-order steps, with sigmas and preconditioning."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv1d(2, 8, 3, padding=1), nn.GELU(), nn.Conv1d(8, 2, 3, padding=1))
        self.time = nn.Linear(1, 2)

    def example(self):
        return (torch.randn(2, 2, 10) * 10,)

    def denoise(self, x, sigma):
        skip, out = 0.25 / (sigma**2 + 0.25), sigma * 0.5 / (sigma**2 + 0.25).sqrt()
        into, noise = 1 / (0.25 + sigma**2).sqrt(), sigma.log() / 4
        return skip * x + out * self.net(into * x + self.time(noise.view(1, 1)).view(1, 2, 1))

    def forward(self, x):
        steps = torch.arange(6, dtype=x.dtype)
        sigmas = (10 ** (1 / 7) + steps / 5 * (0.01 ** (1 / 7) - 10 ** (1 / 7))) ** 7
        sigmas = torch.cat([sigmas, sigmas.new_zeros(1)])
        for i in range(6):
            d = (x - self.denoise(x, sigmas[i])) / sigmas[i]
            y = x + d * (sigmas[i + 1] - sigmas[i])
            if i < 5:
                other = (y - self.denoise(y, sigmas[i + 1])) / sigmas[i + 1]
                y = x + (sigmas[i + 1] - sigmas[i]) * (d + other) / 2
            x = y
        return x


class NeuralOde(nn.Module):
    """Runge-Kutta over a net, with the divergence by its Jacobian along each axis."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 16), nn.Linear(16, 3)

    def example(self):
        return (torch.randn(5, 3),)

    def field(self, t, x):
        return self.b(torch.tanh(self.a(torch.cat([x, t.expand(x.shape[0], 1)], 1))))

    def divergence(self, t, x):
        h = torch.tanh(self.a(torch.cat([x, t.expand(x.shape[0], 1)], 1)))
        return torch.einsum("oh,nh,ho->n", self.b.weight, 1 - h * h, self.a.weight[:, :3])

    def forward(self, x):
        h, logp = 0.25, x.new_zeros(5)
        for i in range(4):
            t = x.new_tensor(i * h)
            k1 = self.field(t, x)
            k2 = self.field(t + h / 2, x + h / 2 * k1)
            k3 = self.field(t + h / 2, x + h / 2 * k2)
            k4 = self.field(t + h, torch.add(x, k3, alpha=h))
            logp = logp - h * self.divergence(t, x)
            x = x + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return x, logp


class RecurrentForms(nn.Module):
    """Layers of recurrent nets in their variants: tanh and relu, without biases, projected, one sequence without a batch."""

    def __init__(self):
        super().__init__()
        self.tanh, self.relu = nn.RNN(4, 5, 2), nn.RNN(4, 5, nonlinearity="relu", bias=False, batch_first=True)
        self.lstm, self.gru = nn.LSTM(4, 6, proj_size=2, bias=False), nn.GRU(4, 5, 2, bidirectional=True)
        self.cell, self.cells = nn.LSTMCell(4, 5), nn.ModuleList([nn.GRUCell(5, 4), nn.RNNCell(4, 3)])

    def example(self):
        return torch.randn(6, 2, 4), torch.randn(6, 4)

    def forward(self, x, alone):
        h = c = x.new_zeros(2, 5)
        steps = []
        for t in range(6):
            h, c = self.cell(x[t], (h, c))
            steps.append(self.cells[1](self.cells[0](h)))
        lstm, state = self.lstm(x, (x.new_ones(1, 2, 2), x.new_zeros(1, 2, 6)))
        return self.tanh(x)[0], self.relu(x)[1], lstm, *state, *self.gru(alone), torch.stack(steps)


class ForwardBackward(nn.Module):
    """A hidden Markov model: forward, backward, the posterior, the likeliest path back through its pointers."""

    def __init__(self):
        super().__init__()
        self.trans, self.first, self.emit = (nn.Parameter(torch.randn(*s)) for s in ((4, 4), (4,), (4, 6)))

    def example(self):
        return (torch.randint(0, 6, (3, 8)),)

    def forward(self, seen):
        trans, first, emit = self.trans.log_softmax(1), self.first.log_softmax(0), self.emit.log_softmax(1)
        e = emit.t()[seen]
        alpha, beta = [first + e[:, 0]], [torch.zeros_like(e[:, 0])]
        best, back = alpha[0], []
        for t in range(1, 8):
            alpha.append(torch.logsumexp(alpha[-1].unsqueeze(2) + trans, 1) + e[:, t])
            beta.insert(0, torch.logsumexp(trans + (e[:, 8 - t] + beta[0]).unsqueeze(1), 2))
            best, at = (best.unsqueeze(2) + trans).max(1)
            best = best + e[:, t]
            back.append(at)
        posterior = (torch.stack(alpha, 1) + torch.stack(beta, 1)).softmax(-1)
        path = [best.argmax(1)]
        for at in reversed(back):
            path.append(at.gather(1, path[-1][:, None]).squeeze(1))
        return posterior, alpha[-1].logsumexp(1), torch.stack(path[::-1], 1)


class CtcForward(nn.Module):
    """The CTC loss by hand: labels among blanks, three ways into each state, written into a table in place."""

    def example(self):
        return torch.randn(2, 9, 5), torch.randint(1, 5, (2, 3))

    def forward(self, logits, labels):
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        logp = logits.log_softmax(-1)
        states = torch.zeros(2, 7, dtype=torch.long)
        states[:, 1::2] = labels
        skip = torch.zeros(2, 7, dtype=torch.bool)
        skip[:, 3::2] = labels[:, 1:] != labels[:, :-1]
        table = logits.new_full((9, 2, 7), -1e4)
        table[0, :, 0] = logp[:, 0, 0]
        table[0, :, 1] = logp[:, 0].gather(1, labels[:, :1]).squeeze(1)
        for t in range(1, 9):
            one = F.pad(table[t - 1, :, :-1], (1, 0), value=-1e4)
            two = F.pad(table[t - 1, :, :-2], (2, 0), value=-1e4).masked_fill(~skip, -1e4)
            table[t] = torch.stack([table[t - 1], one, two]).logsumexp(0) + logp[:, t].gather(1, states)
        mine = -torch.logaddexp(table[-1, :, -1], table[-1, :, -2])
        sizes = torch.full((2,), 9), torch.full((2,), 3)
        return mine, F.ctc_loss(logp.transpose(0, 1), labels, *sizes, reduction="none")


class TimeWarping(nn.Module):
    """Soft dynamic time warping: a table filled cell by cell, and along its diagonals at once."""

    def example(self):
        return torch.randn(2, 5, 3), torch.randn(2, 4, 3)

    def forward(self, a, b):
        cost = (a[:, :, None] - b[:, None]).square().sum(-1)
        r = cost.new_full((2, 6, 5), 1e6)
        r[:, 0, 0] = 0
        for i in range(1, 6):
            for j in range(1, 5):
                before = torch.stack([r[:, i - 1, j - 1], r[:, i - 1, j], r[:, i, j - 1]], -1)
                r[:, i, j] = cost[:, i - 1, j - 1] - torch.logsumexp(-before, -1)
        skew = cost.new_full((2, 8, 5), 1e6)
        for i in range(5):
            skew[:, i : i + 4, i] = cost[:, i]
        d = [cost.new_full((2, 6), 1e6), cost.new_full((2, 6), 1e6)]
        d[0][:, 0] = 0
        for k in range(8):
            before = torch.stack([d[-2][:, :-1], d[-1][:, :-1], d[-1][:, 1:]])
            d.append(F.pad(skew[:, k] - torch.logsumexp(-before, 0), (1, 0), value=1e6))
        return r[:, -1, -1], d[-1][:, -1]


class Kalman(nn.Module):
    """A filter and its smoother, with gains from solved systems."""

    def __init__(self):
        super().__init__()
        self.a, self.h = nn.Parameter(torch.randn(3, 3) * 0.4), nn.Parameter(torch.randn(2, 3))

    def example(self):
        return (torch.randn(4, 7, 2),)

    def forward(self, y):
        y, a, h = (t.to(torch.promote_types(t.dtype, torch.float32)) for t in (y, self.a, self.h))
        q, r, one = 0.1 * torch.eye(3, dtype=y.dtype), 0.2 * torch.eye(2, dtype=y.dtype), torch.eye(3, dtype=y.dtype)
        x, p, lik = y.new_zeros(4, 3), one, y.new_zeros(4)
        kept = []
        for t in range(7):
            xp, pp = x @ a.T, a @ p @ a.T + q
            s = h @ pp @ h.T + r
            gain = torch.linalg.solve(s, h @ pp).T
            error = y[:, t] - xp @ h.T
            x = xp + error @ gain.T
            p = (one - gain @ h) @ pp
            factor = torch.linalg.cholesky(s)
            z = torch.linalg.solve_triangular(factor, error.T, upper=False)
            lik = lik - 0.5 * z.square().sum(0) - factor.diagonal().log().sum() - math.log(2 * math.pi)
            kept.append((x, p, xp, pp))
        smooth = [kept[-1][0]]
        for (x, p, _, _), (_, _, xp, pp) in zip(kept[-2::-1], kept[:0:-1]):
            c = torch.linalg.solve(pp, a @ p).T
            smooth.insert(0, x + (smooth[0] - xp) @ c.T)
        return torch.stack(smooth, 1), lik, p


class BeamSearch(nn.Module):
    """Beams of a small decoder: the best of all continuations, states that follow their beams, ended ones that stay."""

    def __init__(self):
        super().__init__()
        self.table, self.cell, self.out = nn.Embedding(11, 8), nn.GRUCell(8, 8), nn.Linear(8, 11)

    def example(self):
        return (torch.randn(2, 8),)

    def forward(self, h):
        h = h[:, None].expand(-1, 3, -1).reshape(6, 8)
        score = torch.tensor([0.0, -1e9, -1e9], dtype=h.dtype).repeat(2, 1)
        tokens = torch.ones(2, 3, 1, dtype=torch.long)
        ended = torch.zeros(2, 3, dtype=torch.bool)
        for _ in range(5):
            h = self.cell(self.table(tokens[..., -1].flatten()), h)
            logp = self.out(h).log_softmax(-1).view(2, 3, 11)
            stay = torch.full((11,), float("-inf"), dtype=h.dtype)
            stay[0] = 0
            logp = torch.where(ended[..., None], stay, logp)
            score, flat = (score[..., None] + logp).flatten(1).topk(3, 1)
            beam, token = flat // 11, flat % 11
            h = h.view(2, 3, 8).gather(1, beam[..., None].expand(-1, -1, 8)).view(6, 8)
            tokens = torch.cat([tokens.gather(1, beam[..., None].expand_as(tokens)), token[..., None]], -1)
            ended = ended.gather(1, beam) | (token == 0)
        return tokens, score, ended


class GreedyCache(nn.Module):
    """Six greedy steps of an attention with a cache that is filled in place inside forward."""

    def __init__(self):
        super().__init__()
        self.table, self.qkv, self.out = nn.Embedding(13, 16), nn.Linear(16, 48), nn.Linear(16, 13)

    def example(self):
        return (torch.randint(0, 13, (2,)),)

    def forward(self, token):
        keys, values = (torch.zeros(2, 6, 16, dtype=self.out.weight.dtype) for _ in range(2))
        said = []
        for i in range(6):
            x = self.table(token)
            q, k, v = self.qkv(x).chunk(3, -1)
            keys[:, i], values[:, i] = k, v
            scores = torch.baddbmm(torch.zeros(1, dtype=x.dtype), q[:, None], keys[:, : i + 1].mT, beta=0, alpha=0.25)
            x = x + torch.bmm(scores.softmax(-1), values[:, : i + 1]).squeeze(1)
            logits = self.out(x)
            token = logits.argmax(-1)
            said.append(token)
        return torch.stack(said, 1), logits, keys


class RollingCache(nn.Module):
    """A window of keys in buffers: rolled, written, counted by a buffer of its own."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(8, 24)
        self.register_buffer("keys", torch.zeros(2, 4, 8))
        self.register_buffer("values", torch.zeros(2, 4, 8))
        self.register_buffer("seen", torch.zeros((), dtype=torch.long), persistent=False)

    def example(self):
        return (torch.randn(2, 8),)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        self.keys.copy_(self.keys.roll(-1, 1))
        self.keys[:, -1] = k
        self.values[:, :-1] = self.values[:, 1:].clone()
        self.values[:, -1].copy_(v)
        self.seen += 1
        scores = torch.einsum("bd,bnd->bn", q, self.keys) / 8**0.5
        scores = scores.masked_fill(torch.arange(4) < 4 - self.seen, float("-inf"))
        return torch.einsum("bn,bnd->bd", scores.softmax(-1), self.values), self.seen.clone()


class Oscillators(nn.Module):
    """A linear recurrent unit: complex eigenvalues, a scan by doubling, read by real parts."""

    def __init__(self):
        super().__init__()
        self.nu, self.theta = nn.Parameter(torch.rand(6)), nn.Parameter(torch.rand(6) * 3)
        self.b, self.c = nn.Parameter(torch.randn(6, 4, 2) * 0.3), nn.Parameter(torch.randn(4, 6, 2) * 0.3)

    def example(self):
        return (torch.randn(2, 8, 4),)

    def forward(self, u):
        size, angle = torch.exp(-torch.exp(self.nu.float())), self.theta.float()
        lam = torch.complex(size * angle.cos(), size * angle.sin())
        x = u.float().to(torch.complex64) @ torch.view_as_complex(self.b.float()).T
        x = x * (1 - size**2).sqrt()
        power, step = lam, 1
        while step < 8:
            x = torch.cat([x[:, :step], x[:, step:] + power * x[:, :-step]], 1)
            power, step = power * power, step * 2
        y = torch.einsum("bln,on->blo", x, torch.view_as_complex(self.c.float()))
        return (y.real + u).to(u.dtype), x.abs().mean()


class ConjugateGradient(nn.Module):
    """A system solved by conjugate gradients, by power iterations its largest eigenvalue, and a pivoted elimination."""

    def example(self):
        return torch.randn(2, 6, 6), torch.randn(2, 6)

    def forward(self, a, b):
        spd = a @ a.mT + 2 * torch.eye(6, dtype=a.dtype)
        x, r = torch.zeros_like(b), b
        p = r
        rr = (r * r).sum(-1, keepdim=True)
        for _ in range(6):
            ap = torch.matmul(spd, p.unsqueeze(-1)).squeeze(-1)
            alpha = rr / (p * ap).sum(-1, keepdim=True)
            x, r = torch.addcmul(x, alpha, p), torch.addcmul(r, alpha, ap, value=-1)
            new = (r * r).sum(-1, keepdim=True)
            p, rr = r + new / rr * p, new
        m = torch.cat([a, b.unsqueeze(-1)], -1).clone()
        rows = torch.arange(2)
        for i in range(6):
            at = m[:, i:, i].abs().argmax(1) + i
            best, here = m[rows, at].clone(), m[:, i].clone()
            m[rows, at] = here
            m[:, i] = best / best[:, i : i + 1]
            for j in range(6):
                if j != i:
                    m[:, j] -= m[:, j, i : i + 1].clone() * m[:, i]
        return x, m[..., -1]


class Particles(nn.Module):
    """A particle filter without chance: weights, systematic resampling by cumulative sums, and a move."""

    def example(self):
        return torch.randn(3, 16, 2), torch.randn(3, 4, 2), torch.rand(3, 4)

    def forward(self, x, y, u):
        x, y, u = (t.to(torch.promote_types(t.dtype, torch.float32)) for t in (x, y, u))
        total = x.new_zeros(3)
        for t in range(4):
            logw = -0.5 * (x - y[:, t, None]).square().sum(-1)
            total = total + logw.logsumexp(1) - math.log(16)
            edges = logw.softmax(1).cumsum(1)
            places = (torch.arange(16) + u[:, t, None]) / 16
            at = torch.searchsorted(edges.contiguous(), places.to(edges.dtype).contiguous()).clamp(max=15)
            x = x.gather(1, at.unsqueeze(-1).expand(-1, -1, 2)) * 0.9 + 0.1 * y[:, t, None]
        return x.mean(1), total
