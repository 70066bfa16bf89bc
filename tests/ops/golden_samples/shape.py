"""Views, layout, joining and splitting, padding."""
from .core import BY, INF, NAN, S, V, b, bl, d, f, h, i, i32, i8, u8
import torch

for op in ("view", "reshape", "_unsafe_view"):
    for x, sz in ((f(2, 6), [3, 4]), (f(2, 6), [-1]), (f(2, 6), [4, -1]), (f(2, 6), [2, 1, 3, 2]), (f(), [1, 1]), (f(1, 1), []), (f(0, 3), [3, 0]), (f(2, 3, 4), [2, -1]),
                  (f(1, 2, 3, 2, 1), [6, 2]), (b(2, 6), [3, -1]), (i(4), [2, 2]), (bl(4), [2, 2]), (h(33), [1, 33]), (f(2, 3), [2, 3]), (u8(6), [-1, 2])):
        S(op, x, sz, need=op in ("view", "reshape"))
S("view_as", f(2, 6), f(3, 4))
S("reshape_as", f(2, 6), f(3, 4))
for x, a in ((f(2, 3, 4), ()), (f(2, 3, 4), (1,)), (f(2, 3, 4), (0, 1)), (f(2, 3, 4), (-2, -1)), (f(), ()), (f(5), ()), (b(2, 3, 2, 2), (1, -1)), (f(2, 3, 1, 2, 2), (2, 3)), (f(0, 3), ()), (i(2, 2), (0, -1)),
             (f(2, 3), (1, 1))):
    S("flatten.using_ints", x, *a)
S("ravel", f(2, 3))
for x, dm, sz in ((f(2, 6), 1, [2, 3]), (f(2, 6), -1, [3, -1]), (b(12), 0, [2, 2, 3]), (f(6, 2), -2, [-1, 3])):
    S("unflatten.int", x, dm, sz)
for x in (f(1, 3, 1, 2), f(2, 3), f(1), f(), b(1, 1, 1), i(2, 1), f(0, 1), f(1, 2, 1, 1, 3)):
    S("squeeze", x)
    for dm in (0, -1):
        S("squeeze.dim", x, dm)
        S("unsqueeze", x, dm)
    if len(x.shape) > 1:
        S("squeeze.dims", x, [0, -1])
        S("squeeze.dims", x, [1])
        S("unsqueeze", x, 1)
        S("unsqueeze", x, -2)
        S("unsqueeze", x, len(x.shape))
for x, sz in ((f(3, 1), [3, 4]), (f(3, 1), [-1, 4]), (f(3), [2, 3]), (f(), [2, 3]), (f(1, 3, 1), [2, 3, 4]), (f(2, 1, 3), [5, 2, -1, 3]), (b(1), [33]), (i(1, 3), [2, 3]), (bl(3, 1), [3, 2]), (f(2, 3), [2, 3]),
              (f(1, 2, 1, 2), [2, 2, 3, 2]), (f(1, 1, 2, 1, 1), [2, 1, 2, 3, 1]), (f(1, 3), [0, 3])):
    S("expand", x, sz)
    if -1 not in sz:
        S("broadcast_to", x, sz)
S("expand", f(3, 1), [3, 2], implicit=True)
S("expand_as", f(3, 1), f(2, 3, 4))
S("expand_as", b(1), f(5))
S("broadcast_tensors", [f(3, 1), f(1, 4), f(2, 1, 1)])
for x, p in ((f(2, 3), [1, 0]), (f(2, 3, 4), [2, 0, 1]), (f(2, 3, 4), [0, 2, 1]), (f(2, 3, 4), [-1, 0, -2]), (f(2, 3, 2, 4), [0, 2, 3, 1]), (b(2, 3, 2, 4), [0, 3, 1, 2]), (f(1, 2, 3, 2, 2), [4, 2, 0, 3, 1]),
             (f(), []), (f(5), [0]), (i(2, 1, 3), [1, 0, 2]), (bl(2, 3), [1, 0]), (f(0, 3), [1, 0]), (h(1, 33, 2), [2, 1, 0])):
    S("permute", x, p)
