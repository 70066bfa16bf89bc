"""Copies, splits, joins, indexing, orders and products that models reach rarely."""
import torch

from .core import INF, NAN, S, V, b, bl, d, f, h, i, i32, u8

I64 = torch.int64

for op in ("view_copy", "_unsafe_view"):
    S(op, f(2, 6), [3, -1])
S("_reshape_alias", f(2, 6), [3, 4], [4, 1])
for op in ("atleast_1d", "atleast_2d", "atleast_3d"):
    for x in (f(), f(3), f(2, 3), b(2, 3, 2), i(1, 2, 2, 2)):
        S(op, x)
    S(op + ".Sequence", [f(), f(3), i(2, 2)])
S("swapdims", f(2, 3, 4), 0, -1)
for op in ("mH", "adjoint"):
    S(op, f(2, 3, 4))
S("matrix_H", f(2, 3))
S("ravel", b(2, 3))
S("t_copy", f(2, 3))
S("transpose_copy.int", f(2, 3, 2), -1, 0)
S("permute_copy", f(2, 3, 2), [2, 0, 1])
S("expand_copy", f(2, 1), [3, 2, 4])
S("squeeze_copy", f(1, 3, 1))
S("squeeze_copy.dim", f(1, 3, 1), -1)
S("squeeze_copy.dims", f(1, 3, 1), [0, 2])
S("unsqueeze_copy", f(2, 3), -1)
S("slice_copy.Tensor", f(3, 7), 1, 1, -1, 2)
S("select_copy.int", f(3, 4), 1, -2)
S("narrow_copy", f(3, 7), 1, 2, 4)
S("diagonal_copy", f(3, 4), 1)
S("as_strided_copy", f(12), [3, 2], [4, 1], 1)
S("unfold_copy", f(2, 7), 1, 3, 2)
S("unbind_copy.int", f(2, 3), 1)
S("split_copy.Tensor", f(7, 2), 3)
S("split_with_sizes_copy", f(7, 2), [3, 0, 4])
S("unsafe_split.Tensor", f(2, 7), 3, -1)
S("unsafe_split_with_sizes", f(2, 7), [5, 2], -1)
S("unsafe_chunk", f(7, 2), 3)
S("split", f(7, 2), [3, 4])
for op, x in (("hsplit", f(4, 6)), ("vsplit", f(6, 4)), ("dsplit", f(2, 3, 6))):
    S(op + ".int", x, 3)
    S(op + ".array", x, [1, 5])
    S(op + ".array", x, [4, 2, 9])
S("hsplit.int", f(6), 2)
S("unfold", f(), 0, 1, 1)
S("unfold", f(2, 9, 3), -2, 4, 5)

S("_stack", [f(2, 3), f(2, 3)], 1)
S("row_stack", [f(3), f(2, 3)])
S("hstack", [f(), f()])
S("vstack", [f(), f()])
S("column_stack", [f(), f()])
S("column_stack", [f(3), f(3, 2), i(3)])
S("dstack", [f(3), f(1, 3)])
S("cat", [f(1, 2) for _ in range(40)], 0)
S("cat", [f(2, k % 3) for k in range(37)], 1)
S("stack", [i(2) for _ in range(35)], -1)
S("block_diag", [f(2, 3), f(2), f(), i(1, 1)])
S("block_diag", [f(2, 0), f(1, 2)])
S("_pad_circular", f(2, 3, 5), [2, 1])
for mode in (0, 1, 2, 3):
    S("_pad_enum", f(2, 3, 5), [2, 1], mode)
