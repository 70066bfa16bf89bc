"""Gather, scatter, indexing."""
from .core import BY, INF, NAN, S, V, b, bl, d, f, h, i, i32, i8, u8
import torch

W = (f, b, h, i, i32, bl, u8)
for mk in W:
    S("embedding", mk(9, 4), i(2, 5, g="idx9"))
    S("gather", mk(3, 5), 1, i(3, 4, g="idx5"))
    S("gather", mk(3, 5), 0, i(2, 5, g="idx3"))
    S("index_select", mk(3, 5), 1, i(6, g="idx5"))
    S("index_select", mk(3, 5, 2), -3, i(2, g="idx3"))
    S("index.Tensor", mk(4, 5), [i(3, g="nidx4")])
    S("index.Tensor", mk(4, 5), [None, i(3, g="nidx5")])
    S("take_along_dim", mk(3, 5), i(3, 2, g="idx5"), 1)
    S("index_copy", mk(4, 3), 0, V([2, 0], torch.int64), mk(2, 3))
    S("index_put", mk(4, 3), [V([2, 0], torch.int64)], mk(2, 3))
    S("index_add", mk(4, 3), 0, V([2, 0], torch.int64), mk(2, 3), need=False)
    S("index_fill.int_Scalar", mk(4, 3), 1, V([2, 0], torch.int64), 1)
    S("scatter.src", mk(3, 5), 1, V([[0, 1], [4, 2], [3, 0]], torch.int64), mk(3, 4))
    S("scatter.value", mk(3, 5), 1, V([[0, 1], [4, 2], [3, 0]], torch.int64), 1)
    S("scatter_add", mk(3, 5), 0, i(4, 5, g="idx3"), mk(4, 5), need=False)
    S("select.int", mk(3, 5), 1, 2)
    S("slice.Tensor", mk(3, 7), 1, 1, 6, 2)
    S("select_scatter", mk(3, 4), mk(3), 1, 2)
    S("slice_scatter", mk(3, 5), mk(3, 2), 1, 1, 5, 2)

S("embedding", f(9, 4), i(g="idx9"))
S("embedding", f(9, 4), i(7, g="idx9"), 3)
S("embedding", f(9, 4), i32(2, 2, 3, g="idx9"), -1, False, False)
S("embedding", f(9, 1), i(0, g="idx9"))
S("embedding", b(3, 65), i(1, 4, g="idx3"), 0, True)

for x, dm, ix in ((f(2, 3, 4), 1, i(2, 5, 4, g="idx3")), (f(2, 3, 4), -1, i(2, 3, 2, g="idx4")), (f(2, 3, 4), 0, i(1, 2, 3, g="idx2")), (f(5), 0, i(9, g="idx5")), (f(5), -1, i(0, g="idx5")),
                  (f(3, 5), 1, i(2, 3, g="idx5")), (f(), 0, i(g="idx1")), (f(2, 2, 2, 33), 3, i(2, 2, 2, 7, g="idx33")), (f(0, 3), 1, i(0, 2, g="idx3")), (f(25, g="special"), 0, i(25, g="idx25"))):
    S("gather", x, dm, ix)
S("gather", f(3, 5), 1, i(3, 4, g="idx5"), sparse_grad=False)
for x, dm, ix in ((f(2, 3, 4), 1, i(5, g="idx3")), (f(2, 3, 4), -1, i(1, g="idx4")), (f(7), 0, i32(3, g="idx7")), (f(7), 0, i(0, g="idx7")), (f(2, 3), 0, i(g="idx2")), (f(), 0, V([0], torch.int64)),
                  (f(0, 3), 1, i(2, g="idx3")), (f(2, 3, 2, 2), -2, i(3, g="idx2"))):
    S("index_select", x, dm, ix)

