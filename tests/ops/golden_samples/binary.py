"""Binary and ternary elementwise ops: broadcasting, promotion, scalars on either side."""
from .core import BY, INF, NAN, S, V, b, bl, d, f, h, i, i32, i8, u8
import torch

ARITH = ("add", "sub", "mul", "div", "true_divide", "floor_divide", "remainder", "fmod", "atan2", "maximum", "minimum",
         "fmax", "fmin", "hypot", "logaddexp", "copysign", "xlogy", "heaviside", "rsub", "pow",
         "eq", "ne", "lt", "le", "gt", "ge", "min", "max", "logical_and", "logical_or", "logical_xor")
OV = {"maximum": "default", "minimum": "default", "fmax": "default", "fmin": "default", "hypot": "default",
      "logaddexp": "default", "heaviside": "default", "atan2": "default",
      "floor_divide": "default", "min": "other", "max": "other", "pow": "Tensor_Tensor", "logical_and": "default",
      "logical_or": "default", "logical_xor": "default", "xlogy": "Tensor"}


def name(op):
    return f"{op}.{OV.get(op, 'Tensor')}"


for op in ARITH:
    o = name(op)
    ga, gb = {"pow": ("pos", ""), "xlogy": ("", "pos"), "heaviside": ("tie", "")}.get(op, ("", ""))
    if op in ("eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor", "maximum", "minimum"):
        ga = gb = "tie"
    if op in ("div", "true_divide", "floor_divide", "remainder", "fmod"):
        gb = "wide"
    # shapes, broadcast both ways
    for sa, sb in (((2, 7), (2, 7)), ((2, 7), (7,)), ((5,), (3, 5)), ((3, 1), (1, 4)), ((2, 3, 4), ()), ((), (2, 3)),
                   ((), ()), ((2, 1, 3, 1, 2), (4, 1, 5, 1)), ((1, 33), (33,)), ((0, 3), (1, 3)), ((2, 3, 1, 2), (3, 2, 1))):
        S(o, f(*sa, g=ga), f(*sb, g=gb), need=False)
    x = f(6, g=ga)
    S(o, x, x, name="same tensor twice", need=False)
    # dtypes
    for dt in ("f16", "bf16", "f64"):
        S(o, BY[dt](3, 5, g=ga), BY[dt](5, g=gb), need=False)
    for dt in ("i64", "i32", "i8", "u8", "bool"):
        S(o, BY[dt](4, 5, g="small" if op == "pow" else ""), BY[dt](5, g="nz" if dt != "bool" else "true" if
          op in ("floor_divide", "remainder", "fmod") else ""), need=False)
    # promotion
    for da, db in (("f32", "i64"), ("i64", "f32"), ("bf16", "f32"), ("f16", "bf16"), ("bool", "i64"), ("i32", "i64"),
                   ("u8", "i8"), ("bool", "f32"), ("f16", "i32")):
        S(o, BY[da](2, 4, g=ga if da[0] in "fb" and da != "bool" else "pos" if op == "pow" and da != "bool" else ""),
          BY[db](4, g=gb if db[0] in "fb" and db != "bool" else "nz" if db != "bool" else
                 "true" if op in ("floor_divide", "remainder", "fmod") else ""), need=False)
    # 0-d against dimensioned: the 0-d does not widen within its category, it does across
    for da, db in (("f16", "f32"), ("i32", "i64"), ("i64", "f16"), ("bf16", "f64"), ("bool", "i8")):
        S(o, BY[da](4, g="pos" if op == "pow" else ""), BY[db](g="nz" if db[0] in "iu" else ""), need=False)
        S(o, BY[db](g="pos" if op == "pow" else ""), BY[da](4, g="nz" if da[0] in "iu" else "true" if da == "bool"
          and op in ("floor_divide", "remainder", "fmod") else ""), need=False)
    # python scalars in the tensor slot
    for dt in ("f32", "f16", "bf16", "i64", "i32", "u8", "bool"):
        S(o, BY[dt](2, 3, g=ga if dt in ("f32", "f16", "bf16") else ""), 3, need=False)
        S(o, BY[dt](5, g=ga if dt in ("f32", "f16", "bf16") else ""), 2.5, need=False)
    S(o, f(5, g=ga), -2, need=False)
    S(o, i(5), -2, need=False)
    S(o, bl(5), True, need=False)
    S(o, 2.5, f(2, 3, g=gb), need=False)
    S(o, 3, i(5, g="nz" if op != "pow" else "pos"), need=False)
    S(o, 1.0, i(5, g="nz"), need=False)
    S(o, -1, b(4, g=gb), need=False)
    # non-finite and extreme values; all pairs of a few
    for dt in ("f32", "bf16", "f16"):
        S(o, BY[dt](25, g="special"), BY[dt](25, g="special2"), need=False)
    S(o, f(25, g="special"), 0.0, need=False)
    S(o, V([[NAN], [INF], [-INF], [0.0], [-0.0], [1.0], [-2.0]], tag="edge"),
      V([NAN, INF, -INF, 0.0, -0.0, 1.0, -2.0], tag="edge"), need=False)
    if o.endswith(".Tensor") or op in ("pow",):  # the Scalar overload
        s = "pow.Tensor_Scalar" if op == "pow" else "xlogy.Scalar_Other" if op == "xlogy" else f"{op}.Scalar"
        for dt in ("f32", "f16", "bf16", "i64", "u8", "bool"):
            S(s, BY[dt](2, 5, g=ga if dt in ("f32", "f16", "bf16") else ""), 2, need=False)
            S(s, BY[dt](7, g=ga if dt in ("f32", "f16", "bf16") else ""), 0.5, need=False)
        S(s, f(), 1.5, need=False)
        S(s, f(25, g="special"), 3, need=False)
        S(s, i(6), -3, need=False)
        S(s, i32(6), True, need=False)
        S(s, f(4, g=ga), INF, need=False)
        S(s, f(4, g=ga), NAN, need=False)