S("_pad_enum", f(2, 3, 5), [2, -1], 3, 2.5)
S("pad", f(2, 3, 5, 4), [1, 2, 2, 1], "circular")
S("pad", f(2, 3, 5, 4), [1, -2, 0, 1], "replicate")
S("pad", f(2, 3, 5, 4), [1, -2, -1, 1], "reflect")
S("pad", bl(2, 3), [1, 1], "constant", 1.0)
S("pad", i(2, 3), [1, 1, 0, 1], "constant", 3.0)
S("roll", f(2, 3, 4, 5), [1, -1, 2, 3], [0, 1, 2, 3])
S("roll", f(4, 5), [1, 2], [1, 1])
S("roll", f(0, 5), [1], [0])
S("tile", f(2, 3), [2])
S("repeat", f(), [2, 3])
S("repeat_interleave.self_int", f(), 3)
S("diagflat", f(2, 3), 1)
S("diagflat", f(3), -2)
S("trace", f(3, 4))
S("trace", i(4, 3), f64=False)
for x, a in ((f(2, 3, 7, 6), ((2, 3), (1, 1), (0, 0), (1, 1))), (f(3, 7, 6), ((2, 2), (2, 1), (1, 2), (2, 1))), (b(1, 2, 5, 5), ((3, 3), (1, 1), (1, 1), (2, 2)))):
    S("im2col", x, *[list(v) for v in a])
for x, size, a in ((f(2, 18, 25), (6, 7), ((2, 3), (1, 1), (0, 0), (1, 1))), (f(2 * 9, 9), (5, 5), ((3, 3), (1, 1), (1, 1), (2, 2))), (f(1, 4, 12), (7, 8), ((2, 2), (2, 3), (1, 0), (2, 2)))):
    S("col2im", x, list(size), *[list(v) for v in a])
S("as_strided_scatter", f(12), f(3, 2), [3, 2], [4, 1], 1)
S("as_strided_scatter", f(3, 4), f(4), [4], [3])
S("diagonal_scatter", f(3, 4), f(3), 1)
S("diagonal_scatter", f(2, 3, 4), f(2, 3), 0, 1, 2)
S("select_scatter", f(3, 4), i(4), 0, -1)
S("slice_scatter", f(3, 5), f(3, 2), -1, -4, 5, 2)

idx = V([2, 0, 3], I64)
for op in ("index.Tensor_hacked_twin", "_unsafe_index.Tensor_hacked_twin"):
    S(op, f(4, 5), [idx, V([1, 4, 0], I64)])
S("_unsafe_index.Tensor", f(4, 5), [None, idx])
S("_unsafe_index.Tensor", f(2, 4, 5), [V([[0], [1]], I64), None, idx])
S("_unsafe_masked_index", f(4), V([True, False, True], torch.bool), [V([1, 9, -1], I64)], 2.5)
for op in ("index_put.hacked_twin", "_unsafe_index_put.hacked_twin", "_unsafe_index_put", "_index_put_impl"):
    S(op, f(4, 5), [idx, V([1, 4, -5], I64)], f(3))
    S(op, f(4, 5), [idx], f(5), True)
S("index_put", f(4, 5), [V([1, 1, -3], I64)], f(3, 5), True)
S("index_put", f(2, 4, 5), [V([[0], [1]], I64), None, V([4, 2], I64)], f(1))
S("index_put", f(3, 4), [bl(3, 4)], f(), need=False)
S("index_put", f(3, 4), [bl(3)], f(4), need=False)
S("index_put", f(3, 4), [bl(3, 4)], f(1), need=False)
for how in ("prod", "mean", "amin", "amax"):
    S("index_reduce", f(4, 3), 0, V([2, 0, 2], I64), f(3, 3), how)
    S("index_reduce", f(3, 4), 1, V([2, 0, 2], I64), f(3, 3), how, include_self=False)
S("put", f(3, 4), V([[1, -1], [5, 0]], I64), f(4))
S("put", f(3, 4), V([1, 1, 5], I64), f(3), True)
S("take", f(3, 4), V([[1, -1], [5, 11]], I64))
S("take", b(7), i(0, g="idx5"))

S("masked_scatter", f(2, 3), V([[True, False, True]], torch.bool), f(5), need=False)
S("masked_scatter", f(2, 3), V([[True, False, True], [False, False, True]], torch.bool), f(2, 2))