# index.Tensor: None masks, several indices, broadcasting, negative, bool masks
for x, ix in ((f(4, 5), [i(g="nidx4")]), (f(4, 5), [i(2, 3, g="nidx4")]), (f(4, 5), [i(3, g="nidx4"), i(3, g="nidx5")]), (f(4, 5), [i(3, 1, g="nidx4"), i(2, g="nidx5")]),
              (f(4, 5), [i(3, g="nidx4"), i(g="nidx5")]), (f(4, 5, 3), [None, i(2, g="nidx5")]), (f(4, 5, 3), [None, None, i(2, 2, g="nidx3")]), (f(4, 5, 3), [i(2, g="nidx4"), None, i(2, g="nidx3")]),
              (f(4, 5, 3), [i(2, 1, g="nidx4"), None, i(4, g="nidx3")]), (f(4, 5, 3), [None, i(2, g="nidx5"), i(2, g="nidx3")]), (f(4, 5, 3), [i(2, g="nidx4"), i(2, g="nidx5"), i(2, g="nidx3")]),
              (f(2, 3, 4, 2), [None, i(2, g="nidx3"), None, i(2, g="nidx2")]), (f(2, 3, 4, 2), [i(3, g="nidx2"), None, i(2, 1, g="nidx4")]), (f(2, 3, 4, 2), [None, i(1, g="nidx3"), i(5, g="nidx4"), None]),
              (f(4, 5), [i32(3, g="nidx4")]), (f(4, 5), [i(0, g="nidx4")]), 
              (f(7), [V([-1, -7, 6, 0], torch.int64)]),
              (f(3, 1, 4), [None, None, i(65, g="nidx4")]), (f(0, 3), [None, i(2, g="nidx3")]), (f(4, 5, 3), [i(2, g="nidx4"), i(2, g="nidx5"), None])):
    S("index.Tensor", x, ix, need=False)

for acc in (False, True):
    for x, ix, v in ((f(4, 5), [V([3, -4, 1], torch.int64)], f(3, 5)), (f(4, 5), [V([3, 0], torch.int64)], f()), (f(4, 5), [V([3, 0], torch.int64)], f(5)), (f(4, 5), [None, V([3, 0], torch.int64)], f(4, 2)),
                     (f(4, 5), [V([3, 0], torch.int64), V([1, 4], torch.int64)], f(2)), (f(4, 5), [V([[3], [0]], torch.int64), V([1, 4], torch.int64)], f(2, 2)),
                     (f(3, 4, 5), [None, V([3, 0], torch.int64)], f(3, 2, 5)), (f(3, 4, 5), [V([2, 0], torch.int64), None, V([4, 1], torch.int64)], f(2, 4)),
                     (f(3, 4, 5), [None, None, V([4, 1], torch.int64)], f(2)), (f(4), [V([True, False, True, True], torch.bool)], f(3)), (f(4), [V([True, False, True, True], torch.bool)], f()),
                     (f(2, 3), [V([[True, False, True], [False, True, True]], torch.bool)], f(4)), (b(4, 3), [V([1, 2], torch.int64)], b(2, 3)), (i(4), [V([1, 2], torch.int64)], i(2)),
                     (f(1, 2, 6, 3), [None, None, V([4], torch.int64)], f(1, 2, 1, 3)), (f(4), [i(0, g="idx4")], f(0))):
        S("index_put", x, ix, v, acc)
        S("index_put_", x, ix, v, acc)
S("index_put", V([0.0, 0.0, 0.0]), [V([1, 1, 2, 1], torch.int64)], V([1.0, 2.0, 3.0, 4.0]), True, name="accumulate repeats")
S("index_put", i(5), [V([1, 1, -4], torch.int64)], i(3), True)
S("index_put", b(5), [V([1, 1, 2], torch.int64)], b(3), True)

for x, dm, ix, src in ((f(4, 3), 1, V([2, 0], torch.int64), f(4, 2)), (f(2, 3, 5), -1, V([4, 1, 0], torch.int64), f(2, 3, 3)), (f(2, 3, 6, 2), 2, V([5], torch.int64), f(2, 3, 1, 2)),
                       (f(7), 0, V([6, 2], torch.int64), f(2)), (f(2, 3, 6, 2), -2, V([0, 1, 2], torch.int64), f(2, 3, 3, 2)), (b(4, 3), 0, V([3, 1], torch.int64), b(2, 3))):
    S("index_copy", x, dm, ix, src)
    S("index_copy_", x, dm, ix, src)
    S("index_add", x, dm, ix, src)
    S("index_add", x, dm, ix, src, alpha=-2)
    S("index_add_", x, dm, ix, src, alpha=0.5)
    S("index_fill.int_Scalar", x, dm, ix, -1.5)
    S("index_fill.int_Tensor", x, dm, ix, f())
    S("index_fill_.int_Scalar", x, dm, ix, 2)
S("index_add", f(3, 2), 0, V([1, 1, 0, 1], torch.int64), f(4, 2), name="repeats")
S("index_add", b(3, 2), 0, V([1, 1, 0, 1], torch.int64), b(4, 2), name="repeats bf16")
S("index_copy", f(4, 3), 0, V([3, 1], torch.int32), f(2, 3), need=False)
for rd in ("prod", "mean", "amax", "amin"):
    S("scatter_reduce.two", f(3, 5), 1, i(3, 7, g="idx5"), f(3, 7), rd)
    S("scatter_reduce.two", f(3, 5), 0, i(4, 5, g="idx3"), f(4, 5), rd, include_self=False)
