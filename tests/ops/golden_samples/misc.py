"""dropout in eval, diff, sort, topk and the rest."""
from .core import BY, INF, NAN, S, V, b, bl, d, f, h, i, i16, u8
import torch

for x in (f(2, 5), b(4), h(2, 1, 3), f(), f(0, 2)):
    for op in ("dropout", "feature_dropout", "alpha_dropout", "dropout_"):
        S(op, x, 0.5, False, need=op == "dropout")
    S("native_dropout", x, 0.5, False)
for x in (f(3, 7), i(3, 7), b(3, 7), u8(3, 7), bl(3, 7)):
    S("diff", x)
    S("diff", x, 1, 0)
    S("diff", x, 2, -1)
    S("diff", x, 1, 1, BY["f32" if x.dtype == torch.float32 else "i64"](3, 1), need=False)
for x, dm in ((f(3, 7), -1), (f(3, 7), 0), (i(2, 3, 4), 1), (b(5), 0), (h(2, 33), 1), (V([2.0, NAN, -INF, INF, 0.0, 1.0], tag="edge"), 0), (f(), 0), (u8(6), 0)):
    for de in (False, True):
        if x.dtype == torch.float32:  # no ties
            S("sort", x, dm, de, need=False)
        S("sort.stable", x, stable=True, dim=dm, descending=de)
        S("argsort.stable", x, stable=True, dim=dm, descending=de)
        k = 1 if not x.shape else min(3, x.shape[dm])
        if x.dtype == torch.float32:
            S("topk", x, k, dm, de, need=False)
S("sort.stable", f(20, g="tie"), stable=True, dim=0, name="ties keep order")
S("sort.stable", f(4099, g="tie"), stable=True, dim=0, name="a long row")
S("sort.stable", i16(2, 2100, g="big"), stable=True, dim=1, descending=True, name="long rows")
S("topk", f(2, 5000), 50, f64=False, name="few of long rows")
S("median.dim", f(4097, 2), 0, f64=False, name="long columns")
S("sort", f(7))
S("topk", f(7), 3)
for mk in (b, h, i):
    S("topk", mk(2, 3, g="perm6"), 2, -1)
    S("topk", mk(33, g="perm33"), 5, 0, False)
    S("sort", mk(7, g="perm7"), 0, True)
S("topk", f(2, 7), 2, 1, True, True)
S("addmv_", f(3), f(3, 5), f(5))
S("cumsum", i(33), 0)
S("softmax.int", f(4), -1, name="one row")
