"""Pooling and upsampling."""
from .core import BY, INF, NAN, S, V, b, d, f, h, i, u8

MK = (f, b, h)
EDGE = V([[[NAN, 1.0, INF, 2.0], [-INF, 0.0, 3.0, -1.0], [5.0, 5.0, NAN, 5.0], [-INF, -INF, 1.0, 0.0]]], tag="edge")
for mk in MK:
    x1, x2, x3 = mk(2, 3, 9), mk(1, 2, 7, 6), mk(1, 2, 4, 4, 3)
    for k, st, p, dl, cm in ((3, 2, 1, 1, False), (3, 2, 1, 1, True), (2, 2, 0, 1, True), (2, 1, 0, 2, False), (3, 3, 1, 2, True), (4, 3, 2, 1, True), (1, 2, 0, 1, False)):
        for nd, x in ((1, x1), (2, x2)):
            S(f"max_pool{nd}d", x, [k] * nd, [st] * nd, [p] * nd, [dl] * nd, cm, need=False)
            S(f"max_pool{nd}d_with_indices", x, [k] * nd, [st] * nd, [p] * nd, [dl] * nd, cm, need=False)
    for nd, x in ((1, x1), (2, x2), (3, x3)):
        ok = nd < 3 or mk is f  # avg_pool3d on the CPU takes no half
        S(f"max_pool{nd}d", x, [2] * nd)
        S(f"max_pool{nd}d", x, [2])
        S(f"max_pool{nd}d", x, [3] * nd, [], [1] * nd)
        S(f"max_pool{nd}d", mk(*x.shape[1:]), [2] * nd, [1] * nd)
        S(f"max_pool{nd}d_with_indices", x, [2] * nd, need=False)
        S(f"avg_pool{nd}d", x, [2] * nd, need=ok)
        S(f"avg_pool{nd}d", x, [2], need=ok)
        S(f"avg_pool{nd}d", mk(*x.shape[1:]), [2] * nd, [1] * nd, need=ok)
        for k, st, p, cm, ip in ((3, 2, 1, False, True), (3, 2, 1, False, False), (3, 2, 1, True, True), (3, 2, 1, True, False), (2, 2, 0, True, True), (4, 3, 2, True, True), (2, 1, 1, False, False)):
            S(f"avg_pool{nd}d", x, [k] * nd, [st] * nd, [p] * nd, cm, ip, need=ok and k < 4)
        if nd > 1:
            S(f"avg_pool{nd}d", x, [2] * nd, [2] * nd, [1] * nd, False, True, 3, need=ok)
            S(f"avg_pool{nd}d", x, [3] * nd, [2] * nd, [1] * nd, True, False, -2, need=ok)
        S(f"avg_pool{nd}d", x, [2] * nd, [], [0] * nd, need=ok)
    S("max_pool3d", x3, [2, 3, 2], [2, 1, 2], [1, 1, 0], [1, 1, 1], True)
    S("max_pool3d_with_indices", x3, [2, 3, 2], [2, 1, 2], [1, 1, 0], [1, 2, 1], True, need=False)
    S("max_pool2d", x2, [3, 2], [2, 1], [1, 0])
    S("max_pool2d", x2, [2, 3], [1, 2], [0, 1], [2, 1], True)
    S("avg_pool2d", x2, [3, 2], [2, 1], [1, 0])
    for o in (1, 3, 4, 9):
        S("adaptive_avg_pool1d", x1, [o])
        S("adaptive_max_pool1d", x1, [o])
    for o in ([1, 1], [3, 2], [7, 6], [4, 5], [2, 9]):
        S("adaptive_avg_pool2d", x2, o)
        S("_adaptive_avg_pool2d", x2, o)
        S("adaptive_max_pool2d", x2, o)
    S("adaptive_avg_pool2d", mk(2, 5, 7), [3, 3])
    S("adaptive_avg_pool1d", mk(2, 7), [3])
    S("adaptive_avg_pool3d", x3, [2, 3, 1])
    S("_adaptive_avg_pool3d", x3, [1, 1, 1])
