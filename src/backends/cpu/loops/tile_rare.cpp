// Tile functions of rare mathematics on float lanes: vectors of double, whose few ulp a float does not see, and the C
// library for lanes that those do not hold for: infinite ones, zeros and poles. Lane by lane, so that what stands
// beside an element does not change its bits.
#include "backends/cpu/loops/tile.h"
#include "backends/cpu/vector_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/loops/tile_rare.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cmath>
#include <cstring>
#include <limits>

// Once per instruction set, and so behind the above.
// clang-format off
#include <hwy/contrib/math/math-inl.h>
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace npusim::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using Wide = hn::ScalableTag<double>;
using W = hn::Vec<Wide>;
using M = hn::Mask<Wide>;
using Narrow = hn::Rebind<float, Wide>;

HWY_INLINE W wide(Wide d, double x) { return hn::Set(d, x); }
HWY_INLINE W no_number(Wide d) { return wide(d, std::numeric_limits<double>::quiet_NaN()); }
HWY_INLINE M within(Wide d, W x, double limit) { return hn::Le(hn::Abs(x), wide(d, limit)); }
// An odd function's value, whose zero has the argument's sign.
HWY_INLINE W odd(Wide d, W x, W value) { return hn::IfThenElse(hn::Eq(x, hn::Zero(d)), x, value); }

constexpr double largest_float = 3.5e38;

// Horner's rule, highest coefficient first.
HWY_INLINE W polynomial(W, W sum) { return sum; }
template <typename... Rest>
HWY_INLINE W polynomial(W x, W sum, double next, Rest... rest) {
  return polynomial(x, hn::MulAdd(sum, x, wide(Wide(), next)), rest...);
}

// The same as two of its square, which do not wait for each other.
template <size_t n>
HWY_INLINE W by_halves(Wide d, W x, const double (&coefficients)[n]) {
  const W square = hn::Mul(x, x);
  W first = wide(d, coefficients[0]), second = wide(d, coefficients[1]);
  for (size_t i = 2; i < n; i += 2) first = hn::MulAdd(first, square, wide(d, coefficients[i]));
  for (size_t i = 3; i < n; i += 2) second = hn::MulAdd(second, square, wide(d, coefficients[i]));
  return n % 2 ? hn::MulAdd(second, x, first) : hn::MulAdd(first, x, second);
}

// 1 / x to 1e-13 of what floats hold, too: where vectors are long a division of floats and a step of Newton's take a
// third of a division of doubles.
HWY_INLINE W inverse(Wide d, W x) {
#if HWY_TARGET == HWY_AVX3
  const Narrow n;
  const W near = hn::PromoteTo(d, hn::Div(hn::Set(n, 1.0f), hn::DemoteTo(n, x)));
  return hn::MulAdd(near, hn::NegMulAdd(x, near, wide(d, 1)), near);
#else
  return hn::Div(wide(d, 1), x);
#endif
}
HWY_INLINE W quotient(Wide d, W x, W y) {
#if HWY_TARGET == HWY_AVX3
  return hn::Mul(x, inverse(d, y));
#else
  (void)d;
  return hn::Div(x, y);
#endif
}
struct ByDivision {
  static HWY_INLINE W of(Wide, W x, W y) { return hn::Div(x, y); }
};
struct ByInverse {
  static HWY_INLINE W of(Wide d, W x, W y) { return quotient(d, x, y); }
};

// The angle in [0, π/2] whose tangent is y / x, both not negative and not both 0: of a quotient up to tan(π/8), by one
// division; exact to 1e-12.
template <class Quotient>
HWY_INLINE W quarter_angle(Wide d, W y, W x) {
  constexpr double pi = 3.14159265358979323846;
  const W bound = wide(d, 0.41421356237309503);
  const M shallow = hn::Le(y, hn::Mul(x, bound)), steep = hn::Gt(hn::Mul(y, bound), x);
  const W above = hn::IfThenElse(shallow, y, hn::IfThenElse(steep, hn::Neg(x), hn::Sub(y, x)));
  const W below = hn::IfThenElse(shallow, x, hn::IfThenElse(steep, y, hn::Add(y, x)));
  const W from = hn::IfThenElse(shallow, hn::Zero(d), hn::IfThenElse(steep, wide(d, pi / 2), wide(d, pi / 4)));
  const W t = Quotient::of(d, above, below), z = hn::Mul(t, t);
  const W p =
      polynomial(z, wide(d, -0.037654940059827287), 0.069741884001175244, -0.089925508891739475, 0.11103456695540477,
                 -0.14285386542484876, 0.19999993053286369, -0.33333333276920302, 0.9999999999992446);
  return hn::MulAdd(t, p, from);
}

