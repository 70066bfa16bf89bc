"""Models as researchers write them: graphs, segments, points, sets."""

import torch
from torch import nn
from torch.nn import functional as F


class MessagePassing(nn.Module):
    """Messages over a list of edges, put together in each of the ways, with degrees."""

    def __init__(self):
        super().__init__()
        self.message, self.update = nn.Linear(16 + 3, 12), nn.GRUCell(12 * 4, 8)

    def example(self):
        return torch.randn(7, 8), torch.randint(0, 7, (2, 20)), torch.randn(20, 3)

    def forward(self, x, edges, features):
        source, target = edges
        m = F.relu(self.message(torch.cat([x[source], x[target], features], -1)))
        at = target[:, None].expand_as(m)
        total = x.new_zeros(7, 12).index_add_(0, target, m)
        degree = torch.zeros(7, dtype=x.dtype).scatter_add_(0, target, torch.ones_like(target, dtype=x.dtype))
        mean = total / degree.clamp(min=1)[:, None]
        largest = x.new_zeros(7, 12).scatter_reduce(0, at, m, "amax", include_self=False)
        least = torch.zeros_like(largest).scatter_reduce_(0, at, m, "amin", include_self=True)
        return self.update(torch.cat([total, mean, largest, least], -1), x), degree


class GraphPooling(nn.Module):
    """The best nodes by a score, and the adjacency among them."""

    def __init__(self):
        super().__init__()
        self.score, self.lin = nn.Linear(6, 1), nn.Linear(6, 6)

    def example(self):
        return torch.randn(2, 9, 6), (torch.rand(2, 9, 9) > 0.6)

    def forward(self, x, adjacency):
        a = adjacency.to(x.dtype)
        a = (a + a.mT).clamp(max=1) + torch.eye(9, dtype=x.dtype)
        d = a.sum(-1).rsqrt()
        x = F.elu(torch.einsum("bij,bjc->bic", d[:, :, None] * a * d[:, None], self.lin(x)))
        s, at = self.score(x).squeeze(-1).tanh().topk(5, dim=1)
        x = x.take_along_dim(at[..., None], 1) * s[..., None]
        a = a.gather(1, at[..., None].expand(-1, -1, 9)).gather(2, at[:, None].expand(-1, 5, -1))
        return x, a, at


class SegmentReductions(nn.Module):
    """Reductions over rows that have the number of their segment, by scatter_reduce, index_reduce and one-hot products."""

    def example(self):
        return torch.randn(15, 4), torch.randint(0, 5, (15,)).sort().values

    def forward(self, x, segment):
        at = segment[:, None].expand(-1, 4)
        out = {k: x.new_ones(5, 4).scatter_reduce(0, at, x, k) for k in ("sum", "prod", "mean", "amax", "amin")}
        bare = x.new_zeros(5, 4).index_reduce(0, segment, x, "mean", include_self=False)
        one_hot = F.one_hot(segment, 5).to(x.dtype)
        shifted = x - bare[segment]
        variance = one_hot.mT @ shifted.square() / one_hot.sum(0)[:, None].clamp(min=1)
        soft = (x - out["amax"][segment]).exp()
        soft = soft / torch.zeros(5, 4, dtype=x.dtype).index_add(0, segment, soft)[segment]
        first = torch.searchsorted(segment, torch.arange(5))
        return *out.values(), bare, variance, soft, first, torch.bincount(segment, minlength=5)[:5]


