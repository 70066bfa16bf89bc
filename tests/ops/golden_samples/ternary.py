"""where, masked_fill, clamp, lerp, addcmul, addcdiv."""
from .core import BY, INF, NAN, S, V, b, bl, d, f, h, i, i32, i8, u8
import torch

for x, y in ((f(2, 5), f(2, 5)), (f(5), f(2, 1)), (b(2, 5), b()), (h(5), f(2, 5)), (i(2, 5), f(5)), (i32(5), i(2, 5)),
             (bl(2, 5), bl(5)), (f(), f()), (u8(5), i8(5)), (f(), h(5)), (d(5), f(5)), (i(), b(5)), (f(3, 2, 5), f(1, 1, 5))):
    S("where.self", bl(2, 5), x, y)
S("where.self", bl(), f(3), f(3))
S("where.self", bl(3, 1), f(), f(4))
S("where.self", bl(4, 1, 1, 2), f(3, 1, 1), f(5, 1))
S("where.self", bl(0, 3), f(3), f(3))
S("where.self", u8(4, g="bin"), f(4), f(4), need=False)
S("where.self", bl(25), f(25, g="special"), f(25, g="special2"))
for x in (f(2, 5), b(5), h(5), i(5), i32(2, 5), bl(5), f(), u8(1)):
    for s in (0, -1.5, -INF, True):
        S("where.ScalarOther", bl(2, 5), x, s, need=False)
        S("where.ScalarSelf", bl(2, 5), s, x, need=False)
for s, t in ((0.0, -INF), (1, 0), (1, 2.5), (True, False)):
    S("where.Scalar", bl(3, 4), s, t)

for x in (f(2, 5), b(2, 5), h(2, 5), i(2, 5), bl(2, 5), i32(2, 5), u8(2, 5), d(2, 5)):
    for s in (0, -INF, 1.5, -65504.0, 3):
        S("masked_fill.Scalar", x, bl(5), s, need=False)
    S("masked_fill.Scalar", x, bl(2, 1), 1)
    S("masked_fill.Tensor", x, bl(2, 5), f(), need=False)
    S("masked_fill.Tensor", x, bl(1, 5), i(), need=False)
    S("masked_fill_.Scalar", x, bl(1, 5), 1)
    S("masked_fill_.Tensor", x, bl(2, 5), i(), need=False)
S("masked_fill.Scalar", f(5), bl(3, 5), -1.0, need=False)
S("masked_fill.Scalar", f(2, 2, 3, 3), bl(1, 1, 3, 3), -INF)
S("masked_fill.Scalar", f(2, 2, 3, 3), bl(3, 3), -3.4028234663852886e38)
S("masked_fill.Tensor", f(2, 2, 3), bl(3), V(-INF))
S("masked_fill.Scalar", f(0, 3), bl(3), 1.0)
S("masked_fill.Scalar", f(), bl(), 1.0)

for x in (f(2, 7), f(), b(7), h(7), i(7), i32(2, 3), u8(7), d(5), f(25, g="special"), b(25, g="special"), f(0, 3), i8(5)):
    for lo, hi in ((-1, 1), (-0.5, 1.25), (None, 0.5), (0, None), (2, -2), (0.0, 6.0), (None, 3)):
        S("clamp", x, lo, hi, need=x.dtype != torch.uint8)
    S("clamp_min", x, 0)
    S("clamp_min", x, 0.5)
    S("clamp_max", x, 1)
    S("clamp_max", x, -0.5)
    S("clip", x, -1, 1)
    S("clamp_", x, -1, 1)
    S("clamp_min_", x, 0)
    S("clamp_max_", x, 1)
S("clamp", f(4), -1)
S("clamp", f(4), min=-1)
S("clamp", f(4), max=0.5)
S("clamp", f(4), NAN, 1.0)
S("clamp", f(4), -INF, INF)
S("clamp_min", f(4), NAN)
for x, lo, hi in ((f(2, 7), f(7), f(7)), (f(2, 7), f(), f(2, 1)), (b(7), b(7), b(7)), (i(7), i(7), i(7)), (f(5), i(5), i(5)),
                  (i(5), f(5), f(5)), (f(3, 1), f(4), f(4)), (f(25, g="special"), f(25, g="special2"), f(25)),
                  (h(5), f(), f()), (f(7), V(0.25), V(-0.25))):
    S("clamp.Tensor", x, lo, hi, need=False)
    S("clamp.Tensor", x, lo, need=False)
    S("clamp_min.Tensor", x, lo, need=False)
    S("clamp_max.Tensor", x, hi, need=False)

for mk in (f, b, h, d):
    x, y = mk(2, 5), mk(2, 5)
    S("lerp.Tensor", x, y, mk(5))
    S("lerp.Tensor", x, y, mk())
    for w in (0.3, 0.75, 0, 1, -2.0):
        S("lerp.Scalar", x, y, w)
    S("lerp.Scalar", mk(5), mk(3, 1), 0.5)
    for v in (1, 0.5, -2):
        S("addcmul", x, y, mk(5), value=v)
        S("addcdiv", x, y, mk(5), value=v)
    S("addcmul", x, mk(2, 1), mk(5))
    S("addcdiv", x, mk(2, 1), mk(5))
    S("addcmul_", x, mk(2, 1), mk(5), value=0.5)
    S("addcdiv_", x, mk(2, 1), mk(5), value=0.5)
S("lerp_.Scalar", f(4), f(4), 0.25)
S("addcmul", i(4), i(4), i(4), value=2)
S("addcmul", f(4), i(4), f(4), value=2, need=False)
S("addcmul", b(4), f(4), f(4), need=False)
S("addcmul", f(), f(3), f(3))
S("addcdiv", f(4), f(4), V([0.0, -0.0, INF, NAN]), name="zero divisors")
