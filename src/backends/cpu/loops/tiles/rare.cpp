// Tile functions of rare mathematics on float lanes: vectors of double, whose few ulp a float does not see. Lane by
// lane, so that what is next to an element does not change its bits.
#include "backends/cpu/loops/tiles/tile.h"
#include "backends/cpu/vector_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/loops/tiles/rare.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <limits>

// Once per instruction set, and so behind the above.
// clang-format off
#include <hwy/contrib/math/math-inl.h>
#include "backends/cpu/loops/tiles/far-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace npusim::cpu::loops::tiles::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using Wide = hn::ScalableTag<double>;
using W = hn::Vec<Wide>;
using M = hn::Mask<Wide>;
using Narrow = hn::Rebind<float, Wide>;

// Vectors side by side: each step is taken for all of them before the next one, so that none waits for its own sum. A
// vector alone is for all.
template <size_t n>
struct Side {
  W v[n];
};
template <class X>
constexpr size_t count = 1;
template <size_t n>
constexpr size_t count<Side<n>> = n;

HWY_INLINE W at(W x, size_t) { return x; }
template <size_t n>
HWY_INLINE W at(const Side<n>& x, size_t i) {
  return x.v[i];
}
template <class Step, class... X>
HWY_INLINE auto each(const Step& step, const X&... x) {
  constexpr size_t n = std::max({count<X>...});
  if constexpr (n == 1) {
    return step(x...);
  } else {
    Side<n> out;
#pragma GCC unroll 4
    for (size_t i = 0; i < n; ++i) out.v[i] = step(at(x, i)...);
    return out;
  }
}
template <class A, class B>
HWY_INLINE auto add(const A& a, const B& b) {
  return each([](W x, W y) HWY_ATTR { return hn::Add(x, y); }, a, b);
}
template <class A, class B>
HWY_INLINE auto sub(const A& a, const B& b) {
  return each([](W x, W y) HWY_ATTR { return hn::Sub(x, y); }, a, b);
}
template <class A, class B>
HWY_INLINE auto mul(const A& a, const B& b) {
  return each([](W x, W y) HWY_ATTR { return hn::Mul(x, y); }, a, b);
}
template <class A, class B, class C>
HWY_INLINE auto mul_add(const A& a, const B& b, const C& c) {
  return each([](W x, W y, W z) HWY_ATTR { return hn::MulAdd(x, y, z); }, a, b, c);
}
template <class A, class B, class C>
HWY_INLINE auto neg_mul_add(const A& a, const B& b, const C& c) {
  return each([](W x, W y, W z) HWY_ATTR { return hn::NegMulAdd(x, y, z); }, a, b, c);
}

HWY_INLINE W wide(Wide d, double x) { return hn::Set(d, x); }
HWY_INLINE W no_number(Wide d) { return wide(d, std::numeric_limits<double>::quiet_NaN()); }
HWY_INLINE M within(Wide d, W x, double limit) { return hn::Le(hn::Abs(x), wide(d, limit)); }
// An odd function's value, whose zero has the argument's sign.
HWY_INLINE W odd(Wide d, W x, W value) { return hn::IfThenElse(hn::Eq(x, hn::Zero(d)), x, value); }

constexpr double infinity = std::numeric_limits<double>::infinity();

// Horner's rule, highest coefficient first.
template <class X, class Sum>
HWY_INLINE auto polynomial(const X&, const Sum& sum) {
  return sum;
}
template <class X, class Sum, typename... Rest>
HWY_INLINE auto polynomial(const X& x, const Sum& sum, double next, Rest... rest) {
  return polynomial(x, mul_add(sum, x, wide(Wide(), next)), rest...);
}

// The same as two of its square, which do not wait for each other.
template <class X, size_t n>
HWY_INLINE X by_halves(Wide d, const X& x, const double (&coefficients)[n]) {
  const X square = mul(x, x);
  X first = mul_add(square, wide(d, coefficients[0]), wide(d, coefficients[2])),
    second = mul_add(square, wide(d, coefficients[1]), wide(d, coefficients[3]));
  for (size_t i = 4; i < n; i += 2) first = mul_add(first, square, wide(d, coefficients[i]));
  for (size_t i = 5; i < n; i += 2) second = mul_add(second, square, wide(d, coefficients[i]));
  return n % 2 ? mul_add(second, x, first) : mul_add(first, x, second);
}

