// Tile functions of exponentials and hyperbolic functions on double lanes, within an ulp.
#include "backends/cpu/loops/tiles/tile.h"
#include "backends/cpu/vector_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/loops/tiles/double_exp.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cmath>

#include "backends/cpu/loops/tiles/double-inl.h"

HWY_BEFORE_NAMESPACE();
namespace npusim::cpu::loops::tiles::HWY_NAMESPACE {
namespace {

HWY_INLINE M within(V x, double limit) { return hn::Le(hn::Abs(x), number(limit)); }
HWY_INLINE V clamped(V x, double low, double high) { return hn::Min(number(high), hn::Max(number(low), x)); }

// 2^-less · (e^x − 1) of x up to 709, or where that is less.
template <int less = 0>
HWY_INLINE Sum expm1_of(V x) {
  const Power p = power_of({x, number(0)});
  const V scale = two_to(less ? hn::Sub(p.anchored, number(less)) : p.anchored);
  return joined(less ? scale : hn::Sub(scale, number(1)), scale, p);
}

struct Exp2 {
  static HWY_INLINE Power power(V x) {
    constexpr double ln2 = 0.6931471805599453, ln2_rest = 2.3190468138462996e-17;
    const V anchored = hn::Add(x, number(anchor)), f = off_zero(hn::Sub(x, hn::Sub(anchored, number(anchor))));
    const Sum r = product(f, number(ln2));
    return power_of_rest(anchored, {r.high, hn::MulAdd(f, number(ln2_rest), r.low)});
  }
  static HWY_INLINE V of(V x) {
    const Power p = power(x);
    return hn::Mul(rounded(joined(number(1), number(1), p)), two_to(p.anchored));
  }
  static HWY_INLINE M holds(V x) { return within(x, 1000); }
  static HWY_INLINE V rest(V x) {
    const Power p = power(clamped(x, -1080, 1030));
    return scaled_by(rounded(joined(number(1), number(1), p)), hn::Sub(p.anchored, number(anchor)));
  }
};
struct Expm1 {
  static HWY_INLINE V of(V x) {
    const V value = rounded(expm1_of(off_zero(hn::Max(number(-50), x))));  // of NaN it is NaN
    return or_itself(x, value, 0x1p-54);
  }
  // Infinity is made in the end.
  static HWY_INLINE M holds(V x) { return hn::Le(x, number(709)); }
  static HWY_INLINE V rest(V x) { return hn::Mul(rounded(expm1_of<4>(hn::Min(number(712), x))), number(16)); }
};
// Of e^(2a) − 1 = t it is t / (t + 2).
struct Tanh {
  static HWY_INLINE V of(V x) {
    const V a = off_zero(hn::Min(number(22), hn::Abs(x)));  // of NaN it is NaN
    const Sum t = expm1_of(hn::Add(a, a)), above = sum(t.high, t.low), below = sum_with(above.high, number(2));
    return or_itself(x, hn::CopySign(rounded(quotient(above, {below.high, hn::Add(below.low, above.low)})), x));
  }
};

// Both of a = k · ln 2 + r: with s = (2^k − 2^-k) / 2 and c = (2^k + 2^-k) / 2 the sine is s · cosh(r) + c · sinh(r),
// the cosine c · cosh(r) + s · sinh(r). From 2^27 on 2^-k is nothing; 2^-less of it, where that is so.
template <bool sine, int less = 0>
HWY_INLINE V hyperbolic(V a) {
  const Power p = power_of({a, number(0)});
  const V k = hn::Sub(p.anchored, number(anchor));
  const V great = two_to(hn::Sub(p.anchored, number(1 + less)));
  const V small = hn::Mul(number(0.5), two_to(hn::Sub(number(anchor), hn::Min(k, number(1000)))));
  const V s = less ? great : hn::Sub(great, small), c = less ? great : hn::Add(great, small);
  const V first = sine ? s : c, second = sine ? c : s;
  const Sum odd = product(second, p.sine.high), high = sum(first, odd.high);
  return hn::Add(high.high, hn::MulAdd(second, p.sine.low, hn::MulAdd(first, p.cosine, hn::Add(high.low, odd.low))));
}
HWY_INLINE V great_hyperbolic(V a) { return hn::Mul(hyperbolic<false, 4>(hn::Min(number(712), a)), number(16)); }
struct Sinh {
  static HWY_INLINE V of(V x) { return or_itself(x, hn::CopySign(hyperbolic<true>(off_zero(hn::Abs(x))), x)); }
  static HWY_INLINE M holds(V x) { return within(x, 709); }
  static HWY_INLINE V rest(V x) { return hn::CopySign(great_hyperbolic(hn::Abs(x)), x); }
};
struct Cosh {
  static HWY_INLINE V of(V x) { return hyperbolic<false>(off_zero(hn::Abs(x))); }
  static HWY_INLINE M holds(V x) { return within(x, 709); }
  static HWY_INLINE V rest(V x) { return great_hyperbolic(hn::Abs(x)); }
};

TileFn find_double_exp(ExprOp op) {
  if (!HWY_NATIVE_FMA) return nullptr;
  switch (op) {
    case ExprOp::exp2:
      return doubles<Exp2>;
    case ExprOp::expm1:
      return doubles<Expm1>;
    case ExprOp::sinh:
      return doubles<Sinh>;
    case ExprOp::cosh:
      return doubles<Cosh>;
    case ExprOp::tanh:
      return doubles<Tanh>;
    default:
      return nullptr;
  }
}

}  // namespace
}  // namespace npusim::cpu::loops::tiles::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npusim::cpu::loops::tiles {
HWY_EXPORT(find_double_exp);

TileFn double_exp_fn(ExprOp op) { return HWY_DYNAMIC_DISPATCH(find_double_exp)(op); }

}  // namespace npusim::cpu::loops::tiles
#endif
