// Vectors of doubles: sums of two doubles, what logarithms and exponentials are made of, and the loops over a tile.
// Compiled once per instruction set, where products are exact with sums, and never made one with them by the compiler:
// what a sum rounds off is found by taking it back.
#if defined(NPUSIM_CPU_LOOPS_TILE_DOUBLE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef NPUSIM_CPU_LOOPS_TILE_DOUBLE_INL_H
#undef NPUSIM_CPU_LOOPS_TILE_DOUBLE_INL_H
#else
#define NPUSIM_CPU_LOOPS_TILE_DOUBLE_INL_H
#endif

#include <hwy/highway.h>

#include <cmath>
#include <limits>

#include "backends/cpu/loops/tiles/far-inl.h"
#include "backends/cpu/loops/tiles/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace npusim::cpu::loops::tiles::HWY_NAMESPACE {
namespace {

using D = hn::ScalableTag<double>;
using V = hn::Vec<D>;
using M = hn::Mask<D>;
using Bits = hn::RebindToSigned<D>;

constexpr double infinity = std::numeric_limits<double>::infinity(),
                 no_number = std::numeric_limits<double>::quiet_NaN();
constexpr double least_normal = 0x1p-1022;
constexpr double ln2_high = 6.93147180369123816490e-01, ln2_low = 1.90821492927058770002e-10;  // k · ln2_high is exact

HWY_INLINE V number(double x) { return hn::Set(D(), x); }

// What stands for x where x might be so small that its powers are no normal numbers; where it is not, x itself. An odd
// function is x up to some bound, next to which this is nothing.
HWY_INLINE V off_zero(V x) { return hn::Add(x, number(0x1p-120)); }
HWY_INLINE V square_off_zero(V x) { return hn::MulAdd(x, x, number(0x1p-64)); }
HWY_INLINE V or_itself(V x, V value, double bound = 0x1p-30) {
  return hn::IfThenElse(hn::Lt(hn::Abs(x), number(bound)), x, value);
}

// Horner's rule, highest coefficient first.
HWY_INLINE V horner(V, V sum) { return sum; }
template <typename... Rest>
HWY_INLINE V horner(V x, V sum, double next, Rest... rest) {
  return horner(x, hn::MulAdd(sum, x, number(next)), rest...);
}
// The same as two sums of the square, which do not wait for each other.
template <size_t n>
HWY_INLINE V by_halves(V x, const double (&c)[n]) {
  const V square = hn::Mul(x, x);
  V first = number(c[0]), second = number(c[1]);
  for (size_t i = 2; i < n; i += 2) first = hn::MulAdd(first, square, number(c[i]));
  for (size_t i = 3; i < n; i += 2) second = hn::MulAdd(second, square, number(c[i]));
  return n % 2 ? hn::MulAdd(second, x, first) : hn::MulAdd(first, x, second);
}

struct Sum {  // high + low, of which high is the nearest double or next to it
  V high, low;
};
// Of |a| >= |b|, or a = 0.
HWY_INLINE Sum sum(V a, V b) {
  const V high = hn::Add(a, b);
  return {high, hn::Sub(b, hn::Sub(high, a))};
}
// Of numbers of which the greater one is so in size.
HWY_INLINE Sum sum_with(V a, V b) {
  const V high = hn::Add(a, b);
  return {high, hn::Sub(hn::Min(a, b), hn::Sub(high, hn::Max(a, b)))};
}
HWY_INLINE Sum product(V a, V b) {
  const V high = hn::Mul(a, b);
  return {high, hn::MulSub(a, b, high)};
}
// 1 / x to 2^-51, of normal numbers whose inverse is one: where vectors are long two steps of Newton's take less than
// half of a division.
HWY_INLINE V inverse_of(V x) {
#if HWY_TARGET == HWY_AVX3
  const V near = V{_mm512_rcp14_pd(x.raw)};
  const V nearer = hn::MulAdd(near, hn::NegMulAdd(x, near, number(1)), near);
  return hn::MulAdd(nearer, hn::NegMulAdd(x, nearer, number(1)), nearer);
#else
  return hn::Div(number(1), x);
#endif
}
HWY_INLINE Sum quotient(Sum above, Sum below) {
  const V inverse = inverse_of(below.high), near = hn::Mul(above.high, inverse);
  const V rest = hn::Add(hn::NegMulAdd(near, below.high, above.high), hn::NegMulAdd(near, below.low, above.low));
  return {near, hn::Mul(rest, inverse)};
}
HWY_INLINE V rounded(Sum x) { return hn::Add(x.high, x.low); }
// The root of x, of which high is no subnormal number.
HWY_INLINE Sum root(Sum x) {
  const V high = hn::Sqrt(x.high), twice = hn::Max(hn::Add(high, high), number(least_normal));
  return {high, hn::Mul(hn::Add(hn::NegMulAdd(high, high, x.high), x.low), inverse_of(twice))};
}

// A normal number is 2^more · m · 2^k with m in [sqrt(1/2), sqrt(2)); f is m − 1.
struct Split {
  V k, f, power;  // power: 2^-k of k up to 1022, of no more
};
template <int more = 0>
HWY_INLINE Split split(V x) {
  const D d;
  const Bits di;
  const auto bits = hn::BitCast(di, x);
  const auto biased = hn::BitCast(
      di, hn::ShiftRight<52>(hn::BitCast(hn::RebindToUnsigned<D>(),
                                         hn::Sub(bits, hn::Set(di, 0x3fe6a09e667f3bcd - 0x3ff0000000000000)))));
  const auto exponent = hn::ShiftLeft<52>(hn::Sub(biased, hn::Set(di, 1023)));
  return {hn::Sub(hn::BitCast(d, hn::Add(biased, hn::Set(di, 0x4330000000000000))), number(0x1p52 + 1023 + more)),
          hn::Sub(hn::BitCast(d, hn::Sub(bits, exponent)), number(1)),
          hn::BitCast(d, hn::Sub(hn::Set(di, 0x3ff0000000000000), exponent))};
}

// log(1 + f + rest) of a split number's f, to some 2^-58 of the result: |rest| is below the last place of 1 + f. The
// polynomial is fdlibm's.
HWY_INLINE Sum log_of_part(V f, V rest) {
  const V s = hn::Mul(f, inverse_of(hn::Add(f, number(2)))), z = hn::Mul(s, s),
          half = hn::Mul(number(0.5), hn::Mul(f, f));
  const V r = hn::Mul(z, horner(z, number(1.479819860511658591e-01), 1.531383769920937332e-01, 1.818357216161805012e-01,
                                2.222219843214978396e-01, 2.857142874366239149e-01, 3.999999999940941908e-01,
                                6.666666666666735130e-01));
  const V inverse = hn::MulAdd(hn::Add(s, s), hn::Sub(s, number(1)), number(1));  // of 1 + f, to 2·s³
  const Sum high = sum(f, hn::Neg(half));
  return {high.high, hn::Add(high.low, hn::MulAdd(s, hn::Add(half, r), hn::Mul(rest, inverse)))};
}
// log(2^k) + part.
HWY_INLINE V log_of(V k, Sum part) {
  const Sum all = sum(hn::Mul(k, number(ln2_high)), part.high);
  return hn::Add(all.high, hn::Add(all.low, hn::MulAdd(k, number(ln2_low), part.low)));
}
// log(x.high + x.low) of a normal number.
HWY_INLINE V log_of(Sum x) {
  const Split at = split(x.high);
  const M small = hn::Lt(at.k, number(1000));  // beyond it the rest is nothing
  return log_of(at.k, log_of_part(at.f, hn::IfThenElseZero(small, hn::Mul(x.low, at.power))));
}
// What a logarithm of x is where it is no finite positive number.
HWY_INLINE V log_special(V x, V value) {
  value = hn::IfThenElse(hn::Lt(x, number(infinity)), value, x);  // of NaN it is NaN
  value = hn::IfThenElse(hn::Eq(x, number(0)), number(-infinity), value);
  return hn::IfThenElse(hn::Lt(x, number(0)), number(no_number), value);
}

// e^(x + rest) as 2^k · (1 + sine + cosine), of which the first is the odd part of a series, exact to 2^-60 as a sum,
// and the second the even one, below 1/16. |x| <= 709; |rest| is below the last place of x.
struct Power {
  V anchored;  // k next to a number of which the low bits are the whole part
  Sum sine;
  V cosine;
};
constexpr double anchor = 0x1.8p52;
HWY_INLINE Power power_of_rest(V anchored, Sum r) {
  constexpr double even[] = {1.0 / 479001600, 1.0 / 3628800, 1.0 / 40320, 1.0 / 720, 1.0 / 24, 0.5};
  constexpr double odd[] = {1.0 / 6227020800, 1.0 / 39916800, 1.0 / 362880, 1.0 / 5040, 1.0 / 120, 1.0 / 6};
  const V z = hn::Mul(r.high, r.high);
  const Sum sine = sum(r.high, hn::MulAdd(hn::Mul(r.high, z), by_halves(z, odd), r.low));
  return {anchored, sine, hn::MulAdd(z, by_halves(z, even), hn::Mul(r.high, r.low))};
}
HWY_INLINE Power power_of(Sum x) {
  const V anchored = hn::MulAdd(x.high, number(1.44269504088896338700), number(anchor));
  const V k = hn::Sub(anchored, number(anchor));
  const V high = hn::NegMulAdd(k, number(ln2_high), x.high), low = hn::NegMulAdd(k, number(ln2_low), x.low);
  return power_of_rest(anchored, sum(high, low));
}
// 2^k of a k next to the anchor, in [-1022, 1023].
HWY_INLINE V two_to(V anchored) {
  const Bits di;
  return hn::BitCast(D(), hn::ShiftLeft<52>(hn::Add(hn::BitCast(di, anchored), hn::Set(di, 1023))));
}
// whole + 2^k · (sine + cosine), where 2^k · sine is less than the whole, or that is 0.
HWY_INLINE Sum joined(V whole, V scale, const Power& p) {
  const Sum high = sum(whole, hn::Mul(scale, p.sine.high));
  return {high.high, hn::Add(high.low, hn::Mul(scale, hn::Add(p.sine.low, p.cosine)))};
}

// F: the function, and where that holds only somewhere, where, and the function of all other numbers, lane by lane:
// what is next to an element does not change its bits.
template <class F>
HWY_INLINE V unary_of(V x) {
  if constexpr (requires { F::holds(x); }) {
    const D d;
    const M good = F::holds(x);
    if (HWY_UNLIKELY(!hn::AllTrue(d, good))) {
      const V rest = F::rest(hn::IfThenElse(good, number(infinity), x));
      return hn::AllFalse(d, good) ? rest : hn::IfThenElse(good, F::of(hn::IfThenElse(good, x, number(1))), rest);
    }
  }
  return F::of(x);
}
template <class F>
void doubles(const TileCall& c) {
  const int64_t n = lanes_of(c);
  for (int64_t r = 0; r < c.rows; ++r) {
    const double* a = row_of<double>(c, 0, r);
    double* out = dst_row_of<double>(c, r);
    for (int64_t j = 0; j < n; j += static_cast<int64_t>(hn::MaxLanes(D())))
      hn::StoreU(unary_of<F>(hn::LoadU(D(), a + j)), D(), out + j);
  }
}

// The same of two operands, of which one, bit k of `scalars`, is one lane per row.
template <class F>
HWY_INLINE V binary_of(V x, V y) {
  const D d;
  const V one = number(1);
  const M good = F::holds(x, y);
  if (HWY_LIKELY(hn::AllTrue(d, good))) return F::of(x, y);
  const V rest = F::rest(hn::IfThenElse(good, one, x), hn::IfThenElse(good, one, y));
  if (hn::AllFalse(d, good)) return rest;
  return hn::IfThenElse(good, F::of(hn::IfThenElse(good, x, one), hn::IfThenElse(good, y, one)), rest);
}
template <class F, unsigned scalars>
void doubles(const TileCall& c) {
  const D d;
  const int64_t n = lanes_of(c);
  for (int64_t r = 0; r < c.rows; ++r) {
    const double *a = row_of<double>(c, 0, r), *b = row_of<double>(c, 1, r);
    double* out = dst_row_of<double>(c, r);
    const V fa = hn::Set(d, *a), fb = hn::Set(d, *b);
    for (int64_t j = 0; j < n; j += static_cast<int64_t>(hn::MaxLanes(d)))
      hn::StoreU(binary_of<F>(scalars & 1 ? fa : hn::LoadU(d, a + j), scalars & 2 ? fb : hn::LoadU(d, b + j)), d,
                 out + j);
  }
}
template <class F>
TileFn doubles_by_scalars(unsigned scalars) {
  constexpr TileFn fns[] = {doubles<F, 0>, doubles<F, 1>, doubles<F, 2>, doubles<F, 3>};
  return fns[scalars];
}

}  // namespace
}  // namespace npusim::cpu::loops::tiles::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