FLAT = V([[1.0, NAN, -1.0, INF, 0.0, -0.0, NAN, 1.0], [-INF, 2.0, 2.0, -3.0, NAN, 1.0, 2.0, 0.5]])
for x in (FLAT, f(3, 9), h(4, 17), i(3, 8), u8(2, 9), bl(2, 5), f(0), f(1), f(), f(2, 5, 3)):
    for down in (False, True):
        dim = 1 if len(x.shape) == 3 else -1
        S("sort.stable", x, stable=True, dim=dim, descending=down)
        S("argsort.stable", x, stable=True, dim=dim, descending=down)
S("sort", f(3, 9), 0, True)
S("argsort", f(3, 9), 0, True)
S("msort", f(5, 3))
S("msort", V([3.0, NAN, 1.0]))
for x in (f(3, 9), d(2, 5), b(1, 7)):
    S("topk", x, 3, f64=False)
    S("topk", x, 2, -1, False, f64=False)
    S("topk", x, 1, 0, f64=False)
    S("kthvalue", x, 2, f64=False)
    S("kthvalue", x, 1, 0, True, f64=False)
    S("median", x, f64=False)
    S("median.dim", x, -1, f64=False)
    S("median.dim", x, 0, True, f64=False)
    S("nanmedian", x, f64=False)
    S("nanmedian.dim", x, 1, f64=False)
S("topk", V([1.0, NAN, 5.0, -INF]), 2)
S("topk", f(), 1)
S("topk", f(4), 0)
S("topk", f(4), 4)
N4 = V([3.0, NAN, 1.0, 2.0, 7.0])
for op in ("median", "nanmedian"):
    S(op, N4)
    S(op + ".dim", N4, 0)
    S(op, V([4, 1, 3, 2], I64))
BOUNDS = V([-1.0, 0.0, 0.5, 0.5, 2.0])
for right in (False, True):
    S("searchsorted.Tensor", BOUNDS, V([[0.5, -3.0], [NAN, 9.0]]), right=right)
    S("searchsorted.Tensor", V([[1.0, 2.0, 3.0], [2.0, 2.0, 5.0]]), V([[2.0], [2.0]]), right=right, out_int32=True)
    S("searchsorted.Scalar", BOUNDS, 0.5, right=right)
    S("searchsorted.Scalar", V([1, 3, 5], I64), 3, right=right)
    S("bucketize.Tensor", V([[0.5, NAN], [INF, -2.0]]), BOUNDS, right=right)
S("searchsorted.Tensor", BOUNDS, V([0.5]), side="right")
S("isin.Tensor_Tensor", i(3, 4, g="idx9"), V([1, 5, 7], I64))
S("isin.Tensor_Tensor", V([1.0, NAN]), V([[NAN], [1.0]]), invert=True)
S("isin.Tensor_Scalar", i(3, 4, g="idx5"), 2)
S("isin.Scalar_Tensor", 2, i(7, g="idx5"))

S("linalg_matmul", f(2, 3, 4), f(4, 5))
S("ger", f(3), f(4))
S("vdot", f(5), f(5))
for x, y in ((f(2, 3), f(4, 3)), (f(3), f(2, 2, 3)), (f(), f(2, 3)), (f(2, 1), f(3, 1)), (i(2, 3), i(3))):
    S("inner", x, y)
S("tensordot", f(2, 3, 4), f(4, 3, 5), [1, 2], [1, 0])
S("tensordot", f(2, 3), f(4), [], [])
S("tensordot", f(2, 3), f(3, 2), [-1, 0], [0, 1])
for op in ("chain_matmul", "linalg_multi_dot"):
    S(op, [f(2, 3), f(3, 4), f(4, 2)])
S("linalg_multi_dot", [f(3), f(3, 4), f(4)])
for gelu in (False, True):
    S("_addmm_activation", f(4), f(3, 2), f(2, 4), beta=2, alpha=0.5, use_gelu=gelu)
