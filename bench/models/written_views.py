"""Models as researchers write them: views, writes in place, and indices."""

import torch
from torch import nn
from torch.nn import functional as F


class ShiftInPlace(nn.Module):
    """A history that is shifted by itself, through overlapping views that are cloned."""

    def example(self):
        return torch.randn(2, 8, 4), torch.randn(2, 4)

    def forward(self, history, new):
        h = history.clone()
        h[:, :-1] = h[:, 1:].clone()
        h[:, -1] = new
        return h.cumsum(1), h.flatten(1)[:, ::3]


class DiagonalBias(nn.Module):
    """A matrix whose diagonals are written through views."""

    def example(self):
        return (torch.randn(3, 6, 6),)

    def forward(self, x):
        y = x.clone()
        y.diagonal(dim1=1, dim2=2).add_(1)
        y.diagonal(1, 1, 2).mul_(0.5)
        torch.diagonal(y, -2, 1, 2).fill_(3.0)
        return y, y.tril(-1) @ y.triu()


class SlidingWindow(nn.Module):
    """Windows by unfold and by as_strided must be the same."""

    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(5, 7)

    def example(self):
        return (torch.randn(2, 16, 3),)

    def forward(self, x):
        a = x.unfold(1, 5, 2)
        b = x.contiguous().as_strided((2, 6, 3, 5), (48, 6, 1, 3))
        return self.mix(a) + self.mix(b), a - b


class OverlapAdd(nn.Module):
    """Frames that are put together by fold and by index_add."""

    def example(self):
        return (torch.randn(2, 7, 8),)

    def forward(self, frames):
        at = (torch.arange(7)[:, None] * 4 + torch.arange(8)).flatten()
        out = frames.new_zeros(2, 32).index_add_(1, at, frames.flatten(1))
        folded = F.fold(frames.transpose(1, 2), (1, 32), (1, 8), stride=(1, 4)).flatten(1)
        return out, folded, out - folded


class SwapHalves(nn.Module):
    """In place on both halves of one memory."""

    def example(self):
        return (torch.randn(4, 10),)

    def forward(self, x):
        y = x * 2
        a, b = y.chunk(2, 1)
        kept = a.clone()
        a.copy_(b)
        b.copy_(kept)
        y.T[::2] *= -1
        return y, a.sum(), b.mean(1)


class SelectWrites(nn.Module):
    def example(self):
        return torch.randn(4, 5, 6), torch.randn(5, 6)

    def forward(self, x, y):
        z = torch.zeros_like(x)
        z[0] = y
        z[1, 2:] = y[2:]
        z[:, :, -1] += x[:, :, 0]
        z[..., ::2].clamp_(min=0)
        z.select(1, 3).exp_()
        z.view(-1)[7] = 11.0
        return z, z.transpose(0, 2).reshape(6, -1)


class WritesThroughReshape(nn.Module):
    """reshape() is a view of the one and a copy of the other."""

    def example(self):
        return (torch.randn(4, 6),)

    def forward(self, x):
        a = x + 1
        a.reshape(2, 12)[0] = 0
        b = (x + 1).t()
        b.reshape(2, 12)[0] = 0
        c = (x + 1).t().contiguous()
        c.view(-1)[:5].zero_()
        return a, b, c


class ExpandedWrites(nn.Module):
    def example(self):
        return torch.randn(3, 1), torch.randn(3, 4)

    def forward(self, a, b):
        e = a.expand(3, 4)
        f = e.clone()
        f += b
        g = e.contiguous()
        g[:, 1:] -= f[:, :-1]
        return f, g, e * 2


class Permuted(nn.Module):
    """Reshapes of permuted, flipped and rolled tensors."""

    def example(self):
        return (torch.randn(2, 3, 4, 5),)

    def forward(self, x):
        y = x.permute(3, 1, 0, 2)
        z = y.reshape(15, 8).flip(0).roll((1, -2), (0, 1))
        w = y.movedim(0, -1).unflatten(-1, (5, 1)).squeeze(-1).swapaxes(0, 1)
        return z, w.ravel(), x.unfold(3, 2, 3).mT, torch.rot90(x, 1, (2, 3))


class ChannelsLastPads(nn.Module):
    """A padded image whose memory is that of its operand, addressed by as_strided."""

    def example(self):
        return (torch.randn(2, 3, 4, 5),)

    def forward(self, x):
        y = F.pad(x.contiguous(memory_format=torch.channels_last), (1, 1, 0, 2))
        z = F.pad(x.transpose(1, 3), (0, 0, 1, 1))
        return y.as_strided((4, 6), (20, 3), 2), z.as_strided((3, 8), (30, 2), 1)