for op in ("max_pool2d", "max_pool2d_with_indices", "avg_pool2d"):
    S(op, EDGE, [2, 2])
    S(op, EDGE, [3, 3], [1, 1], [1, 1])
S("adaptive_max_pool2d", EDGE, [3, 3])
S("max_pool2d", i(1, 1, 4, 4), [2, 2], need=False)
S("max_pool2d", u8(1, 1, 4, 4), [2, 2], need=False)
S("max_pool2d", d(1, 1, 4, 4), [2, 2])
S("max_pool2d", f(1, 33, 2, 2), [2, 2])
S("avg_pool2d", i(1, 1, 4, 4), [2, 2], need=False)
S("max_pool2d", f(1, 1, 5, 5, g="tie"), [3, 3], [1, 1], name="ties")
S("max_pool2d_with_indices", f(1, 1, 5, 5, g="tie"), [3, 3], [1, 1], name="ties")
# Windows that leap over all there is.
S("max_pool1d_with_indices", f(2, 3, 1), [2], [2], [1], [3], True)
S("max_pool2d_with_indices", f(1, 2, 2, 4), [2, 2], [1, 1], [1, 1], [3, 2])
S("max_pool3d_with_indices", f(1, 1, 2, 2, 3), [2, 2, 2], [1, 1, 1], [1, 1, 1], [3, 3, 2])

for mk in MK + (u8,):
    for o, sc in ((9, None), (2, None), (8, 2.0), (6, 1.7), (13, None), (4, 1.0)):
        if mk is not u8:
            for op in ("upsample_nearest1d", "_upsample_nearest_exact1d"):
                S(op, mk(1, 2, 4), [o], sc, need=False)
            for al in (False, True):
                S("upsample_linear1d", mk(1, 2, 4), [o], al, sc, need=False)
        for op in ("upsample_nearest2d", "_upsample_nearest_exact2d"):
            S(op, mk(1, 2, 4, 3), [o, 5], sc, None, need=False)
        for al in (False, True) if mk is not u8 else ():  # ATen interpolates uint8 in fixed point
            for op in ("upsample_bilinear2d", "upsample_bicubic2d"):
                S(op, mk(1, 2, 4, 3), [o, 5], al, sc, None, need=False)
    for sz, sc in (([7, 5], None), (None, [2.0, 2.0]), (None, [0.5, 0.7]), (None, [1.5, 3.0]), ([2, 2], None), ([1, 1], None)):
        for op in ("upsample_nearest2d.vec", "_upsample_nearest_exact2d.vec"):
            S(op, mk(1, 2, 4, 3), sz, sc, need=False)
        for al in (False, True) if mk is not u8 else ():
            for op in ("upsample_bilinear2d.vec", "upsample_bicubic2d.vec"):
                S(op, mk(1, 2, 4, 3), sz, al, sc, need=False)
        if mk is not u8:
            S("upsample_nearest1d.vec", mk(1, 2, 4), sz and sz[:1], sc and sc[:1], need=False)
            S("_upsample_nearest_exact1d.vec", mk(1, 2, 4), sz and sz[:1], sc and sc[:1], need=False)
            S("upsample_linear1d.vec", mk(1, 2, 4), sz and sz[:1], True, sc and sc[:1], need=False)
            S("upsample_linear1d.vec", mk(1, 2, 4), sz and sz[:1], False, sc and sc[:1], need=False)
for mk in (f, b):
    for sz, sc in (([3, 5, 4], None), (None, [2.0, 1.5, 1.0])):
        S("upsample_nearest3d.vec", mk(1, 2, 2, 3, 2), sz, sc)
        S("upsample_trilinear3d.vec", mk(1, 2, 2, 3, 2), sz, False, sc)
        S("upsample_trilinear3d.vec", mk(1, 2, 2, 3, 2), sz, True, sc)
