"""Models as researchers write them: how a module is put together and what it gives."""

from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils import checkpoint


class TiedWeights(nn.Module):
    """One table for tokens in and out, and a part of it as a weight."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(20, 8, padding_idx=0)
        self.head = nn.Linear(8, 20, bias=False)
        self.head.weight = self.table.weight

    def example(self):
        return (torch.randint(0, 20, (2, 5)),)

    def forward(self, ids):
        return self.head(self.table(ids).cumsum(1)), F.linear(self.table(ids), self.table.weight[:8].T)


class NestedOutputs(nn.Module):
    """Dicts in lists in dicts, with numbers and None among them, one tensor twice."""

    def example(self):
        return ({"a": torch.randn(2, 3), "b": [torch.randn(3), (torch.randn(2, 1),)]},)

    def forward(self, given):
        a, b, c = given["a"], given["b"][0], given["b"][1][0]
        y = a * b
        return {"sum": y + c, "parts": [y, {"again": y, "n": 3, "none": None}], "same": a}


class Pair(NamedTuple):
    mean: torch.Tensor
    scale: torch.Tensor


class StructuredOutputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleDict({"first": nn.Linear(4, 4), "second": nn.Linear(4, 4)})

    def example(self):
        return (torch.randn(3, 4),)

    def forward(self, x):
        hidden = []
        for layer in self.layers.values():
            x = layer(x).relu()
            hidden.append(x)
        return Pair(x.mean(), x.std(0)), tuple(hidden)


class Autocast(nn.Module):
    """A part in bfloat16, a part in it that is not."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(16, 16), nn.Linear(16, 8)

    def example(self):
        return (torch.randn(4, 16),)

    def forward(self, x):
        with torch.autocast("cpu", torch.bfloat16):
            y = self.a(x)
            with torch.autocast("cpu", enabled=False):
                z = y.float().softmax(-1)
            y = self.b(y)
        return y.to(x.dtype) + 0, z.to(x.dtype)


class Straight(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, k):
        ctx.save_for_backward(x)
        return (x * k).round() / k

    @staticmethod
    def backward(ctx, grad):
        return grad, None


class CustomFunction(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(6, 6)

    def example(self):
        return (torch.randn(3, 6),)

    def forward(self, x):
        return self.lin(Straight.apply(x, 8)), Straight.apply(self.lin.weight, 16).sum(1)


class Checkpointed(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 12), nn.GELU("tanh"), nn.Linear(12, 6))

    def example(self):
        return (torch.randn(3, 6),)

    def forward(self, x):
        return checkpoint.checkpoint(self.body, x, use_reentrant=False) + x


class Conditional(nn.Module):
    """torch.cond on a value."""

    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)

    def example(self):
        return (torch.randn(3, 4),)

    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda v: self.lin(v), lambda v: v * 2, (x,))


class WhileLoop(nn.Module):
    def example(self):
        return (torch.randn(3, 4),)

    def forward(self, x):
        i = torch.tensor(0)
        return torch._higher_order_ops.while_loop(lambda i, v: i < 4, lambda i, v: (i + 1, v * 0.5 + 1), (i, x))[1]


class MappedCalls(nn.Module):
    """vmap over weights and over inputs."""

    def example(self):
        return torch.randn(3, 5), torch.randn(4, 5, 2)

    def forward(self, x, w):
        y = torch.vmap(lambda m: x @ m)(w)
        z = torch.vmap(torch.vmap(torch.dot, (None, 0)), (0, None))(x, x)
        return y, z, torch.func.vmap(lambda a, b: a[None] * b, (1, 1), 2)(x, x)