class PixelGames(nn.Module):
    def example(self):
        return (torch.randn(2, 8, 6, 6),)

    def forward(self, x):
        up = F.pixel_shuffle(x, 2)
        down = F.pixel_unshuffle(up, 3)
        return up, down, F.channel_shuffle(x, 4), x.view(2, 2, 4, 6, 6).transpose(1, 2).flatten(1, 2)


class GatherScatter(nn.Module):
    def example(self):
        return torch.randn(3, 7), torch.randint(0, 7, (3, 4)), torch.randn(3, 4)

    def forward(self, x, at, new):
        picked = x.gather(1, at)
        put = x.scatter(1, at[:, :1], new[:, :1])
        summed = x.scatter_add(1, at, new)
        most = x.scatter_reduce(1, at, new, "amax", include_self=False)
        mean = x.scatter_reduce(1, at, new, "mean")
        return picked, put, summed, most, mean, torch.take_along_dim(x, at, 1)


class NegativeIndices(nn.Module):
    def example(self):
        return torch.randn(5, 6), torch.tensor([-1, 0, -5, 3]), torch.tensor([[2, -1], [0, -6], [1, 1], [-2, 4]])

    def forward(self, x, rows, columns):
        return x[rows], x[rows[:, None], columns], x[..., columns], x[[0, -1], [1, -2]]


class IndexedWrites(nn.Module):
    def example(self):
        return torch.randn(6, 5), torch.tensor([4, 1, 0]), torch.randn(3, 5), torch.randn(3)

    def forward(self, x, rows, new, values):
        a = x.clone()
        a[rows] = new
        b = x.clone()
        b[rows, torch.tensor([0, 2, 4])] += values
        c = x.index_put((rows, rows), values, accumulate=True)
        d = x.index_copy(0, rows, new).index_fill(1, torch.tensor([1, 3]), -2.0)
        e = torch.index_select(x, 1, rows)
        return a, b, c, d, e, x.put(rows, values), x.take(rows * 5)


class MaskedWrites(nn.Module):
    def example(self):
        return torch.randn(4, 5), torch.rand(4, 5) > 0.5, torch.rand(4) > 0.5

    def forward(self, x, mask, rows):
        a = x.clone()
        a[mask] = 7.0
        b = x.masked_fill(~mask & rows[:, None], float("-inf")).softmax(-1).nan_to_num(0.0)
        c = torch.where(mask, x, x.amax(1, keepdim=True))
        d = x.clone()
        d[rows] *= 3
        return a, b, c, d, mask.sum(1), mask.any(0), mask.all(1, keepdim=True)


class Relative(nn.Module):
    """Transformer-XL's relative shift, by padding and a view."""

    def example(self):
        return (torch.randn(2, 3, 6, 6),)

    def forward(self, scores):
        b, h, n, m = scores.shape
        shifted = F.pad(scores, (1, 0)).view(b, h, m + 1, n)[:, :, 1:].view_as(scores)
        return shifted, shifted.tril().softmax(-1)