// Of numbers in [-700, 700], to 2e-10 where the series ends with the eighth power.
template <size_t n>
HWY_INLINE W exp_by(Wide d, W x, const double (&coefficients)[n]) {
  const hn::RebindToSigned<Wide> bits;
  const W anchor = wide(d, 0x1.8p52);  // of a number beside it the low bits are the whole part
  const W anchored = hn::MulAdd(x, wide(d, 1.4426950408889634), anchor);
  const W r = hn::NegMulAdd(hn::Sub(anchored, anchor), wide(d, 0.6931471805599453), x);
  const W p = by_halves(d, r, coefficients);
  return hn::BitCast(d, hn::Add(hn::BitCast(bits, p), hn::ShiftLeft<52>(hn::BitCast(bits, anchored))));
}
HWY_INLINE W exp_of(Wide d, W x) {
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

// Each: the vector's function, where it holds, which a NaN's need not say, and the C library's; or the first alone.
struct Tan {
  // Of the rest by π/2 both sine and cosine, of which an odd number of quarters changes the places.
  static W of(Wide d, W x) {
    const hn::RebindToSigned<Wide> bits;
    const W anchor = wide(d, 0x1.8p52);  // of a number beside it the low bits are the whole part
    const W anchored = hn::MulAdd(x, wide(d, 0.63661977236758134), anchor), n = hn::Sub(anchored, anchor);
    W r = hn::NegMulAdd(n, wide(d, 1.57079632673412561417), x);
    r = hn::NegMulAdd(n, wide(d, 6.07710050650619224932e-11), r);
    const W z = hn::Mul(r, r);
    const W s = polynomial(z, wide(d, 2.7557313707070068e-06), -1.9841269829857949e-04, 8.3333333333224895e-03,
                           -1.6666666666666632e-01);
    const W c = polynomial(z, wide(d, -2.7557314351390663e-07), 2.4801587289476729e-05, -1.3888888888874109e-03,
                           4.1666666666666602e-02, -0.5, 1.0);
    const W sine = hn::MulAdd(hn::Mul(s, z), r, r);
    const auto odd_one = hn::Ne(hn::And(hn::BitCast(bits, anchored), hn::Set(bits, 1)), hn::Zero(bits));
    const M turned = hn::RebindMask(d, odd_one);
    const W above = hn::IfThenElse(turned, hn::Neg(c), sine), below = hn::IfThenElse(turned, sine, c);
    return odd(d, x, quotient(d, above, below));
  }
  static M holds(Wide d, W x) { return within(d, x, 30000); }
  static float scalar(float x) { return tanf(x); }
};
struct Asin {
  static W of(Wide d, W x) { return hn::IfThenElse(within(d, x, 1), odd(d, x, hn::Asin(d, x)), no_number(d)); }
  static M holds(Wide d, W x) { return within(d, x, largest_float); }
  static float scalar(float x) { return asinf(x); }
};
struct Acos {
  static W of(Wide d, W x) { return hn::IfThenElse(within(d, x, 1), hn::Acos(d, x), no_number(d)); }
  static M holds(Wide d, W x) { return within(d, x, largest_float); }
  static float scalar(float x) { return acosf(x); }
};
struct Atan {
  static constexpr bool everywhere = true;
  // From 1e10 on it is π/2 for a float.
  static W of(Wide d, W x) {
    return hn::CopySign(quarter_angle<ByInverse>(d, hn::Min(hn::Abs(x), wide(d, 1e10)), wide(d, 1)), x);
  }
};
struct Sinh {
  // By its series up to 1, from where on the difference of exponentials has digits enough.
  static W of(Wide d, W x) {
    const W a = hn::Abs(x), z = hn::Mul(x, x), e = exp_of(d, a);
    const W small = hn::MulAdd(
        hn::Mul(polynomial(z, wide(d, 1.0 / 6227020800), 1.0 / 39916800, 1.0 / 362880, 1.0 / 5040, 1.0 / 120, 1.0 / 6),
                z),
        a, a);
    const W large = hn::Mul(wide(d, 0.5), hn::Sub(e, inverse(d, e)));
    return hn::CopySign(hn::IfThenElse(hn::Le(a, wide(d, 1)), small, large), x);
  }
  static M holds(Wide d, W x) { return within(d, x, 100); }
  static float scalar(float x) { return sinhf(x); }
};
struct Cosh {
  static W of(Wide d, W x) {
    const W e = exp_of(d, hn::Abs(x));  // whose inverse a float has none of where it is infinite for one
    return hn::Mul(wide(d, 0.5), hn::Add(e, inverse(d, e)));
  }
  static M holds(Wide d, W x) { return within(d, x, 100); }
  static float scalar(float x) { return coshf(x); }
};
struct Asinh {
  static W of(Wide d, W x) { return odd(d, x, hn::Asinh(d, x)); }
  static M holds(Wide d, W x) { return within(d, x, largest_float); }
  static float scalar(float x) { return asinhf(x); }
};
struct Acosh {
  static W of(Wide d, W x) {
    return hn::IfThenElse(hn::Ge(x, wide(d, 1)), hn::Acosh(d, hn::Max(x, wide(d, 1))), no_number(d));
  }
  static M holds(Wide d, W x) { return within(d, x, largest_float); }
  static float scalar(float x) { return acoshf(x); }
};
struct Atanh {
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
    return hn::IfThenElse(inside, hn::CopySign(hn::MulAdd(s, p, halves), x), no_number(d));
  }
  static M holds(Wide d, W x) { return hn::And(within(d, x, largest_float), hn::Not(hn::Eq(hn::Abs(x), wide(d, 1)))); }
  static float scalar(float x) { return atanhf(x); }
};

