// Tile functions of the error function and its complement on double lanes, within two ulp.
#include "backends/cpu/loops/tiles/tile.h"
#include "backends/cpu/vector_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/loops/tiles/double_erf.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cmath>

#include "backends/cpu/loops/tiles/double-inl.h"

HWY_BEFORE_NAMESPACE();
namespace npusim::cpu::loops::tiles::HWY_NAMESPACE {
namespace {

// erf(a) / a − 1 of a up to 1.
HWY_INLINE V above_one(V a) {
  constexpr double coefficients[] = {5.957176147748911e-11,   -1.1372848856791674e-09, 1.4659775274047436e-08,
                                     -1.6350312701054695e-07, 1.6461000484121368e-06,  -1.4925595266831182e-05,
                                     0.0001205533111164271,   -0.000854832698083379,   0.0052239776248180145,
                                     -0.026866170645076792,   0.11283791670954879,     -0.3761263890318375,
                                     0.1283791670955126};
  return by_halves(square_off_zero(a), coefficients);
}

// erfc(a) of a in [0.5, 28], as value · 2^k of k next to the anchor: (1 + 2a)·e^(a²)·erfc(a) is a polynomial of (a − 4)
// / (a + 4), of which the constant is a sum. What quotients and the square round off is put back.
struct Complement {
  V value, anchored;
};
HWY_INLINE Complement complement(V a) {
  constexpr double coefficients[] = {-1.0584315800092537e-08, -1.2307439672359532e-08, 1.0597059762801646e-07,
                                     6.724741028727314e-08,   -8.228929299321569e-07,  2.9930534208115295e-07,
                                     5.708855199403216e-06,   -1.122457422226363e-05,  -2.4399065923152382e-05,
                                     0.0001506224355538403,   -0.00019925669365832713, -0.00075777343482625,
                                     0.005031969972671415,    -0.01619773404021866,    0.03716751553844642,
                                     -0.0663303658134497,     0.09373283499827546,     -0.10103906603626016,
                                     0.06809705425469505,     0.015379652102619127,    -0.13962111684056253};
  const V one = number(1), four = number(4), less = hn::Sub(a, four);
  const Sum t = quotient({less, hn::Sub(a, hn::Add(less, four))}, sum_with(a, four));
  const V series = by_halves(t.high, coefficients);
  const Sum first = product(t.high, series), all = sum(number(1.2329951186255526), first.high);
  const V rest = hn::Add(hn::MulAdd(t.low, series, first.low), number(-4.411513562624029e-17));
  const Sum scaled = quotient({all.high, hn::Add(all.low, rest)}, sum_with(hn::Add(a, a), one));
  const Sum square = product(a, a);
  const Power p = power_of({hn::Neg(square.high), hn::Neg(square.low)});
  const Sum power = joined(one, one, p);
  const V low = hn::MulAdd(scaled.high, power.low, hn::Mul(scaled.low, power.high));
  return {hn::MulAdd(scaled.high, power.high, low), p.anchored};
}

// 1 − erfc(a) of a in [1, 6]: e^(a²)·erfc(a) is a polynomial of (a − 3) / (a + 3).
HWY_INLINE V one_without_complement(V a) {
  constexpr double coefficients[] = {1.2801900862962662e-06, 2.023603179641757e-06, -8.008021319412685e-06,
                                     -1.284889451252353e-05, 6.406182073530546e-05, 4.525472635483354e-05,
                                     -0.0005970623517093284, 0.0007077464443901538, 0.004269136347508256,
                                     -0.024392499318273194,  0.07166583719774874,   -0.15011593650078744,
                                     0.24560380171233195,    -0.32623356004303716,  0.17900115118138996};
  const V three = number(3), t = hn::Mul(hn::Sub(a, three), inverse_of(hn::Add(a, three)));
  const Sum square = product(a, a);
  const Power p = power_of({hn::Neg(square.high), hn::Neg(square.low)});
  const V power = hn::Mul(rounded(joined(number(1), number(1), p)), two_to(p.anchored));
  return hn::NegMulAdd(by_halves(t, coefficients), power, number(1));
}

struct Erf {
  static HWY_INLINE V of(V x) {
    const V a = hn::Min(number(6), hn::Abs(x)), near = hn::MulAdd(a, above_one(a), a);  // of NaN they are NaN
    const M small = hn::Lt(a, number(1));
    if (hn::AllTrue(D(), small)) return hn::CopySign(near, x);
    const V far = one_without_complement(hn::Max(number(1), a));
    return hn::CopySign(hn::IfThenElse(small, near, far), x);
  }
};
struct Erfc {
  static HWY_INLINE V of(V x) {
    const V a = hn::Abs(x), one = number(1), inner = off_zero(hn::Min(number(0.5), a));
    const V part = hn::CopySign(inner, x), more = hn::CopySign(hn::Mul(inner, above_one(inner)), x);
    const Sum near = sum(one, hn::Neg(part));
    const Complement c = complement(hn::Max(number(0.5), hn::Min(number(26), a)));
    const V y = hn::Mul(c.value, two_to(c.anchored));
    const V far = hn::IfThenElse(hn::Lt(x, number(0)), hn::Sub(number(2), y), y);
    const V value = hn::IfThenElse(hn::Lt(a, number(0.5)), hn::Add(near.high, hn::Sub(near.low, more)), far);
    return hn::IfThenZeroElse(hn::Gt(x, number(28)), value);
  }
  static HWY_INLINE M holds(V x) { return hn::Or(hn::Le(x, number(26)), hn::Gt(x, number(28))); }
  static HWY_INLINE V rest(V x) {
    const Complement c = complement(hn::Max(number(26), hn::Min(number(28), x)));
    return scaled_by(c.value, hn::Sub(c.anchored, number(anchor)));
  }
};

TileFn find_double_erf(ExprOp op) {
  if (!HWY_NATIVE_FMA) return nullptr;
  return op == ExprOp::erf ? doubles<Erf> : op == ExprOp::erfc ? doubles<Erfc> : nullptr;
}

}  // namespace
}  // namespace npusim::cpu::loops::tiles::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npusim::cpu::loops::tiles {
HWY_EXPORT(find_double_erf);

TileFn double_erf_fn(ExprOp op) { return HWY_DYNAMIC_DISPATCH(find_double_erf)(op); }

}  // namespace npusim::cpu::loops::tiles
#endif
