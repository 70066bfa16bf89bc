// Elementary functions on vectors of float, a few ulp each, with IEEE special values.
// Included once per instruction set (Highway), inside no namespace.
#if defined(NPUSIM_CPU_VECTOR_MATH_H) == defined(HWY_TARGET_TOGGLE)
#ifdef NPUSIM_CPU_VECTOR_MATH_H
#undef NPUSIM_CPU_VECTOR_MATH_H
#else
#define NPUSIM_CPU_VECTOR_MATH_H
#endif

#include <hwy/highway.h>

#include <cmath>
#include <limits>

#include "backends/cpu/vector_pieces.h"

HWY_BEFORE_NAMESPACE();
namespace npusim::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D>
using IntOf = hn::RebindToSigned<D>;

// Horner's rule, highest coefficient first.
template <class D, class V>
HWY_INLINE V polynomial(D, V, V sum) {
  return sum;
}
template <class D, class V, typename... Rest>
HWY_INLINE V polynomial(D d, V x, V sum, float next, Rest... rest) {
  return polynomial(d, x, hn::MulAdd(sum, x, hn::Set(d, next)), rest...);
}

// 1 / x of normal numbers whose inverse is one, to 2^-14 at least.
template <class D, class V>
HWY_INLINE V near_inverse(D d, V x) {
#if HWY_TARGET == HWY_AVX3
  (void)d;
  return V{_mm512_rcp14_ps(x.raw)};
#else
  return hn::Div(hn::Set(d, 1.0f), x);
#endif
}

// x / y of one y, as a division rounds it. Where vectors are long products take less: of a quotient within a unit of
// its last place, its rest, which is exact, and the inverse that is nearest, the sum is nearest, too (Markstein). What
// may end below normal numbers, infinity and NaN are divided.
template <class D>
struct Divisor {
  using V = hn::Vec<D>;
  V y, nearest;
  bool usual;
  HWY_INLINE Divisor(D d, float by)
      : y(hn::Set(d, by)), nearest(hn::Div(hn::Set(d, 1.0f), y)), usual(by >= 1 && by <= 0x1p20f) {}
  HWY_INLINE V under(D d, V x) const {
#if HWY_TARGET == HWY_AVX3
    const V size = hn::Abs(x);
    const auto fits =
        hn::And(hn::Ge(size, hn::Set(d, 0x1p-80f)), hn::Le(size, hn::Set(d, std::numeric_limits<float>::max())));
    if (HWY_LIKELY(usual && hn::AllTrue(d, hn::Or(fits, hn::Eq(x, hn::Zero(d)))))) {
      const V first = hn::Mul(x, nearest);
      const V second = hn::MulAdd(hn::NegMulAdd(first, y, x), nearest, first);
      return hn::CopySign(hn::MulAdd(hn::NegMulAdd(second, y, x), nearest, second), x);  // of −0 the sum is 0
    }
#else
    (void)d;
#endif
    return hn::Div(x, y);
  }
};

// 2^n for integers n in [-126, 127].
template <class D, class VI>
HWY_INLINE hn::Vec<D> power_of_two(D d, VI n) {
  const IntOf<D> di;
  return hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(n, hn::Set(di, 127))));
}

// p · 2^n of normal numbers, for integral n in [-126, 127].
template <class D, class V>
HWY_INLINE V scale_by_one(D d, V p, V n) {
#if HWY_TARGET == HWY_AVX3
  (void)d;
  return V{_mm512_scalef_ps(p.raw, n.raw)};
#else
  return hn::Mul(p, power_of_two(d, hn::ConvertTo(IntOf<D>(), n)));
#endif
}