// (1 + 2a)·e^(a²)·erfc(a) as a polynomial of (a − 3) / (a + 3), which is taken to [-1, 1]; a up to 10.3, where a float
// has nothing left.
struct Erfc {
  static constexpr bool everywhere = true;
  static W of(Wide d, W x) {
    constexpr double series[] = {1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1, 1};
    constexpr double coefficients[] = {-2.0984532873e-05, -1.72293576763e-05, 0.000384301231088, -0.000351006392833,
                                       -0.00526336154159, 0.0283429130233,    -0.0773633381835,  0.128950192117,
                                       -0.108248410223,   -0.0680970152982,   1.27933964873};
    const W a = hn::Min(hn::Abs(x), wide(d, 10.3)), three = wide(d, 3), one = wide(d, 1);
    const W above = hn::Add(a, three), twice = hn::Add(hn::Add(a, a), one);
    const W both = inverse(d, hn::Mul(above, twice));
    const W t = hn::MulAdd(hn::Mul(hn::Mul(hn::Sub(a, three), twice), both), wide(d, 1.29126213592233),
                           wide(d, 0.2912621359223301));
    const W p = by_halves(d, t, coefficients);
    const W y = hn::Mul(hn::Mul(exp_by(d, hn::Neg(hn::Mul(a, a)), series), p), hn::Mul(above, both));
    return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Sub(wide(d, 2), y), y);
  }
};

// Lanes [0, lanes) of `values`, but those outside of `good`, in which neither operand is NaN, as `scalar` has them.
template <class Scalar>
HWY_INLINE void store(W values, M good, float* out, Scalar&& scalar) {
  const Wide d;
  const Narrow n;
  if (hn::AllTrue(d, good)) return hn::StoreU(hn::DemoteTo(n, values), n, out);
  constexpr size_t most = HWY_MAX_BYTES / sizeof(double);
  HWY_ALIGN float numbers[most];
  HWY_ALIGN double marks[most];
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::StoreU(hn::DemoteTo(n, values), n, numbers);
  hn::StoreU(hn::IfThenElseZero(good, wide(d, 1)), d, marks);
  for (int64_t i = 0; i < lanes; ++i)
    if (marks[i] == 0) numbers[i] = scalar(i);
  std::memcpy(out, numbers, static_cast<size_t>(lanes) * sizeof(float));  // in the operands' place, it may be
}

template <class F>
void unary(const TileCall& c) {
  const Wide d;
  const Narrow n;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t r = 0; r < c.rows; ++r) {
    const float* a = static_cast<const float*>(c.in[0]) + r * c.in_row[0];
    float* out = static_cast<float*>(c.dst) + r * c.dst_row;
    for (int64_t j = 0; j < c.n; j += lanes) {
      const W x = hn::PromoteTo(d, hn::LoadU(n, a + j));
      const M none = hn::IsNaN(x);
      if constexpr (requires { F::everywhere; })
        hn::StoreU(hn::DemoteTo(n, hn::IfThenElse(none, x, F::of(d, x))), n, out + j);
      else
        store(hn::IfThenElse(none, x, F::of(d, x)), hn::Or(none, F::holds(d, x)), out + j,
              [&](int64_t i) { return F::scalar(a[j + i]); });
    }
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
  static float scalar(float x, float y) { return powf(x, y); }
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
    const M finite = hn::And(within(d, x, largest_float), within(d, y, largest_float));
    return hn::And(finite, hn::Lt(hn::Abs(x), hn::Mul(hn::Abs(y), wide(d, 0x1p28))));
  }
  static float scalar(float x, float y) { return fmodf(x, y); }
};
struct Atan2 {
  static W of(Wide d, W y, W x) {
    const W pi = wide(d, 3.14159265358979323846);
    W angle = quarter_angle<ByDivision>(d, hn::Abs(y), hn::Abs(x));
    angle = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Sub(pi, angle), angle);
    return hn::CopySign(angle, y);
  }
  static M holds(Wide d, W y, W x) {
    const M some = hn::Gt(hn::Add(hn::Abs(y), hn::Abs(x)), hn::Zero(d));
    return hn::And(some, hn::And(within(d, y, largest_float), within(d, x, largest_float)));
  }
  static float scalar(float y, float x) { return atan2f(y, x); }
};

