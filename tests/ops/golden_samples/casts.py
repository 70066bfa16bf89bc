"""Casts and copies."""
from .core import BY, S, V, b, bl, d, f, h, i, i32, i8, u8
import torch

ALL = ("f32", "f16", "bf16", "f64", "i64", "i32", "i16", "i8", "u8", "bool")
CPU = torch.device("cpu")
for src in ALL:
    for dst in ALL:
        dt = BY[dst](1).dtype
        # floats to unsigned: only values the target holds (C++ leaves the rest undefined)
        g = "pos" if dst == "u8" and src[0] in "fbi" and src != "bool" else "wide" if src[0] in "fb" and src != "bool" else "big" \
            if src not in ("i8", "u8", "bool") and dst[0] in "fb" else ""
        S("to.dtype", BY[src](2, 5, g=g), dt)
        S("_to_copy", BY[src](3, g=g), dtype=dt)
        S("type_as", BY[src](3, g=g), BY[dst](1))
        S("copy_", BY[dst](2, 3), BY[src](3, g=g))
for mk in (f, b, h):
    S("to.dtype", mk(25, g="special"), torch.bool)
    S("to.dtype", mk(25, g="special"), torch.float32)
    S("to.dtype", mk(25, g="special"), torch.bfloat16)
    S("to.dtype", mk(25, g="special"), torch.float16)
S("to.dtype", V([65504.0, 65519.9, 65520.0, -70000.0, 6e-8, 2.9e-8, 2048.5, 2049.0, 2051.0]), torch.float16, name="f16 rounding and overflow")
S("to.dtype", V([1.00390625, 1.01171875, 257.0, 259.0, 3.3961775e38, 1e-40, -258.0]), torch.bfloat16, name="bf16 ties to even")
S("to.dtype", V([2**24 + 1, 2**53 + 1, 100003, -70001], torch.int64), torch.float32, name="int64 to f32 rounding")
S("to.dtype", V([300, -1, 256, 128, 65537], torch.int64), torch.uint8, name="int64 to uint8 wraps")
S("to.dtype", V([300, -129, 128, 2**33 + 5], torch.int64), torch.int8, name="int64 to int8 wraps")
S("to.dtype", V([2**33 + 5, -2**31 - 1], torch.int64), torch.int32, name="int64 to int32 wraps")
S("to.dtype", V([1.9, -1.9, 0.99, -0.99, 100.5]), torch.int64, name="truncates toward zero")
S("to.dtype", V([0.1, -0.0, 0.0, 1e-30]), torch.bool, name="nonzero is true")
S("to.dtype", f(), torch.int64)
S("to.dtype", i(), torch.bfloat16)
S("to.dtype", f(0, 3), torch.float16)
S("to.dtype", f(2, 1, 3, 1, 2), torch.bfloat16, False, True)
S("to.dtype", f(3), torch.float32)
S("to.dtype", b(3), torch.float32, False, False, torch.preserve_format)
S("to.device", f(3, 2), CPU, torch.float16)
S("to.device", b(3, 2), CPU, torch.float32, False, True)
S("to.device", i(3), CPU, torch.float32)
S("to.dtype_layout", f(3, 2), dtype=torch.bfloat16)
S("to.dtype_layout", b(3, 2), dtype=torch.float32, layout=torch.strided, device=CPU)
S("to.dtype_layout", i(3, 2), dtype=torch.int32, device=CPU, copy=True)
S("to.dtype_layout", f(3))
S("to.other", f(3, 2), b(1))
S("to.other", i(3, 2), f())
S("to.other", f(3, 2), bl(1), False, True)
S("_to_copy", f(3, 2))
S("_to_copy", f(3, 2), dtype=torch.float16, layout=torch.strided, device=CPU)
S("_to_copy", f(2, 3, 2, 2), memory_format=torch.channels_last, dtype=torch.bfloat16)
for x in (f(2, 3), b(4), h(1, 2, 3), i(5), bl(3), f(), f(0, 2), i32(2, 1), u8(3), d(2), f(2, 3, 2, 2), f(25, g="special")):
    for op in ("contiguous", "clone", "detach", "alias", "lift_fresh_copy", "lift_fresh", "detach_", "resolve_conj"):
        S(op, x, need=op in ("contiguous", "clone", "detach", "alias"))
    S("clone", x, memory_format=torch.preserve_format)
    S("contiguous", x, memory_format=torch.contiguous_format)
S("contiguous", f(2, 3, 2, 2), memory_format=torch.channels_last)
S("clone", f(2, 3, 2, 2), memory_format=torch.channels_last)
S("clone", f(2, 3), memory_format=torch.contiguous_format)
for x, y in ((f(2, 3), f(2, 3)), (f(2, 3), f(3)), (f(2, 3), f()), (b(4), f(4)), (f(4), i(4)), (i(4), f(4, g="wide")), (f(2, 2, 3), f(2, 1, 3))):
    S("copy_", x, y)
    S("copy", x, y)
S("copy_", f(2, 3), f(3), True)
