// Tile functions of roots, whole parts and rests, logarithms and exponentials on double lanes, within an ulp (the
// polynomials are those of fdlibm), and of polynomials on both kinds of float lanes.
#include "backends/cpu/loops/tiles/tile.h"
#include "backends/cpu/vector_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/loops/tiles/double.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cmath>
#include <vector>

#include "backends/cpu/loops/tiles/double-inl.h"

HWY_BEFORE_NAMESPACE();
namespace npusim::cpu::loops::tiles::HWY_NAMESPACE {
namespace {

struct Log {
  // Of 2^-less · x.
  template <int less>
  static HWY_INLINE V normal(V x) {
    const D d;
    const hn::RebindToSigned<D> di;
    // x = m · 2^k with m in [sqrt(1/2), sqrt(2)); the exponent with its bias is a number's low bits.
    const auto bits = hn::BitCast(di, x);
    const auto biased = hn::ShiftRight<52>(
        hn::BitCast(hn::RebindToUnsigned<D>(), hn::Sub(bits, hn::Set(di, 0x3fe6a09e667f3bcd - 0x3ff0000000000000))));
    const auto exponent = hn::Sub(hn::BitCast(di, biased), hn::Set(di, 1023));
    const V k = hn::Sub(hn::BitCast(d, hn::Add(hn::BitCast(di, biased), hn::Set(di, 0x4330000000000000))),
                        hn::Set(d, 0x1p52 + 1023 + less));
    const V f = hn::Sub(hn::BitCast(d, hn::Sub(bits, hn::ShiftLeft<52>(exponent))), hn::Set(d, 1));
    const V s = hn::Div(f, hn::Add(f, hn::Set(d, 2))), z = hn::Mul(s, s),
            half = hn::Mul(hn::Set(d, 0.5), hn::Mul(f, f));
    const V r = hn::Mul(z, horner(z, hn::Set(d, 1.479819860511658591e-01), 1.531383769920937332e-01,
                                  1.818357216161805012e-01, 2.222219843214978396e-01, 2.857142874366239149e-01,
                                  3.999999999940941908e-01, 6.666666666666735130e-01));
    const V low = hn::MulAdd(k, hn::Set(d, 1.90821492927058770002e-10), hn::Mul(s, hn::Add(half, r)));
    return hn::MulSub(k, hn::Set(d, 6.93147180369123816490e-01), hn::Sub(hn::Sub(half, low), f));
  }
  static HWY_INLINE M holds(V x) {
    const D d;
    return hn::And(hn::Ge(x, hn::Set(d, 0x1p-1022)), hn::Lt(x, hn::Set(d, HUGE_VAL)));
  }
  static HWY_INLINE V of(V x) { return normal<0>(x); }
  static HWY_INLINE V rest(V x) { return log_special(x, normal<1074>(from_below(x))); }
};
struct Exp {
  // part · 2^k of k next to the anchor.
  struct Parted {
    V part, anchored;
  };
  static HWY_INLINE Parted parted(V x) {
    const D d;
    const V anchor = hn::Set(d, 0x1.8p52);  // of a number next to it the low bits are the whole part
    x = off_zero(x);
    const V anchored = hn::MulAdd(x, hn::Set(d, 1.44269504088896338700), anchor), k = hn::Sub(anchored, anchor);
    const V high = hn::NegMulAdd(k, hn::Set(d, 6.93147180369123816490e-01), x);
    const V low = hn::Mul(k, hn::Set(d, 1.90821492927058770002e-10));
    const V r = hn::Sub(high, low), t = hn::Mul(r, r);
    const V p = horner(t, hn::Set(d, 4.13813679705723846039e-08), -1.65339022054652515390e-06,
                       6.61375632143793436117e-05, -2.77777777770155933842e-03, 1.66666666666666019037e-01);
    const V c = hn::NegMulAdd(t, p, r);
    const V tail = hn::Sub(low, hn::Div(hn::Mul(r, c), hn::Sub(hn::Set(d, 2), c)));
    return {hn::Sub(hn::Set(d, 1), hn::Sub(tail, high)), anchored};
  }
  static HWY_INLINE V of(V x) {
    const Bits di;
    const Parted y = parted(x);
    return hn::BitCast(D(), hn::Add(hn::BitCast(di, y.part), hn::ShiftLeft<52>(hn::BitCast(di, y.anchored))));
  }
  static HWY_INLINE M holds(V x) { return hn::Le(hn::Abs(x), hn::Set(D(), 700)); }
  static HWY_INLINE V rest(V x) {
    const Parted y = parted(hn::Min(number(710), hn::Max(number(-746), x)));
    return scaled_by(y.part, hn::Sub(y.anchored, number(anchor)));
  }
};

struct Root {
  static HWY_INLINE V of(V x) { return hn::Sqrt(x); }
};
struct InverseRoot {
  static HWY_INLINE V of(V x) { return hn::Div(hn::Set(D(), 1), hn::Sqrt(x)); }
};
struct Floor {
  static HWY_INLINE V of(V x) { return hn::Floor(x); }
};
struct Ceil {
  static HWY_INLINE V of(V x) { return hn::Ceil(x); }
};
struct Round {
  static HWY_INLINE V of(V x) { return hn::Round(x); }
};
struct Trunc {
  static HWY_INLINE V of(V x) { return hn::Trunc(x); }
};

// x − trunc(x / y)·y, exact where the product is so with the difference. The quotient's rounding may take it to the
// next whole number.
struct Fmod {
  static HWY_INLINE V of(V x, V y) {
    const V rest = hn::NegMulAdd(whole(x, y), y, x), signed_rest = hn::Xor(rest, hn::And(hn::SignBit(D()), x));
    const V least = hn::IfThenElse(hn::Lt(signed_rest, number(0)), hn::Add(rest, hn::CopySign(y, x)), rest);
    return hn::CopySign(least, x);
  }
  static HWY_INLINE M holds(V x, V y) {
    return hn::And(hn::Le(hn::Abs(whole(x, y)), number(0x1p51)), hn::Lt(hn::Abs(y), number(infinity)));
  }
  static HWY_INLINE V whole(V x, V y) { return hn::Trunc(hn::Div(x, y)); }
  static HWY_INLINE V rest(V x, V y) { return long_rest(x, y); }
};
TileFn find_double_fmod(unsigned scalars) { return HWY_NATIVE_FMA ? doubles_by_scalars<Fmod>(scalars) : nullptr; }

TileFn find_double_math(ExprOp op) {
  switch (op) {
    case ExprOp::log:
      return doubles<Log>;
    case ExprOp::exp:
      return doubles<Exp>;
    case ExprOp::sqrt:
      return doubles<Root>;
    case ExprOp::rsqrt:
      return doubles<InverseRoot>;
    case ExprOp::floor:
      return doubles<Floor>;
    case ExprOp::ceil:
      return doubles<Ceil>;
    case ExprOp::round:
      return doubles<Round>;
    case ExprOp::trunc:
      return doubles<Trunc>;
    default:
      return nullptr;
  }
}

// By Horner's rule from in[1], of the polynomial's variable in[0], in `extra` what is added. Some vectors side by side:
// each waits for its sum.
template <class T, bool fixed, int64_t vectors>
HWY_INLINE void polynomial_at(const std::vector<double>& terms, const T* x, const T* start, T* out) {
  const hn::ScalableTag<T> d;
  constexpr auto step = static_cast<int64_t>(hn::MaxLanes(d));
  hn::Vec<decltype(d)> at[vectors], sum[vectors];
  for (int64_t v = 0; v < vectors; ++v) {
    at[v] = hn::LoadU(d, x + v * step);
    sum[v] = fixed ? hn::Set(d, *start) : hn::LoadU(d, start + v * step);
  }
  for (const double term : terms) {
    const auto next = hn::Set(d, static_cast<T>(term));
    for (int64_t v = 0; v < vectors; ++v) sum[v] = hn::MulAdd(sum[v], at[v], next);
  }
  for (int64_t v = 0; v < vectors; ++v) hn::StoreU(sum[v], d, out + v * step);
}
template <class T, bool fixed>
void polynomial(const TileCall& c) {
  const int64_t n = lanes_of(c);
  constexpr int64_t block = lane_block / static_cast<int64_t>(hn::MaxLanes(hn::ScalableTag<T>()));
  const auto& terms = *static_cast<const std::vector<double>*>(c.extra);
  for (int64_t r = 0; r < c.rows; ++r) {
    const T *x = row_of<T>(c, 0, r), *start = row_of<T>(c, 1, r);
    T* out = dst_row_of<T>(c, r);
    int64_t j = 0;
    for (; j + 2 * lane_block <= n; j += 2 * lane_block)
      polynomial_at<T, fixed, 2 * block>(terms, x + j, fixed ? start : start + j, out + j);
    for (; j < n; j += lane_block) polynomial_at<T, fixed, block>(terms, x + j, fixed ? start : start + j, out + j);
  }
}
TileFn find_polynomial(Scalar type, bool fixed) {
  if (type == Scalar::f32) return fixed ? polynomial<float, true> : polynomial<float, false>;
  return fixed ? polynomial<double, true> : polynomial<double, false>;
}

}  // namespace
}  // namespace npusim::cpu::loops::tiles::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npusim::cpu::loops::tiles {
HWY_EXPORT(find_double_math);
HWY_EXPORT(find_double_fmod);
HWY_EXPORT(find_polynomial);

TileFn double_math_fn(ExprOp op) { return HWY_DYNAMIC_DISPATCH(find_double_math)(op); }
TileFn double_fmod_fn(unsigned scalars) { return HWY_DYNAMIC_DISPATCH(find_double_fmod)(scalars); }
TileFn polynomial_fn(Scalar type, bool fixed) { return HWY_DYNAMIC_DISPATCH(find_polynomial)(type, fixed); }
}  // namespace npusim::cpu::loops::tiles
#endif