template <class F, unsigned scalars>
HWY_INLINE void binary_at(const float* a, const float* b, float fixed_a, float fixed_b, float* out, int64_t j) {
  const Wide d;
  const Narrow n;
  const W x = scalars & 1 ? wide(d, fixed_a) : hn::PromoteTo(d, hn::LoadU(n, a + j)),
          y = scalars & 2 ? wide(d, fixed_b) : hn::PromoteTo(d, hn::LoadU(n, b + j));
  store(F::of(d, x, y), F::holds(d, x, y), out + j,
        [&](int64_t i) { return F::scalar(scalars & 1 ? fixed_a : a[j + i], scalars & 2 ? fixed_b : b[j + i]); });
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

// Remainders of quotients up to 2^22 are exact in floats where products are not rounded, as those in doubles are: the
// rest is a multiple of the lesser one's last place. The quotient's rounding may take it up to the next whole number.
template <unsigned scalars>
void remainders(const TileCall& c) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d)), half = static_cast<int64_t>(hn::Lanes(Wide()));
  const int64_t n = c.n;
  for (int64_t r = 0; r < c.rows; ++r) {
    const float* a = static_cast<const float*>(c.in[0]) + r * c.in_row[0];
    const float* b = static_cast<const float*>(c.in[1]) + r * c.in_row[1];
    float* out = static_cast<float*>(c.dst) + r * c.dst_row;
    const float fixed_a = *a, fixed_b = *b;
    for (int64_t j = 0; j < n; j += lanes) {
      const auto x = scalars & 1 ? hn::Set(d, fixed_a) : hn::LoadU(d, a + j);
      const auto y = scalars & 2 ? hn::Set(d, fixed_b) : hn::LoadU(d, b + j);
      const auto quotient = hn::Trunc(hn::Div(x, y));
      const auto fits = hn::And(hn::Le(hn::Abs(quotient), hn::Set(d, 0x1p22f)),
                                hn::Lt(hn::Abs(y), hn::Set(d, std::numeric_limits<float>::infinity())));
      if (!hn::AllTrue(d, fits)) {
        for (int64_t k = j; k < j + lanes; k += half) binary_at<Fmod, scalars>(a, b, fixed_a, fixed_b, out, k);
        continue;
      }
      const auto rest = hn::NegMulAdd(quotient, y, x);
      const auto beyond = hn::Lt(hn::Mul(hn::CopySign(hn::Set(d, 1), x), rest), hn::Zero(d));
      const auto least = hn::IfThenElse(beyond, hn::Add(rest, hn::CopySign(y, x)), rest);
      hn::StoreU(hn::CopySign(least, x), d, out + j);
    }
  }
}
TileFn find_remainders(unsigned scalars) {
  constexpr TileFn fns[] = {remainders<0>, remainders<1>, remainders<2>, remainders<3>};
  return fns[scalars];
}

template <class F>
TileFn by_scalars(unsigned scalars) {
  constexpr TileFn fns[] = {binary<F, 0>, binary<F, 1>, binary<F, 2>, binary<F, 3>};
  return fns[scalars];
}

TileFn find_rare(ExprOp op, unsigned scalars) {
  switch (op) {
    case ExprOp::tan:
      return unary<Tan>;
    case ExprOp::asin:
      return unary<Asin>;
    case ExprOp::acos:
      return unary<Acos>;
    case ExprOp::atan:
      return unary<Atan>;
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
    case ExprOp::erfc:
      return unary<Erfc>;
    case ExprOp::pow:
      return by_scalars<Pow>(scalars);
    case ExprOp::fmod:
      return HWY_NATIVE_FMA ? find_remainders(scalars) : by_scalars<Fmod>(scalars);
    case ExprOp::atan2:
      return by_scalars<Atan2>(scalars);
    default:
      return nullptr;
  }
}

}  // namespace
}  // namespace npusim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npusim::cpu {
HWY_EXPORT(find_rare);

TileFn rare_fn(ExprOp op, unsigned scalars) { return HWY_DYNAMIC_DISPATCH(find_rare)(op, scalars); }

}  // namespace npusim::cpu
#endif
