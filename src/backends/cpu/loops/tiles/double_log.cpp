// Tile functions of logarithms and inverse hyperbolic functions on double lanes, within an ulp.
#include "backends/cpu/loops/tiles/tile.h"
#include "backends/cpu/vector_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/loops/tiles/double_log.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backends/cpu/loops/tiles/double-inl.h"

HWY_BEFORE_NAMESPACE();
namespace npusim::cpu::loops::tiles::HWY_NAMESPACE {
namespace {

// Of the logarithm's high part its product with 1 / ln(base) is exact, as a sum; k · log_two is exact in its high part.
template <class Base>
struct LogTo {
  // Of 2^-less · x.
  template <int less>
  static HWY_INLINE V normal(V x) {
    const Split at = split<less>(x);
    const Sum part = log_of_part(at.f, number(0)), scaled = product(part.high, number(Base::inverse));
    const V rest =
        hn::MulAdd(part.high, number(Base::inverse_rest), hn::MulAdd(part.low, number(Base::inverse), scaled.low));
    const Sum all = sum(hn::Mul(at.k, number(Base::log_two)), scaled.high);
    return hn::Add(all.high, hn::Add(all.low, hn::MulAdd(at.k, number(Base::log_two_rest), rest)));
  }
  static HWY_INLINE V of(V x) { return normal<0>(x); }
  static HWY_INLINE M holds(V x) { return hn::And(hn::Ge(x, number(least_normal)), hn::Lt(x, number(infinity))); }
  static HWY_INLINE V rest(V x) { return log_special(x, normal<1074>(from_below(x))); }
};
struct Two {
  static constexpr double inverse = 1.4426950408889634, inverse_rest = 2.0355273740931033e-17;
  static constexpr double log_two = 1, log_two_rest = 0;
};
struct Ten {
  static constexpr double inverse = 0.4342944819032518, inverse_rest = 1.098319650216765e-17;
  static constexpr double log_two = 3.01029995663611771306e-01, log_two_rest = 3.69423907715893078616e-13;
};

struct Log1p {
  static HWY_INLINE V of(V x) {
    const Sum all = sum_with(off_zero(x), number(1));
    return log_special(all.high, or_itself(x, log_of(all), 0x1p-54));
  }
};

struct Asinh {
  // The logarithm of a + sqrt(a² + 1), which beyond 2^30 is 2a; below 2^-27 a itself.
  static HWY_INLINE V of(V x) {
    const V a = hn::Abs(x), one = number(1), near = off_zero(hn::Min(a, number(0x1p30)));
    const Sum square = product(near, near), more = sum_with(square.high, one);
    const Sum s = root({more.high, hn::Add(more.low, square.low)}), all = sum(s.high, near);
    const M far = hn::Gt(a, number(0x1p30));
    Split at = split(hn::IfThenElse(far, a, all.high));
    at.k = hn::Add(at.k, hn::IfThenElseZero(far, one));
    const V left = hn::IfThenZeroElse(far, hn::Mul(hn::Add(all.low, s.low), at.power));
    const V value = hn::IfThenElse(hn::Lt(a, number(0x1p-27)), a, log_of(at.k, log_of_part(at.f, left)));
    return hn::CopySign(hn::IfThenElse(hn::Lt(a, number(infinity)), value, a), x);
  }
};
struct Acosh {
  // The logarithm of x + sqrt((x − 1) · (x + 1)), which beyond 2^30 is 2x.
  static HWY_INLINE V of(V x) {
    const V one = number(1), near = hn::Min(number(0x1p30), hn::Max(x, one)), less = hn::Sub(near, one);
    const Sum more = sum(near, one), both = product(less, more.high);
    const Sum s = root({both.high, hn::MulAdd(less, more.low, both.low)}), all = sum(near, s.high);
    const M far = hn::Gt(x, number(0x1p30));
    Split at = split(hn::IfThenElse(far, x, all.high));
    at.k = hn::Add(at.k, hn::IfThenElseZero(far, one));
    const V left = hn::IfThenZeroElse(far, hn::Mul(hn::Add(all.low, s.low), at.power));
    const V value = log_of(at.k, log_of_part(at.f, left));
    const V finite = hn::IfThenElse(hn::Lt(x, number(infinity)), value, x);
    return hn::IfThenElse(hn::Lt(x, one), number(no_number), finite);  // of NaN x
  }
};
struct Atanh {
  // Half the logarithm of 1 + 2a / (1 − a); below 2^-27 a itself.
  static HWY_INLINE V of(V x) {
    const V a = hn::Abs(x), one = number(1), off = off_zero(a);
    const Sum below = sum(one, hn::Neg(hn::Min(one, off))), q = quotient({hn::Add(off, off), number(0)}, below);
    const Sum all = sum_with(q.high, one);
    const V value = hn::Mul(number(0.5), log_of({all.high, hn::Add(all.low, q.low)}));
    const V inside = hn::IfThenElse(hn::Lt(a, number(0x1p-27)), a, value);
    const V end =
        hn::IfThenElse(hn::Eq(a, one), number(infinity), hn::IfThenElse(hn::Lt(a, one), inside, number(no_number)));
    return hn::CopySign(end, x);
  }
};

TileFn find_double_log(ExprOp op) {
  if (!HWY_NATIVE_FMA) return nullptr;
  switch (op) {
    case ExprOp::log2:
      return doubles<LogTo<Two>>;
    case ExprOp::log10:
      return doubles<LogTo<Ten>>;
    case ExprOp::log1p:
      return doubles<Log1p>;
    case ExprOp::asinh:
      return doubles<Asinh>;
    case ExprOp::acosh:
      return doubles<Acosh>;
    case ExprOp::atanh:
      return doubles<Atanh>;
    default:
      return nullptr;
  }
}

}  // namespace
}  // namespace npusim::cpu::loops::tiles::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npusim::cpu::loops::tiles {
HWY_EXPORT(find_double_log);

TileFn double_log_fn(ExprOp op) { return HWY_DYNAMIC_DISPATCH(find_double_log)(op); }

}  // namespace npusim::cpu::loops::tiles
#endif
