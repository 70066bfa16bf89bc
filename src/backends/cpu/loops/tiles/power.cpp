// Tile functions of powers on double lanes, within 0.7 ulp: logarithm and exponent are sums of two doubles.
#include "backends/cpu/loops/tiles/tile.h"
#include "backends/cpu/vector_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/loops/tiles/power.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backends/cpu/loops/tiles/double-inl.h"

HWY_BEFORE_NAMESPACE();
namespace npusim::cpu::loops::tiles::HWY_NAMESPACE {
namespace {

HWY_INLINE Sum product(Sum a, Sum b) {
  const V high = hn::Mul(a.high, b.high), rest = hn::MulSub(a.high, b.high, high);
  return {high, hn::MulAdd(a.high, b.low, hn::MulAdd(a.low, b.high, rest))};
}

// The logarithm of a normal positive number m · 2^k, m in [sqrt(1/2), sqrt(2)): of m twice the series of
// s = (m − 1) / (m + 1), whose first two terms are sums of two doubles. biased_by: 0x1p52 + 1023, and n more for the
// logarithm of 2^-n · x.
HWY_INLINE Sum log_of(V x, V biased_by) {
  const D d;
  const hn::RebindToSigned<D> di;
  const auto bits = hn::BitCast(di, x);
  const auto biased = hn::BitCast(
      di, hn::ShiftRight<52>(hn::BitCast(hn::RebindToUnsigned<D>(),
                                         hn::Sub(bits, hn::Set(di, 0x3fe6a09e667f3bcd - 0x3ff0000000000000)))));
  const V k = hn::Sub(hn::BitCast(d, hn::Or(biased, hn::Set(di, 0x4330000000000000))), biased_by);
  const V m = hn::BitCast(d, hn::Sub(bits, hn::ShiftLeft<52>(hn::Sub(biased, hn::Set(di, 1023)))));
  const V f = hn::Sub(m, number(1)), below = hn::Add(m, number(1));
  const V below_low = hn::Sub(m, hn::Sub(below, number(1))), inverse = hn::Div(number(1), below);
  const V quotient = hn::Mul(f, inverse);
  const V rest = hn::NegMulAdd(quotient, below_low, hn::NegMulAdd(quotient, below, f));
  const Sum s = sum(quotient, hn::Mul(rest, inverse));
  const Sum z = product(s, s);
  constexpr double tail[] = {2.0 / 27, 2.0 / 25, 2.0 / 23, 2.0 / 21, 2.0 / 19, 2.0 / 17,
                             2.0 / 15, 2.0 / 13, 2.0 / 11, 2.0 / 9,  2.0 / 7,  2.0 / 5};
  Sum third = sum(number(2.0 / 3), hn::Mul(z.high, by_halves(z.high, tail)));
  third.low = hn::Add(third.low, number(3.700743415417188e-17));  // of two thirds
  const Sum cubic = product(s, product(z, third));
  const Sum series = sum(hn::Add(s.high, s.high), cubic.high);
  const V series_low = hn::Add(hn::Add(series.low, cubic.low), hn::Add(s.low, s.low));
  const Sum all = sum(hn::Mul(k, number(ln2_high)), series.high);
  return {all.high, hn::MulAdd(k, number(ln2_low), hn::Add(all.low, series_low))};
}

// e^(high + low) for |high| <= 1000 as part · 2^k of k next to the anchor.
struct PartOfPower {
  V part, anchored;
};
HWY_INLINE PartOfPower exp_of(Sum x) {
  const V anchored = hn::MulAdd(x.high, number(1.44269504088896338700), number(anchor));
  const V k = hn::Sub(anchored, number(anchor));
  const Sum r = sum(hn::NegMulAdd(k, number(ln2_high), x.high), hn::NegMulAdd(k, number(ln2_low), x.low));
  constexpr double tail[] = {1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800,
                             1.0 / 362880,     1.0 / 40320,     1.0 / 5040,     1.0 / 720,
                             1.0 / 120,        1.0 / 24,        1.0 / 6,        0.5};
  const Sum first = sum(number(1), r.high);
  const V low = hn::MulAdd(r.low, first.high, first.low);
  const V y = hn::Add(first.high, hn::MulAdd(hn::Mul(r.high, r.high), by_halves(r.high, tail), low));
  return {y, anchored};
}

// Of exponents that are whole and odd the sign is the base's.
struct Exponent {
  M whole, odd;
};
HWY_INLINE Exponent kind_of(V y) {
  const V half = hn::Mul(y, number(0.5));
  const M whole = hn::Eq(hn::Floor(y), y);
  return {whole, hn::AndNot(hn::Eq(hn::Floor(half), half), whole)};
}

struct Pow {
  static HWY_INLINE Sum logarithm_times(V y, const Sum& log) {
    const V high = hn::Mul(y, log.high);
    return {high, hn::MulAdd(y, log.low, hn::MulSub(y, log.high, high))};
  }
  static HWY_INLINE V of(V x, V y, M& good) {
    const D d;
    const Bits di;
    const V size = hn::Abs(x);
    const Sum exponent = logarithm_times(y, log_of(size, number(0x1p52 + 1023)));
    const PartOfPower p = exp_of(exponent);
    const V power = hn::BitCast(d, hn::Add(hn::BitCast(di, p.part), hn::ShiftLeft<52>(hn::BitCast(di, p.anchored))));
    good = hn::And(hn::Le(hn::Abs(exponent.high), number(700)),
                   hn::And(hn::Ge(size, number(least_normal)), hn::Lt(size, number(infinity))));
    return signed_of(x, y, power);
  }
  static HWY_INLINE V signed_of(V x, V y, V power) {
    const Exponent kind = kind_of(y);
    const V negative = hn::IfThenElse(kind.whole, hn::IfThenElse(kind.odd, hn::Neg(power), power), number(no_number));
    return hn::IfThenElse(hn::Lt(x, hn::Zero(D())), negative, power);
  }
  // Of bases below normal numbers, 0, infinity, and powers that are none of the usual numbers.
  static HWY_INLINE V rest(V x, V y) {
    const D d;
    const V size = hn::Abs(x), one = number(1), zero = hn::Zero(d);
    const M below = hn::Lt(size, number(least_normal)), none = hn::Eq(size, zero),
            endless = hn::Eq(size, number(infinity));
    const M usual = hn::AndNot(none, hn::Lt(size, number(infinity)));
    const V normal = hn::IfThenElse(below, from_below(hn::IfThenElseZero(below, size)), size);
    const Sum log = log_of(hn::IfThenElse(usual, normal, one),
                           hn::IfThenElse(below, number(0x1p52 + 1023 + 1074), number(0x1p52 + 1023)));
    const V above = hn::IfThenElse(none, number(-infinity), hn::IfThenElse(endless, number(infinity), log.high));
    const Sum product = logarithm_times(y, log);
    const V high = hn::Mul(y, above);  // of numbers it is as far from 0 as the power needs
    const M inside = hn::Lt(hn::Abs(high), number(800));
    const V clamped = hn::Min(number(800), hn::Max(number(-800), high));
    const PartOfPower p = exp_of({clamped, hn::IfThenElseZero(inside, product.low)});
    V power = scaled_by(p.part, hn::Sub(p.anchored, number(anchor)));
    power = hn::IfThenElse(hn::Eq(size, one), one, power);
    const Exponent kind = kind_of(y);
    const M minus = hn::Lt(hn::CopySign(one, x), zero), wrong = hn::And(hn::Lt(x, zero), hn::Not(kind.whole));
    power = hn::IfThenElse(hn::And(minus, kind.odd), hn::Neg(power), power);
    power = hn::IfThenElse(hn::And(wrong, usual), number(no_number), power);
    power = hn::IfThenElse(hn::Or(hn::IsNaN(x), hn::IsNaN(y)), number(no_number), power);
    return hn::IfThenElse(hn::Or(hn::Eq(y, zero), hn::Eq(x, one)), one, power);
  }
};

// Lane by lane: what is next to an element does not change its bits.
HWY_INLINE V power_at(V x, V y) {
  M good;
  const V power = Pow::of(x, y, good);
  return HWY_LIKELY(hn::AllTrue(D(), good)) ? power : hn::IfThenElse(good, power, Pow::rest(x, y));
}

template <unsigned scalars>
void power(const TileCall& c) {
  const D d;
  const int64_t n = lanes_of(c);
  for (int64_t r = 0; r < c.rows; ++r) {
    const double *a = row_of<double>(c, 0, r), *b = row_of<double>(c, 1, r);
    double* out = dst_row_of<double>(c, r);
    const V fa = hn::Set(d, *a), fb = hn::Set(d, *b);
    for (int64_t j = 0; j < n; j += static_cast<int64_t>(hn::Lanes(d)))
      hn::StoreU(power_at(scalars & 1 ? fa : hn::LoadU(d, a + j), scalars & 2 ? fb : hn::LoadU(d, b + j)), d, out + j);
  }
}

TileFn find_power(unsigned scalars) {
  constexpr TileFn fns[] = {power<0>, power<1>, power<2>, power<3>};
  return HWY_NATIVE_FMA ? fns[scalars] : nullptr;
}

}  // namespace
}  // namespace npusim::cpu::loops::tiles::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npusim::cpu::loops::tiles {
HWY_EXPORT(find_power);

TileFn double_power_fn(unsigned scalars) { return HWY_DYNAMIC_DISPATCH(find_power)(scalars); }

}  // namespace npusim::cpu::loops::tiles
#endif