// p · 2^n of a normal number that stays one, or infinity: integral n in [-125, 129].
template <class D, class V>
HWY_INLINE V scale_normal(D d, V p, V n) {
#if HWY_TARGET == HWY_AVX3
  (void)d;
  return V{_mm512_scalef_ps(p.raw, n.raw)};
#else
  const IntOf<D> di;
  const auto whole = hn::ConvertTo(di, n);
  const auto half = hn::ShiftRight<1>(whole);
  return hn::Mul(hn::Mul(p, power_of_two(d, half)), power_of_two(d, hn::Sub(whole, half)));
#endif
}

// p · 2^n for p in [1/2, 2], or also in [1, 16] where n >= -125, and integral n in [-151, 129] or NaN. A processor
// takes a hundred cycles for a result below normal numbers; those are the bits of the nearest integer to p · 2^(n +
// 149).
template <class D, class V>
HWY_INLINE V scale(D d, V p, V n) {
  const auto low = hn::Lt(n, hn::Set(d, -125.0f));
  if (HWY_LIKELY(hn::AllFalse(d, low))) return scale_normal(d, p, n);
  const auto bits = hn::NearestInt(scale_normal(d, p, hn::IfThenElseZero(low, hn::Add(n, hn::Set(d, 149.0f)))));
  return hn::IfThenElse(low, hn::BitCast(d, bits), scale_normal(d, p, hn::IfThenZeroElse(low, n)));
}

// e^r − 1 for |r| <= ln 2 / 2.
template <class D, class V>
HWY_INLINE V expm1_polynomial(D d, V r) {
  const V p = polynomial(d, r, hn::Set(d, 1.9875691500e-4f), 1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f,
                         1.6666665459e-1f, 5.0000001201e-1f);
  return hn::MulAdd(hn::Mul(p, r), r, r);
}
// e^r, for the same.
template <class D, class V>
HWY_INLINE V exp_polynomial(D d, V r) {
  return polynomial(d, r, hn::Set(d, 1.3814538e-3f), 8.368745e-3f, 4.166839e-2f, 1.6666521e-1f, 4.9999994e-1f, 1.0f,
                    1.0f);
}

#if HWY_TARGET == HWY_AVX3
// start + r · slope of the polynomial of x whose piece the low five bits of `key` name, in each lane; r is what `rest`
// makes of the piece's centre: x less it.
template <class V>
struct Piece {
  V r, start, slope;
};
template <class D, class VI, size_t rows, class Rest, class V = hn::Vec<D>>
HWY_INLINE Piece<V> piece_by(D d, const float (&table)[rows][32], VI key, const Rest& rest) {
  const auto named = [&](size_t row) HWY_ATTR {
    return V{_mm512_permutex2var_ps(hn::Load(d, table[row]).raw, key.raw, hn::Load(d, table[row] + 16).raw)};
  };
  const V r = rest(named(0));
  V slope = named(rows - 1);
  for (size_t row = rows - 2; row > 1; --row) slope = hn::MulAdd(slope, r, named(row));
  return {r, named(1), slope};
}
template <class D, class V, class VI, size_t rows>
HWY_INLINE Piece<V> piece_of(D d, const float (&table)[rows][32], VI key, V x) {
  return piece_by(d, table, key, [&](V centre) HWY_ATTR { return hn::Sub(x, centre); });
}
template <class D, class V, class VI, size_t rows>
HWY_INLINE V by_pieces(D d, const float (&table)[rows][32], VI key, V x) {
  const Piece<V> piece = piece_of(d, table, key, x);
  return hn::MulAdd(piece.slope, piece.r, piece.start);
}
// The key of tables by eighths of powers of two, of x · times + 1/2 from 1/2 to 8.
template <class D, class V>
HWY_INLINE hn::Vec<IntOf<D>> key_of_eighths(D d, V x, float times) {
  return hn::ShiftRight<20>(hn::BitCast(IntOf<D>(), hn::MulAdd(x, hn::Set(d, times), hn::Set(d, 0.5f))));
}
#endif

