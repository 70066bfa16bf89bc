// Tile functions on float lanes.
#include "backends/cpu/loops/tiles/tile.h"
#include "backends/cpu/vector_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/loops/tiles/float.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "backends/cpu/loops/tiles/far-inl.h"
#include "backends/cpu/vector_math.h"

HWY_BEFORE_NAMESPACE();
namespace npusim::cpu::loops::tiles::HWY_NAMESPACE {
using namespace cpu::HWY_NAMESPACE;
namespace {

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
using Bytes = hn::Rebind<uint8_t, D>;
using Ints = hn::Rebind<int32_t, D>;

const float* row_of(const TileCall& c, int k, int64_t row) {
  return static_cast<const float*>(c.in[k]) + row * c.in_row[k];
}
float* dst_row_of(const TileCall& c, int64_t row) { return static_cast<float*>(c.dst) + row * c.dst_row; }

// A mask from bytes 0 and 1.
HWY_INLINE hn::Mask<D> load_mask(D d, const uint8_t* in) {
  const Ints di;
  return hn::MaskFromVec(hn::BitCast(d, hn::Neg(hn::PromoteTo(di, hn::LoadU(Bytes(), in)))));
}

#define NPUSIM_UNARY(name, expression)        \
  struct name {                               \
    HWY_INLINE V operator()(D d, V x) const { \
      (void)d;                                \
      return expression;                      \
    }                                         \
  };
NPUSIM_UNARY(Neg, hn::Neg(x))
NPUSIM_UNARY(Abs, hn::Abs(x))
NPUSIM_UNARY(Exp, vector_exp(d, x))
NPUSIM_UNARY(Exp2, vector_exp2(d, x))
NPUSIM_UNARY(Expm1, vector_expm1(d, x))
NPUSIM_UNARY(Log, vector_log(d, x))
NPUSIM_UNARY(Log2, vector_log2(d, x))
NPUSIM_UNARY(Log10, vector_log10(d, x))
NPUSIM_UNARY(Log1p, vector_log1p(d, x))
NPUSIM_UNARY(Sqrt, hn::Sqrt(x))
NPUSIM_UNARY(Rsqrt, hn::Div(hn::Set(d, 1.0f), hn::Sqrt(x)))
NPUSIM_UNARY(Tanh, vector_tanh(d, x))
NPUSIM_UNARY(Erf, vector_erf(d, x))
NPUSIM_UNARY(OnePlusErf, vector_one_plus_erf(d, hn::Add(x, hn::Set(d, next_to_nothing))))
NPUSIM_UNARY(Floor, hn::Floor(x))
NPUSIM_UNARY(Ceil, hn::Ceil(x))
NPUSIM_UNARY(Round, hn::Round(x))
NPUSIM_UNARY(Trunc, hn::Trunc(x))
#undef NPUSIM_UNARY

#define NPUSIM_BINARY(name, expression)                            \
  struct name {                                                    \
    HWY_INLINE V operator()(V a, V b) const { return expression; } \
  };
NPUSIM_BINARY(Add, hn::Add(a, b))
NPUSIM_BINARY(Sub, hn::Sub(a, b))
NPUSIM_BINARY(Mul, hn::Mul(a, b))
NPUSIM_BINARY(Div, hn::Div(a, b))
#undef NPUSIM_BINARY

struct Min {
  static HWY_INLINE V plain(V a, V b) { return hn::Min(a, b); }
  HWY_INLINE V operator()(V a, V b) const { return hn::IfThenElse(hn::IsNaN(a), a, plain(a, b)); }
};
struct Max {
  static HWY_INLINE V plain(V a, V b) { return hn::Max(a, b); }
  HWY_INLINE V operator()(V a, V b) const { return hn::IfThenElse(hn::IsNaN(a), a, plain(a, b)); }
};

// Calls one(j) for every vector of n lanes, a block of lanes at a time: of short bodies a loop is a good part.
template <class One>
HWY_INLINE void each_vector(int64_t n, const One& one) {
  constexpr auto lanes = static_cast<int64_t>(hn::MaxLanes(D()));
  for (int64_t j = 0; j < n; j += lane_block)
    for (int64_t k = 0; k < lane_block; k += lanes) one(j + k);
}

template <class F>
void unary(const TileCall& c) {
  const D d;
  const int64_t n = c.n;
  for (int64_t r = 0; r < c.rows; ++r) {
    const float* a = row_of(c, 0, r);
    float* out = dst_row_of(c, r);
    each_vector(n, [&](int64_t j) HWY_ATTR { hn::StoreU(F()(d, hn::LoadU(d, a + j)), d, out + j); });
  }
}

// The largest of the first n that are numbers, without its sign.
HWY_INLINE float largest_size(D d, const float* a, int64_t n) {
  constexpr auto lanes = static_cast<int64_t>(hn::MaxLanes(D()));
  const auto size = [&](V x) { return hn::IfThenZeroElse(hn::IsNaN(x), hn::Abs(x)); };
  V first = hn::Zero(d), second = first;
  int64_t j = 0;
  for (; j + 2 * lanes <= n; j += 2 * lanes) {
    first = hn::Max(first, size(hn::LoadU(d, a + j)));
    second = hn::Max(second, size(hn::LoadU(d, a + j + lanes)));
  }
  float largest = hn::GetLane(hn::MaxOfLanes(d, hn::Max(first, second)));
  for (; j < n; ++j) largest = std::max(largest, std::fabs(a[j]) > 0 ? std::fabs(a[j]) : 0.0f);
  return largest;
}

// The same as sine_block(), of any numbers.
HWY_INLINE void far_sine_block(const float* in, float* out, int shift) {
  const Far dd;
  const hn::Rebind<float, Far> d;
  const hn::Rebind<int32_t, Far> di;
  HWY_ALIGN float near[hn::MaxLanes(Far())];
  const auto x = hn::LoadU(d, in);
  const auto beyond = hn::Gt(hn::Abs(x), hn::Set(d, largest_fast_angle));
  hn::Store(hn::IfThenZeroElse(beyond, x), d, near);
  sine_block(dd, near, near, shift);
  const Reduction at = reduce_far_float(hn::PromoteTo(dd, x));
  const auto quadrant = hn::DemoteTo(di, hn::Sub(at.anchored, far(whole_anchor)));
  const auto finite = hn::Le(hn::Abs(x), hn::Set(d, std::numeric_limits<float>::max()));
  const auto none = hn::Set(d, std::numeric_limits<float>::quiet_NaN());
  const auto r = hn::IfThenElse(finite, hn::DemoteTo(d, at.r), none);
  const auto distant = sine_of_rest(d, r, hn::Add(quadrant, hn::Set(di, shift)));
  hn::StoreU(hn::IfThenElse(beyond, distant, hn::Load(d, near)), d, out);
}

template <int shift>
void sine(const TileCall& c) {
  const hn::ScalableTag<double> dd;
  const D d;
  for (int64_t r = 0; r < c.rows; ++r) {
    const float* a = row_of(c, 0, r);
    float* out = dst_row_of(c, r);
    const float largest = largest_size(d, a, c.columns);  // `out` may be `a`: it is not read again
    const bool near = largest <= largest_near_angle, far = largest > largest_fast_angle;
    if (near)
      for (int64_t j = 0; j < c.n; j += static_cast<int64_t>(hn::Lanes(d)))
        hn::StoreU(near_sine<shift>(d, hn::LoadU(d, a + j)), d, out + j);
    else if (far)
      for (int64_t j = 0; j < c.n; j += static_cast<int64_t>(hn::Lanes(dd))) far_sine_block(a + j, out + j, shift);
    else
      for (int64_t j = 0; j < c.n; j += static_cast<int64_t>(hn::Lanes(dd))) sine_block(dd, a + j, out + j, shift);
  }
}

void gelu(const TileCall& c) {
  const D d;
  const auto& terms = *static_cast<const std::vector<double>*>(c.extra);
  const V half = hn::Set(d, static_cast<float>(terms[0])), inner = hn::Set(d, static_cast<float>(terms[1]));
  const int64_t n = c.n;
  for (int64_t r = 0; r < c.rows; ++r) {
    const float* a = row_of(c, 0, r);
    float* out = dst_row_of(c, r);
    each_vector(n, [&](int64_t j) HWY_ATTR {
      const V x = hn::LoadU(d, a + j);
      const V share = vector_one_plus_erf(d, hn::MulAdd(x, inner, hn::Set(d, next_to_nothing)));
      hn::StoreU(hn::Mul(x, hn::Mul(share, half)), d, out + j);
    });
  }
}
TileFn find_gelu() { return gelu; }

template <bool fixed_weight, bool fixed_bias>
void normed(const TileCall& c) {
  const D d;
  const int64_t n = c.n;
  for (int64_t r = 0; r < c.rows; ++r) {
    const float *a = row_of(c, 0, r), *weight = row_of(c, 3, r), *bias = row_of(c, 4, r);
    float* out = dst_row_of(c, r);
    const V mean = hn::Set(d, *row_of(c, 1, r)), scale = hn::Set(d, *row_of(c, 2, r));
    const V one_weight = hn::Set(d, *weight), one_bias = hn::Set(d, *bias);
    each_vector(n, [&](int64_t j) HWY_ATTR {
      const V x = hn::Mul(hn::Sub(hn::LoadU(d, a + j), mean), scale);
      const V w = fixed_weight ? one_weight : hn::LoadU(d, weight + j),
              b = fixed_bias ? one_bias : hn::LoadU(d, bias + j);
      hn::StoreU(hn::Add(hn::Mul(x, w), b), d, out + j);
    });
  }
}
TileFn find_normed(bool fixed_weight, bool fixed_bias) {
  if (fixed_weight) return fixed_bias ? normed<true, true> : normed<true, false>;
  return fixed_bias ? normed<false, true> : normed<false, false>;
}
TileFn find_share() { return unary<OnePlusErf>; }

template <bool scalar>
HWY_INLINE V operand(D d, const float* p, V fixed, int64_t j) {
  if constexpr (scalar)
    return fixed;
  else
    return hn::LoadU(d, p + j);
}

template <class F, unsigned scalars>
struct Binary {
  static void run(const TileCall& c) {
    const D d;
    const int64_t n = c.n;
    for (int64_t r = 0; r < c.rows; ++r) {
      const float *a = row_of(c, 0, r), *b = row_of(c, 1, r);
      float* out = dst_row_of(c, r);
      const V fa = hn::Set(d, *a), fb = hn::Set(d, *b);
      each_vector(n, [&](int64_t j) HWY_ATTR {
        hn::StoreU(F()(operand<scalars & 1>(d, a, fa, j), operand<(scalars & 2) != 0>(d, b, fb, j)), d, out + j);
      });
    }
  }
};

void divide_by_one(const TileCall& c) {
  const D d;
  const int64_t n = c.n;
  for (int64_t r = 0; r < c.rows; ++r) {
    const float* a = row_of(c, 0, r);
    float* out = dst_row_of(c, r);
    const Divisor<D> by(d, *row_of(c, 1, r));
    each_vector(n, [&](int64_t j) HWY_ATTR { hn::StoreU(by.under(d, hn::LoadU(d, a + j)), d, out + j); });
  }
}

// A least or greatest of which one operand is one number: where that is neither NaN nor zero, of which there are two,
// an instruction has all cases; it gives its second operand where that is NaN.
template <class F, unsigned scalars>
struct Extremum {
  static void run(const TileCall& c) {
    if constexpr (scalars == 1 || scalars == 2) {
      bool simple = true;
      for (int64_t r = 0; r < c.rows; ++r) {
        const float bound = *row_of(c, scalars - 1, r);
        simple = simple && bound == bound && bound != 0;
      }
      if (simple) return bounded(c);
    }
    Binary<F, scalars>::run(c);
  }
  static void bounded(const TileCall& c) {
    const D d;
    const int64_t n = c.n;
    for (int64_t r = 0; r < c.rows; ++r) {
      const float* a = row_of(c, scalars == 1 ? 1 : 0, r);
      float* out = dst_row_of(c, r);
      const V bound = hn::Set(d, *row_of(c, scalars == 1 ? 0 : 1, r));
      each_vector(n, [&](int64_t j) HWY_ATTR { hn::StoreU(F::plain(bound, hn::LoadU(d, a + j)), d, out + j); });
    }
  }
};

// One instruction, two roundings: what rounds a product and the sum of it apart, as PyTorch does, gives 0 for a·b −
// b·a.
struct MulAdd {
  HWY_INLINE V operator()(V a, V b, V c) const { return hn::Add(hn::Mul(a, b), c); }
};
struct MulSub {
  HWY_INLINE V operator()(V a, V b, V c) const { return hn::Sub(hn::Mul(a, b), c); }
};
struct NegMulAdd {
  HWY_INLINE V operator()(V a, V b, V c) const { return hn::Sub(c, hn::Mul(a, b)); }
};

template <class F, unsigned scalars>
struct Fused {
  static void run(const TileCall& t) {
    const D d;
    const int64_t n = t.n;
    for (int64_t r = 0; r < t.rows; ++r) {
      const float *a = row_of(t, 0, r), *b = row_of(t, 1, r), *c = row_of(t, 2, r);
      float* out = dst_row_of(t, r);
      const V fa = hn::Set(d, *a), fb = hn::Set(d, *b), fc = hn::Set(d, *c);
      each_vector(n, [&](int64_t j) HWY_ATTR {
        hn::StoreU(F()(operand<scalars & 1>(d, a, fa, j), operand<(scalars & 2) != 0>(d, b, fb, j),
                       operand<(scalars & 4) != 0>(d, c, fc, j)),
                   d, out + j);
      });
    }
  }
};

template <class F, unsigned scalars>
struct Select {
  static void run(const TileCall& t) {
    const D d;
    const int64_t n = t.n;
    for (int64_t r = 0; r < t.rows; ++r) {
      const uint8_t* c = static_cast<const uint8_t*>(t.in[0]) + r * t.in_row[0];
      const float *a = row_of(t, 1, r), *b = row_of(t, 2, r);
      float* out = dst_row_of(t, r);
      const V fa = hn::Set(d, *a), fb = hn::Set(d, *b);
      const auto fixed = hn::MaskFromVec(hn::BitCast(d, hn::Set(Ints(), *c ? -1 : 0)));
      each_vector(n, [&](int64_t j) HWY_ATTR {
        const auto mask = scalars & 1 ? fixed : load_mask(d, c + j);
        hn::StoreU(
            hn::IfThenElse(mask, operand<(scalars & 2) != 0>(d, a, fa, j), operand<(scalars & 4) != 0>(d, b, fb, j)), d,
            out + j);
      });
    }
  }
};

template <template <class, unsigned> class Form, class F>
TileFn by_scalars(unsigned scalars) {
  switch (scalars) {
    case 0:
      return Form<F, 0>::run;
    case 1:
      return Form<F, 1>::run;
    case 2:
      return Form<F, 2>::run;
    default:
      return Form<F, 3>::run;
  }
}

template <template <class, unsigned> class Form, class F>
TileFn by_three_scalars(unsigned scalars) {
  switch (scalars) {
    case 4:
      return Form<F, 4>::run;
    case 5:
      return Form<F, 5>::run;
    case 6:
      return Form<F, 6>::run;
    case 7:
      return Form<F, 7>::run;
    default:
      return by_scalars<Form, F>(scalars);
  }
}

TileFn find_unary(ExprOp op) {
  switch (op) {
    case ExprOp::neg:
      return unary<Neg>;
    case ExprOp::abs:
      return unary<Abs>;
    case ExprOp::exp:
      return unary<Exp>;
    case ExprOp::exp2:
      return unary<Exp2>;
    case ExprOp::expm1:
      return unary<Expm1>;
    case ExprOp::log:
      return unary<Log>;
    case ExprOp::log2:
      return unary<Log2>;
    case ExprOp::log10:
      return unary<Log10>;
    case ExprOp::log1p:
      return unary<Log1p>;
    case ExprOp::sqrt:
      return unary<Sqrt>;
    case ExprOp::rsqrt:
      return unary<Rsqrt>;
    case ExprOp::sin:
      return sine<0>;
    case ExprOp::cos:
      return sine<1>;
    case ExprOp::tanh:
      return unary<Tanh>;
    case ExprOp::erf:
      return unary<Erf>;
    case ExprOp::floor:
      return unary<Floor>;
    case ExprOp::ceil:
      return unary<Ceil>;
    case ExprOp::round:
      return unary<Round>;
    case ExprOp::trunc:
      return unary<Trunc>;
    default:
      return nullptr;
  }
}

TileFn find_binary(ExprOp op, unsigned scalars) {
  switch (op) {
    case ExprOp::add:
      return by_scalars<Binary, Add>(scalars);
    case ExprOp::sub:
      return by_scalars<Binary, Sub>(scalars);
    case ExprOp::mul:
      return by_scalars<Binary, Mul>(scalars);
    case ExprOp::div:
      return scalars == 2 ? divide_by_one : by_scalars<Binary, Div>(scalars);
    case ExprOp::min:
      return by_scalars<Extremum, Min>(scalars);
    case ExprOp::max:
      return by_scalars<Extremum, Max>(scalars);
    default:
      return nullptr;
  }
}

TileFn find_select(unsigned scalars) { return by_three_scalars<Select, void>(scalars); }

TileFn find_fused(FusedOp op, unsigned scalars) {
  if (op == FusedOp::mul_add) return by_three_scalars<Fused, MulAdd>(scalars);
  if (op == FusedOp::mul_sub) return by_three_scalars<Fused, MulSub>(scalars);
  return by_three_scalars<Fused, NegMulAdd>(scalars);
}

}  // namespace
}  // namespace npusim::cpu::loops::tiles::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npusim::cpu::loops::tiles {
HWY_EXPORT(find_unary);
HWY_EXPORT(find_binary);
HWY_EXPORT(find_select);
HWY_EXPORT(find_fused);
HWY_EXPORT(find_gelu);
HWY_EXPORT(find_normed);
HWY_EXPORT(find_share);

TileFn float_unary_fn(ExprOp op) { return HWY_DYNAMIC_DISPATCH(find_unary)(op); }
TileFn float_binary_fn(ExprOp op, unsigned scalars) { return HWY_DYNAMIC_DISPATCH(find_binary)(op, scalars); }
TileFn float_select_fn(unsigned scalars) { return HWY_DYNAMIC_DISPATCH(find_select)(scalars); }
TileFn gelu_fn() { return HWY_DYNAMIC_DISPATCH(find_gelu)(); }
TileFn normed_fn(bool fixed_weight, bool fixed_bias) {
  return HWY_DYNAMIC_DISPATCH(find_normed)(fixed_weight, fixed_bias);
}
TileFn share_fn() { return HWY_DYNAMIC_DISPATCH(find_share)(); }
TileFn fused_fn(FusedOp op, unsigned scalars) { return HWY_DYNAMIC_DISPATCH(find_fused)(op, scalars); }
}  // namespace npusim::cpu::loops::tiles
#endif