class FarthestPoints(nn.Module):
    """PointNet++: farthest points, balls around them, features of the groups."""

    def __init__(self):
        super().__init__()
        self.mlp = nn.Sequential(nn.Conv2d(6, 16, 1), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 8, 1))

    def example(self):
        return torch.randn(2, 24, 3), torch.randn(2, 24, 3)

    def forward(self, xyz, features):
        xyz, batch = xyz.to(torch.promote_types(xyz.dtype, torch.float32)), torch.arange(2)
        chosen = torch.zeros(2, 6, dtype=torch.long)
        far, near = torch.zeros(2, dtype=torch.long), xyz.new_full((2, 24), 1e10)
        for i in range(6):
            chosen[:, i] = far
            d = (xyz - xyz[batch, far].view(2, 1, 3)).square().sum(-1)
            mask = d < near
            near[mask] = d[mask]
            far = near.max(-1)[1]
        centre = xyz[batch[:, None], chosen]
        square = torch.cdist(centre, xyz).square()
        group = torch.arange(24).view(1, 1, 24).repeat(2, 6, 1)
        group[square > 1.5] = 24
        group = group.sort(dim=-1)[0][:, :, :5]
        first = group[:, :, :1].repeat(1, 1, 5)
        empty = group == 24
        group[empty] = first[empty]
        local = xyz[batch.view(2, 1, 1), group] - centre[:, :, None]
        x = torch.cat([local.type_as(features), features[batch.view(2, 1, 1), group]], -1)
        return self.mlp(x.permute(0, 3, 2, 1)).max(2)[0], chosen


class EdgeConvolution(nn.Module):
    """DGCNN: the nearest neighbours in the space of features, found anew in each layer."""

    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv2d(2 * c, 8, 1) for c in (3, 8))

    def example(self):
        return (torch.randn(2, 3, 12),)

    def forward(self, x):
        found = []
        for conv in self.convs:
            inner = -2 * x.transpose(2, 1) @ x
            xx = (x**2).sum(1, keepdim=True)
            at = (-xx - inner - xx.transpose(2, 1)).topk(4, dim=-1)[1]
            flat = (at + torch.arange(2).view(-1, 1, 1) * 12).view(-1)
            rows = x.transpose(2, 1).reshape(24, -1)[flat].view(2, 12, 4, -1)
            centre = x.transpose(2, 1).unsqueeze(2).expand_as(rows)
            edge = torch.cat((rows - centre, centre), 3).permute(0, 3, 1, 2).contiguous()
            x = F.leaky_relu(conv(edge), 0.2).amax(-1)
            found.append(x)
        return torch.cat(found, 1)


class KMeans(nn.Module):
    """Lloyd's iterations; a cluster without points stays where it is."""

    def example(self):
        return torch.randn(30, 3), torch.randn(4, 3)

    def forward(self, x, centres):
        for _ in range(5):
            label = torch.cdist(x, centres).argmin(1)
            total = torch.zeros_like(centres).index_add_(0, label, x)
            count = torch.bincount(label, minlength=4).unsqueeze(1)
            centres = torch.where(count > 0, total / count.clamp(min=1), centres)
        return centres, label, count.squeeze(1)


class Chamfer(nn.Module):
    """Distances between sets, both ways, and a matching by Sinkhorn's iterations in logarithms."""

    def example(self):
        return torch.randn(2, 9, 3), torch.randn(2, 7, 3)

    def forward(self, a, b):
        d = torch.cdist(a, b, p=2.0)
        one, two = d.min(2), d.min(1)
        cost, f, g = d.square(), a.new_zeros(2, 9), a.new_zeros(2, 7)
        for _ in range(6):
            f = -0.1 * ((g[:, None] - cost) / 0.1).logsumexp(2)
            g = -0.1 * ((f[..., None] - cost) / 0.1).logsumexp(1)
        plan = ((f[..., None] + g[:, None] - cost) / 0.1).exp()
        far = torch.cdist(a, b, p=1).amax((1, 2)), torch.cdist(a, b, p=float("inf")).mean((1, 2))
        return one.values.mean(1) + two.values.mean(1), one.indices, (plan * cost).sum((1, 2)), *far