for x, y in ((f(2, 5), f(5)), (b(3, 1), b(1, 4)), (i(4), i(4)), (h(3), f(3)), (i32(4), i(1, 4)), (d(3), d(3)), (u8(5), u8(5))):
    for op in ("add.Tensor", "sub.Tensor", "rsub.Tensor"):
        S(op, x, y, alpha=2)
        S(op, x, y, alpha=-3)
        S(op, x, y, alpha=0.5, need=False)
    S("add_.Tensor", x, y, alpha=3, need=False)
    S("sub_.Tensor", x, y, need=False)
for op in ("add.Tensor", "sub.Tensor"):
    S(op, f(4), 3, alpha=2)
    S(op, i(4), 3, alpha=2)
    S(op, b(4), 1.5, alpha=0.5)
for op in ("add.Scalar", "sub.Scalar", "rsub.Scalar"):
    S(op, f(4), 3, 2)
    S(op, i(4), 3, 2)
    S(op, b(4), 1.5, 0.5)
    S(op, i(4), 1.5, 2, need=False)

num, den = V([7, -7, 7, -7, 6, -6, 0, 5, 1, -1], torch.int64), V([2, 2, -2, -2, 3, 3, 5, 7, -7, 7], torch.int64)
fnum, fden = V([7.5, -7.5, 7.5, -7.5, 6, -6, 0, 1, -1, 1e30, 5]), V([2, 2, -2, -2, 3, 3, 0, 0, 0, 1e-30, INF])
for mode in ("floor", "trunc", None):
    S("div.Tensor_mode", num, den, rounding_mode=mode, name=f"signs {mode}")
    S("div.Tensor_mode", fnum, fden, rounding_mode=mode, name=f"float signs and zeros {mode}")
    for x, y in ((f(3, 5, g="wide"), f(5)), (b(7, g="tie"), b(7, g="pos")), (h(7), h(1, g="pos")), (i(5), f(5)),
                 (u8(6), u8(6, g="nz")), (i8(4), i8(3, 1, g="nz")), (f(25, g="special"), f(25, g="special2"))):
        S("div.Tensor_mode", x, y, rounding_mode=mode)
    for x, s in ((f(3, 5), 0.3), (i(3, 5), 2), (i(6), -2.5), (b(6), 3), (f(4), 0.0)):
        S("div.Tensor_mode", x, s, rounding_mode=mode)
        S("div.Scalar_mode", x, s, rounding_mode=mode)
    S("div_.Tensor_mode", f(5), f(5), rounding_mode=mode)
for op in ("floor_divide", "remainder.Tensor", "fmod.Tensor", "div.Tensor"):
    S(op, num, den, name="signs")
    S(op, fnum, fden, name="float signs and zeros")
for op in ("floor_divide.Scalar", "remainder.Scalar", "fmod.Scalar"):
    for s in (3, -3, 2.5, -0.7):
        S(op, i(7), s)
        S(op, f(7, g="wide"), s)
for s in (7, -7, 5.5):
    S("remainder.Scalar_Tensor", s, i(5, g="nz"))
    S("remainder.Scalar_Tensor", s, f(5))

# pow
neg = V([-2.0, -1.5, -1.0, -0.0, 0.0, 0.5, 2.0, -3.0, NAN, INF, -INF])
for e in (2, 3, -1, -2, 0, 0.5, -0.5, 1.0, 2.0, 3.0, 1.7, -1.3, 0.3333, 4, 5, INF):
    S("pow.Tensor_Scalar", neg, e, name=f"edge bases ^ {e}")
    S("pow.Tensor_Scalar", b(6), e)
    S("pow.Tensor_Scalar", h(5), e)
