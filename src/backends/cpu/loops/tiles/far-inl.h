// What functions of doubles are made of far from 1: numbers below normal ones, for which a processor takes a hundred
// cycles where they are multiplied or divided, but none where they are added or their bits are moved; angles of any
// size; and rests of any quotients. Compiled once per instruction set.
#if defined(NPUSIM_CPU_LOOPS_FAR_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef NPUSIM_CPU_LOOPS_FAR_INL_H
#undef NPUSIM_CPU_LOOPS_FAR_INL_H
#else
#define NPUSIM_CPU_LOOPS_FAR_INL_H
#endif

#include <hwy/highway.h>

#include <limits>

#include "backends/cpu/loops/tiles/two_over_pi.h"

HWY_BEFORE_NAMESPACE();
namespace npusim::cpu::loops::tiles::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using Far = hn::ScalableTag<double>;
using FarBits = hn::RebindToSigned<Far>;
using F64 = hn::Vec<Far>;
using I64 = hn::Vec<FarBits>;
using FarMask = hn::Mask<Far>;

HWY_INLINE F64 far(double x) { return hn::Set(Far(), x); }
HWY_INLINE I64 bits_of(F64 x) { return hn::BitCast(FarBits(), x); }
HWY_INLINE F64 of_bits(I64 x) { return hn::BitCast(Far(), x); }
HWY_INLINE I64 far_bits(int64_t x) { return hn::Set(FarBits(), x); }

// Next to this number the low bits are the whole part.
constexpr double whole_anchor = 0x1.8p52;
// 2^n of whole n in [-1022, 1023].
HWY_INLINE F64 two_to_whole(F64 n) {
  return of_bits(hn::ShiftLeft<52>(hn::Add(bits_of(hn::Add(n, far(whole_anchor))), far_bits(1023))));
}

// x · 2^1074 of x below normal numbers, or 0, neither negative: it is whole, and exact.
HWY_INLINE F64 from_below(F64 x) {
  return hn::Sub(of_bits(hn::Or(bits_of(x), far_bits(0x4330000000000000))), far(0x1p52));
}
// x · 2^-1074, to the nearest, of x in [0, 2^52].
HWY_INLINE F64 to_below(F64 x) {
  return of_bits(hn::Sub(bits_of(hn::Add(x, far(0x1p52))), far_bits(0x4330000000000000)));
}
// x · 2^n of positive x in [2^-60, 2^60], NaN, or 0, and whole n of any size.
HWY_INLINE F64 scaled_by(F64 x, F64 n) {
  n = hn::Min(far(1100), hn::Max(far(-1140), n));
  const FarMask low = hn::Lt(n, far(-900));
  n = hn::Add(n, hn::IfThenElseZero(low, far(1074)));
  const F64 half = hn::Round(hn::Mul(n, far(0.5)));
  const F64 y = hn::Mul(hn::Mul(x, two_to_whole(half)), two_to_whole(hn::Sub(n, half)));
  const FarMask below = hn::And(low, hn::Lt(y, far(0x1p52)));
  const F64 back = hn::IfThenElse(low, far(0x1p-537), far(1)), normal = hn::IfThenElse(below, far(0x1p52), y);
  return hn::IfThenElse(below, to_below(hn::IfThenElseZero(below, y)), hn::Mul(hn::Mul(normal, back), back));
}

// part · 2^exponent, part in [1, 2), of positive numbers; of 0 and infinity the part is 1.
struct Parts {
  F64 part, exponent;
};
HWY_INLINE Parts parts_of(F64 x) {
  const FarMask below = hn::Lt(x, far(std::numeric_limits<double>::min()));
  const I64 bits = bits_of(hn::IfThenElse(below, from_below(hn::IfThenElseZero(below, x)), x));
  const I64 exponent = hn::Or(hn::ShiftRight<52>(bits), far_bits(0x4330000000000000));
  const F64 bias = hn::IfThenElse(below, far(0x1p52 + 1023 + 1074), far(0x1p52 + 1023));
  return {of_bits(hn::Or(hn::And(bits, far_bits(0x000fffffffffffff)), far_bits(0x3ff0000000000000))),
          hn::Sub(of_bits(exponent), bias)};
}

// a + b as it is rounded, and what that leaves, whichever is greater.
struct Rounding {
  F64 value, rest;
};
HWY_INLINE Rounding two_sum(F64 a, F64 b) {
  const F64 value = hn::Add(a, b), second = hn::Sub(value, a);
  return {value, hn::Add(hn::Sub(a, hn::Sub(value, second)), hn::Sub(b, second))};
}
HWY_INLINE Rounding two_product(F64 a, F64 b) {
  const F64 value = hn::Mul(a, b);
  return {value, hn::MulSub(a, b, value)};
}
HWY_INLINE F64 without_fours(F64 x) { return hn::NegMulAdd(hn::Round(hn::Mul(x, far(0.25))), far(4), x); }

