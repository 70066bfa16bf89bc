"""Factories."""
from .core import BY, INF, NAN, S, b, bl, d, f, h, i, i32, i8, u8
import torch

F32, F16, BF, I64, I32 = torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32
CPU = torch.device("cpu")
for e in (5, 0, 4.5, 33, 2.0):
    S("arange", e)
    S("arange", e, dtype=F32)
S("arange", 6, dtype=I64, device=CPU, pin_memory=False)
S("arange", 6, dtype=BF)
S("arange", 6, dtype=I32)
S("arange", 6, dtype=F16, layout=torch.strided)
for a, e in ((2, 7), (-3, 3), (0.5, 4), (3, 3), (2, 7.5)):
    S("arange.start", a, e)
    S("arange.start", a, e, dtype=F32)
    S("arange.start", a, e, dtype=I64)
for a, e, st in ((0, 10, 3), (10, 0, -3), (0.0, 1.0, 0.25), (0, 1, 0.1), (1, 8, 2), (0.0, 128.0, 16.0), (-1, -2, -0.3), (0, 64, 2)):
    S("arange.start_step", a, e, st)
    S("arange.start_step", a, e, st, dtype=F32)
S("arange.start_step", 0, 10, 3, dtype=BF)
S("arange.start_step", 0, 10)
for sz in ([2, 3], [], [0, 3], [5], [1, 2, 1, 2]):
    for v in (0, 1.5, True, -INF, 7):
        S("full", sz, v)
    S("full", sz, 3, dtype=F32)
    S("full", sz, 2.5, dtype=BF, layout=torch.strided, device=CPU, pin_memory=False)
    S("full", sz, 1, dtype=torch.bool)
    S("full", sz, -3.4028234663852886e38, dtype=F32)
    S("full", sz, 9, dtype=I64)
    S("full", sz, NAN, dtype=F16)
    for op in ("ones", "zeros"):
        S(op, sz)
        S(op, sz, dtype=I64)
        S(op, sz, dtype=torch.bool, device=CPU, pin_memory=False)
        S(op, sz, dtype=BF)
for x in (f(2, 3), b(4), i(2, 2), bl(3), f(), f(0, 2), h(1, 2, 1), i32(3), u8(2)):
    for v in (0, 2.5, True):
        S("full_like", x, v)
    S("full_like", x, -1, dtype=F32)
    S("full_like", x, 3, dtype=I64, pin_memory=False)
    S("new_full", x, [2, 2], 1.5)
    S("new_full", x, [], 3, dtype=F32, device=CPU)
    S("new_full", x, [3], -INF, dtype=F16)
    for op in ("ones", "zeros"):
        S(op + "_like", x)
        S(op + "_like", x, dtype=F32, pin_memory=False)
        S(op + "_like", x, dtype=torch.bool, memory_format=torch.preserve_format)
        S("new_" + op, x, [2, 2])
        S("new_" + op, x, [], dtype=BF)
        S("new_" + op, x, [0, 3], dtype=I64, device=CPU, pin_memory=False)
for v in (1.5, 2, True, -INF, 0.1):
    S("scalar_tensor", v)
    S("scalar_tensor", v, dtype=BF)
    S("scalar_tensor", v, dtype=F32, device=CPU)
for n in (1, 4, 0):
    S("eye", n)
    S("eye", n, dtype=torch.bool, need=False)
    S("eye", n, dtype=BF)
    for m in (2, 6):
        S("eye.m", n, m)
        S("eye.m", n, m, dtype=I64)
for a, e, n in ((0, 1, 5), (-1.0, 1.0, 7), (3, -3, 4), (0.0, 10.0, 33), (2, 2, 3), (0, 1, 1), (0, 1, 0), (-0.9, 0.9, 8)):
    S("linspace", a, e, n)
    S("linspace", a, e, n, dtype=torch.float64)
    S("linspace", a, e, n, dtype=BF)
S("linspace", 0, 10, 4, dtype=I64)
for x, n in ((i(4, g="idx5"), 5), (i(2, 3, g="idx4"), 7), (i(g="idx3"), 3)):
    S("one_hot", x, n)