for x, a, z in ((f(2, 3), 0, 1), (f(2, 3, 4), 1, 2), (f(2, 3, 4), -1, 0), (f(2, 1, 3, 1), 1, 3), (f(1, 5, 1, 3), 1, 2), (b(2, 3, 2, 4), 1, 2), (f(2, 3), 1, 1), (f(), 0, -1), (i(3, 2), -2, -1), (f(2, 1, 3, 2, 2), 4, 2)):
    S("transpose.int", x, a, z)
    S("swapaxes", x, a, z)
for x in (f(2, 3), f(4), f(), b(3, 1), i(2, 2)):
    S("t", x)
    S("numpy_T", x)
for x in (f(2, 3), f(2, 3, 4), b(1, 2, 3, 2)):
    S("mT", x, need=False)
    S("numpy_T", x)
for x, a, z in ((f(2, 3, 4), [0], [2]), (f(2, 3, 4), [0, 1], [-1, 0]), (b(2, 3, 2, 2), [1, 2], [2, 3])):
    S("movedim.intlist", x, a, z)
    S("moveaxis.intlist", x, a, z)
S("movedim.int", f(2, 3, 4), 0, -1)
S("moveaxis.int", f(2, 3, 4), -1, 1)
for x, sz, st, off in ((f(12), [3, 2], [4, 1], None), (f(12), [3, 2], [4, 1], 2), (f(3, 4), [2, 2], [1, 4], 1), (f(5), [3, 3], [1, 1], 0), (f(4), [2, 4], [0, 1], 0), (b(6), [], [], 3), (f(2, 3, 2), [2, 6], [6, 1], 0), (i(6), [0, 2], [1, 1], 0)):
    S("as_strided", x, sz, st, off)
S("as_strided", f(12), [3, 2], [4, 2])

for xs, dm in (([f(2, 3), f(2, 3)], (0,)), ([f(2, 3), f(2, 1), f(2, 4)], (1,)), ([f(2, 3), f(2, 1)], (-1,)), ([f(2, 3)], (0,)), ([f(2, 3), f(0), f(2, 3)], (0,)), ([f(0), f(2, 3)], (1,)), ([f(2, 3), f(0)], (-2,)),
               ([f(0), f(0)], (0,)), ([f(2, 0), f(2, 3)], (1,)), ([f(3), f(1), f(5), f(2)], ()), ([b(1, 2, 2, 3), b(1, 2, 1, 3)], (2,)), ([b(1, 2, 3), b(2, 2, 3)], (-3,)), ([f(2, 2), h(1, 2)], (0,)),
               ([i(2, 2), f(1, 2)], (0,)), ([bl(2), i32(2)], (0,)), ([u8(2), i8(2)], (0,)), ([bl(2, 2), bl(1, 2)], (0,)), ([f(1, 2, 2, 1, 2), f(1, 2, 1, 1, 2)], (2,)), ([b(3), f(2)], (0,)), ([h(33), h(1)], (0,)),
               ([f(1, 1)] * 7, (1,))):
    S("cat", xs, *dm)
    if len(xs) > 2 or len(dm) == 0:
        S("concat", xs, *dm)
        S("concatenate", xs, *dm)
z = f(2, 3)
S("cat", [z, z], 1, name="the same tensor twice")
for xs, dm in (([f(2, 3), f(2, 3)], ()), ([f(2, 3)] * 3, (1,)), ([f(2, 3), f(2, 3)], (-1,)), ([f(2, 3), f(2, 3)], (2,)), ([f(), f()], (0,)), ([f(4)], (0,)), ([b(2, 3), b(2, 3)], (-3,)), ([i(2), i(2)], (1,)), ([f(2), h(2)], (0,)),
               ([f(0, 2), f(0, 2)], (0,)), ([i(2), f(2)], (1,))):
    S("stack", xs, *dm, need=False)
for op in ("hstack", "vstack", "dstack", "column_stack"):
    S(op, [f(2, 3), f(2, 3)])
    S(op, [f(3), f(3)])
for x, n, dm in ((f(7, 2), 3, 0), (f(2, 7), 3, 1), (f(2, 6), 2, -1), (f(5), 5, 0), (f(5), 9, 0), (b(2, 4, 3), 2, 1), (i(7), 4, 0), (f(2, 3, 4, 2), 1, -3), (f(0, 3), 2, 0), (f(2, 33), 16, 1)):
    S("split.Tensor", x, n, dm)
    S("chunk", x, n, dm)
    S("tensor_split.sections", x, n, dm)