// 1 / x to 1e-15, of normal numbers whose inverse is one: where vectors are long two steps of Newton's take less than
// half of a division.
template <class X>
HWY_INLINE X inverse(Wide d, const X& x) {
#if HWY_TARGET == HWY_AVX3
  const X near = each([](W one) HWY_ATTR { return W{_mm512_rcp14_pd(one.raw)}; }, x);
  const X nearer = mul_add(near, neg_mul_add(x, near, wide(d, 1)), near);
  return mul_add(nearer, neg_mul_add(x, nearer, wide(d, 1)), nearer);
#else
  return each([&](W one) HWY_ATTR { return hn::Div(wide(d, 1), one); }, x);
#endif
}
template <class X>
HWY_INLINE X quotient(Wide d, const X& x, const X& y) {
#if HWY_TARGET == HWY_AVX3
  return mul(x, inverse(d, y));
#else
  (void)d;
  return each([](W a, W b) HWY_ATTR { return hn::Div(a, b); }, x, y);
#endif
}
// The angle in [0, π/2] whose tangent is y / x, both not negative and not both 0: of a quotient up to tan(π/8), by one
// division; exact to 1e-12.
struct Reduced {
  W above, below, from;
};
HWY_INLINE Reduced reduced(Wide d, W y, W x) {
  constexpr double pi = 3.14159265358979323846;
  const W bound = wide(d, 0.41421356237309503);
  const M shallow = hn::Le(y, hn::Mul(x, bound)), steep = hn::Gt(hn::Mul(y, bound), x);
  return {hn::IfThenElse(shallow, y, hn::IfThenElse(steep, hn::Neg(x), hn::Sub(y, x))),
          hn::IfThenElse(shallow, x, hn::IfThenElse(steep, y, hn::Add(y, x))),
          hn::IfThenElse(shallow, hn::Zero(d), hn::IfThenElse(steep, wide(d, pi / 2), wide(d, pi / 4)))};
}
template <class X>
HWY_INLINE X angle(Wide d, const X& t, const X& from) {
  constexpr double coefficients[] = {-0.037654940059827287, 0.069741884001175244, -0.089925508891739475,
                                     0.11103456695540477,   -0.14285386542484876, 0.19999993053286369,
                                     -0.33333333276920302,  0.9999999999992446};
  const X square = mul_add(t, t, wide(d, 0x1p-60));  // next to which squares below normal numbers would take their time
  return mul_add(t, by_halves(d, square, coefficients), from);
}

// Of numbers in [-700, 700], to 2e-10 where the series ends with the eighth power.
template <class X, size_t n>
HWY_INLINE X exp_by(Wide d, const X& x, const double (&coefficients)[n]) {
  const hn::RebindToSigned<Wide> bits;
  const W anchor = wide(d, 0x1.8p52);  // of a number next to it the low bits are the whole part
  const X anchored = mul_add(x, wide(d, 1.4426950408889634), anchor);
  const X r = neg_mul_add(sub(anchored, anchor), wide(d, 0.6931471805599453), x);
  return each(
      [&](W p, W power) HWY_ATTR {
        return hn::BitCast(d, hn::Add(hn::BitCast(bits, p), hn::ShiftLeft<52>(hn::BitCast(bits, power))));
      },
      by_halves(d, r, coefficients), anchored);
}
template <class X>
HWY_INLINE X exp_of(Wide d, const X& x) {
  constexpr double coefficients[] = {1.0 / 40320, 1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1, 1};
  return exp_by(d, x, coefficients);
}