S("scatter_reduce.two", f(3, 5), 0, i(4, 5, g="idx3"), f(4, 5), "sum")

for x, dm, ix, src in ((f(3, 5), 0, V([[0, 1, 2, 0, 1]], torch.int64), f(2, 5)), (f(2, 3, 4), -1, V([[[3, 0]], [[1, 2]]], torch.int64), f(2, 1, 2)), (f(7), 0, V([6, 0, 3], torch.int64), f(3)),
                       (b(2, 3, 4), 1, V([[[1, 2, 0]], [[0, 0, 2]]], torch.int64), b(2, 1, 3)), (f(2, 3), 1, i(2, 0, g="idx3"), f(2, 0)), (f(), 0, V(0, torch.int64), f())):
    S("scatter.src", x, dm, ix, src)
    S("scatter_.src", x, dm, ix, src)
    S("scatter.value", x, dm, ix, -2.5)
    S("scatter.value", x, dm, ix, INF)
    S("scatter_.value", x, dm, ix, 3)
    S("scatter_add", x, dm, ix, src)
    S("scatter_add_", x, dm, ix, src)
    S("scatter.reduce", x, dm, ix, src, reduce="add")
    S("scatter.value_reduce", x, dm, ix, 2.0, reduce="multiply")
S("scatter_add", f(3), 0, V([1, 1, 1, 0], torch.int64), f(4), name="repeats")
# Sums in 16 bits are rounded once: 0.1 would no longer change them from 16 or 32 on.
for mk in (b, h):
    first = V([[0] * 2] * 1200, torch.int64, tag="first")
    S("scatter_add", mk(2, 2), 0, first, V([[0.1, 1.0]] * 1200, mk().dtype, tag="many"))
    S("index_add", mk(2, 2), 0, V([0] * 1200, torch.int64, tag="first"), V([[0.1, 1.0]] * 1200, mk().dtype, tag="many"))
    S("index_add", mk(2, 2), -1, V([1] * 1200, torch.int64, tag="last"), V([[0.1] * 1200, [1.0] * 1200], mk().dtype, tag="many"))
    S("scatter.reduce", mk(2, 2), 0, first, V([[0.1, 1.0]] * 1200, mk().dtype, tag="many"), reduce="add")
    S("index_put", mk(2), [V([0] * 70, torch.int64, tag="first")], V([0.3] * 70, mk().dtype, tag="many"), True)
    S("put", mk(2), V([0] * 70, torch.int64, tag="first"), V([0.3] * 70, mk().dtype, tag="many"), True)
BEYOND = V([[60000.0, 1.0], [60000.0, 1.0], [-60000.0, 1.0]], torch.float16, tag="beyond")
S("index_add", V([[60000.0, 0.0]], torch.float16), 0, V([0, 0, 0], torch.int64), BEYOND)
S("scatter_add", V([[60000.0, 0.0]], torch.float16), 0, V([[0, 0]] * 3, torch.int64), BEYOND)
S("index_add", V([[60000.0, 0.0]], torch.float16), 0, V([0, 0], torch.int64), V([[60000.0, 1.0], [9.0, 2.0]], torch.float16), f64=False)

for x, dm, k in ((f(2, 3, 4), 0, 1), (f(2, 3, 4), -1, -1), (f(2, 3, 4), 1, -3), (f(5), 0, 4), (f(5), -1, -5), (f(1, 2, 3, 2, 2), 3, 1), (f(0, 3), 1, 0)):
    S("select.int", x, dm, k)
BIG = 9223372036854775807
for x, dm, a, z, st in ((f(7), 0, 2, 5, 1), (f(7), 0, None, None, 1), (f(7), 0, -3, BIG, 1), (f(7), 0, 0, -2, 1), (f(7), 0, -100, 100, 2), (f(7), 0, 5, 2, 1), (f(7), 0, 7, BIG, 1), (f(7), -1, 1, BIG, 3),
                        (f(2, 3, 4), 1, 1, 3, 1), (f(2, 3, 4), -1, -2, -1, 1), (f(2, 3, 4), 2, 0, BIG, 3), (f(2, 3, 4), 0, None, -1, 1), (f(1, 2, 3, 2, 3), -2, 1, BIG, 1), (f(0, 3), 1, 1, 3, 1), (f(2, 33), 1, 0, 33, 16)):
    S("slice.Tensor", x, dm, a, z, st)
S("slice.Tensor", f(3, 4))
S("slice.Tensor", f(3, 4), 1)
S("slice.Tensor", f(3, 4), 1, 2)
S("slice.Tensor", f(5, 2), 0, 1, 4)
for x, dm, st, ln in ((f(3, 7), 1, 2, 3), (f(3, 7), -1, -3, 2), (f(3, 7), 0, 0, 3), (i(7), 0, 7, 0), (b(2, 3, 4), 1, 1, 2)):
    S("narrow", x, dm, st, ln)
