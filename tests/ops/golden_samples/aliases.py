"""Other names of ops, and overloads that models reach rarely."""
import torch

from .core import INF, NAN, S, V, b, bl, d, f, h, i, i32, u8

for mk in (f, h, b, d):
    for op in ("special_expit", "special_exp2", "special_expm1", "special_erf", "arctan", "arcsinh"):
        S(op, mk(3, 5))
    for op, g in (("arcsin", "unit"), ("arccos", "unit"), ("arctanh", "unit"), ("arccosh", "ge1"), ("special_log1p", "pos")):
        S(op, mk(7, g=g))
    S("arctan2", mk(3, 5), mk(5))
    S("sinc", mk(9))
    for op in ("subtract", "multiply", "divide", "true_divide"):
        S(op + ".Tensor", mk(2, 3), mk(3, g="pos"))
        if op != "true_divide":
            S(op + ".Scalar", mk(2, 3), 2.5)
    for mode in (None, "floor", "trunc"):
        S("divide.Tensor_mode", mk(2, 5, g="wide"), mk(5, g="pos"), rounding_mode=mode)
        S("divide.Scalar_mode", mk(2, 5, g="wide"), 2, rounding_mode=mode)
    S("logaddexp2", mk(3, 4), mk(4))
    S("logcumsumexp", mk(3, 5), 1)
    S("logcumsumexp", mk(4), 0)
    S("nansum", mk(3, 5))
    S("nansum", mk(3, 5, g="special" if mk is f else ""), [1], True, need=False)
    S("frobenius_norm.dim", mk(3, 4, 2), [1, 2], False)
    S("frobenius_norm.dim", mk(3, 4), [0], True)
    S("special_softmax", mk(3, 5), -1)
    S("special_softmax", mk(3, 5), 0, torch.float32)
    S("special_log_softmax", mk(3, 5), -1)
    S("special_log_softmax", mk(3, 5), 0, dtype=torch.float32)
    S("special_logsumexp", mk(3, 5), [1])
    S("special_logsumexp", mk(3, 5, 2), [0, 2], True)
    S("xlogy.Scalar_Self", 2.5, mk(5, g="pos"))
    S("special_xlogy", mk(5), mk(5, g="pos"))
    S("special_xlogy.other_scalar", mk(5), 2.5)
    S("special_xlogy.self_scalar", 0.0, mk(5, g="pos"))
    S("_weight_norm", mk(4, 3, 2), mk(4, 1, 1))
    S("_weight_norm", mk(4, 3, 2), mk(1, 1, 2), 2)
    S("_prelu_kernel", mk(2, 3, 5), mk(1, 3, 1))
    S("rrelu", mk(3, 5), 0.1, 0.3)
    S("lift", mk(2, 3))
    S("alias_copy", mk(2, 3))
    S("detach_copy", mk(2, 3))
    S("feature_alpha_dropout", mk(2, 3, 4), 0.5, False)
    S("isclose", mk(2, 5), mk(5))
    S("clip.Tensor", mk(3, 5), mk(5), mk(3, 1))
S("sinc", V([0.0, 0.5, 1.0, -1.5, 1e-3]))
S("logaddexp2", V([INF, -INF, 0.0, NAN, -INF]), V([INF, -INF, -INF, 1.0, 3.0]))
S("logcumsumexp", V([-INF, 1.0, INF, 2.0]), 0)
S("logcumsumexp", f(), 0)
S("nansum", V([NAN, 1.0, 2.0]))
S("nansum", i(3, 4), [0], need=False)
S("nansum", f(3, 4), dtype=torch.float64)
for op in ("subtract", "multiply"):
    S(op + ".Tensor", i(2, 3), i32(3))
    S(op + ".Scalar", i(2, 3), 2)
S("subtract.Tensor", f(3), f(3), alpha=2.0)
S("subtract.Scalar", i(3), 2, 3)
for op in ("divide", "true_divide"):
    S(op + ".Tensor", i(2, 3), i(3, g="nz"))
