"""Reductions, scans and norms over dims."""
from .core import BY, INF, NAN, S, V, b, bl, d, f, h, i, i32, i8, u8
import torch

SHAPES = ((2, 7), (), (3,), (1, 3, 1, 5), (33,), (2, 3, 4, 2, 2), (1,))
EDGE = (f(25, g="special"), V([[1.0, NAN, 2.0], [NAN, 0.0, -1.0], [3.0, 3.0, 1.0]], tag="nan"),
        V([[INF, 1.0], [-INF, INF], [2.0, -INF]], tag="inf"))


def plain(op, dts=("f32", "f16", "bf16", "f64", "i64", "i32", "u8", "bool"), **kw):
    """every element reduced"""
    for s in SHAPES:
        S(op, f(*s, g="tie" if op[:3] in ("max", "min", "arg", "any", "all") else ""), need=False, **kw)
    for dt in dts:
        S(op, BY[dt](4, 5), need=False, **kw)
    S(op, f(1030), need=False, **kw)
    S(op, b(1030), need=False, **kw)
    S(op, f(0), need=False, **kw)
    S(op, f(2, 0, 3), need=False, **kw)
    for x in EDGE:
        S(op, x, need=False, **kw)


def dims(op, lists, dts=("f32", "f16", "bf16", "f64", "i64", "i32", "u8", "bool"), **kw):
    """dim argument (int, or lists of ints) and keepdim"""
    def w(*k):
        return list(k) if lists else k[0]
    for s, dm in (((2, 7), (1,)), ((2, 7), (0,)), ((2, 7), (-1,)), ((2, 3, 4), (1,)), ((2, 3, 4), (-3,)), ((3, 4, 2, 2), (-2,)),
                  ((2, 1, 3, 2, 2), (1,)), ((3, 1), (0,)), ((5, 33), (1,)), ((65, 3), (0,)), ((), (0,)), ((), (-1,))):
        S(op, f(*s), w(*dm), need=False, **kw)
        if len(s) != 1:
            S(op, f(*s), w(*dm), True, need=False, **kw)
    if lists:
        for s, dm in (((2, 3, 4), (0, 2)), ((2, 3, 4), (-1, 0)), ((2, 3, 4), (0, 1, 2)), ((2, 3, 3, 4), (2, 3)), ((2, 3, 3, 4), (0, -1)),
                      ((2, 3, 4), ()), ((2, 2, 3, 2, 3), (0, 2, 4)), ((1, 4, 1), (0, 2))):
            S(op, f(*s), w(*dm), need=False, **kw)
            S(op, f(*s), w(*dm), True, need=False, **kw)
    for dt in dts:
        S(op, BY[dt](3, 4), w(1), need=False, **kw)
        S(op, BY[dt](4, 3), w(0), True, need=False, **kw)
    S(op, f(1, 1030), w(-1), need=False, **kw)
    S(op, b(1, 1030), w(-1), need=False, **kw)
    S(op, f(0, 3), w(1), need=False, **kw)
    S(op, f(0, 3), w(0), need=False, **kw)
    S(op, f(2, 0, 3), w(2), True, need=False, **kw)
    for x in EDGE:
        S(op, x, w(-1), need=False, **kw)
        S(op, x, w(0), True, need=False, **kw)


for op in ("sum", "mean", "prod"):
    plain(op)
    o = {"prod": "prod.dim_int"}.get(op, op + (".dim_IntList" if op == "sum" else ".dim"))
    dims(o, op != "prod")
    for x, dt in ((f(3, 5), torch.float64), (b(3, 5), torch.float32), (i(3, 5), torch.float32), (bl(3, 5), torch.int32), (f(3, 5), torch.float16),
                  (h(3, 5), torch.float32), (i32(3, 5), torch.int32), (f(3, 5, g="wide"), torch.int64), (bl(3, 5), torch.float32)):
        S(op, x, dtype=dt, need=False)
        S(o, x, [1] if op != "prod" else 1, dtype=dt, need=False)
    if op != "prod":
        S(o, f(2, 3), None)
        S(o, f(2, 3), None, True)
        S(o, b(2, 3), None, dtype=torch.float32)