// Where both are ordered, the lesser and the greater; x where x is NaN (minps gives its second operand then).
template <class D, class V>
HWY_INLINE V clamp_keeping_nan(D d, V x, float low, float high) {
  return hn::Min(hn::Set(d, high), hn::Max(hn::Set(d, low), x));
}

// x − n · ln 2 of such n that the rest is ln 2 / 2 at most.
template <class D, class V>
HWY_INLINE V rest_by_ln2(D d, V x, V n) {
  const V r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), x);
  return hn::MulAdd(n, hn::Set(d, 2.12194440e-4f), r);
}

// Products with numbers below normal ones take a processor a hundred cycles. So this is added where they would be
// nothing in the end, to a number or to a square: without a cost, and without an effect on greater ones.
inline constexpr float next_to_nothing = 0x1p-40f;

// Next to this number the low bits are the whole part.
inline constexpr float whole_anchor_of_floats = 0x1.8p23f;

// e^x = part · 2^power for x in [-104, 89] or NaN.
template <class V>
struct PartedExp {
  V part, power;
};
template <class D, class V>
HWY_INLINE PartedExp<V> parted_exp(D d, V x) {
  const V anchor = hn::Set(d, whole_anchor_of_floats),
          n = hn::Sub(hn::MulAdd(x, hn::Set(d, 1.44269504f), anchor), anchor);
  return {exp_polynomial(d, rest_by_ln2(d, x, n)), n};
}
// e^x for the same.
template <class D, class V>
HWY_INLINE V exp_in_range(D d, V x) {
  const PartedExp<V> e = parted_exp(d, x);
  return scale(d, e.part, e.power);
}

// e^x = power · (1 + part), of a power of two that is a normal number, for x in [-86, 88]; of NaN the part is NaN.
template <class V>
struct SplitPower {
  V power, part;
};
template <class D, class V>
HWY_INLINE SplitPower<V> split_power(D d, V x) {
  const IntOf<D> di;
  const V anchor = hn::Set(d, 0x1.8p23f);  // of a number next to it the low bits are the whole part
  const V anchored = hn::MulAdd(x, hn::Set(d, 1.44269504f), anchor), n = hn::Sub(anchored, anchor);
  const auto power = hn::ShiftLeft<23>(hn::Add(hn::BitCast(di, anchored), hn::Set(di, 127)));
  return {hn::BitCast(d, power), expm1_polynomial(d, rest_by_ln2(d, x, n))};
}

// e^x for the same.
template <class D, class V>
HWY_INLINE V exp_of_normal(D d, V x) {
#if HWY_TARGET == HWY_AVX3
  const PartedExp<V> e = parted_exp(d, x);
  return scale_by_one(d, e.part, e.power);
#else
  const SplitPower<V> e = split_power(d, x);
  return hn::Mul(hn::Add(e.part, hn::Set(d, 1.0f)), e.power);
#endif
}

// The bits of a lane are the same whatever the others are.
template <class D, class V>
HWY_INLINE V vector_exp(D d, V x) {
  const V off = hn::Add(x, hn::Set(d, next_to_nothing));
  if (HWY_UNLIKELY(!hn::AllTrue(d, hn::Le(hn::Abs(off), hn::Set(d, 86.0f)))))
    return exp_in_range(d, clamp_keeping_nan(d, off, -104.0f, 89.0f));
  const PartedExp<V> e = parted_exp(d, off);
  return scale_by_one(d, e.part, e.power);
}

template <class D, class V>
HWY_INLINE V vector_exp2(D d, V x) {
  const V c = hn::Add(clamp_keeping_nan(d, x, -151.0f, 129.0f), hn::Set(d, next_to_nothing));
  const V anchor = hn::Set(d, whole_anchor_of_floats), n = hn::Sub(hn::Add(c, anchor), anchor);
  return scale(d, exp_polynomial(d, hn::Mul(hn::Sub(c, n), hn::Set(d, 0.69314718056f))), n);
}