S("split.Tensor", f(7), 3)
S("chunk", f(7), 3)
for x, sz, dm in ((f(7, 2), [3, 4], 0), (f(2, 7), [1, 4, 2], 1), (f(2, 6), [0, 6], -1), (b(1, 2, 9), [4, 4, 1], 2), (i(5), [5], 0)):
    S("split_with_sizes", x, sz, dm)
    S("split.sizes", x, sz, dm)
for x, ix, dm in ((f(7, 2), [2, 5], 0), (f(2, 7), [3], 1), (f(7), [2, 2, 9], 0), (f(2, 7), [-3], -1)):
    S("tensor_split.indices", x, ix, dm)
for x, dm in ((f(3, 2), 0), (f(3, 2), 1), (f(2, 3, 2), -2), (f(3), 0), (b(2, 2), -1), (i(2, 1, 2), 1)):
    S("unbind.int", x, dm)
S("unbind.int", f(2, 3))

for x, r in ((f(2, 3), [1, 2]), (f(2, 3), [2, 1, 2]), (f(3), [3]), (f(), [2]), (f(), []), (b(1, 2, 2), [2, 1, 3]), (i(2, 2), [2, 2]), (f(2, 3), [0, 1]), (bl(2, 1), [1, 4]), (f(1, 2, 1, 2, 1), [2, 1, 2, 1, 2])):
    S("repeat", x, r)
    S("tile", x, r)
S("tile", f(2, 3, 2), [2])
for x, r, dm in ((f(2, 3), 2, 0), (f(2, 3), 3, 1), (f(2, 3), 2, None), (b(1, 2, 3, 2), 3, 1), (f(2, 3), 2, -1), (i(4), 2, 0), (f(), 3, None), (f(2, 3), 0, 0), (h(1, 33), 2, 0)):
    S("repeat_interleave.self_int", x, r, dm)
S("repeat_interleave.self_int", f(2, 3), 2)
for x, sh, dm in ((f(7), [2], [0]), (f(3, 4), [1], [1]), (f(3, 4), [-1], [0]), (f(3, 4), [1, -2], [0, 1]), (f(3, 4), [5], []), (f(3, 4), [-3], []), (f(2, 3, 4), [9, 1], [-1, 0]), (b(2, 6), [3], [-1]), (i(5), [-7], [0]), (f(2, 3, 2, 2), [1, 1], [2, 3]),
                  (f(2, 3), [1, 1], [1, 1]), (f(0, 3), [1], [1]), (f(), [1], [])):
    S("roll", x, sh, dm, need=False)
S("roll", f(3, 4), [5])
for x, dm in ((f(7), [0]), (f(3, 4), [0, 1]), (f(3, 4), [-1]), (f(2, 3, 2), [1]), (b(2, 2, 2, 3), [2, 3]), (i(4), [0]), (f(2, 3), []), (f(1, 2, 2, 2, 2), [4, 1]), (bl(3), [0]), (f(0, 3), [0, 1])):
    S("flip", x, dm)
S("fliplr", f(2, 3))
S("flipud", f(2, 3))
for k in (0, 1, 2, 3, -1, 5):
    S("rot90", f(2, 3), k, [0, 1])
S("rot90", f(2, 3, 2), 1, [2, 0])
S("rot90", b(2, 3), 1, [-1, 0])
for x, dm, n, st in ((f(7), 0, 3, 2), (f(2, 7), 1, 3, 1), (f(2, 6, 2), -2, 2, 2), (b(5), 0, 5, 1), (f(1, 2, 5, 4), 2, 3, 2), (i(6), 0, 1, 3)):
    S("unfold", x, dm, n, st)
for x, r in ((f(1, 4, 2, 3), 2), (f(2, 9, 1, 2), 3), (b(8, 2, 2), 2), (f(1, 2, 4, 1, 2), 2), (f(2, 4, 2, 2), 1)):
    S("pixel_shuffle", x, r)
for x, r in ((f(1, 1, 4, 6), 2), (f(2, 2, 3, 3), 3), (b(1, 4, 2), 2), (h(1, 1, 1, 4, 4), 2)):
    S("pixel_unshuffle", x, r)