S("divide.Scalar", i(4), 3)
S("divide.Tensor_mode", i(9), i(9, g="nz"), rounding_mode="floor")
S("divide.Scalar_mode", i(9), -2, rounding_mode="trunc")
for op in ("greater", "greater_equal", "less", "less_equal", "not_equal"):
    for x, y in ((f(3, 4, g="tie"), f(4, g="tie")), (i(5), i(5)), (b(6, g="tie"), f(6, g="tie")), (u8(4), bl(4)),
                 (f(25, g="special"), f(25, g="special2")), (i(4), f(1))):
        S(op + ".Tensor", x, y)
    for x, y in ((f(3, 4, g="tie"), 0.5), (i(5), 1), (h(6), 0.1), (V([0.1, 0.2], torch.bfloat16), 0.1), (i(5), 0.5),
                 (bl(3), True)):
        S(op + ".Scalar", x, y)
S("isclose", V([1.0, NAN, INF, INF, 0.0, 1.0]), V([1.0 + 1e-6, NAN, INF, -INF, 1e-9, 1.1]))
S("isclose", V([1.0, NAN, INF, INF, 0.0, 1.0]), V([1.0 + 1e-6, NAN, INF, -INF, 1e-9, 1.1]), 0.2, 0.0, True)
S("isclose", i(9, g="small"), i(9, g="small"))
for x in (f(3, 5, g="pos"), i(4, g="pos")):
    S("float_power.Scalar", 2, x)
    S("float_power.Scalar", 1.5, x)
S("float_power.Tensor_Tensor", i(4), f(4, g="pos"), need=False)
for x, lo, hi in ((f(50), -1.0, 1.0), (f(3, 7), 0, 3), (f(20, g="wide"), -10, 20.5), (V([0.0, 1.0, 2.0, 3.0, 4.0, -0.5, 4.5]), 0, 4)):
    S("histc", x, 4, lo, hi)
S("histc", V([0.0, 1.0, 1.0, 2.0, 5.0, 7.0]), 8, 0, 7)
for dt in (torch.float32, torch.float64, torch.float16):
    S("linspace.Tensor_Tensor", V(-1.5), V(2.0), 7, dtype=dt)
    S("linspace.Tensor_Scalar", V(-1.5), 2.0, 6, dtype=dt)
    S("linspace.Scalar_Tensor", 3, V(2.0), 1, dtype=dt)
    S("logspace", -1, 2, 7, dtype=dt)
    S("logspace", 0.0, 3.0, 4, 2.0, dtype=dt)
S("_cast_Float", i(3))
S("_cast_Float", b(3))
S("_cast_Half", f(5, g="special"))
S("_cast_Long", f(5, g="wide"))
for mk in (f, d):
    S("native_batch_norm", mk(2, 3, 4, 4), mk(3), mk(3), mk(3), mk(3, g="pos"), False, 0.1, 1e-5)
    S("_fused_rms_norm", mk(2, 3, 5), [5], mk(5), 1e-5)
    S("_fused_rms_norm", mk(2, 3, 5), [3, 5], None, 1e-2)