class Gradient(nn.Module):
    """An energy's gradient by torch.func, as of a force field."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(1, 8), nn.Linear(8, 1)

    def example(self):
        return (torch.randn(4, 3),)

    def forward(self, x):
        def energy(p):
            d = (p[:, None] - p[None]).pow(2).sum(-1).add(torch.eye(4, dtype=p.dtype)).sqrt()
            return self.b(torch.tanh(self.a(d[..., None]))).sum()

        return energy(x), -torch.func.grad(energy)(x)


class Jacobian(nn.Module):
    def example(self):
        return (torch.randn(3),)

    def forward(self, x):
        f = lambda v: torch.stack([v[0] * v[1], v[2].sin(), v.prod()])  # noqa: E731
        return (
            torch.func.jacrev(f)(x),
            torch.func.jvp(f, (x,), (torch.ones_like(x),))[1],
            torch.func.hessian(lambda v: (v**3).sum())(x),
        )


class Lazy(nn.Module):
    """Attributes that forward sets and reads, and a hook that changes what a layer gives."""

    def __init__(self):
        super().__init__()
        self.lin, self.kept = nn.Linear(4, 4), None
        self.lin.register_forward_hook(lambda module, args, out: out + args[0])
        self.lin.register_forward_pre_hook(lambda module, args: (args[0] * 2,))

    def example(self):
        return (torch.randn(2, 4),)

    def forward(self, x):
        held = self.lin(x)
        return held.sin(), self.lin(held)


class InPlaceModules(nn.Module):
    """ReLUs in place on what is read later, dropout that does nothing, an in-place residual."""

    def __init__(self):
        super().__init__()
        self.a = nn.Sequential(nn.Linear(6, 6), nn.ReLU(True), nn.Dropout(0.5, inplace=True), nn.Hardswish(True))
        self.b = nn.Sequential(nn.Linear(6, 6), nn.ELU(inplace=True), nn.LeakyReLU(0.1, True))

    def example(self):
        return (torch.randn(3, 6),)

    def forward(self, x):
        y = self.a(x)
        y += x
        z = self.b(y)
        F.relu_(y)
        z.mul_(y).add_(1, alpha=2)
        return y, z


class ChangedInput(nn.Module):
    """An argument that is changed after a view of it was read."""

    def example(self):
        return (torch.randn(3, 6),)

    def forward(self, x):
        y = x.clone()
        first = y[:, 0]
        before = first * 2
        y.mul_(3)
        return before, first, first + before


class Shapes(nn.Module):
    """Sizes and dtypes as numbers in Python."""

    def example(self):
        return (torch.randn(3, 5, 7),)

    def forward(self, x):
        b, *rest = x.shape
        scale = x.numel() ** -0.5 + torch.finfo(torch.float32).eps
        y = x.reshape(b, -1) * scale
        for i in range(x.dim()):
            y = y + i * x.size(i)
        return y, torch.full(tuple(rest), float(b)), torch.arange(x.shape[1], dtype=x.dtype).expand(b, -1)


class Einops(nn.Module):
    def example(self):
        return (torch.randn(2, 6, 8, 4),)

    def forward(self, x):
        from einops import rearrange, reduce, repeat

        a = rearrange(x, "b (h p) (w q) c -> b (h w) (p q c)", p=2, q=4)
        b = reduce(x, "b (h 2) w c -> b c h", "max")
        return a, b, repeat(b, "b c h -> (b r) h c", r=3)


class Scripted(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.arange(10.0).flip(0), persistent=False)
        self.plain = torch.randn(4)

    def example(self):
        return (torch.randint(0, 10, (4,)),)

    def forward(self, i):
        return self.table[i] + self.plain, self.table.sort().values[i] * self.plain.mean()


class SharedLayers(nn.Module):
    """One layer applied many times, an equilibrium by iteration."""

    def __init__(self):
        super().__init__()
        self.cell, self.norm = nn.Linear(8, 8), nn.LayerNorm(8, elementwise_affine=False)

    def example(self):
        return (torch.randn(3, 8),)

    def forward(self, x):
        z = torch.zeros_like(x)
        for _ in range(6):
            z = self.norm(torch.tanh(self.cell(z)) * 0.5 + x)
        return z, (z - x).abs().amax()


class TrainingNorm(nn.Module):
    """Statistics of the batch itself, in eval()."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.BatchNorm1d(6, track_running_stats=False), nn.InstanceNorm1d(6, affine=True)

    def example(self):
        return (torch.randn(5, 6, 7),)

    def forward(self, x):
        return (
            self.a(x),
            self.b(x),
            F.batch_norm(x, None, None, training=True),
            F.local_response_norm(x, 3),
            nn.functional.rms_norm(x, (7,)),
        )


class Ensemble(nn.Module):
    """Many models at once: stacked parameters and functional_call."""

    def __init__(self):
        super().__init__()
        self.one = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
        self.w = nn.ParameterList(nn.Parameter(torch.randn(3, *p.shape)) for p in self.one.parameters())

    def example(self):
        return (torch.randn(5, 4),)

    def forward(self, x):
        names = [name for name, _ in self.one.named_parameters()]
        call = lambda ps, v: torch.func.functional_call(self.one, dict(zip(names, ps, strict=True)), (v,))  # noqa: E731
        y = torch.vmap(call, (0, None))(tuple(self.w), x)
        return y.mean(0), y.var(0, unbiased=False)
