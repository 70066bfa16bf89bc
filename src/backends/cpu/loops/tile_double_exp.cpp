// Tile functions of exponentials and hyperbolic functions on double lanes, within an ulp.
#include "backends/cpu/loops/tile.h"
#include "backends/cpu/vector_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/loops/tile_double_exp.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cmath>

#include "backends/cpu/loops/tile_double-inl.h"

HWY_BEFORE_NAMESPACE();
namespace npusim::cpu::HWY_NAMESPACE {
namespace {

HWY_INLINE M within(V x, double limit) { return hn::Le(hn::Abs(x), number(limit)); }

// e^x − 1 of x up to 709.
HWY_INLINE Sum expm1_of(V x) {
  const Power p = power_of({x, number(0)});
  const V scale = two_to(p.anchored);
  return joined(hn::Sub(scale, number(1)), scale, p);
}

struct Exp2 {
  static HWY_INLINE V of(V x) {
    constexpr double ln2 = 0.6931471805599453, ln2_rest = 2.3190468138462996e-17;
    const V anchored = hn::Add(x, number(anchor)), f = hn::Sub(x, hn::Sub(anchored, number(anchor)));
    const Sum r = product(f, number(ln2));
    const Power p = power_of_rest(anchored, {r.high, hn::MulAdd(f, number(ln2_rest), r.low)});
    return hn::Mul(rounded(joined(number(1), number(1), p)), two_to(anchored));
  }
  static HWY_INLINE M holds(V x) { return within(x, 1000); }
  static HWY_INLINE M settles(V x) { return hn::Or(hn::Lt(x, number(-1076)), hn::Not(hn::Lt(x, number(1024)))); }
  static HWY_INLINE V settled(V x) { return hn::IfThenZeroElse(hn::Lt(x, number(0)), hn::Mul(x, number(infinity))); }
  static double scalar(double x) { return std::exp2(x); }
};
struct Expm1 {
  static HWY_INLINE V of(V x) {
    return hn::CopySign(rounded(expm1_of(hn::Max(number(-50), x))), x);  // of NaN it is NaN
  }
  static HWY_INLINE M holds(V x) { return hn::Le(x, number(709)); }
  static HWY_INLINE M settles(V x) { return hn::Not(hn::Le(x, number(710))); }
  static HWY_INLINE V settled(V x) { return hn::Mul(x, number(infinity)); }
  static double scalar(double x) { return std::expm1(x); }
};
// Of e^(2a) − 1 = t it is t / (t + 2).
struct Tanh {
  static HWY_INLINE V of(V x) {
    const V a = hn::Min(number(22), hn::Abs(x));  // of NaN it is NaN
    const Sum t = expm1_of(hn::Add(a, a)), above = sum(t.high, t.low), below = sum_with(above.high, number(2));
    return hn::CopySign(rounded(quotient(above, {below.high, hn::Add(below.low, above.low)})), x);
  }
};

// Both of a = k · ln 2 + r: with s = (2^k − 2^-k) / 2 and c = (2^k + 2^-k) / 2 the sine is s · cosh(r) + c · sinh(r),
// the cosine c · cosh(r) + s · sinh(r). From 2^27 on 2^-k is nothing.
template <bool sine>
HWY_INLINE V hyperbolic(V a) {
  const Power p = power_of({a, number(0)});
  const V k = hn::Sub(p.anchored, number(anchor));
  const V great = hn::Mul(number(0.5), two_to(p.anchored));
  const V small = hn::Mul(number(0.5), two_to(hn::Sub(number(anchor), hn::Min(k, number(1000)))));
  const V s = hn::Sub(great, small), c = hn::Add(great, small);
  const V first = sine ? s : c, second = sine ? c : s;
  const Sum odd = product(second, p.sine.high), high = sum(first, odd.high);
  return hn::Add(high.high, hn::MulAdd(second, p.sine.low, hn::MulAdd(first, p.cosine, hn::Add(high.low, odd.low))));
}
struct Sinh {
  static HWY_INLINE V of(V x) { return hn::CopySign(hyperbolic<true>(hn::Abs(x)), x); }
  static HWY_INLINE M holds(V x) { return within(x, 709); }
  static HWY_INLINE M settles(V x) { return hn::Not(within(x, 711)); }
  static HWY_INLINE V settled(V x) { return hn::Mul(x, number(infinity)); }
  static double scalar(double x) { return std::sinh(x); }
};
struct Cosh {
  static HWY_INLINE V of(V x) { return hyperbolic<false>(hn::Abs(x)); }
  static HWY_INLINE M holds(V x) { return within(x, 709); }
  static HWY_INLINE M settles(V x) { return hn::Not(within(x, 711)); }
  static HWY_INLINE V settled(V x) { return hn::Mul(hn::Abs(x), number(infinity)); }
  static double scalar(double x) { return std::cosh(x); }
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
}  // namespace npusim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npusim::cpu {
HWY_EXPORT(find_double_exp);

TileFn double_exp_fn(ExprOp op) { return HWY_DYNAMIC_DISPATCH(find_double_exp)(op); }

}  // namespace npusim::cpu
#endif