// Of positive numbers that are normal ones, to 1e-13: of m · 2^k with m in [sqrt(1/2), sqrt(2)) by (m − 1) / (m + 1).
HWY_INLINE W log_of(Wide d, W x) {
  const hn::RebindToSigned<Wide> di;
  const auto bits = hn::BitCast(di, x);
  const auto biased = hn::BitCast(
      di, hn::ShiftRight<52>(hn::BitCast(hn::RebindToUnsigned<Wide>(),
                                         hn::Sub(bits, hn::Set(di, 0x3fe6a09e667f3bcd - 0x3ff0000000000000)))));
  const W k = hn::Sub(hn::BitCast(d, hn::Or(biased, hn::Set(di, 0x4330000000000000))), wide(d, 0x1p52 + 1023));
  const W m = hn::BitCast(d, hn::Sub(bits, hn::ShiftLeft<52>(hn::Sub(biased, hn::Set(di, 1023)))));
  const W s = quotient(d, hn::Sub(m, wide(d, 1)), hn::Add(m, wide(d, 1))), z = hn::Mul(s, s);
  const W r = polynomial(z, wide(d, 1.479819860511658591e-01), 1.531383769920937332e-01, 1.818357216161805012e-01,
                         2.222219843214978396e-01, 2.857142874366239149e-01, 3.999999999940941908e-01,
                         6.666666666666735130e-01, 2.0);
  return hn::MulAdd(k, wide(d, 0.6931471805599453), hn::Mul(s, r));
}