class Voxels(nn.Module):
    """Points put into a grid, their means, and the grid read again by a trilinear sample."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv3d(4, 4, 3, padding=1)

    def example(self):
        return torch.rand(2, 20, 3), torch.randn(2, 4, 20)

    def forward(self, at, features):
        cell = (at * 4).floor().long().clamp_(0, 3)
        flat = (cell * torch.tensor([16, 4, 1])).sum(-1)
        index = flat[:, None].expand(-1, 4, -1)
        grid = torch.zeros(2, 4, 64, dtype=at.dtype).scatter_reduce_(2, index, features, "mean", include_self=False)
        grid = self.conv(grid.view(2, 4, 4, 4, 4))
        return F.grid_sample(grid, (at.flip(-1) * 2 - 1)[:, :, None, None], align_corners=True)[..., 0, 0]


class DeepSets(nn.Module):
    """Sets of other lengths by a mask: a sum, a largest, a weighed mean, induced points that attend."""

    def __init__(self):
        super().__init__()
        self.phi, self.rho = nn.Linear(4, 8), nn.Linear(32, 5)
        self.points, self.attention = nn.Parameter(torch.randn(1, 3, 8)), nn.MultiheadAttention(8, 2, batch_first=True)

    def example(self):
        return torch.randn(3, 6, 4), torch.randint(1, 7, (3,))

    def forward(self, x, length):
        gone = torch.arange(6)[None] >= length[:, None]
        h = torch.tanh(self.phi(x)).masked_fill(gone[..., None], 0)
        most = h.masked_fill(gone[..., None], float("-inf")).amax(1)
        weight = h.mean(-1).masked_fill(gone, float("-inf")).softmax(1)
        seen, shown = self.attention(self.points.expand(3, -1, -1), h, h, key_padding_mask=gone)
        y = [h.sum(1), most, torch.einsum("bn,bnd->bd", weight, h), seen.mean(1)]
        return self.rho(torch.cat(y, -1)), shown


class Heat(nn.Module):
    """Diffusion over a graph by its Laplacian: powers, Chebyshev polynomials and a solved system."""

    def __init__(self):
        super().__init__()
        self.weights = nn.Parameter(torch.randn(4, 5, 6))

    def example(self):
        return torch.randn(3, 8, 5), torch.rand(8, 8)

    def forward(self, x, w):
        w = torch.triu(w, 1)
        w = w + w.T
        degree = w.sum(1)
        lap = torch.eye(8, dtype=x.dtype) - w / torch.outer(degree, degree).sqrt()
        terms = [x, lap @ x]
        for _ in range(2):
            terms.append(2 * lap @ terms[-1] - terms[-2])
        y = sum(t @ weight for t, weight in zip(terms, self.weights))
        wide = torch.promote_types(x.dtype, torch.float32)
        smooth = torch.linalg.solve(torch.eye(8, dtype=wide) + 0.5 * lap.to(wide), x.to(wide)).type_as(x)
        return y, smooth, torch.linalg.matrix_power(lap, 3).diagonal().sum()


class Suppressed(nn.Module):
    """Boxes that overlap a better one too much are left out, in a loop over the sorted ones."""

    def example(self):
        corner = torch.rand(12, 2) * 4
        return torch.cat([corner, corner + 0.5 + torch.rand(12, 2) * 2], 1), torch.rand(12)

    def forward(self, boxes, scores):
        order = scores.argsort(descending=True)
        b = boxes[order]
        area = (b[:, 2:] - b[:, :2]).prod(1)
        inter = (torch.min(b[:, None, 2:], b[None, :, 2:]) - torch.max(b[:, None, :2], b[None, :, :2])).clamp(min=0)
        inter = inter.prod(2)
        iou = inter / (area[:, None] + area - inter)
        keep = torch.ones(12, dtype=torch.bool)
        for i in range(11):
            keep[i + 1 :] &= ~((iou[i, i + 1 :] > 0.3) & keep[i])
        found = torch.zeros_like(keep).scatter_(0, order, keep)
        return found, torch.where(found, scores, -1.0).topk(3).indices, iou.triu(1).amax(0)