S("_convolution_mode", f(1, 2, 6, 7), f(4, 2, 2, 3), f(4), [1, 1], "same", [1, 2], 1)
S("_convolution_mode", f(1, 2, 6, 7), f(4, 1, 2, 3), None, [2, 1], "valid", [1, 1], 2)
S("_convolution.deprecated", f(1, 2, 6), f(2, 3, 3), f(3), [2], [1], [1], True, [1], 1, False, False, False)
S("conv_transpose2d.input", f(2, 4, 3, 5), f(4, 3, 2, 2), f(6), [2, 2], [0, 0], [0, 0], 2)
S("conv_transpose2d.input", f(4, 3, 5), f(4, 3, 2, 3), None, [2, 3])
S("conv_transpose1d", f(2, 4, 5), f(4, 3, 3), f(3), [1], [2], [0], 1, [2])
S("conv_transpose1d", f(2, 4, 5), f(4, 3, 3), f(3), [3], [1], [2], 1, [2])
S("conv_transpose3d.input", f(1, 2, 2, 3, 2), f(2, 2, 2, 3, 2), None, [2, 1, 2], [1, 0, 0], [1, 0, 0])
for eq, xs in (("ii->i", [f(4, 4)]), ("ij->", [f(2, 3)]), ("ij->ji", [f(2, 3)]), ("iij->j", [f(3, 3, 2)]), ("ij,jk,kl->il", [f(2, 3), f(3, 4), f(4, 2)]),
               ("bhid,bhjd->bhij", [f(2, 2, 3, 4), f(2, 2, 5, 4)]), ("...ij,...jk->...ik", [f(2, 3, 4), f(4, 5)]), ("i,j", [f(2), f(3)]), ("ab,ab->", [f(2, 3), f(2, 3)]),
               ("ij,kj->ik", [f(2, 3), f(4, 1)]), ("ijk,j->k", [f(2, 3, 4), f(3)]), ("ii,i->i", [f(3, 3), f(3)]), ("Ab,bC", [f(2, 3), f(3, 4)]), ("a,a,a->a", [f(3), f(3), f(3)]), ("ij,jk->ki", [i(2, 3), i(3, 2)]),
               ("b i j , b j -> b i", [f(2, 3, 4), f(2, 4)]), ("...,...->...", [f(2, 3), f(3)])):
    S("einsum", eq, xs)
for x, y, dm in ((f(2, 5), f(2, 5), 1), (f(2, 3, 4), f(3, 4), 1), (f(2, 3), f(2, 1), -1), (b(3, 4), b(3, 4), 0)):
    S("cosine_similarity", x, y, dm)
S("cosine_similarity", f(2, 5), f(2, 5), 1, 10.0)
for p in (0.0, 1.0, 2.0, 3.5, INF):
    S("pairwise_distance", f(3, 5), f(3, 5), p, need=False)
    S("cdist", f(2, 3, 5), f(2, 4, 5), p, need=False)
    S("_cdist_forward", f(3, 5), f(4, 5), p, None, need=False)
S("pairwise_distance", f(3, 5), f(5), keepdim=True)
S("cdist", f(3, 0), f(4, 0))
S("cdist", f(2, 1, 3, 5), f(3, 4, 5))
S("_euclidean_dist", f(3, 5), f(4, 5))
for op in ("_weight_norm", "_weight_norm_interface"):
    S(op, f(4, 3, 2), f(4, 1, 1), 0)
    S(op, f(4, 3, 2), f(1, 1, 2), 2)
    S(op, b(4, 3), b(4, 1), 0, need=False)