// Of an angle x its quarter turns n and the rest of x by π/2, less than a unit of its last place off in the end.
// anchored: n next to the anchor, but for whole turns.
struct Reduction {
  F64 anchored, r, rest;
};
// Of sizes from 2^16 on; of infinity and NaN it is something.
HWY_INLINE Reduction reduce_far(F64 x) {
  const FarBits d;
  const I64 size = bits_of(hn::Abs(x));
  const I64 block = hn::And(hn::ShiftRight<4>(hn::Sub(hn::ShiftRight<52>(size), far_bits(1023))), far_bits(63));
  const F64 a = hn::CopySign(of_bits(hn::Sub(size, hn::ShiftLeft<56>(block))), x);
  const double* pieces = quarters_of_doubles[0].data();
  const auto at = hn::ShiftLeft<2>(block);
  const auto term = [&](int k)
                        HWY_ATTR { return two_product(a, hn::GatherIndex(Far(), pieces, hn::Add(at, hn::Set(d, k)))); };
  const Rounding first = term(0), second = term(1), third = term(2), fourth = term(3);
  const F64 whole = hn::Add(without_fours(first.value), without_fours(first.rest));  // exact, as a sum below 4
  const Rounding top = two_sum(whole, without_fours(second.value));
  const F64 anchored = hn::Add(top.value, far(whole_anchor));
  const F64 part = hn::Sub(top.value, hn::Sub(anchored, far(whole_anchor)));
  // From the least to the greatest, which may take each other away.
  const Rounding s3 = two_sum(third.value, hn::Add(third.rest, fourth.value)), s2 = two_sum(second.rest, s3.value),
                 s1 = two_sum(top.rest, s2.value), s0 = two_sum(part, s1.value);
  const Rounding quarters = two_sum(s0.value, hn::Add(s0.rest, hn::Add(s1.rest, hn::Add(s2.rest, s3.rest))));
  const F64 quarter = far(1.5707963267948966), quarter_low = far(6.123233995736766e-17);
  const Rounding r = two_product(quarters.value, quarter);
  return {anchored, r.value, hn::Add(r.rest, hn::MulAdd(quarters.value, quarter_low, hn::Mul(quarters.rest, quarter)))};
}
// The same of floats from 1 on, exact to 2^-56.
HWY_INLINE Reduction reduce_far_float(F64 x) {
  const I64 bits = bits_of(x);
  const I64 exponent =
      hn::And(hn::Sub(hn::ShiftRight<52>(hn::And(bits, far_bits(0x7fffffffffffffff))), far_bits(1023)), far_bits(127));
  const F64 part = of_bits(hn::Or(hn::AndNot(far_bits(0x7ff0000000000000), bits), far_bits(0x3ff0000000000000)));
  const double* pieces = quarters_of_floats[0].data();
  const auto at = hn::Add(exponent, exponent);
  const F64 second = hn::GatherIndex(Far(), pieces, hn::Add(at, far_bits(1)));
  const F64 first = hn::Mul(part, hn::GatherIndex(Far(), pieces, at));
  const F64 anchored = hn::Add(hn::MulAdd(part, second, first), far(whole_anchor));
  const F64 quarters = hn::MulAdd(part, second, hn::Sub(first, hn::Sub(anchored, far(whole_anchor))));
  return {anchored, hn::Mul(quarters, far(1.5707963267948966)), hn::Zero(Far())};
}

// x − trunc(x / y)·y of any numbers, exactly: with y's part as the unit some digits of the quotient at a time. Where
// products are rounded, only of floats.
HWY_INLINE F64 long_rest(F64 x, F64 y) {
  const Far d;
  const F64 zero = hn::Zero(d), infinite = far(std::numeric_limits<double>::infinity());
  const F64 size = hn::Abs(x), by = hn::Abs(y);
  const FarMask numbers = hn::And(hn::Lt(size, infinite), hn::Gt(by, zero)), less = hn::Lt(size, by);
  const FarMask counts = hn::AndNot(less, hn::And(numbers, hn::Lt(by, infinite)));
  const Parts above = parts_of(hn::IfThenElse(counts, size, far(1))),
              below = parts_of(hn::IfThenElse(counts, by, far(1)));
  const F64 inverse = hn::Div(far(1), below.part);
  F64 left = hn::Sub(above.exponent, below.exponent), rest = above.part;
  do {
    const F64 step = hn::Min(left, far(HWY_NATIVE_FMA ? 48 : 27));
    left = hn::Sub(left, step);
    rest = hn::Mul(rest, two_to_whole(step));
    rest = hn::NegMulAdd(hn::Round(hn::Mul(rest, inverse)), below.part, rest);  // below 0.7 parts, and so exact
    rest = hn::Add(rest, hn::IfThenElseZero(hn::Lt(rest, zero), below.part));
  } while (!hn::AllFalse(d, hn::Gt(left, zero)));
  const F64 value = hn::IfThenElse(counts, scaled_by(rest, below.exponent), size);
  const F64 none = far(std::numeric_limits<double>::quiet_NaN());
  const FarMask given = hn::And(numbers, hn::Le(by, infinite));
  return hn::CopySign(hn::IfThenElse(given, value, none), x);
}

}  // namespace
}  // namespace npusim::cpu::loops::tiles::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