S("mean.dim", V([60000.0] * 40, torch.float16), [0], name="f16 accumulates wider")
S("sum.dim_IntList", V([0.1] * 1200, torch.bfloat16), [0], name="bf16 accumulates wider")
S("sum", V([2**40, 2**53, 1, -3], torch.int64), name="int64 past 2^53")
for op in ("max", "min"):
    plain(op)
    dims(op + ".dim", False)
    S(op + ".dim", V([[2.0, 2.0, 1.0], [0.0, 5.0, 5.0]]), 1, name="ties")
for op in ("amax", "amin"):
    plain(op)
    dims(op, True)
for op in ("argmax", "argmin"):
    plain(op)
    dims(op, False)
    S(op, V([[2.0, 2.0, 1.0], [0.0, 5.0, 5.0]]), 1, name="ties")
    S(op, f(2, 3), None)
    S(op, f(2, 3), None, True)
plain("aminmax")
for s, dm in (((2, 7), 1), ((2, 7), 0), ((2, 3, 4), -2), ((), 0)):
    S("aminmax", f(*s), dim=dm)
    S("aminmax", f(*s), dim=dm, keepdim=True)
S("aminmax", EDGE[1], dim=1)
S("aminmax", i(3, 4), dim=1)
S("aminmax", b(3, 4), dim=1)
for op in ("any", "all"):
    for x in (bl(2, 3), bl(2, 3, g="true"), bl(3, g="false"), bl(), bl(0), f(2, 3), V([0.0, -0.0]), V([NAN, 1.0]), i(3, 4), u8(3, 4), b(4), i32(2)):
        S(op, x)
    for x in (bl(3, 4), f(2, 3), i(2, 3, 2), u8(2, 3), b(3, 2), bl(2, 1, 3), bl(0, 3), V([[0.0, -0.0], [NAN, 0.0]])):
        S(op + ".dim", x, 1)
        S(op + ".dim", x, -2, True)
        S(op + ".dims", x, [0, 1])
        S(op + ".dims", x, [-1], True)
        S(op + ".dims", x, None)
    S(op + ".dims", bl(2, 3, 2), [0, 2], True)
    S(op + ".dims", bl(2, 3, 2), [], need=False)
    S(op + ".dim", bl(), 0)
for op in ("var", "std"):
    plain(op, ("f32", "f16", "bf16", "f64"))
    for ub in (True, False):
        S(op, f(3, 4), ub)
        S(op, b(9), ub)
        for dm in ([1], [0], [-1, 0], None):
            S(op + ".dim", f(3, 4), dm, ub)
            S(op + ".dim", f(3, 4), dm, ub, True)
    dims(op + ".dim", True, ("f32", "f16", "bf16"))
    for c in (0, 1, 2, 1.5, None):
        S(op + ".correction", f(3, 5), [1], correction=c)
        S(op + ".correction", b(3, 5), [0], correction=c, keepdim=True)
        S(op + ".correction", f(2, 3, 4), [0, -1], correction=c)
        S(op + ".correction", f(2, 3, 4), None, correction=c)
    S(op + ".correction", f(3, 5))
    S(op + ".correction", f(3, 1), [1])
    S(op + ".correction", f(1, 1300), [-1], correction=0, keepdim=True)
    S(op + ".correction", V([10000.0, 10001.0, 10002.0, 10003.0]), [0], correction=0, name="large mean")
    m = op + "_mean"
    for ub in (True, False):
        S(m, f(3, 4), ub)
        S(m + ".dim", f(3, 4), [1], ub)
        S(m + ".dim", b(3, 4), [0], ub, True)
        S(m + ".dim", f(2, 3, 4), [-1, 0], ub, True)
    for c in (0, 1, 2):
        S(m + ".correction", f(3, 4), [1], correction=c, keepdim=True)
        S(m + ".correction", f(2, 3, 2, 2), [2, 3], correction=c)
        S(m + ".correction", h(3, 4), None, correction=c)
    S(m + ".correction", f(3, 4))

for p in (2, 1, 0, 3, INF, -INF, 0.5, 2.0, -1):
    for mk in (f, b):
        S("linalg_vector_norm", mk(3, 5), p)
        S("linalg_vector_norm", mk(3, 5), p, [1])
        S("linalg_vector_norm", mk(2, 3, 4), p, [-1, 0], True)
        S("norm.ScalarOpt_dim", mk(3, 5), p, [-1])
        S("norm.ScalarOpt_dim", mk(3, 5), p, [0], True)
    S("norm.Scalar", f(3, 5), p)