// x = m · 2^e with m in [sqrt(1/2), sqrt(2)), for positive finite x; gives m − 1.
template <class D, class V>
HWY_INLINE V split_exponent(D d, V x, V& exponent) {
#if HWY_TARGET == HWY_AVX3
  const V one = hn::Set(d, 1.0f), e{_mm512_getexp_ps(x.raw)};
  const V m{_mm512_getmant_ps(x.raw, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_src)};
  const auto upper = hn::Ge(m, hn::Set(d, 1.41421354f));
  exponent = V{_mm512_mask_add_ps(e.raw, upper.raw, e.raw, one.raw)};
  return hn::Sub(V{_mm512_mask_mul_ps(m.raw, upper.raw, m.raw, hn::Set(d, 0.5f).raw)}, one);
#else
  const IntOf<D> di;
  const auto small = hn::Lt(x, hn::Set(d, 1.17549435e-38f));
  const V scaled = hn::IfThenElse(small, hn::Mul(x, hn::Set(d, 33554432.0f)), x);
  const auto bits = hn::BitCast(di, scaled);
  const auto e = hn::ShiftRight<23>(hn::Sub(bits, hn::Set(di, 0x3f3504f3)));
  exponent = hn::Sub(hn::ConvertTo(d, e), hn::IfThenElseZero(small, hn::Set(d, 25.0f)));
  return hn::Sub(hn::BitCast(d, hn::Sub(bits, hn::ShiftLeft<23>(e))), hn::Set(d, 1.0f));
#endif
}

// log(1 + f) − f for f of split_exponent().
template <class D, class V>
HWY_INLINE V log_tail(D d, V f) {
  const V z = hn::Mul(f, f);
  const V p = polynomial(d, f, hn::Set(d, 7.0376836292e-2f), -1.1514610310e-1f, 1.1676998740e-1f, -1.2420140846e-1f,
                         1.4249322787e-1f, -1.6668057665e-1f, 2.0000714765e-1f, -2.4999993993e-1f, 3.3333331174e-1f);
  return hn::NegMulAdd(hn::Set(d, 0.5f), z, hn::Mul(hn::Mul(p, f), z));
}

// NaN and +inf stay, 0 gives −inf, negatives NaN.
template <class D, class V>
HWY_INLINE V log_special(D d, V x, V y) {
#if HWY_TARGET == HWY_AVX3
  const hn::RebindToUnsigned<D> du;
  // A digit for each kind of x, from the right NaN of two kinds, 0, 1, −inf, +inf, negative and positive numbers: 0 is
  // y, 2 x, 3 NaN, 4 −inf, 5 +inf.
  return V{_mm512_fixupimm_ps(y.raw, x.raw, hn::Set(du, 0x03530422u).raw, 0)};
#else
  const V inf = hn::Set(d, std::numeric_limits<float>::infinity());
  y = hn::IfThenElse(hn::Lt(x, inf), y, x);
  y = hn::IfThenElse(hn::Eq(x, hn::Zero(d)), hn::Neg(inf), y);
  return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Set(d, std::numeric_limits<float>::quiet_NaN()), y);
#endif
}

template <class D, class V>
HWY_INLINE V vector_log(D d, V x) {
  V e;
  const V f = split_exponent(d, x, e);
  const V tail = hn::MulAdd(e, hn::Set(d, -2.12194440e-4f), log_tail(d, f));
  return log_special(d, x, hn::MulAdd(e, hn::Set(d, 0.693359375f), hn::Add(f, tail)));
}

template <class D, class V>
HWY_INLINE V vector_log2(D d, V x) {
  V e;
  const V f = split_exponent(d, x, e);
  const V t = log_tail(d, f);
  V y = hn::Mul(t, hn::Set(d, 0.44269504089f));
  y = hn::MulAdd(f, hn::Set(d, 0.44269504089f), y);
  return log_special(d, x, hn::Add(hn::Add(hn::Add(y, t), f), e));
}

