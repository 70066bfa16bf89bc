"""Models as researchers write them: functions, losses, linear algebra, resampling."""

import torch
from torch import nn
from torch.nn import functional as F


class Piecewise(nn.Module):
    """A monotone rational-quadratic spline, as flows have it: searchsorted, gather, softmax, cumsum."""

    def example(self):
        return torch.rand(5, 3), torch.randn(5, 3, 8), torch.randn(5, 3, 8), torch.randn(5, 3, 9)

    def forward(self, x, w, h, d):
        def knots(v):
            v = 0.01 + 0.92 * v.softmax(-1)
            return F.pad(v.cumsum(-1), (1, 0)) / v.sum(-1, keepdim=True)

        xs, ys, d = knots(w), knots(h), F.softplus(d) + 1e-3
        k = (torch.searchsorted(xs.contiguous(), x[..., None].contiguous(), right=True) - 1).clamp(0, 7)
        x0, x1, y0, y1 = xs.gather(-1, k), xs.gather(-1, k + 1), ys.gather(-1, k), ys.gather(-1, k + 1)
        d0, d1 = d.gather(-1, k), d.gather(-1, k + 1)
        s, t = (y1 - y0) / (x1 - x0), (x[..., None] - x0) / (x1 - x0)
        top = (y1 - y0) * (s * t * t + d0 * t * (1 - t))
        return (y0 + top / (s + (d0 + d1 - 2 * s) * t * (1 - t))).squeeze(-1)


class LinearAlgebra(nn.Module):
    def example(self):
        return (torch.randn(2, 4, 4),)

    def forward(self, x):
        a = x @ x.mT + 4 * torch.eye(4, dtype=x.dtype)
        p = a
        for _ in range(3):
            p = p @ p / p.diagonal(dim1=-2, dim2=-1).sum(-1)[:, None, None]
        inverse = a.new_zeros(2, 4, 4) + torch.eye(4, dtype=x.dtype) / 8
        for _ in range(12):
            inverse = inverse @ (2 * torch.eye(4, dtype=x.dtype) - a @ inverse)
        return (
            p,
            inverse,
            torch.linalg.vector_norm(x, 3, dim=1),
            torch.linalg.matrix_norm(x, 1),
            torch.cdist(x, a),
            x.trace() if x.dim() == 2 else x.mT.triu(1),
            torch.linalg.cross(x[..., :3], x[..., 1:]),
            torch.kron(x[0], x[1]),
        )


class Losses(nn.Module):
    def example(self):
        return torch.randn(6, 5), torch.randint(0, 5, (6,)), torch.randn(6, 5)

    def forward(self, x, y, z):
        return (
            F.cross_entropy(x, y, label_smoothing=0.1),
            F.nll_loss(x.log_softmax(1), y, ignore_index=2),
            F.mse_loss(x, z),
            F.smooth_l1_loss(x, z, beta=0.5),
            F.huber_loss(x, z, reduction="sum"),
            F.kl_div(x.log_softmax(1), z.softmax(1)),
            F.binary_cross_entropy_with_logits(x, z.sigmoid(), pos_weight=torch.ones(5, dtype=x.dtype) * 2),
            F.triplet_margin_loss(x, z, x.roll(1, 0)),
            F.cosine_embedding_loss(x, z, torch.ones(6)),
            F.soft_margin_loss(x, z.sign()),
            F.poisson_nll_loss(x, z.abs()),
            F.multi_margin_loss(x, y),
            F.hinge_embedding_loss(x, z.sign()),
        )


class SpecialFunctions(nn.Module):
    def example(self):
        return (torch.rand(4, 5) * 3 + 0.2,)

    def forward(self, x):
        return (
            torch.lgamma(x),
            torch.digamma(x),
            torch.erfinv(x / 4),
            torch.special.i0e(x),
            torch.special.expit(x),
            torch.xlogy(x, x),
            torch.special.entr(x),
            torch.logaddexp(x, -x),
            torch.sinc(x),
            torch.expm1(-x),
            torch.log1p(x),
            torch.hypot(x, x.flip(0)),
            torch.atan2(x - 1, x.roll(1, 1)),
            torch.special.ndtri(x / 4),
            torch.nan_to_num(x.log() / (x - x), posinf=9.0, neginf=-9.0),
            torch.special.erfcx(x),
            torch.special.log_ndtr(-x),
            torch.ldexp(x, torch.tensor(3)),
            torch.frac(x * 7),
            torch.heaviside(x - 1, x),
            x.logit(1e-3),
        )


class Interpolations(nn.Module):
    def example(self):
        return torch.randn(2, 3, 7, 9), torch.rand(2, 5, 5, 2) * 2.4 - 1.2

    def forward(self, x, grid):
        theta = torch.tensor([[0.8, -0.2, 0.1], [0.3, 0.9, -0.1]], dtype=x.dtype).expand(2, 2, 3)
        at = F.affine_grid(theta, (2, 3, 6, 6), align_corners=False)
        return (
            F.interpolate(x, scale_factor=1.7, mode="bilinear"),
            F.interpolate(x, (5, 13), mode="bicubic", align_corners=True),
            F.interpolate(x, (14, 4), mode="nearest-exact"),
            F.interpolate(x, (4, 4), mode="area"),
            F.grid_sample(x, at, align_corners=False),
            F.grid_sample(x, grid.to(x.dtype), mode="bicubic", padding_mode="reflection", align_corners=True),
            F.interpolate(x, (4, 5), mode="bilinear", antialias=True),
            F.adaptive_avg_pool2d(x, (3, 4)),
            F.lp_pool2d(x, 3, 2),
            F.max_pool2d(x, 3, 2, 1, ceil_mode=True),
        )