S("linalg_vector_norm", h(3, 5), 2, [1], False, dtype=torch.float32)
S("linalg_vector_norm", f(3, 5))
S("linalg_vector_norm", f())
S("linalg_vector_norm", f(1, 1300), 2, [-1], True)
S("linalg_vector_norm", f(0, 3), 2, [0])
S("linalg_vector_norm", EDGE[1], 2, [1])
S("linalg_vector_norm", EDGE[1], INF, [1])
S("norm.Scalar", f(4))
S("norm.ScalarOpt_dim", f(3, 5), None, [1])
S("norm.ScalarOpt_dtype", b(3, 5), 2, dtype=torch.float32)
S("norm.ScalarOpt_dim_dtype", b(3, 5), 2, [1], True, dtype=torch.float32)

for x, dm in ((f(2, 7), [1]), (f(2, 7), [0]), (b(2, 7), [-1]), (h(3, 4), [0]), (f(2, 3, 4), [0, 2]), (f(), [0]), (f(1, 1300, g="wide"), [1]),
              (EDGE[1], [1]), (EDGE[2], [1]), (V([[-INF, -INF], [1e4, -1e4]]), [1]), (V([1000.0, 1000.0]), [0]), (i(2, 3), [1]), (f(0, 3), [1])):
    S("logsumexp", x, dm, need=False)
    S("logsumexp", x, dm, True, need=False)
for op in ("cumsum", "cumprod"):
    for x, dm in ((f(2, 7), 1), (f(2, 7), 0), (f(2, 7), -1), (f(2, 3, 4), 1), (f(2, 3, 2, 2), -2), (f(), 0), (f(0, 3), 1), (f(1), 0), (b(3, 9), 1), (h(3, 9), 1),
                  (i(3, 4), 1), (i32(3, 4), 0), (u8(3, 4), 1), (bl(3, 4), 1), (d(5), 0), (EDGE[1], 1), (EDGE[2], 0)):
        S(op, x, dm)
    S(op, f(1, 1100, s=0.5) if op == "cumsum" else f(1, 65), -1)
    for x, dt in ((b(2, 5), torch.float32), (i(2, 5), torch.float32), (bl(2, 5), torch.int32), (f(2, 5), torch.float64), (i(2, 5), torch.int32)):
        S(op, x, 1, dtype=dt)
    S(op + "_", f(2, 3), 1)
for op in ("cummax", "cummin"):
    for x, dm in ((f(2, 7, g="tie"), 1), (i(3, 4), 0), (f(2, 3, 2), -2), (EDGE[1], 1)):
        S(op, x, dm)
for x in (f(2, 5, g="tie"), i(3, 4, g="small"), bl(3, 4), b(6, g="tie"), f(), f(0, 2), V([NAN, 0.0, -0.0])):
    S("count_nonzero", x)
    S("count_nonzero", x, 0, need=False)
    S("count_nonzero.dim_IntList", x, [0], need=False)
    S("count_nonzero.dim_IntList", x, [-1, 0], need=False)
S("cumsum", V([0.1] * 1200, torch.bfloat16), 0, name="bf16 accumulates wider")
S("cumsum", V([60000.0, 60000.0, -60000.0, -60000.0], torch.float16), 0, name="f16 accumulates wider")
S("nansum", V([60000.0, NAN, 60000.0, -60000.0, -1.0], torch.float16), [0], name="f16 accumulates wider")
S("mean", V([[60000.0] * 3] * 40, torch.float16), name="f16 accumulates wider")
# What is converted first is rounded first: 70000 is infinite in float16, and 257 is 256 in bfloat16.
for dt, values in ((torch.float16, [70000.0, -1.0, 2.0]), (torch.float16, [70000.0, -70000.0]), (torch.bfloat16, [257.0] * 40)):
    for made in (torch.float32, torch.float64):
        for op in ("sum.dim_IntList", "mean.dim", "nansum"):
            S(op, V(values, made), [0], dtype=dt, f64=False)
        for op in ("cumsum", "cumprod"):
            S(op, V(values, made), 0, dtype=dt, f64=False)
        S("softmax.int", V(values, made), 0, dt, f64=False)
S("sum", V([257, 257, 70000], torch.int64), dtype=torch.bfloat16, f64=False)
S("sum", V([257.0] * 40, torch.float16), dtype=torch.bfloat16, f64=False)