template <class D, class V>
HWY_INLINE V vector_log10(D d, V x) {
  V e;
  const V f = split_exponent(d, x, e);
  const V t = log_tail(d, f);
  V y = hn::MulAdd(e, hn::Set(d, 2.48745664e-4f), hn::Mul(t, hn::Set(d, 7.00731903e-4f)));
  y = hn::MulAdd(f, hn::Set(d, 7.00731903e-4f), y);
  y = hn::MulAdd(t, hn::Set(d, 4.33593750e-1f), y);
  y = hn::MulAdd(f, hn::Set(d, 4.33593750e-1f), y);
  return log_special(d, x, hn::MulAdd(e, hn::Set(d, 3.0078125e-1f), y));
}

// Kahan's: the rounding of 1 + x cancels between logarithm and quotient.
template <class D, class V>
HWY_INLINE V vector_log1p(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  const V u = hn::Add(x, one);
  const V y = hn::Mul(vector_log(d, u), hn::Div(x, hn::Sub(u, one)));
  const auto keep = hn::Or(hn::Eq(u, one), hn::Eq(u, hn::Set(d, std::numeric_limits<float>::infinity())));
  return hn::IfThenElse(keep, x, y);
}

// By its series for small x; elsewhere the subtraction is harmless.
template <class D, class V>
HWY_INLINE V vector_expm1(D d, V x) {
  const V off = hn::Add(x, hn::Set(d, next_to_nothing));
  const V p = polynomial(d, off, hn::Set(d, 2.480158730e-5f), 1.984126984e-4f, 1.388888889e-3f, 8.333333333e-3f,
                         4.166666667e-2f, 1.666666667e-1f, 0.5f);
  const V small = hn::CopySign(hn::Add(hn::Mul(hn::Mul(p, off), x), x), x);  // of −0 the sum is 0
  const V large = hn::Sub(exp_in_range(d, clamp_keeping_nan(d, off, -104.0f, 89.0f)), hn::Set(d, 1.0f));
  return hn::IfThenElse(hn::Lt(hn::Abs(x), hn::Set(d, 0.5f)), small, large);
}

// By pieces, or m / (m + 2) of m = e^(2|x|) − 1, which has all its digits for small x, too; from 9.3 on it is 1.
template <class D, class V>
HWY_INLINE V vector_tanh(D d, V x) {
#if HWY_TARGET == HWY_AVX3
  const V size = hn::Abs(x), near = hn::Min(hn::Set(d, 9.3f), hn::Add(size, hn::Set(d, next_to_nothing)));
  const V y = by_pieces(d, tanh_pieces, key_of_eighths(d, near, 0.8f), near);
  return hn::CopySign(hn::IfThenElse(hn::Lt(size, hn::Set(d, 0x1p-13f)), size, y), x);
#else
  const V a = hn::Min(hn::Set(d, 10.0f), hn::Abs(x)), two = hn::Set(d, 2.0f);
  const SplitPower<V> e = split_power(d, hn::Add(a, a));
  const V m = hn::MulAdd(e.power, e.part, hn::Sub(e.power, hn::Set(d, 1.0f)));
  return hn::CopySign(hn::Div(m, hn::Add(m, two)), x);
#endif
}

// Which lanes are below normal numbers, but not 0.
template <class D, class V>
HWY_INLINE hn::Mask<D> below_normal(D d, V x) {
#if HWY_TARGET == HWY_AVX3
  (void)d;
  return hn::Mask<D>{_mm512_fpclass_ps_mask(x.raw, 0x20)};
#else
  const V size = hn::Abs(x);
  return hn::And(hn::Lt(size, hn::Set(d, std::numeric_limits<float>::min())), hn::Gt(size, hn::Zero(d)));
#endif
}
// x · by of numbers below normal ones, to the nearest, by the whole numbers that their bits are: by <= 2.
template <class D, class V>
HWY_INLINE V product_of_below(D d, V x, float by) {
  const IntOf<D> di;
  const V whole = hn::ConvertTo(d, hn::BitCast(di, hn::Abs(x)));
  return hn::CopySign(hn::BitCast(d, hn::NearestInt(hn::Mul(whole, hn::Set(d, by)))), x);
}