for e in (0, 1, 2, 3, 5, 0.5, 2.0, -1.0):
    S("pow.Tensor_Scalar", i(7), e)
    S("pow.Tensor_Scalar", i32(7), e)
    S("pow.Tensor_Scalar", u8(5), e)
S("pow.Tensor_Tensor", V([[-2.0], [-0.0], [0.0], [2.0], [-1.0], [NAN], [INF], [-INF]]),
  V([2.0, 3.0, -1.0, 0.5, 0.0, INF, -INF, NAN, -2.5]), name="edges")
S("pow.Tensor_Tensor", i(5), V([0, 1, 2, 3, 4], torch.int64), name="int powers")
S("pow.Tensor_Tensor", V([1, -1, 1, -1], torch.int64), V([-1, -1, -2, -2], torch.int64), name="int negative exponents of ones")
for s in (2, 10000.0, 0.5, -2.0, 0, 1, 1000000.0):
    S("pow.Scalar", s, f(2, 5))
    S("pow.Scalar", s, i(5, g="pos"), need=False)
    S("pow.Scalar", s, b(5))
S("pow_.Scalar", f(5, g="pos"), 1.5)
S("pow_.Tensor", f(5, g="pos"), f(5))
S("float_power.Tensor_Scalar", f(5, g="pos"), 1.5)
S("float_power.Tensor_Tensor", f(5, g="pos"), f(5))

# bitwise
for op in ("bitwise_and", "bitwise_or", "bitwise_xor", "__and__", "__or__", "__xor__", "bitwise_left_shift",
           "bitwise_right_shift", "__lshift__", "__rshift__"):
    sh = "shift" in op
    for dt in ("i64", "i32", "i8", "u8", "bool"):
        S(op + ".Tensor", BY[dt](4, 5), BY[dt](5, g="shift" if sh and dt != "bool" else ""), need=False)
        S(op + (".Tensor_Scalar" if "bitwise" in op and sh else ".Scalar"), BY[dt](3, 3), 2, need=False)
        S(op + (".Tensor_Scalar" if "bitwise" in op and sh else ".Scalar"), BY[dt](3), True, need=False)
    S(op + ".Tensor", i(), i(3, g="shift" if sh else ""))
    S(op + ".Tensor", i(2, 1), i(4, g="shift" if sh else ""))
    S(op + ".Tensor", i32(4), i(g="shift" if sh else ""))
    S(op + ".Tensor", bl(4), i(4, g="shift" if sh else ""), need=False)
    S(op + ".Tensor", i(0, 3), i(3, g="shift"))
    S(op + ".Tensor", i(5), 3, need=False)
    if "bitwise" in op:
        S(op + ".Scalar_Tensor", 5, i(4, g="shift" if sh else ""), need=False)
for op in ("bitwise_and_", "bitwise_or_", "bitwise_xor_", "__iand__", "__ior__", "__ixor__"):
    S(op + ".Tensor", i(4), i(4))
    S(op + ".Tensor", bl(2, 4), bl(4))
S("logical_and_", bl(4), bl(4))
S("logical_or_", bl(4), bl(4))

# in place: the result keeps the dtype of self
for op in ("mul_", "div_", "eq_", "lt_", "remainder_", "fmod_", "copysign_", "ge_"):
    S(op + ".Tensor", f(2, 5), f(5), need=False)
    S(op + ".Tensor", b(2, 5), f(5), need=False)
    S(op + ".Tensor", h(4), i(4, g="nz"), need=False)
    S(op + ".Tensor", f(4), 2, need=False)
    S(op + ".Tensor", i(4), i32(4, g="nz"), need=False)
    S(op + ".Scalar", b(4), 1.7, need=False)
    S(op + ".Scalar", i(4), 2, need=False)
S("add_.Tensor", b(3, 2), f(2))
S("add_.Scalar", i(4), 3)
S("add_.Scalar", f(4), 3, 2)
S("sub_.Scalar", f(4), 3, 2)
S("floor_divide_.Tensor", f(4), f(4))
S("maximum", i(3), i32(3))
S("add.Tensor", V([2**62, -2**62, 2**53 + 1, 3], torch.int64), V([1, -1, 1, 4], torch.int64), name="int64 past 2^53")
S("mul.Tensor", V([2**31 - 1, 7], torch.int32), V([2, 3], torch.int32), name="int32 wraps")
S("add.Tensor", V([127, -128], torch.int8), V([1, -1], torch.int8), name="int8 wraps")
S("sub.Tensor", V([0, 5], torch.uint8), V([1, 6], torch.uint8), name="uint8 wraps")
S("add.Tensor", V([60000.0, 65504.0], torch.float16), V([6000.0, 1.0], torch.float16), name="f16 overflow")
S("mul.Tensor", V([1e30, 1e38]), V([1e30, 10.0]), name="f32 overflow")