S("_fused_rms_norm", b(2, 3, 5), [5], b(5), 1e-5, need=False)
S("_upsample_bilinear2d_aa", f(1, 2, 7, 9), [3, 4], False)
for mk in (f, d):
    for size in ([3, 4], [5, 13], [14, 18], [7, 9], [1, 1]):
        for align in (False, True):
            S("_upsample_bilinear2d_aa", mk(1, 2, 7, 9), size, align)
            S("_upsample_bicubic2d_aa", mk(1, 2, 7, 9), size, align)
            S("_upsample_bilinear2d_aa.vec", mk(2, 1, 7, 9), size, align, None)
    S("_upsample_bicubic2d_aa.vec", mk(1, 2, 7, 9), None, False, [0.5, 1.5])
    S("_upsample_bilinear2d_aa.vec", mk(1, 2, 7, 9), None, False, [0.4, 2.0])
    S("_upsample_nearest_exact3d", mk(1, 2, 3, 4, 5), [4, 6, 5])
    S("_upsample_nearest_exact3d.vec", mk(1, 2, 3, 4, 5), None, [1.5, 2.0, 0.7])
    S("upsample_nearest3d", mk(1, 2, 3, 4, 5), [4, 6, 5])
    S("upsample_trilinear3d", mk(1, 2, 3, 4, 5), [4, 6, 5], False)
    S("upsample_trilinear3d", mk(1, 2, 3, 4, 5), [2, 7, 9], True)
    S("adaptive_max_pool3d", mk(1, 2, 4, 5, 6), [2, 3, 6])
    S("_adaptive_avg_pool3d", mk(1, 2, 4, 5, 6), [2, 3, 6])
S("upsample_nearest2d", f(1, 1, 9, 31), [29, 100], name="many ratios")
S("upsample_nearest1d", f(1, 1, 7), [97])
S("upsample_nearest1d", f(1, 1, 97), [7])
S("upsample_nearest1d.vec", f(1, 1, 33), None, [1.3])
S("upsample_nearest1d.vec", f(1, 1, 33), None, [3.3333333])
S("_upsample_nearest_exact1d", f(1, 1, 7), [97])
S("_upsample_nearest_exact1d.vec", f(1, 1, 33), None, [1.3])
for op in ("pow_", "float_power_"):
    S(op + ".Scalar", d(5, g="pos"), 2)
    S(op + ".Scalar", d(5, g="pos"), 1.5)
    S(op + ".Tensor", d(5, g="pos"), d(5))
S("floor_divide_.Tensor", i(5), i(5, g="nz"))
S("floor_divide_.Scalar", i(5), -2)
S("cosine_similarity", f(3, 5), f(3, 5))
S("cosine_similarity", f(3, 5), f(1, 5), -1)
S("cosine_similarity", b(2, 3, 4), b(2, 3, 4), 1, 1e-4)
S("__ilshift__.Scalar", i(4, g="shift"), 2)
S("__irshift__.Tensor", i(4, g="big"), i(4, g="shift"))
S("__ixor__.Scalar", i(4), 5)
S("__ior__.Scalar", bl(4), True)
for mk in (f, d, b):
    for p in (2.0, 1.0, 3.0, INF, 0.0):
        S("pairwise_distance", mk(3, 5), mk(3, 5), p, need=False)
        S("cdist", mk(3, 5), mk(4, 5), p, need=False)
        S("dist", mk(3, 5), mk(5), p, need=False)
S("pairwise_distance", f(3, 5), f(5), 2.0, 1e-3, True)
S("cdist", f(2, 1, 3, 5), f(4, 2, 5))
for mk in (f, d):
    S("_native_batch_norm_legit.no_stats", mk(3, 4, 5), mk(4), mk(4), True, 0.1, 1e-5)
    S("batch_norm", mk(1, 16, 27), None, None, None, None, True, 0.0, 1e-8, False, name=f"batch statistics {mk(1).dtype}")
    S("batch_norm", mk(3, 4, 2, 5), mk(4), mk(4), None, None, True, 0.1, 1e-5, True,
      name=f"affine batch statistics {mk(1).dtype}")
S("argsort", V([3.0, 1.0, 2.0, -INF]))
S("argsort", V([4, 2, 9, 1, 0]), 0, True)
for right in (False, True):
    S("searchsorted.Tensor", V([-1.0, 0.0, 0.0, 2.0, 5.0]), V([[-2.0, 0.0, 6.0], [5.0, 1.0, NAN]]), right=right)
    S("searchsorted.Tensor", V([[1, 3, 5], [2, 4, 6]]), V([[3, 5], [4, 7]]), right=right, out_int32=True)
S("searchsorted.Tensor", V([1.0, 2.0]), f(3), side="right")