for x, g in ((f(1, 6, 2, 2), 3), (f(2, 4, 3), 2), (b(1, 8, 1, 2), 4)):
    S("channel_shuffle", x, g)
    S("native_channel_shuffle", x, g, need=False)
for op in ("tril", "triu"):
    for x in (f(4, 4), f(3, 5), f(5, 3), b(2, 3, 3), i(3, 4), bl(4, 4), f(1, 2, 3, 4), f(25, 1, g="special"), f(1, 5), f(0, 3)):
        for k in (0, 1, -1):
            S(op, x, k)
    S(op, f(4, 4))
    S(op, f(4, 4), 9)
    S(op, f(4, 4), -9)
    S(op + "_", f(3, 3), 1)
    S(op, V([[NAN, INF], [-INF, NAN]]), 0, name="nan is dropped")
    S(op + "_indices", 3, 4, 1)
for x in (f(3, 4), f(2, 3, 3), b(4, 3), i(2, 2, 3)):
    S("diagonal", x)
    S("diagonal", x, 1)
    S("diagonal", x, -1, 0, 1)
    S("diagonal", x, 0, -1, -2)
S("diagonal", f(3, 4), 9)
for x in (f(3), f(2, 3), b(2, 1, 2)):
    S("diag_embed", x)
    S("diag_embed", x, 1)
    S("diag_embed", x, -2, 0, 1)
    S("diag_embed", x, 0, 0, -1)
for x in (f(3), f(3, 4)):
    S("diag", x)
    S("diag", x, 1)
    S("diag", x, -1)
S("meshgrid", [f(3), f(2)])
S("meshgrid.indexing", [f(3), f(2)], indexing="ij")
S("meshgrid.indexing", [f(3), f(2)], indexing="xy")
S("meshgrid.indexing", [i(2), f(3), f(2)], indexing="ij", need=False)
S("meshgrid.indexing", [f(2), f(3), f(2)], indexing="xy")

for x, p in ((f(2, 3), [1, 2]), (f(2, 3), [1, 0, 0, 2]), (f(2, 3), [-1, 1]), (f(2, 4, 3), [0, 0, -1, -2]), (b(1, 2, 3, 3), [1, 1, 1, 1]), (f(1, 2, 2, 3, 2), [0, 1, 2, 0, 1, 1]), (f(4), [0, 3]), (i(3), [2, 1]), (bl(2, 2), [1, 1]),
             (h(2, 2), [0, 0, 1, 1]), (f(0, 3), [1, 1, 2, 0]), (f(2, 2), [0, 0]), (f(2, 3, 4, 3), [1, 0, 0, 2]), (f(2, 3, 4, 3), [0, -1, -1, 0]),
             (f(2, 3, 4, 3), [0, 0, 0, 0, 1, 1]), (f(2, 1, 4, 3), [0, 0, 0, 0, 1, 1]), (f(2, 3, 2, 3, 4), [1, 1]), (f(2, 3, 2, 3, 4), [-1, 0, 0, -1])):
    S("constant_pad_nd", x, p)
    S("constant_pad_nd", x, p, 1)
    S("pad", x, p)
    S("pad", x, p, "constant", 2.0, need=False)
    S("pad", x, p, "constant", None)
S("constant_pad_nd", f(2, 2), [1, 1], -INF)
S("constant_pad_nd", i(2, 2), [1, 1], 7)
S("pad", f(2, 2), [1, 1], "constant", -INF)
for mode in ("reflect", "replicate", "circular"):
    for x, p in ((f(2, 3, 5), [2, 1]), (f(3, 5), [1, 3]), (f(1, 2, 4, 5), [1, 2, 3, 0]), (f(2, 4, 5), [0, 2, 1, 1]), (b(1, 2, 4, 4), [1, 1, 1, 1]), (f(1, 1, 3, 3, 4), [1, 2, 1, 0, 2, 1]), (f(1, 2, 5), [-1, 2]), (i(1, 2, 4), [1, 1]), (h(1, 1, 9), [3, 4])):
        S("pad", x, p, mode, need=False)
        if mode != "circular":
            n = len(p) // 2
            S(f"{'reflection' if mode == 'reflect' else 'replication'}_pad{n}d", x, p, need=False)
S("replication_pad1d", f(1, 2, 3), [5, 4])
S("replication_pad2d", f(1, 1, 2, 3), [4, 0, 0, 5])