// Each: the function, where it holds, which a NaN's need not say, and the function of all other numbers; or the first
// alone.
struct Tan {
  template <class X>
  static HWY_INLINE X of(Wide d, const X& x) {
    const W anchor = wide(d, whole_anchor);
    const X anchored = mul_add(x, wide(d, 0.63661977236758134), anchor), n = sub(anchored, anchor);
    const X near = neg_mul_add(n, wide(d, 1.57079632673412561417), x);
    const X r = neg_mul_add(n, wide(d, 6.07710050650619224932e-11), near), tangent = by_quarters(d, anchored, r);
    return each([&](W one, W value) HWY_ATTR { return odd(d, one, value); }, x, tangent);
  }
  // Of the rest by π/2 both sine and cosine, of which an odd number of quarters exchanges the two.
  template <class X>
  static HWY_INLINE X by_quarters(Wide d, const X& anchored, const X& r) {
    const X z = mul(r, r);
    const X s = polynomial(z, wide(d, 2.7557313707070068e-06), -1.9841269829857949e-04, 8.3333333333224895e-03,
                           -1.6666666666666632e-01);
    const X c = polynomial(z, wide(d, -2.7557314351390663e-07), 2.4801587289476729e-05, -1.3888888888874109e-03,
                           4.1666666666666602e-02, -0.5, 1.0);
    const X sine = mul_add(mul(s, z), r, r);
    const auto above = [&](W whole, W of_sine, W of_cosine)
                           HWY_ATTR { return hn::IfThenElse(is_odd(d, whole), hn::Neg(of_cosine), of_sine); };
    const auto below = [&](W whole, W of_sine, W of_cosine)
                           HWY_ATTR { return hn::IfThenElse(is_odd(d, whole), of_sine, of_cosine); };
    return quotient(d, each(above, anchored, sine, c), each(below, anchored, sine, c));
  }
  static HWY_INLINE M is_odd(Wide d, W whole) {
    const hn::RebindToSigned<Wide> bits;
    const auto one = hn::Ne(hn::And(hn::BitCast(bits, whole), hn::Set(bits, 1)), hn::Zero(bits));
    return hn::RebindMask(d, one);
  }
  static M holds(Wide d, W x) { return within(d, x, 30000); }
  static W rest(Wide d, W x) {
    const Reduction at = reduce_far_float(x);
    return hn::IfThenElse(within(d, x, 1e300), by_quarters(d, at.anchored, at.r), no_number(d));
  }
};
struct Asin {
  static constexpr bool everywhere = true;
  static W of(Wide d, W x) { return hn::IfThenElse(within(d, x, 1), odd(d, x, hn::Asin(d, x)), no_number(d)); }
};
struct Acos {
  static constexpr bool everywhere = true;
  static W of(Wide d, W x) { return hn::IfThenElse(within(d, x, 1), hn::Acos(d, x), no_number(d)); }
};
struct Atan {
  static constexpr bool everywhere = true;
  // From 1e10 on it is π/2 for a float.
  template <class X>
  static HWY_INLINE X of(Wide d, const X& x) {
    const auto part = [&](auto member) HWY_ATTR {
      return each([&](W one) HWY_ATTR { return reduced(d, hn::Min(hn::Abs(one), wide(d, 1e10)), wide(d, 1)).*member; },
                  x);
    };
    const X t = quotient(d, part(&Reduced::above), part(&Reduced::below));
    return each([](W one, W value) HWY_ATTR { return hn::CopySign(value, one); }, x, angle(d, t, part(&Reduced::from)));
  }
};
struct Sinh {
  static constexpr bool everywhere = true;
  // By its series up to 1, from where on the difference of exponentials has digits enough; at 100 it is infinite for a
  // float.
  static W of(Wide d, W x) {
    const W a = hn::Min(hn::Abs(x), wide(d, 100)), z = hn::Mul(a, a), e = exp_of(d, a);
    const W small = hn::MulAdd(
        hn::Mul(polynomial(z, wide(d, 1.0 / 6227020800), 1.0 / 39916800, 1.0 / 362880, 1.0 / 5040, 1.0 / 120, 1.0 / 6),
                z),
        a, a);
    const W large = hn::Mul(wide(d, 0.5), hn::Sub(e, inverse(d, e)));
    return hn::CopySign(hn::IfThenElse(hn::Le(a, wide(d, 1)), small, large), x);
  }
};
struct Cosh {
  static constexpr bool everywhere = true;
  static W of(Wide d, W x) {
    const W e = exp_of(d, hn::Min(hn::Abs(x), wide(d, 100)));  // where it is infinite for a float
    return hn::Mul(wide(d, 0.5), hn::Add(e, inverse(d, e)));
  }
};
struct Asinh {
  static constexpr bool everywhere = true;
  static W of(Wide d, W x) {
    return hn::IfThenElse(hn::Eq(hn::Abs(x), wide(d, infinity)), x, odd(d, x, hn::Asinh(d, x)));
  }
};
struct Acosh {
  static constexpr bool everywhere = true;
  static W of(Wide d, W x) {
    const W value = hn::IfThenElse(hn::Eq(x, wide(d, infinity)), x, hn::Acosh(d, hn::Max(x, wide(d, 1))));
    return hn::IfThenElse(hn::Ge(x, wide(d, 1)), value, no_number(d));
  }
};
struct Atanh {
  static constexpr bool everywhere = true;
  // Half the logarithm of (1 + a) / (1 − a) = 2^k·(1 + s) / (1 − s), of which s is a third at most: a itself up to
  // there.
  static W of(Wide d, W x) {
    const hn::RebindToSigned<Wide> bits;
    const M inside = within(d, x, 0.999999999);
    const W a = hn::IfThenElseZero(inside, hn::Abs(x)), one = wide(d, 1), high = hn::Add(one, a);
    const auto low = hn::BitCast(bits, hn::Sub(one, a));
    const auto exponent = hn::ShiftRight<52>(hn::BitCast(hn::RebindToUnsigned<Wide>(), low));
    const W k = hn::Sub(wide(d, 0x1p52 + 1023),
                        hn::BitCast(d, hn::Or(hn::BitCast(bits, exponent), hn::Set(bits, 0x4330000000000000))));
    const W part =
        hn::BitCast(d, hn::Or(hn::And(low, hn::Set(bits, 0x000fffffffffffff)), hn::Set(bits, 0x3ff0000000000000)));
    const M near = hn::Le(a, wide(d, 1.0 / 3));
    const W s = hn::Div(hn::IfThenElse(near, a, hn::Sub(high, part)), hn::IfThenElse(near, one, hn::Add(high, part)));
    const W z = hn::Mul(s, s);
    const W p = polynomial(z, wide(d, 0.10930320931529824), 0.085612572005507009, 0.11152564938752144,
                           0.14284072816049648, 0.20000030712015848, 0.33333333118949277, 1.0000000000024329);
    const W halves = hn::IfThenZeroElse(near, hn::Mul(k, wide(d, 0.34657359027997265)));
    const W end = hn::IfThenElse(hn::Eq(hn::Abs(x), one), wide(d, infinity), no_number(d));
    return hn::CopySign(hn::IfThenElse(inside, hn::MulAdd(s, p, halves), end), x);
  }
};