S("_weight_norm", f(4, 3, 2), f(1), -1, need=False)
S("bilinear", f(2, 3), f(2, 4), f(5, 3, 4), f(5))
S("bilinear", f(2, 2, 3), f(2, 2, 4), f(5, 3, 4))
S("bilinear", f(3), f(4), f(1, 3, 4), need=False)
S("linalg_cross", f(2, 3), f(1, 3))
S("linalg_cross", i(3, 2), i(3, 2), dim=0)
S("cross", f(3, 4), f(3, 4))
S("cross", f(4, 3), f(4, 3), 1)

for op, x, g in (("grid_sampler", f(2, 3, 5, 6), f(2, 4, 3, 2)), ("grid_sampler", f(1, 2, 3, 4, 5), f(1, 2, 3, 2, 3)), ("grid_sampler_2d", f(1, 2, 4, 1), f(1, 3, 5, 2)), ("grid_sampler_3d", f(1, 1, 2, 3, 4), f(1, 2, 2, 3, 3))):
    for mode in (0, 1, 2)[: 7 - len(x.shape)]:  # ATen's bicubic answer in three dimensions is whatever memory held
        for border in (0, 1, 2):
            for align in (False, True):
                S(op, x, g, mode, border, align, need=False)
S("affine_grid_generator", f(2, 2, 3), [2, 1, 4, 5], False)
S("affine_grid_generator", f(2, 2, 3), [2, 1, 4, 1], True)
S("affine_grid_generator", f(1, 3, 4), [1, 1, 2, 3, 2], True)

q, k, v = f(2, 3, 5, 4), f(2, 3, 7, 4), f(2, 3, 7, 6)
S("_scaled_dot_product_attention_math", q, k, v)
S("_scaled_dot_product_attention_math", q, k, v, f(5, 7), 0.0, False, None, scale=1.0)
S("_scaled_dot_product_attention_math", f(2, 3, 5, 4), f(2, 3, 5, 4), f(2, 3, 5, 4), None, 0.0, True)
S("scaled_dot_product_attention", f(2, 6, 5, 4), f(2, 2, 7, 4), f(2, 2, 7, 3), f(6, 5, 7), enable_gqa=True)
S("scaled_dot_product_attention", q, k, v, V([[True] * 7, [False] * 7, [True, False] * 3 + [True], [False] * 6 + [True], [True] * 7], torch.bool), scale=1.0)
S("scaled_dot_product_attention", f(5, 4), f(7, 4), f(7, 3))
S("scaled_dot_product_attention", f(2, 1, 5, 4), f(1, 3, 7, 4), f(3, 7, 3))


def recurrent(op, gates, T, B, I, H, layers, both, first, biases, dtype=f, projected=0):
    sides, P = 2 if both else 1, projected or H
    params = []
    for layer in range(layers):
        for _ in range(sides):
            width = I if layer == 0 else sides * P
            params += [dtype(gates * H, width), dtype(gates * H, P)] + ([dtype(gates * H), dtype(gates * H)] if biases else [])
            params += [dtype(P, H)] if projected else []
    state = dtype(layers * sides, B, P)
    hx = [state, dtype(layers * sides, B, H)] if op.startswith("lstm") else state
    S(op, dtype(B, T, I) if first else dtype(T, B, I), hx, params, biases, layers, 0.0, False, both, first)


for op, gates in (("lstm.input", 4), ("gru.input", 3), ("rnn_tanh.input", 1), ("rnn_relu.input", 1)):
    recurrent(op, gates, 4, 2, 3, 5, 1, False, False, True)
    recurrent(op, gates, 3, 2, 3, 2, 2, True, True, True)
    recurrent(op, gates, 2, 1, 1, 3, 2, False, True, False)
    recurrent(op, gates, 2, 1, 3, 2, 1, True, False, True, d)

recurrent("lstm.input", 4, 3, 2, 3, 5, 1, False, False, True, projected=2)
recurrent("lstm.input", 4, 4, 2, 3, 4, 2, True, True, False, projected=3)
recurrent("lstm.input", 4, 2, 1, 3, 3, 2, True, False, True, d, projected=1)