// N. Juffa's two polynomials: odd in x below 0.9277, 1 − e^q(|x|) above.
template <class D, class V>
HWY_INLINE V erf_of_normal(D d, V x) {
  const V t = hn::Abs(x);
  const V s = hn::MulAdd(x, x, hn::Set(d, next_to_nothing));
  const auto is_far = hn::Gt(t, hn::Set(d, 0.927734375f));
  const V far = hn::IfThenElseZero(is_far, hn::Min(hn::Set(d, 6.0f), t));
  V q = polynomial(d, far, hn::Set(d, -1.72853470e-5f), 3.83197126e-4f, -3.88396438e-3f, 2.42546219e-2f,
                   -1.06777877e-1f, -6.34846687e-1f, -1.28717512e-1f);
  q = hn::Sub(hn::Mul(q, far), far);
  const V large = hn::CopySign(hn::Sub(hn::Set(d, 1.0f), exp_of_normal(d, q)), x);
  const V p = polynomial(d, s, hn::Set(d, -5.96761703e-4f), 4.99119423e-3f, -2.67681349e-2f, 1.12819925e-1f,
                         -3.76125336e-1f, 1.28379166e-1f);
  return hn::IfThenElse(is_far, large, hn::MulAdd(p, x, x));
}
template <class D, class V>
HWY_INLINE V vector_erf(D d, V x) {
  const auto below = below_normal(d, x);
  if (HWY_LIKELY(hn::AllFalse(d, below))) return erf_of_normal(d, x);
  const V others = erf_of_normal(d, hn::IfThenZeroElse(below, x));
  return hn::IfThenElse(below, product_of_below(d, x, 1.12837917f), others);
}

// 1 + erf(x), to 1e-7 of 1: of GELU it is twice the share of x. Below 0 it is erfc(|x|), by pieces or 2^q(|x|), and so
// keeps its last places; beyond 4 a float has 0 and 2.
template <class D, class V>
HWY_INLINE V vector_one_plus_erf(D d, V x) {
  const IntOf<D> di;
#if HWY_TARGET == HWY_AVX3
  const V near = hn::Min(hn::Set(d, 4.13f), hn::Abs(x)), two = hn::Set(d, 2.0f);
  const auto key = hn::BitCast(di, hn::MulAdd(near, hn::Set(d, 7.5f), hn::Set(d, whole_anchor_of_floats)));
  const V e = by_pieces(d, share_pieces, key, near);
  return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), e, hn::Sub(two, e));
#else
  const V far = hn::Set(d, 4.0f), t = hn::Abs(x), near = hn::Min(far, t);
  const V q =
      hn::Mul(polynomial(d, near, hn::Set(d, -4.53584178e-05f), 4.45505708e-04f, -1.48943411e-03f, -7.74643633e-04f,
                         2.82536945e-02f, -1.48481622e-01f, -9.18416392e-01f, -1.62790859e+00f),
              near);
  const V anchor = hn::Set(d, 0x1.8p23f);  // of a number next to it the low bits are the whole part
  const V anchored = hn::Add(q, anchor), n = hn::Sub(anchored, anchor);
  const V part = polynomial(d, hn::Sub(q, n), hn::Set(d, 1.5353362e-4f), 1.3398874e-3f, 9.6184374e-3f, 5.5503325e-2f,
                            2.4022648e-1f, 6.9314720e-1f, 1.0f);
  const auto power = hn::ShiftLeft<23>(hn::Add(hn::BitCast(di, anchored), hn::Set(di, 127)));
  const V e = hn::IfThenZeroElse(hn::Gt(t, far), hn::Mul(part, hn::BitCast(d, power)));
  return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), e, hn::Sub(hn::Set(d, 2.0f), e));