// (1 + 2a)·e^(a²)·erfc(a) as a polynomial of (a − 3) / (a + 3), which is taken to [-1, 1]; a up to 10.3, where a float
// has nothing left.
struct Erfc {
  static constexpr bool everywhere = true;
  template <class X>
  static HWY_INLINE X of(Wide d, const X& x) {
    constexpr double series[] = {1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1, 1};
    constexpr double coefficients[] = {-2.0984532873e-05, -1.72293576763e-05, 0.000384301231088, -0.000351006392833,
                                       -0.00526336154159, 0.0283429130233,    -0.0773633381835,  0.128950192117,
                                       -0.108248410223,   -0.0680970152982,   1.27933964873};
    const W three = wide(d, 3), one = wide(d, 1);
    const X a = each([&](W all) HWY_ATTR { return hn::Min(hn::Abs(all), wide(d, 10.3)); }, x);
    const X above = add(a, three), twice = add(add(a, a), one);
    const X both = inverse(d, mul(above, twice));
    const X t = mul_add(mul(mul(sub(a, three), twice), both), wide(d, 1.29126213592233), wide(d, 0.2912621359223301));
    const X p = by_halves(d, t, coefficients), square = mul(a, a);
    const X y = mul(mul(exp_by(d, sub(hn::Zero(d), square), series), p), mul(above, both));
    return each([&](W all, W small)
                    HWY_ATTR { return hn::IfThenElse(hn::Lt(all, hn::Zero(d)), hn::Sub(wide(d, 2), small), small); },
                x, y);
  }
};

HWY_INLINE void store(W values, float* out) {
  const Narrow n;
  hn::StoreU(hn::DemoteTo(n, values), n, out);
}

template <class F>
HWY_INLINE W unary_of(W x) {
  const Wide d;
  const M none = hn::IsNaN(x);
  const W y = hn::IfThenElse(none, x, F::of(d, x));
  if constexpr (!requires { F::everywhere; }) {
    const M good = hn::Or(none, F::holds(d, x));
    if (HWY_UNLIKELY(!hn::AllTrue(d, good))) return hn::IfThenElse(good, y, F::rest(d, x));
  }
  return y;
}
template <class F>
HWY_INLINE void unary_at(const float* a, float* out) {
  store(unary_of<F>(hn::PromoteTo(Wide(), hn::LoadU(Narrow(), a))), out);
}

template <class F>
void unary(const TileCall& c) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(Wide()));
  for (int64_t r = 0; r < c.rows; ++r) {
    const float* a = static_cast<const float*>(c.in[0]) + r * c.in_row[0];
    float* out = static_cast<float*>(c.dst) + r * c.dst_row;
    for (int64_t j = 0; j < c.n; j += lanes) unary_at<F>(a + j, out + j);
  }
}

// Of `n` vectors side by side, which hold what `a` has of any size.
template <class F, size_t n>
HWY_INLINE void side_by_side_at(const float* a, float* out) {
  const Wide d;
  const Narrow narrow;
  constexpr auto lanes = static_cast<int64_t>(hn::MaxLanes(Wide()));
  Side<n> x;
  for (size_t i = 0; i < n; ++i) x.v[i] = hn::PromoteTo(d, hn::LoadU(narrow, a + static_cast<int64_t>(i) * lanes));
  if constexpr (!requires { F::everywhere; }) {
    M good = hn::Or(hn::IsNaN(x.v[0]), F::holds(d, x.v[0]));
    for (size_t i = 1; i < n; ++i) good = hn::And(good, hn::Or(hn::IsNaN(x.v[i]), F::holds(d, x.v[i])));
    if (!hn::AllTrue(d, good)) {
      for (size_t i = 0; i < n; ++i)
        unary_at<F>(a + static_cast<int64_t>(i) * lanes, out + static_cast<int64_t>(i) * lanes);
      return;
    }
  }
  const Side<n> y =
      each([](W in, W value) HWY_ATTR { return hn::IfThenElse(hn::IsNaN(in), in, value); }, x, F::of(d, x));
  for (size_t i = 0; i < n; ++i) store(y.v[i], out + static_cast<int64_t>(i) * lanes);
}

