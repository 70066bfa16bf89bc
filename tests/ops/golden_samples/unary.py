"""Unary elementwise ops and activations."""
from .core import BY, NAN, S, V, b, bl, d, f, h, i, i32, i8, u8

# op: generator for random floats (domain), and whether integers make sense
UNARY = {
    "abs": "", "neg": "", "exp": "", "exp2": "", "expm1": "", "log": "pos", "log2": "pos", "log10": "pos",
    "log1p": "pos", "sqrt": "pos", "rsqrt": "pos", "sin": "wide", "cos": "wide", "tan": "", "asin": "unit",
    "acos": "unit", "atan": "wide", "sinh": "", "cosh": "", "tanh": "", "asinh": "wide", "acosh": "ge1",
    "atanh": "unit", "erf": "", "erfc": "", "sigmoid": "", "reciprocal": "wide", "floor": "wide", "ceil": "wide",
    "round": "tie", "trunc": "wide", "frac": "wide", "sign": "", "sgn": "", "square": "", "isnan": "special",
    "isinf": "special", "isfinite": "special", "isposinf": "special", "isneginf": "special", "signbit": "",
    "logical_not": "tie", "bitwise_not": "", "relu": "", "relu6": "wide", "silu": "", "elu": "", "selu": "",
    "celu": "", "leaky_relu": "", "hardtanh": "", "hardswish": "wide", "hardsigmoid": "wide", "hardshrink": "",
    "softshrink": "", "softplus": "wide", "log_sigmoid": "wide", "mish": "", "gelu": "", "nan_to_num": "special",
    "positive": "", "deg2rad": "wide", "rad2deg": "", "logit": "prob", "log_sigmoid_forward": "", "absolute": "",
    "negative": "", "fix": "wide", "arctan": "",
}
for op, g in UNARY.items():
    S(op, f(2, 7, g=g), need=op != "bitwise_not")
    S(op, f(g=g), need=False)
    S(op, f(1, 3, 1, 5, g=g), need=False)
    S(op, f(0, 3, g=g if g != "special" else ""), need=False)
    S(op, f(3, 11, g="special"), need=False)
    S(op, f(33, g=g), need=False)
    S(op, h(2, 3, 5, g=g), need=False)
    S(op, b(2, 2, 3, 2, 1, g=g), need=False)
    S(op, h(25, g="special"), need=False)
    S(op, b(25, g="special"), need=False)
    S(op, d(7, g=g), need=False)
    for dt in ("i64", "i32", "i8", "u8", "bool"):
        S(op, BY[dt](4, 3, g="" if dt == "bool" else "pos" if g in ("pos", "ge1") else ""), need=False)
    S(op, i(g=""), need=False)

for op in ("relu_", "abs_", "neg_", "exp_", "sigmoid_", "tanh_", "silu_", "sqrt_", "rsqrt_", "floor_", "round_", "sin_",
           "cos_", "hardtanh_", "relu6_", "hardswish_", "hardsigmoid_", "leaky_relu_", "elu_", "reciprocal_", "gelu_",
           "mish_", "square_", "log_", "erf_", "ceil_", "selu_", "nan_to_num_", "logical_not_", "bitwise_not_", "zero_"):
    g = "pos" if op in ("sqrt_", "rsqrt_", "log_") else ""
    S(op, f(3, 7, g=g), need=op != "bitwise_not_")
    S(op, b(5, g=g), need=False)
    S(op, f(25, g="special"), need=False)
    S(op, i(4), need=False)

for x in (f(3, 7, g="special"), f(9, g="wide"), b(8, g="wide"), h(8), d(6, g="wide")):
    for dec in (0, 2, 3, -1):
        S("round.decimals", x, decimals=dec)
S("round", V([0.5, 1.5, 2.5, -0.5, -1.5, 3.5, 0.49999997, 8388609.0]), name="ties to even")

for x in (f(3, 7), f(), h(9), b(2, 3, 3), d(4), f(25, g="special"), f(1, 65, g="wide")):
    for ap in ("none", "tanh"):
        S("gelu", x, approximate=ap)
for ap in ("none", "tanh"):
    S("gelu", V([NAN, 0.0, -0.0, 1e30, -1e30, 1e-30, -1e4, 5.5, -5.5, -9.0, 12.0]), approximate=ap, name=f"extremes {ap}")
S("gelu_", f(6), approximate="tanh")

for x in (f(3, 7), h(7), b(7), f(25, g="special"), f(2, 1, 5, g="wide")):
    S("elu", x, 0.7)
    S("elu", x, 1.3, 1.1, 0.5)
    S("celu", x, 0.7)
    S("leaky_relu", x, 0.2)
    S("leaky_relu", x, -0.3)
    S("hardtanh", x, -2.0, 0.5)
    S("hardtanh", x, 0.0, 6.0)
    S("hardshrink", x, 1.1)
    S("softshrink", x, 1.1)
    S("softplus", x, 2.0)
    S("softplus", x, 0.5, 3)
    S("threshold", x, 0.3, 20.0)
    S("threshold", x, -1, 7)
    S("nan_to_num", x, 1.5)
    S("nan_to_num", x, nan=-1.0, posinf=5.0, neginf=-6.0)
    S("nan_to_num", x, 0.0, None, -3.0)
for x in (i(3, 5), i32(6)):
    S("threshold", x, 2, 5)
    S("hardtanh", x, -3, 4, need=False)
    S("leaky_relu", x, 0.2, need=False)
    S("elu", x, 0.7, need=False)
for x in (f(9, g="prob"), f(3, 4, g="unit"), h(5, g="prob"), b(5, g="prob"), f(25, g="special")):
    S("logit", x, 0.1)
    S("logit", x, None)
for x in (f(2, 6), h(4, 2), b(2, 3, 4), d(4), f(2, 4, 2, 6), f(1, 26, g="special")):
    S("glu", x)
    S("glu", x, 0, need=False)
    S("glu", x, 1, need=False)
    S("glu", x, -2, need=False)
for mk in (f, h, b):
    S("prelu", mk(2, 3, 5), mk(3))
    S("prelu", mk(2, 3, 5), mk(1))
    S("prelu", mk(4, 6), mk(6))
    S("prelu", mk(7), mk(1))
    S("prelu", mk(1, 2, 3, 2), mk(2), need=False)
S("prelu", f(), f(1))
S("prelu", f(25, g="special"), f(1))
S("fill.Scalar", f(3, 4), 2.5)
S("fill.Scalar", i(3, 4), 2)
S("fill.Scalar", b(3), -1)
S("fill_.Scalar", f(3, 4), 2.5)
S("fill_.Scalar", bl(3, 4), True)
S("fill.Tensor", f(3, 4), f())
S("fill_.Tensor", h(3, 4), i())
S("erf", f(65, g="wide"))
S("tanh", f(65, g="wide"))
S("sigmoid", f(65, g="wide"))
S("exp", f(65, g="wide"))
S("exp", h(33, g="wide"))
S("sin", V([1e4, 1e5, -3e6, 0.1, 131072.0, 6.2831853]), name="large angles")
S("cos", V([1e4, 1e5, -3e6, 0.1, 131072.0, 6.2831853]), name="large angles")
S("abs", V([-128, -1, 127], i8().dtype), name="int8 minimum")
S("neg", V([-128, -1, 127], i8().dtype), name="int8 minimum")
S("neg", V([1, 0, 255], u8().dtype), name="uint8 wraps")
S("square", i8(9, g="big"), name="int8 wraps")