S("narrow.Tensor", f(3, 7), 1, V(2, torch.int64), 3)
S("take_along_dim", f(3, 5), i(3, 1, g="idx5"), -1)
S("take_along_dim", f(3, 5), i(1, 5, g="idx3"), 0)
S("take_along_dim", f(3, 5), i(4, g="idx15"))
S("take_along_dim", f(2, 1, 4), i(1, 3, 2, g="idx4"), 2)
for x, src, dm, k in ((f(2, 3, 4), f(2, 4), 1, -1), (f(2, 3, 4), f(3, 4), 0, 1), (b(5), b(), 0, -5), (f(2, 3), f(2), -1, 2)):
    S("select_scatter", x, src, dm, k)
for x, src, dm, a, z, st in ((f(7), f(3), 0, 2, 5, 1), (f(7), f(2), 0, -2, BIG, 1), (f(2, 6, 3), f(2, 2, 3), -2, 1, BIG, 3), (f(2, 3), f(2, 3), 0, None, None, 1), (b(2, 6), b(2, 4), 1, 0, -2, 1)):
    S("slice_scatter", x, src, dm, a, z, st)
S("slice_scatter", f(3, 2), f(3, 2))
for right in (False, True):
    for bd in (V([1.0, 3.0, 5.0, 7.0], tag="sorted"), V([1, 3, 5], torch.int64, tag="sorted")):
        S("bucketize.Tensor", V([[0.0, 1.0, 3.0, 6.0], [7.0, 8.0, INF, NAN]], tag="edge"), bd, right=right)
        S("bucketize.Tensor", i(7), bd, right=right, out_int32=True)
        S("bucketize.Tensor", b(7, g="pos"), bd, right=right, need=False)
        S("bucketize.Scalar", 3, bd, right=right)
S("bucketize.Tensor", f(0), V([1.0]))
S("bucketize.Tensor", f(3), f(0))

TABLE = V([[3.0, -4.0], [0.5, 0.0], [0.0, 0.0], [INF, 1.0], [NAN, 1.0], [1e15, 1e15], [1e-15, -1e-15]], tag="edge")
for most in (1.0, 0.25, 7.5, 0.0, -1.0, INF):
    for order in (2.0, 1.0, 0.0, INF, -INF, 3.0, 0.5):
        S("embedding_renorm", f(5, 4), V([4, 0, 4, -2], torch.int64), most, order)
    S("embedding_renorm", TABLE, i(9, g="idx7"), most, 2.0)
    S("embedding_renorm", TABLE, V([0, 1, 2, 3, 4, 5, 6], torch.int64), most, 1.0)
for mk in (d, h, b):
    S("embedding_renorm", mk(9, 33), i(4, g="idx9"), 1.5, 2.0)
    S("embedding_renorm", mk(9, 3), i(2, 2, g="idx9"), 0.5, 3.0)
    S("embedding_renorm_", mk(9, 3), i(2, 2, g="idx9"), 0.5, 2.0)
S("embedding_renorm", f(9, 65), i(3, 1, 2, g="idx9"), 2.0, 2.0)
S("embedding_renorm", f(9, 3), i32(4, g="nidx9"), 1.0, 2.0)
S("embedding_renorm", f(9, 3), i(g="idx9"), 1.0, 2.0)
S("embedding_renorm", f(9, 3), i(0, g="idx9"), 1.0, 2.0)
S("embedding_renorm", f(3, 0), i(2, g="idx3"), 1.0, 2.0)
S("embedding_renorm", f(1, 1), i(2, g="idx1"), 0.1, 2.0)

for mk in (i, i32, i8, u8, BY["i16"]):
    S("bincount", mk(7, g="idx5"), None, 5, need=False)  # where the largest number occurs
    S("bincount", mk(40, g="idx5"), None, 5)
    S("bincount", mk(40, g="idx5"), None, 9)
    for weights in (f, d, h, b, i, u8, bl):
        S("bincount", mk(40, g="idx5"), weights(40), 6)
for weights in (None, f(0), d(0), i(0)):
    S("bincount", i(0), weights, 3)
    S("bincount", i(0), weights, 0)
S("bincount", i(1, g="idx1"), None, 1)
S("bincount", i(300, g="idx65"), f(300), 65)
S("bincount", i(7, g="idx5"), V([NAN, INF, -INF, 1.0, -1.0, 1e30, -1e30]), 5)
S("bincount", i(6, g="idx1"), V([1e8, 1.0, -1e8, 1.0, 0.5, 16777216.0]), 2)
