"""Sample specs: which ATen call each golden sample makes, on which seeded inputs.

A family module calls `S(op, *args, **kwargs)`; tensor arguments are `T` specs (made by the short
constructors f h b d i i32 i16 i8 u8 bl, or V for literal values), everything else goes to ATen as is.
Tensors always go positionally: the IR keeps no slot for a tensor passed as a keyword.
"""
import hashlib
import math
import torch

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
SHORT = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16", torch.float64: "f64",
         torch.int64: "i64", torch.int32: "i32", torch.int16: "i16", torch.int8: "i8",
         torch.uint8: "u8", torch.bool: "bool"}
NAN, INF = math.nan, math.inf
SPECIALS = [NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 1e4, -1e4, 1e30, -1e30,
            1e-30, -1e-5, 3.0, -3.0, 6.0, 88.0, -88.0, 100.0, 0.25]


def special(values, dtype):
    """NaNs positive: torch's conversion to bfloat16 gives negative ones, and a NaN's sign is nobody's promise."""
    t = torch.tensor(values, dtype=torch.float64).to(dtype)
    return torch.where(t.isnan(), torch.full_like(t, NAN).abs(), t) if t.is_floating_point() else t


class T:
    """One input tensor: shape, dtype and generator."""

    def __init__(self, shape, dtype, g="", vals=None, **kw):
        self.shape, self.dtype, self.g, self.vals, self.kw = tuple(shape), dtype, g, vals, kw

    def desc(self):
        s = SHORT[self.dtype] + "[" + ",".join(map(str, self.shape)) + "]"
        return s + (self.g and "~" + self.g)

    def make(self, seed):
        gen = torch.Generator().manual_seed(seed)
        shape, dt, g = self.shape, self.dtype, self.g
        if self.vals is not None:
            return torch.tensor(self.vals, dtype=dt).reshape(shape)
        n = math.prod(shape)
        if g == "special":
            return special((SPECIALS * (n // len(SPECIALS) + 1))[:n], dt).reshape(shape)
        if g == "special2":  # the same values in another order, so that pairs meet
            v = [SPECIALS[(7 * k + 3 * (k // len(SPECIALS)) + 2) % len(SPECIALS)] for k in range(n)]
            return special(v, dt).reshape(shape)
        if g.startswith("idx"):  # idx7: 0..6   nidx7: -7..6
            return torch.randint(0, int(g[3:]), shape, generator=gen).to(dt)
        if g.startswith("nidx"):
            m = int(g[4:])
            return torch.randint(-m, m, shape, generator=gen).to(dt)
        if g.startswith("perm"):
            return torch.randperm(int(g[4:]), generator=gen)[:n].reshape(shape).to(dt)
        if dt == torch.bool:
            return torch.randint(0, 2, shape, generator=gen).bool() if g == "" else torch.full(shape, g == "true")
        if dt not in FLOATS:
            lo, hi = (0, 20) if dt == torch.uint8 else (-9, 10)
            if g in ("pos", "shift"):
                lo, hi = (1, 10) if g == "pos" else (0, 6)
            elif g == "small":
                lo, hi = -2, 3
            elif g == "nz":
                t = torch.randint(1, 8, shape, generator=gen)
                return (t if dt == torch.uint8 else t * (torch.randint(0, 2, shape, generator=gen) * 2 - 1)).to(dt)
            elif g == "big":
                r = {torch.uint8: 255, torch.int8: 127, torch.int16: 30000}.get(dt, 2_000_000)
                lo, hi = (0 if dt == torch.uint8 else -r), r + 1
            elif g == "bin":
                lo, hi = 0, 2
            return torch.randint(lo, hi, shape, generator=gen).to(dt)
        if g == "pos":
            t = torch.rand(shape, generator=gen, dtype=torch.float64) * 4 + 0.05
        elif g == "unit":
            t = torch.rand(shape, generator=gen, dtype=torch.float64) * 1.9 - 0.95
        elif g == "prob":
            t = torch.rand(shape, generator=gen, dtype=torch.float64) * 0.9 + 0.05
        elif g == "ge1":
            t = torch.rand(shape, generator=gen, dtype=torch.float64) * 5 + 1.01
        elif g == "wide":
            t = torch.randn(shape, generator=gen, dtype=torch.float64) * 20
        elif g == "big":
            t = torch.randn(shape, generator=gen, dtype=torch.float64) * 1e4
        elif g == "tie":  # halves and repeated values
            t = torch.randint(-7, 8, shape, generator=gen).double() / 2
        elif g == "small":
            t = torch.randn(shape, generator=gen, dtype=torch.float64) * 0.25
        else:
            t = torch.randn(shape, generator=gen, dtype=torch.float64) * self.kw.get("s", 1.5)
        return t.to(dt)


def _mk(dt):
    return lambda *shape, g="", **kw: T(shape, dt, g, **kw)


f, h, b, d = _mk(torch.float32), _mk(torch.float16), _mk(torch.bfloat16), _mk(torch.float64)
i, i32, i16, i8, u8, bl = (_mk(torch.int64), _mk(torch.int32), _mk(torch.int16), _mk(torch.int8),
                           _mk(torch.uint8), _mk(torch.bool))
BY = {"f32": f, "f16": h, "bf16": b, "f64": d, "i64": i, "i32": i32, "i16": i16, "i8": i8, "u8": u8, "bool": bl}


def V(vals, dtype=torch.float32, shape=None, tag="lit"):
    t = torch.tensor(vals, dtype=dtype)
    return T(t.shape if shape is None else shape, dtype, tag, vals=t.reshape(-1).tolist() if t.ndim else t.item())


class Sample:
    def __init__(self, args, kwargs, name, need, f64):
        self.args, self.kwargs, self.name, self.need, self.f64 = args, kwargs, name, need, f64


REG = {}      # op -> [Sample]
NAMES = {}    # op -> set of names


def _d(a):
    if isinstance(a, T):
        return a.desc()
    if isinstance(a, (list, tuple)):
        return "(" + ",".join(_d(x) for x in a) + ")"
    if isinstance(a, float):
        return f"{a:g}" if a != int(a) else f"{a:.1f}" if abs(a) < 1e6 else f"{a:g}" if math.isfinite(a) else str(a)
    return {True: "true", False: "false"}.get(a, str(a).replace("torch.", "")) if isinstance(a, bool) else \
        str(a).replace("torch.", "")


def _dsafe(a):
    if isinstance(a, float) and not math.isfinite(a):
        return str(a)
    return _d(a)


def S(op, *args, name=None, need=True, f64=True, **kwargs):
    """Add a sample. op: 'add.Tensor' ('.default' may be left out). need=False: ATen may refuse it."""
    if "." not in op.removeprefix("npusim."):
        op += ".default"
    if not op.startswith("npusim."):
        op = "aten." + op
    if name is None:
        name = " ".join([_dsafe(a) for a in args] + [f"{k}={_dsafe(v)}" for k, v in kwargs.items()]) or "plain"
        name = name.replace("/", "div")
        if len(name) > 72:
            name = name[:66]+ "~" + hashlib.md5(name.encode()).hexdigest()[:4]
    names = NAMES.setdefault(op, set())
    base, k = name, 2
    while name in names:
        name, k = f"{base} #{k}", k + 1
    names.add(name)
    REG.setdefault(op, []).append(Sample(args, kwargs, name, need, f64))