#endif
}

// sin(r + quadrant · π/2) for |r| a little above π/4 at most; of the quadrant the last two bits count.
template <class D, class V, class VI>
HWY_INLINE V sine_of_rest(D d, V r, VI quadrant) {
  const IntOf<D> di;
  const V z = hn::MulAdd(r, r, hn::Set(d, next_to_nothing * next_to_nothing));
  const V s = polynomial(d, z, hn::Set(d, -1.9515295891e-4f), 8.3321608736e-3f, -1.6666654611e-1f);
  const V sine = hn::CopySign(hn::MulAdd(hn::Mul(s, z), r, r), r);  // of −0 the sum is 0
  const V c =
      polynomial(d, z, hn::Set(d, 2.443315711809948e-5f), -1.388731625493765e-3f, 4.166664568298827e-2f, -0.5f, 1.0f);
  const auto odd = hn::MaskFromVec(hn::BitCast(d, hn::Neg(hn::And(quadrant, hn::Set(di, 1)))));
  const V sign = hn::BitCast(d, hn::ShiftLeft<30>(hn::And(quadrant, hn::Set(di, 2))));
  return hn::Xor(hn::IfThenElse(odd, c, sine), sign);
}

// Up to here the argument is reduced in float, with one rounding: the first product is exact with the difference.
inline constexpr float largest_near_angle = HWY_NATIVE_FMA ? 8192.0f : -1.0f;

// sin(x + shift · π/2) for |x| <= largest_near_angle and shift 0 or 1.
template <int shift, class D, class V>
HWY_INLINE V near_sine(D d, V x) {
  const IntOf<D> di;
  const V anchor = hn::Set(d, whole_anchor_of_floats), off = hn::Add(x, hn::Set(d, 0x1p-64f));
  const V anchored = hn::MulAdd(off, hn::Set(d, 0.636619772f), anchor), n = hn::Sub(anchored, anchor);
  V r = hn::NegMulAdd(n, hn::Set(d, 1.57079637051f), shift ? off : x);
  r = hn::MulAdd(n, hn::Set(d, 4.37113882867e-8f), r);
  r = hn::MulAdd(n, hn::Set(d, 1.71512451e-15f), r);
  if constexpr (shift == 0) r = hn::IfThenElse(hn::Eq(n, hn::Zero(d)), x, r);  // −0 is its own rest
  return sine_of_rest(d, r, hn::Add(hn::BitCast(di, anchored), hn::Set(di, shift)));
}

// Up to here two halves of a quarter turn reduce the argument in double.
inline constexpr float largest_fast_angle = 1.0e6f;

// sin(x + shift · π/2) for |x| <= largest_fast_angle: the reduction is in double, two halves of the vector.
template <class DF64>
HWY_INLINE void sine_block(DF64 dd, const float* in, float* out, int shift) {
  const hn::Rebind<float, DF64> d;
  const hn::Rebind<int32_t, DF64> di;
  const auto x = hn::PromoteTo(dd, hn::LoadU(d, in));
  // Without −0, so that −0 is its own remainder.
  const auto n = hn::Add(hn::Round(hn::Mul(x, hn::Set(dd, 0.63661977236758134))), hn::Zero(dd));
  auto rd = hn::NegMulAdd(n, hn::Set(dd, 1.57079632673412561417), x);
  rd = hn::NegMulAdd(n, hn::Set(dd, 6.07710050650619224932e-11), rd);
  const auto r = hn::DemoteTo(d, rd);
  const auto quadrant = hn::Add(hn::DemoteTo(di, n), hn::Set(di, shift));
  hn::StoreU(sine_of_rest(d, r, quadrant), d, out);
}

}  // namespace npusim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
