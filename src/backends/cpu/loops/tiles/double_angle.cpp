// Tile functions of angles on double lanes, within an ulp: the polynomials are those of fdlibm.
#include "backends/cpu/loops/tiles/tile.h"
#include "backends/cpu/vector_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/loops/tiles/double_angle.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cmath>

#include "backends/cpu/loops/tiles/double-inl.h"

HWY_BEFORE_NAMESPACE();
namespace npusim::cpu::loops::tiles::HWY_NAMESPACE {
namespace {

constexpr double quarter = 1.5707963267948966, quarter_low = 6.123233995736766e-17,
                 quarter_last = -1.4973849048591698e-33;  // π/2

// Sine and cosine of x − n · π/2, of which |n| is below 2^30: the first product is exact with the difference.
struct Reduced {
  V anchored;  // n next to a number of which the low bits are the whole part
  Sum sine, cosine;
};
constexpr double largest_angle = 0x1p30;
HWY_INLINE Reduced reduced_by(V anchored, V r, V rest) {
  const V z = square_off_zero(r), z_rest = hn::MulSub(r, r, z), cube = hn::Mul(z, r), half = hn::Mul(number(0.5), z);
  const V s = horner(z, number(1.58969099521155010221e-10), -2.50507602534068634195e-08, 2.75573137070700676789e-06,
                     -1.98412698298579493134e-04, 8.33333333332248946124e-03, -1.66666666666666324348e-01);
  const V c = horner(z, number(-1.13596475577881948265e-11), 2.08757232129817482790e-09, -2.75573143513906633035e-07,
                     2.48015872894767294178e-05, -1.38888888888741095749e-03, 4.16666666666666019037e-02);
  const Sum whole = sum(number(1), hn::Neg(half));
  const V tail = hn::MulAdd(hn::Mul(z, z), c, hn::NegMulAdd(number(0.5), z_rest, hn::NegMulAdd(r, rest, whole.low)));
  return {anchored, sum(r, hn::MulAdd(cube, s, hn::NegMulAdd(half, rest, rest))), sum(whole.high, tail)};
}
HWY_INLINE Reduced reduced(V x) {
  const V anchored = hn::MulAdd(x, number(0.63661977236758134308), number(anchor));
  const V n = hn::Sub(anchored, number(anchor)), near = hn::NegMulAdd(n, number(quarter), x);
  const Sum step = product(n, number(quarter_low));
  const V r = hn::Sub(near, step.high), back = hn::Sub(near, r);  // the step may be the greater one
  const V lost = hn::Sub(hn::Sub(near, hn::Add(r, back)), hn::Sub(step.high, back));
  return reduced_by(anchored, r, hn::NegMulAdd(n, number(quarter_last), hn::Sub(lost, step.low)));
}
// The same of greater numbers; NaN of infinity.
HWY_INLINE Reduced reduced_far(V x) {
  const Reduction at = reduce_far(x);
  return reduced_by(at.anchored, hn::IfThenElse(hn::Lt(hn::Abs(x), number(infinity)), at.r, number(no_number)),
                    at.rest);
}
HWY_INLINE M is_odd(V anchored) {
  const Bits bits;
  const auto one = hn::Ne(hn::And(hn::BitCast(bits, anchored), hn::Set(bits, 1)), hn::Zero(bits));
  return hn::RebindMask(D(), one);
}
template <int shift>
HWY_INLINE V sine(const Reduced& at) {
  const D d;
  const Bits bits;
  const V anchored =
      shift ? hn::BitCast(d, hn::Add(hn::BitCast(bits, at.anchored), hn::Set(bits, shift))) : at.anchored;
  const V value = hn::IfThenElse(is_odd(anchored), at.cosine.high, at.sine.high);
  const auto sign = hn::ShiftLeft<62>(hn::And(hn::BitCast(bits, anchored), hn::Set(bits, 2)));
  return hn::Xor(value, hn::BitCast(d, sign));
}
struct Sin {
  static HWY_INLINE V of(V x) { return or_itself(x, sine<0>(reduced(off_zero(x)))); }
  static HWY_INLINE M holds(V x) { return hn::Le(hn::Abs(x), number(largest_angle)); }
  static HWY_INLINE V rest(V x) { return sine<0>(reduced_far(x)); }
};
struct Cos {
  static HWY_INLINE V of(V x) { return sine<1>(reduced(off_zero(x))); }
  static HWY_INLINE M holds(V x) { return Sin::holds(x); }
  static HWY_INLINE V rest(V x) { return sine<1>(reduced_far(x)); }
};
struct Tan {
  static HWY_INLINE V of_reduced(const Reduced& at) {
    const M odd = is_odd(at.anchored);
    const Sum above = {hn::IfThenElse(odd, hn::Neg(at.cosine.high), at.sine.high),
                       hn::IfThenElse(odd, hn::Neg(at.cosine.low), at.sine.low)};
    const Sum below = {hn::IfThenElse(odd, at.sine.high, at.cosine.high),
                       hn::IfThenElse(odd, at.sine.low, at.cosine.low)};
    return rounded(quotient(above, below));
  }
  static HWY_INLINE V of(V x) { return or_itself(x, of_reduced(reduced(off_zero(x)))); }
  static HWY_INLINE M holds(V x) { return Sin::holds(x); }
  static HWY_INLINE V rest(V x) { return of_reduced(reduced_far(x)); }
};

// The angle of (x, y), neither negative, in [0, π/2], or of (−x, y) where `back`. With t of the lesser by the greater
// one up to tan(π/8), and of their difference by their sum behind, it is a multiple of π/4 and more or less the angle
// of t.
HWY_INLINE V angle(V y, V x, M back) {
  const V great = hn::Max(x, y), small = hn::Min(x, y);
  const M shallow = hn::Le(small, hn::Mul(great, number(0.41421356237309503))), steep = hn::Gt(y, x);
  const Sum both = sum(great, small), apart = sum(great, hn::Neg(small));
  const Sum t = quotient({hn::IfThenElse(shallow, small, apart.high), hn::IfThenZeroElse(shallow, apart.low)},
                         {hn::IfThenElse(shallow, great, both.high), hn::IfThenZeroElse(shallow, both.low)});
  // In eighths of a turn: from 0, 1 or 2; where `back`, 4 less that.
  const V first = hn::IfThenElse(shallow, hn::IfThenElseZero(steep, number(2)), number(1));
  const V eighths = hn::IfThenElse(back, hn::Sub(number(4), first), first);
  const M less = hn::Xor(hn::Xor(steep, hn::Not(shallow)), back);
  const V z = square_off_zero(t.high);
  const V series = horner(z, number(1.62858201153657823623e-02), -3.65315727442169155270e-02,
                          4.97687799461593236017e-02, -5.83357013379057348645e-02, 6.66107313738753120669e-02,
                          -7.69187620504482999495e-02, 9.09088713343650656196e-02, -1.11111104054623557880e-01,
                          1.42857142725034663711e-01, -1.99999999998764832476e-01, 3.33333333333329318027e-01);
  const V tail = hn::NegMulAdd(hn::Mul(t.high, z), series, t.low);
  const V high = hn::IfThenElse(less, hn::Neg(t.high), t.high), low = hn::IfThenElse(less, hn::Neg(tail), tail);
  const Sum all = sum(hn::Mul(eighths, number(quarter / 2)), high);
  return hn::Add(all.high, hn::Add(all.low, hn::MulAdd(eighths, number(quarter_low / 2), low)));
}
struct Atan {
  static HWY_INLINE V of(V x) {
    const V a = off_zero(hn::Min(number(0x1p60), hn::Abs(x)));  // of NaN it is NaN
    return or_itself(x, hn::CopySign(angle(a, number(1), hn::Lt(a, number(0))), x));
  }
};
struct Atan2 {
  static HWY_INLINE V of(V y, V x) { return hn::CopySign(angle(hn::Abs(y), hn::Abs(x), hn::Lt(x, number(0))), y); }
  // Numbers of which quotients are normal ones, or one of them 0.
  static HWY_INLINE M holds(V y, V x) {
    const V a = hn::Abs(y), b = hn::Abs(x), most = number(0x1p400), least = number(0x1p-400);
    const M great = hn::And(hn::Ge(hn::Max(a, b), least), hn::And(hn::Le(a, most), hn::Le(b, most)));
    const V small = hn::Min(a, b);
    return hn::And(great, hn::Or(hn::Ge(small, least), hn::Eq(small, number(0))));
  }
  // Of both by the greater one's power of 2. Of two that are infinite or 0 as of any two that are equal, or of 0 and 1.
  // Where the quotient is all that counts and may be below normal numbers, it is the angle.
  static HWY_INLINE V rest(V y, V x) {
    const M endless = hn::Eq(hn::Max(hn::Abs(y), hn::Abs(x)), number(infinity));
    const auto size = [&](V of) HWY_ATTR {
      const V a = hn::Abs(of);
      return hn::IfThenElse(endless, hn::IfThenElseZero(hn::Eq(a, number(infinity)), number(1)), a);
    };
    const V a = size(y), c = size(x), b = hn::IfThenElse(hn::Eq(hn::Max(a, c), number(0)), number(1), c);
    const M steep = hn::Gt(a, b), back = hn::Lt(hn::CopySign(number(1), x), number(0));
    const V lesser = hn::Min(a, b);
    const M none = hn::Eq(lesser, number(0));
    const Parts great = parts_of(hn::Max(a, b)), small = parts_of(lesser);
    const V apart = hn::Sub(small.exponent, great.exponent);
    const V near = hn::IfThenZeroElse(none, hn::Mul(small.part, two_to_whole(hn::Max(apart, number(-200)))));
    const V value = angle(hn::IfThenElse(steep, great.part, near), hn::IfThenElse(steep, near, great.part), back);
    const V ratio = hn::IfThenZeroElse(none, scaled_by(hn::Div(small.part, great.part), apart));
    const M far = hn::AndNot(hn::Or(steep, back), hn::Lt(apart, number(-200)));
    const V all = hn::CopySign(hn::IfThenElse(far, ratio, value), y);
    return hn::IfThenElse(hn::Or(hn::IsNaN(x), hn::IsNaN(y)), number(no_number), all);
  }
};

// Of a up to 1/2 a series of a², of a fraction; behind by the root of (1 − a) / 2, of which it is twice that.
struct Arc {
  M small;
  V part, more;  // a, or the root, of which it is the sine, and how much the angle is above it
};
HWY_INLINE Arc arc(V x) {
  const V a = off_zero(hn::Abs(x));
  const M small = hn::Lt(a, number(0.5));
  const V z = hn::IfThenElse(small, square_off_zero(a), hn::Mul(number(0.5), hn::Sub(number(1), a)));
  const Sum half = root({z, number(0)});
  const Sum part = {hn::IfThenElse(small, a, half.high), hn::IfThenZeroElse(small, half.low)};
  const V p = horner(z, number(3.47933107596021167570e-05), 7.91534994289814532176e-04, -4.00555345006794114027e-02,
                     2.01212532134862925881e-01, -3.25565818622400915405e-01, 1.66666666666666657415e-01);
  const V q = horner(z, number(7.70381505559019352791e-02), -6.88283971605453293030e-01, 2.02094576023350569471e+00,
                     -2.40339491173441421878e+00, 1.0);
  return {small, part.high, hn::MulAdd(part.high, hn::Mul(hn::Mul(z, p), inverse_of(q)), part.low)};
}
// from · π/2 + high + low, where high is the lesser one or from is 0.
HWY_INLINE V away(V from, V high, V low) {
  const Sum all = sum(hn::Mul(from, number(quarter)), high);
  return hn::Add(all.high, hn::Add(all.low, hn::MulAdd(from, number(quarter_low), low)));
}
struct Asin {
  static HWY_INLINE V of(V x) {
    const Arc at = arc(x);
    const V factor = hn::IfThenElse(at.small, number(1), number(-2)), from = hn::IfThenZeroElse(at.small, number(1));
    return or_itself(x, hn::CopySign(away(from, hn::Mul(factor, at.part), hn::Mul(factor, at.more)), x));
  }
};
struct Acos {
  static HWY_INLINE V of(V x) {
    const Arc at = arc(x);
    const V sign = hn::CopySign(number(1), x);
    const V factor = hn::IfThenElse(at.small, hn::Neg(sign), hn::Add(sign, sign));
    const V from = hn::IfThenElse(at.small, number(1), hn::Sub(number(1), sign));
    return away(from, hn::Mul(factor, at.part), hn::Mul(factor, at.more));
  }
};

TileFn find_double_angle(ExprOp op, unsigned scalars) {
  if (!HWY_NATIVE_FMA) return nullptr;
  switch (op) {
    case ExprOp::sin:
      return doubles<Sin>;
    case ExprOp::cos:
      return doubles<Cos>;
    case ExprOp::tan:
      return doubles<Tan>;
    case ExprOp::asin:
      return doubles<Asin>;
    case ExprOp::acos:
      return doubles<Acos>;
    case ExprOp::atan:
      return doubles<Atan>;
    case ExprOp::atan2:
      return doubles_by_scalars<Atan2>(scalars);
    default:
      return nullptr;
  }
}

}  // namespace
}  // namespace npusim::cpu::loops::tiles::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npusim::cpu::loops::tiles {
HWY_EXPORT(find_double_angle);

TileFn double_angle_fn(ExprOp op, unsigned scalars) { return HWY_DYNAMIC_DISPATCH(find_double_angle)(op, scalars); }

}  // namespace npusim::cpu::loops::tiles
#endif