template <class F>
void side_by_side(const TileCall& c) {
  constexpr auto lanes = static_cast<int64_t>(hn::MaxLanes(Wide()));
  constexpr size_t vectors = HWY_TARGET == HWY_AVX3 ? 4 : 2;
  constexpr auto step = static_cast<int64_t>(vectors) * lanes;
  for (int64_t r = 0; r < c.rows; ++r) {
    const float* a = static_cast<const float*>(c.in[0]) + r * c.in_row[0];
    float* out = static_cast<float*>(c.dst) + r * c.dst_row;
    int64_t j = 0;
    for (; j + step <= c.n; j += step) side_by_side_at<F, vectors>(a + j, out + j);
    for (; j < c.n; j += 2 * lanes) side_by_side_at<F, 2>(a + j, out + j);
  }
}

struct Pow {
  static W of(Wide d, W x, W y) {
    const W size = exp_of(d, hn::Mul(y, log_of(d, hn::Abs(x)))), half = hn::Mul(y, wide(d, 0.5));
    const M whole = hn::Eq(hn::Floor(y), y), odd_one = hn::Not(hn::Eq(hn::Floor(half), half));
    const W negative = hn::IfThenElse(whole, hn::IfThenElse(odd_one, hn::Neg(size), size), no_number(d));
    return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), negative, size);
  }
  static M holds(Wide d, W x, W y) {
    const W size = hn::Abs(x);
    const M normal = hn::And(hn::Ge(size, wide(d, 1e-30)), hn::Le(size, wide(d, 1e30)));
    return hn::And(normal, within(d, y, 10));  // where doubles hold the result
  }
  // The same of an exponent in [-200, 200], beyond which a float has 0 and infinity, and what C says of all others.
  static W rest(Wide d, W x, W y) {
    const W size = hn::Abs(x), one = wide(d, 1), zero = hn::Zero(d), half = hn::Mul(y, wide(d, 0.5));
    const M none = hn::Eq(size, zero), endless = hn::Eq(size, wide(d, infinity)),
            usual = hn::Not(hn::Or(none, endless));
    const W log = log_of(d, hn::IfThenElse(usual, size, one));
    const W all = hn::IfThenElse(none, wide(d, -infinity), hn::IfThenElse(endless, size, log));
    W power = exp_of(d, hn::Min(wide(d, 200), hn::Max(wide(d, -200), hn::Mul(y, all))));
    power = hn::IfThenElse(hn::Eq(size, one), one, power);
    const M whole = hn::Eq(hn::Floor(y), y), odd_one = hn::And(whole, hn::Not(hn::Eq(hn::Floor(half), half)));
    power = hn::IfThenElse(hn::And(odd_one, hn::Lt(hn::CopySign(one, x), zero)), hn::Neg(power), power);
    const M wrong = hn::And(usual, hn::And(hn::Lt(x, zero), hn::Not(whole)));
    power = hn::IfThenElse(hn::Or(wrong, hn::Or(hn::IsNaN(x), hn::IsNaN(y))), no_number(d), power);
    return hn::IfThenElse(hn::Or(hn::Eq(y, zero), hn::Eq(x, one)), one, power);
  }
};
// x − trunc(x / y)·y, exact: the product has the digits of a float and of a quotient below 2^28. The quotient's
// rounding may take it to the next whole number.
struct Fmod {
  static W of(Wide d, W x, W y) {
    const W divisor = hn::CopySign(hn::Abs(y), x);
    W rest = hn::NegMulAdd(hn::Trunc(hn::Div(x, y)), y, x);
    rest = hn::IfThenElse(hn::Lt(hn::Mul(rest, x), hn::Zero(d)), hn::Add(rest, divisor), rest);
    rest = hn::IfThenElse(hn::Ge(hn::Abs(rest), hn::Abs(y)), hn::Sub(rest, divisor), rest);
    return hn::CopySign(rest, x);
  }
  static M holds(Wide d, W x, W y) {
    const M few = hn::Lt(hn::Abs(x), hn::Mul(hn::Abs(y), wide(d, 0x1p28)));
    return hn::And(few, hn::Lt(hn::Abs(y), wide(d, infinity)));
  }
  static W rest(Wide, W x, W y) { return long_rest(x, y); }
};
struct Atan2 {
  static W of(Wide d, W y, W x) {
    const W pi = wide(d, 3.14159265358979323846);
    const Reduced r = reduced(d, hn::Abs(y), hn::Abs(x));
    const W acute = angle(d, hn::Div(r.above, r.below), r.from);
    return hn::CopySign(hn::IfThenElse(hn::Lt(hn::CopySign(wide(d, 1), x), hn::Zero(d)), hn::Sub(pi, acute), acute), y);
  }
  static M holds(Wide d, W y, W x) {
    const W both = hn::Add(hn::Abs(y), hn::Abs(x));
    return hn::And(hn::Gt(both, hn::Zero(d)), hn::Lt(both, wide(d, infinity)));
  }
  // Of two that are infinite as of any two that are equal, of zeros as of 0 and 1.
  static W rest(Wide d, W y, W x) {
    const W one = wide(d, 1), a = hn::Abs(y), b = hn::Abs(x), endless = wide(d, infinity);
    const W up = hn::IfThenElseZero(hn::Eq(a, endless), one);
    const W along =
        hn::IfThenElse(hn::Eq(hn::Max(a, b), hn::Zero(d)), one, hn::IfThenElseZero(hn::Eq(b, endless), one));
    const W value = of(d, hn::CopySign(up, y), hn::CopySign(along, x));
    return hn::IfThenElse(hn::Or(hn::IsNaN(x), hn::IsNaN(y)), no_number(d), value);
  }
};

