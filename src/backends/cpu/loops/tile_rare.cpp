// Tile functions of rare mathematics on float lanes: vectors of double, whose few ulp a float does not see, and the C
// library for blocks with an argument that is not finite or beyond where those hold.
#include "backends/cpu/loops/tile.h"
#include "backends/cpu/vector_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/loops/tile_rare.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cmath>

#include "hwy/contrib/math/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace npusim::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using Wide = hn::ScalableTag<double>;
using W = hn::Vec<Wide>;
using M = hn::Mask<Wide>;
using Narrow = hn::Rebind<float, Wide>;

HWY_INLINE W wide(Wide d, double x) { return hn::Set(d, x); }
HWY_INLINE M within(Wide d, W x, double limit) { return hn::Le(hn::Abs(x), wide(d, limit)); }
// An odd function's value, whose zero has the argument's sign.
HWY_INLINE W odd(Wide d, W x, W value) { return hn::IfThenElse(hn::Eq(x, hn::Zero(d)), x, value); }

constexpr double largest_float = 3.5e38;

// Each: the vector's function, where it holds, and the C library's.
struct Tan {
  static W of(Wide d, W x) { return odd(d, x, hn::Div(hn::Sin(d, x), hn::Cos(d, x))); }
  static M holds(Wide d, W x) { return within(d, x, 30000); }
  static float scalar(float x) { return tanf(x); }
};
struct Asin {
  static W of(Wide d, W x) { return odd(d, x, hn::Asin(d, x)); }
  static M holds(Wide d, W x) { return within(d, x, 1); }
  static float scalar(float x) { return asinf(x); }
};
struct Acos {
  static W of(Wide d, W x) { return hn::Acos(d, x); }
  static M holds(Wide d, W x) { return within(d, x, 1); }
  static float scalar(float x) { return acosf(x); }
};
struct Atan {
  static W of(Wide d, W x) { return odd(d, x, hn::Atan(d, x)); }
  static M holds(Wide d, W x) { return within(d, x, largest_float); }
  static float scalar(float x) { return atanf(x); }
};
struct Sinh {
  static W of(Wide d, W x) { return odd(d, x, hn::Sinh(d, x)); }
  static M holds(Wide d, W x) { return within(d, x, 100); }
  static float scalar(float x) { return sinhf(x); }
};
struct Cosh {
  static W of(Wide d, W x) {
    const W e = hn::Exp(d, hn::Abs(x));
    return hn::Mul(wide(d, 0.5), hn::Add(e, hn::Div(wide(d, 1), e)));
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
  static W of(Wide d, W x) { return hn::Acosh(d, x); }
  static M holds(Wide d, W x) { return hn::And(hn::Ge(x, wide(d, 1)), within(d, x, largest_float)); }
  static float scalar(float x) { return acoshf(x); }
};
struct Atanh {
  static W of(Wide d, W x) { return odd(d, x, hn::Atanh(d, x)); }
  static M holds(Wide d, W x) { return within(d, x, 0.999999999); }
  static float scalar(float x) { return atanhf(x); }
};

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
      if (hn::AllTrue(d, F::holds(d, x)))
        hn::StoreU(hn::DemoteTo(n, F::of(d, x)), n, out + j);
      else
        for (int64_t i = j; i < j + lanes; ++i) out[i] = F::scalar(a[i]);
    }
  }
}

struct Pow {
  static W of(Wide d, W x, W y) { return hn::Exp(d, hn::Mul(y, hn::Log(d, x))); }
  static M holds(Wide d, W x, W y) {
    const M normal = hn::And(hn::Ge(x, wide(d, 1e-30)), hn::Le(x, wide(d, 1e30)));
    return hn::And(normal, within(d, y, 10));  // where doubles hold the result
  }
  static float scalar(float x, float y) { return powf(x, y); }
};
struct Atan2 {
  static W of(Wide d, W y, W x) {
    const W high = hn::Abs(y), wide_x = hn::Abs(x), pi = wide(d, 3.14159265358979323846);
    const M steep = hn::Gt(high, wide_x);
    const W ratio = hn::Div(hn::Min(high, wide_x), hn::Max(high, wide_x));
    W angle = hn::Atan(d, ratio);
    angle = hn::IfThenElse(steep, hn::Sub(hn::Mul(pi, wide(d, 0.5)), angle), angle);
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
void binary(const TileCall& c) {
  const Wide d;
  const Narrow n;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t r = 0; r < c.rows; ++r) {
    const float* a = static_cast<const float*>(c.in[0]) + r * c.in_row[0];
    const float* b = static_cast<const float*>(c.in[1]) + r * c.in_row[1];
    float* out = static_cast<float*>(c.dst) + r * c.dst_row;
    const float fixed_a = *a, fixed_b = *b;
    for (int64_t j = 0; j < c.n; j += lanes) {
      const W x = scalars & 1 ? wide(d, fixed_a) : hn::PromoteTo(d, hn::LoadU(n, a + j)),
              y = scalars & 2 ? wide(d, fixed_b) : hn::PromoteTo(d, hn::LoadU(n, b + j));
      if (hn::AllTrue(d, F::holds(d, x, y)))
        hn::StoreU(hn::DemoteTo(n, F::of(d, x, y)), n, out + j);
      else
        for (int64_t i = j; i < j + lanes; ++i)
          out[i] = F::scalar(scalars & 1 ? fixed_a : a[i], scalars & 2 ? fixed_b : b[i]);
    }
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
    case ExprOp::pow:
      return by_scalars<Pow>(scalars);
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