class WindowPartition(nn.Module):
    """Swin's shifted windows with their mask, made of index arithmetic."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)
        self.table = nn.Parameter(torch.randn(49, 2))

    def example(self):
        return (torch.randn(2, 8, 8, 16),)

    def forward(self, x):
        w, shift = 4, 2
        grid = torch.stack(torch.meshgrid(torch.arange(w), torch.arange(w), indexing="ij")).flatten(1)
        apart = (grid[:, :, None] - grid[:, None]).permute(1, 2, 0) + w - 1
        bias = self.table[(apart[..., 0] * (2 * w - 1) + apart[..., 1]).view(-1)].view(16, 16, 2).permute(2, 0, 1)
        region = torch.zeros(8, 8)
        for i, a in enumerate((slice(0, -w), slice(-w, -shift), slice(-shift, None))):
            for j, b in enumerate((slice(0, -w), slice(-w, -shift), slice(-shift, None))):
                region[a, b] = i * 3 + j
        region = region.view(2, w, 2, w).transpose(1, 2).reshape(4, 16)
        mask = torch.where(region[:, None] == region[:, :, None], 0.0, -100.0).to(x.dtype)
        y = torch.roll(x, (-shift, -shift), (1, 2)).view(2, 2, w, 2, w, 16).transpose(2, 3).reshape(8, 16, 16)
        q, k, v = self.qkv(y).view(8, 16, 3, 2, 8).permute(2, 0, 3, 1, 4)
        scores = (q @ k.mT / 8**0.5 + bias).view(2, 4, 2, 16, 16) + mask[:, None]
        y = (scores.view(8, 2, 16, 16).softmax(-1) @ v).transpose(1, 2).flatten(2)
        y = self.out(y).view(2, 2, 2, w, w, 16).transpose(2, 3).reshape(2, 8, 8, 16)
        return torch.roll(y, (shift, shift), (1, 2)) + x


class EinsumZoo(nn.Module):
    def example(self):
        return torch.randn(2, 3, 4), torch.randn(2, 4, 5), torch.randn(3, 5)

    def forward(self, a, b, c):
        return (
            torch.einsum("bij,bjk->bik", a, b),
            torch.einsum("bij,bjk,ik->b", a, b, c),
            torch.einsum("bii->bi", a[:, :, :3]),
            torch.einsum("...ij,...jk->k...i", a, b),
            torch.einsum("bij,ik->jkb", a, c),
            torch.tensordot(a, b, dims=([0, 2], [0, 1])),
            torch.einsum("bij->", a),
        )


class Ragged(nn.Module):
    """Means over segments of sorted rows, as in pooling of graphs."""

    def example(self):
        return torch.randn(10, 4), torch.tensor([0, 0, 1, 1, 1, 2, 3, 3, 3, 3])

    def forward(self, x, group):
        total = x.new_zeros(5, 4).index_add_(0, group, x)
        count = torch.bincount(group.clamp(0, 4), minlength=5)[:5].clamp(min=1)
        most = x.new_full((5, 4), -1e9).scatter_reduce_(0, group[:, None].expand(-1, 4), x, "amax")
        one_hot = F.one_hot(group % 5, 5).to(x.dtype)
        return total / count[:, None], most, one_hot.T @ x


class EmptyTensors(nn.Module):
    def example(self):
        return torch.randn(3, 4), torch.randn(0, 4)

    def forward(self, x, none):
        both = torch.cat([x, none, x[:0]])
        return both, none.sum(0), x[3:].prod(1), (none @ x.T).sum(), x.new_zeros(0, 2).softmax(-1), x[:, 4:].amax(0)


class CacheByPosition(nn.Module):
    """A cache in a buffer, written at a position that is an input."""

    def __init__(self):
        super().__init__()
        self.register_buffer("cache", torch.zeros(2, 8, 4))

    def example(self):
        return torch.randn(2, 1, 4), torch.tensor([3])

    def forward(self, x, position):
        self.cache.index_copy_(1, position, x)
        seen = torch.arange(8) <= position
        return (self.cache * seen[None, :, None]).sum(1)


class RunningMoments(nn.Module):
    """Buffers that are updated in place and read afterwards."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("count", torch.zeros((), dtype=torch.long))

    def example(self):
        return (torch.randn(6, 4),)

    def forward(self, x):
        self.count += 1
        self.mean.lerp_(x.mean(0), 0.1)
        return (x - self.mean) / self.count, self.mean + self.count


class OutArguments(nn.Module):
    def example(self):
        return torch.randn(3, 4), torch.randn(3, 4)

    def forward(self, a, b):
        out = torch.empty_like(a)
        torch.add(a, b, alpha=2, out=out)
        torch.mul(out, a, out=out)
        half = torch.empty(3, 2, dtype=a.dtype)
        torch.sub(out[:, :2], out[:, 2:], out=half)
        return out, half


class Setitem(nn.Module):
    """A loop that fills a result row by row from those before it."""

    def example(self):
        return (torch.randn(2, 6, 6),)

    def forward(self, cost):
        best = cost.new_full((2, 7, 7), 1e4)
        best[:, 0, 0] = 0
        for i in range(1, 7):
            for j in range(1, 7):
                near = torch.stack([best[:, i - 1, j], best[:, i, j - 1], best[:, i - 1, j - 1]], -1)
                best[:, i, j] = cost[:, i - 1, j - 1] + near.amin(-1)
        return best[:, 1:, 1:]


class Butterfly(nn.Module):
    """A Walsh-Hadamard transform by views."""

    def example(self):
        return (torch.randn(3, 16),)

    def forward(self, x):
        h = 1
        while h < 16:
            y = x.view(3, 16 // (2 * h), 2, h)
            x = torch.stack((y[:, :, 0] + y[:, :, 1], y[:, :, 0] - y[:, :, 1]), 2).view(3, 16)
            h *= 2
        return x / 4


class Householder(nn.Module):
    """QR by reflections, in place."""

    def example(self):
        return (torch.randn(5, 4),)

    def forward(self, a):
        r, q = a.clone(), torch.eye(5, dtype=a.dtype)
        for k in range(4):
            v = r[k:, k].clone()
            v[0] += torch.copysign(v.norm(), v[0])
            v /= v.norm()
            r[k:, k:] -= 2 * torch.outer(v, v @ r[k:, k:])
            q[:, k:] -= 2 * torch.outer(q[:, k:] @ v, v)
        return q @ r, r.triu()


class ScalarIndex(nn.Module):
    """An index that is a tensor without dimensions."""

    def example(self):
        return torch.randn(5, 6), torch.tensor([-1, 0, -5, 3])

    def forward(self, x, rows):
        return x[:, rows[1]], x[rows[0], rows]