template <class F, unsigned scalars>
HWY_INLINE void binary_at(const float* a, const float* b, float fixed_a, float fixed_b, float* out, int64_t j) {
  const Wide d;
  const Narrow n;
  const W x = scalars & 1 ? wide(d, fixed_a) : hn::PromoteTo(d, hn::LoadU(n, a + j)),
          y = scalars & 2 ? wide(d, fixed_b) : hn::PromoteTo(d, hn::LoadU(n, b + j));
  const W z = F::of(d, x, y);
  const M good = F::holds(d, x, y);
  store(HWY_LIKELY(hn::AllTrue(d, good)) ? z : hn::IfThenElse(good, z, F::rest(d, x, y)), out + j);
}

template <class F, unsigned scalars>
void binary(const TileCall& c) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(Wide()));
  const int64_t n = c.n;
  for (int64_t r = 0; r < c.rows; ++r) {
    const float* a = static_cast<const float*>(c.in[0]) + r * c.in_row[0];
    const float* b = static_cast<const float*>(c.in[1]) + r * c.in_row[1];
    float* out = static_cast<float*>(c.dst) + r * c.dst_row;
    const float fixed_a = *a, fixed_b = *b;
    for (int64_t j = 0; j < n; j += lanes) binary_at<F, scalars>(a, b, fixed_a, fixed_b, out, j);
  }
}

template <class F>
TileFn by_scalars(unsigned scalars) {
  constexpr TileFn fns[] = {binary<F, 0>, binary<F, 1>, binary<F, 2>, binary<F, 3>};
  return fns[scalars];
}

TileFn find_rare(ExprOp op, unsigned scalars) {
  switch (op) {
    case ExprOp::tan:
      return side_by_side<Tan>;
    case ExprOp::atan:
      return side_by_side<Atan>;
    case ExprOp::erfc:
      return side_by_side<Erfc>;
    case ExprOp::asin:
      return unary<Asin>;
    case ExprOp::acos:
      return unary<Acos>;
    case ExprOp::sinh:
      return unary<Sinh>;
    case ExprOp::cosh:
      return unary<Cosh>;
    case ExprOp::asinh:
      return unary<Asinh>;
    case ExprOp::acosh:
      return unary<Acosh>;
    case ExprOp::atanh:
      return unary<Atanh>;
    case ExprOp::pow:
      return by_scalars<Pow>(scalars);
    case ExprOp::fmod:
      return by_scalars<Fmod>(scalars);
    case ExprOp::atan2:
      return by_scalars<Atan2>(scalars);
    default:
      return nullptr;
  }
}

}  // namespace
}  // namespace npusim::cpu::loops::tiles::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npusim::cpu::loops::tiles {
HWY_EXPORT(find_rare);

TileFn rare_fn(ExprOp op, unsigned scalars) { return HWY_DYNAMIC_DISPATCH(find_rare)(op, scalars); }

}  // namespace npusim::cpu::loops::tiles
#endif
