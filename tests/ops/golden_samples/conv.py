"""Convolutions and transposed convolutions."""
from .core import S, b, d, f, h

Q = 0.6
for mk in (f, b, h):
    N = 1 if mk is h else 2

    def t(*s):
        return mk(*s, s=Q)
    for nd, sp, k in ((1, (9,), (3,)), (2, (6, 5), (3, 2)), (3, (3, 4, 3), (2, 3, 2))):
        op = f"conv{nd}d"
        one = [1] * nd

        def rep(*v):
            return list(v[:nd]) if len(v) >= nd else list(v) * nd
        x, w, bi = t(N if nd < 3 else 1, 3, *sp), t(4 if nd < 3 else 2, 3, *k), t(4 if nd < 3 else 2)
        S(op, x, w)
        S(op, x, w, bi)
        S(op, x, w, bi, rep(2, 1, 2))
        S(op, x, w, None, rep(2), rep(1))
        S(op, x, w, bi, one, rep(1, 2, 0))
        S(op, x, w, bi, rep(1), rep(2), rep(2))
        S(op, x, w, None, rep(2, 3, 1), rep(2, 1, 2), rep(2, 1, 1))
        S(op, x, w, bi, [2], [1], [1])
        S(op, t(1, 4, *sp), t(6, 2, *k), t(6), one, rep(1), one, 2)
        S(op, t(2, 4, *sp), t(4, 1, *k), t(4), one, rep(1), one, 4)
        S(op, t(1, 3, *sp), t(6, 1, *k), None, rep(2), rep(0), one, 3)
        S(op, t(3, *sp), w, bi)
        S(op, t(N, 5, *sp), t(7, 5, *one), t(7))
        S(op, t(N, 5, *sp), t(7, 5, *one), None, rep(2))
        S(op, t(1, 1, *sp), t(1, 1, *sp), t(1))
        S(op, t(1, 33, *([3] * nd)), t(2, 33, *([3] * nd)), t(2), one, rep(1))
        for pad in ("same", "valid"):
            S(op + ".padding", x, w, bi, one, pad)
            S(op + ".padding", x, w, None, one, pad, rep(2) if nd < 3 else one)
            S(op + ".padding", t(1, 4, *sp), t(4, 2, *k), t(4), [1], pad, [1], 2)
        S(op + ".padding", x, w, bi, rep(2), "valid")
        S(op + ".padding", x, w)
        S("convolution", x, w, bi, rep(2), rep(1), one, False, [0] * nd, 1)
        S("convolution", t(1, 4, *sp), t(4, 1, *k), None, one, rep(1), rep(2) if nd < 3 else one, False, [0] * nd, 4)
        wt = t(3, 4 if nd < 3 else 2, *k)
        S("convolution", x, wt, bi, rep(2), rep(1), one, True, rep(1), 1)
        top = f"conv_transpose{nd}d" if nd == 1 else f"conv_transpose{nd}d.input"
        xs = t(N if nd < 3 else 1, 3, *[max(2, s // 2) for s in sp])
        S(top, xs, wt)
        S(top, xs, wt, bi)
        S(top, xs, wt, bi, rep(2))
        S(top, xs, wt, None, rep(2), rep(1))
        S(top, xs, wt, bi, rep(2), rep(1), rep(1))
        S(top, xs, wt, bi, rep(3, 2, 2), rep(1, 0, 1), rep(2, 1, 1)[:nd])
        S(top, t(1, 4, *xs.shape[2:]), t(4, 3, *k), t(6), rep(2), rep(1), rep(0), 2)
        S(top, t(1, 4, *xs.shape[2:]), t(4, 1, *k), None, rep(2), rep(0), rep(1), 4)
        S(top, xs, wt, bi, rep(1), rep(1), rep(0), 1, rep(2))
        S(top, xs, wt, bi, rep(2), rep(2), rep(1), 1, rep(2, 3, 2))
        S(top, t(3, *xs.shape[2:]), wt, bi)
S("conv2d", d(1, 2, 5, 5), d(3, 2, 3, 3), d(3), [1, 1], [1, 1])
S("conv2d", f(1, 3, 11, 11, s=Q), f(2, 3, 7, 7, s=Q), f(2), [2, 2], [3, 3])
S("conv2d", f(0, 3, 5, 5), f(2, 3, 3, 3), need=False)
S("conv1d", f(1, 2, 33, s=Q), f(2, 2, 5, s=Q), f(2), [1], [4], [2])
S("_convolution", f(1, 2, 5), f(2, 2, 3), f(2), [1], [0], [1], False, [0], 1, False, False, False, False)
S("im2col", f(1, 2, 4, 5), [2, 3], [1, 1], [0, 1], [2, 1])
S("im2col", f(2, 2, 5, 5), [2, 2], [2, 1], [1, 0], [1, 2])
