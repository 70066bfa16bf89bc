// Tile functions on float lanes.
#include "backends/cpu/loops_tile.h"
#include "backends/cpu/vector_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/loops_tile_float.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backends/cpu/vector_math.h"

HWY_BEFORE_NAMESPACE();
namespace npusim::cpu::HWY_NAMESPACE {
namespace {

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
using Bytes = hn::Rebind<uint8_t, D>;
using Ints = hn::Rebind<int32_t, D>;

const float* row_of(const TileCall& c, int k, int64_t row) {
  return static_cast<const float*>(c.in[k]) + row * c.in_row[k];
}
float* dst_row_of(const TileCall& c, int64_t row) { return static_cast<float*>(c.dst) + row * c.dst_row; }

// Masks as bytes 0 and 1.
template <class M>
HWY_INLINE void store_mask(D d, M mask, uint8_t* out) {
  const Ints di;
  const auto ones = hn::And(hn::BitCast(di, hn::VecFromMask(d, mask)), hn::Set(di, 1));
  hn::StoreU(hn::DemoteTo(Bytes(), ones), Bytes(), out);
}
HWY_INLINE hn::Mask<D> load_mask(D d, const uint8_t* in) {
  const Ints di;
  return hn::MaskFromVec(hn::BitCast(d, hn::Neg(hn::PromoteTo(di, hn::LoadU(Bytes(), in)))));
}

HWY_INLINE V min_nan(V a, V b) { return hn::IfThenElse(hn::IsNaN(a), a, hn::Min(a, b)); }
HWY_INLINE V max_nan(V a, V b) { return hn::IfThenElse(hn::IsNaN(a), a, hn::Max(a, b)); }

#define NPUSIM_UNARY(name, expression) \
  struct name { HWY_INLINE V operator()(D d, V x) const { (void)d; return expression; } };
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
NPUSIM_UNARY(Floor, hn::Floor(x))
NPUSIM_UNARY(Ceil, hn::Ceil(x))
NPUSIM_UNARY(Round, hn::Round(x))
NPUSIM_UNARY(Trunc, hn::Trunc(x))
#undef NPUSIM_UNARY

#define NPUSIM_BINARY(name, expression) \
  struct name { HWY_INLINE V operator()(V a, V b) const { return expression; } };
NPUSIM_BINARY(Add, hn::Add(a, b))
NPUSIM_BINARY(Sub, hn::Sub(a, b))
NPUSIM_BINARY(Mul, hn::Mul(a, b))
NPUSIM_BINARY(Div, hn::Div(a, b))
NPUSIM_BINARY(Min, min_nan(a, b))
NPUSIM_BINARY(Max, max_nan(a, b))
#undef NPUSIM_BINARY

#define NPUSIM_COMPARE(name, expression) \
  struct name { HWY_INLINE hn::Mask<D> operator()(V a, V b) const { return expression; } };
NPUSIM_COMPARE(Eq, hn::Eq(a, b))
NPUSIM_COMPARE(Ne, hn::Ne(a, b))
NPUSIM_COMPARE(Lt, hn::Lt(a, b))
NPUSIM_COMPARE(Le, hn::Le(a, b))
#undef NPUSIM_COMPARE

template <class F>
void unary(const TileCall& c) {
  const D d;
  for (int64_t r = 0; r < c.rows; ++r) {
    const float* a = row_of(c, 0, r);
    float* out = dst_row_of(c, r);
    for (int64_t j = 0; j < c.n; j += static_cast<int64_t>(hn::Lanes(d))) hn::StoreU(F()(d, hn::LoadU(d, a + j)), d, out + j);
  }
}

template <int shift>
void sine(const TileCall& c) {
  const hn::ScalableTag<double> dd;
  for (int64_t r = 0; r < c.rows; ++r) {
    const float* a = row_of(c, 0, r);
    float* out = dst_row_of(c, r);
    bool far = false;
    for (int64_t j = 0; j < c.n; j += static_cast<int64_t>(hn::Lanes(dd))) sine_block(dd, a + j, out + j, shift);
    for (int64_t j = 0; j < c.columns; ++j) far |= std::fabs(a[j]) > largest_fast_angle;
    for (int64_t j = 0; far && j < c.columns; ++j)
      if (std::fabs(a[j]) > largest_fast_angle) out[j] = shift ? std::cos(a[j]) : std::sin(a[j]);
  }
}

void is_nan(const TileCall& c) {
  const D d;
  for (int64_t r = 0; r < c.rows; ++r) {
    const float* a = row_of(c, 0, r);
    uint8_t* out = static_cast<uint8_t*>(c.dst) + r * c.dst_row;
    for (int64_t j = 0; j < c.n; j += static_cast<int64_t>(hn::Lanes(d))) store_mask(d, hn::IsNaN(hn::LoadU(d, a + j)), out + j);
  }
}

template <bool scalar>
HWY_INLINE V operand(D d, const float* p, V fixed, int64_t j) {
  if constexpr (scalar) return fixed;
  else return hn::LoadU(d, p + j);
}

template <class F, unsigned scalars>
struct Binary {
  static void run(const TileCall& c) {
    const D d;
    for (int64_t r = 0; r < c.rows; ++r) {
      const float *a = row_of(c, 0, r), *b = row_of(c, 1, r);
      float* out = dst_row_of(c, r);
      const V fa = hn::Set(d, *a), fb = hn::Set(d, *b);
      for (int64_t j = 0; j < c.n; j += static_cast<int64_t>(hn::Lanes(d)))
        hn::StoreU(F()(operand<scalars & 1>(d, a, fa, j), operand<(scalars & 2) != 0>(d, b, fb, j)), d, out + j);
    }
  }
};

template <class F, unsigned scalars>
struct Compare {
  static void run(const TileCall& c) {
    const D d;
    for (int64_t r = 0; r < c.rows; ++r) {
      const float *a = row_of(c, 0, r), *b = row_of(c, 1, r);
      uint8_t* out = static_cast<uint8_t*>(c.dst) + r * c.dst_row;
      const V fa = hn::Set(d, *a), fb = hn::Set(d, *b);
      for (int64_t j = 0; j < c.n; j += static_cast<int64_t>(hn::Lanes(d)))
        store_mask(d, F()(operand<scalars & 1>(d, a, fa, j), operand<(scalars & 2) != 0>(d, b, fb, j)), out + j);
    }
  }
};

struct MulAdd { HWY_INLINE V operator()(V a, V b, V c) const { return hn::MulAdd(a, b, c); } };
struct MulSub { HWY_INLINE V operator()(V a, V b, V c) const { return hn::MulSub(a, b, c); } };
struct NegMulAdd { HWY_INLINE V operator()(V a, V b, V c) const { return hn::NegMulAdd(a, b, c); } };

template <class F, unsigned scalars>
struct Fused {
  static void run(const TileCall& t) {
    const D d;
    for (int64_t r = 0; r < t.rows; ++r) {
      const float *a = row_of(t, 0, r), *b = row_of(t, 1, r), *c = row_of(t, 2, r);
      float* out = dst_row_of(t, r);
      const V fa = hn::Set(d, *a), fb = hn::Set(d, *b), fc = hn::Set(d, *c);
      for (int64_t j = 0; j < t.n; j += static_cast<int64_t>(hn::Lanes(d)))
        hn::StoreU(F()(operand<scalars & 1>(d, a, fa, j), operand<(scalars & 2) != 0>(d, b, fb, j),
                       operand<(scalars & 4) != 0>(d, c, fc, j)), d, out + j);
    }
  }
};

template <class F, unsigned scalars>
struct Select {
  static void run(const TileCall& t) {
    const D d;
    for (int64_t r = 0; r < t.rows; ++r) {
      const uint8_t* c = static_cast<const uint8_t*>(t.in[0]) + r * t.in_row[0];
      const float *a = row_of(t, 1, r), *b = row_of(t, 2, r);
      float* out = dst_row_of(t, r);
      const V fa = hn::Set(d, *a), fb = hn::Set(d, *b);
      const auto fixed = hn::MaskFromVec(hn::BitCast(d, hn::Set(Ints(), *c ? -1 : 0)));
      for (int64_t j = 0; j < t.n; j += static_cast<int64_t>(hn::Lanes(d))) {
        const auto mask = scalars & 1 ? fixed : load_mask(d, c + j);
        hn::StoreU(hn::IfThenElse(mask, operand<(scalars & 2) != 0>(d, a, fa, j), operand<(scalars & 4) != 0>(d, b, fb, j)),
                   d, out + j);
      }
    }
  }
};

struct Sum {
  static constexpr float identity = 0;
  static HWY_INLINE V combine(V a, V b) { return hn::Add(a, b); }
  static HWY_INLINE double combine(double a, double b) { return a + b; }
  static HWY_INLINE float combine(float a, float b) { return a + b; }
  static HWY_INLINE float lanes(D d, V v) { return hn::GetLane(hn::SumOfLanes(d, v)); }
};
struct Product {
  static constexpr float identity = 1;
  static HWY_INLINE V combine(V a, V b) { return hn::Mul(a, b); }
  static HWY_INLINE float combine(float a, float b) { return a * b; }
  static HWY_INLINE float lanes(D d, V v) {
    HWY_ALIGN float buffer[HWY_MAX_BYTES / sizeof(float)];
    hn::StoreU(v, d, buffer);
    float product = 1;
    for (float f : buffer) product *= f;
    return product;
  }
};
struct Least {
  static constexpr float identity = std::numeric_limits<float>::infinity();
  static HWY_INLINE V combine(V a, V b) { return min_nan(a, b); }
  static HWY_INLINE float combine(float a, float b) { return a != a ? a : b != b ? b : a < b ? a : b; }
  static HWY_INLINE float lanes(D d, V v) {
    if (!hn::AllFalse(d, hn::IsNaN(v))) return std::numeric_limits<float>::quiet_NaN();
    return hn::GetLane(hn::MinOfLanes(d, v));
  }
};
struct Greatest {
  static constexpr float identity = -std::numeric_limits<float>::infinity();
  static HWY_INLINE V combine(V a, V b) { return max_nan(a, b); }
  static HWY_INLINE float combine(float a, float b) { return a != a ? a : b != b ? b : a > b ? a : b; }
  static HWY_INLINE float lanes(D d, V v) {
    if (!hn::AllFalse(d, hn::IsNaN(v))) return std::numeric_limits<float>::quiet_NaN();
    return hn::GetLane(hn::MaxOfLanes(d, v));
  }
};

// One row's fold: four accumulators, the rest of the row masked to the identity.
template <class R>
HWY_INLINE float fold_row(D d, const float* a, int64_t columns) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const V identity = hn::Set(d, R::identity);
  V s0 = identity, s1 = identity, s2 = identity, s3 = identity;
  int64_t j = 0;
  for (; j + 4 * lanes <= columns; j += 4 * lanes) {
    s0 = R::combine(s0, hn::LoadU(d, a + j));
    s1 = R::combine(s1, hn::LoadU(d, a + j + lanes));
    s2 = R::combine(s2, hn::LoadU(d, a + j + 2 * lanes));
    s3 = R::combine(s3, hn::LoadU(d, a + j + 3 * lanes));
  }
  for (; j + lanes <= columns; j += lanes) s0 = R::combine(s0, hn::LoadU(d, a + j));
  if (j < columns) {
    const auto valid = hn::FirstN(d, static_cast<size_t>(columns - j));
    s1 = R::combine(s1, hn::IfThenElse(valid, hn::LoadU(d, a + j), identity));
  }
  return R::lanes(d, R::combine(R::combine(s0, s1), R::combine(s2, s3)));
}

template <class R, class Accumulator>
void fold_columns(const TileCall& c) {
  const D d;
  for (int64_t r = 0; r < c.rows; ++r) {
    Accumulator& sum = static_cast<Accumulator*>(c.dst)[r * c.dst_row];
    sum = R::combine(sum, static_cast<Accumulator>(fold_row<R>(d, row_of(c, 0, r), c.columns)));
  }
}

HWY_INLINE void add_wide(D d, V v, double* out) {
  HWY_ALIGN float buffer[HWY_MAX_BYTES / sizeof(float)];
  hn::StoreU(v, d, buffer);
  for (size_t i = 0; i < hn::Lanes(d); ++i) out[i] += static_cast<double>(buffer[i]);
}

template <class R, bool wide>
void fold_rows(const TileCall& c) {
  const D d;
  for (int64_t j = 0; j < c.n; j += static_cast<int64_t>(hn::Lanes(d))) {
    const V identity = hn::Set(d, R::identity);
    V s0 = identity, s1 = identity;
    const float* a = row_of(c, 0, 0) + j;
    int64_t r = 0;
    for (; r + 2 <= c.rows; r += 2, a += 2 * c.in_row[0]) {
      s0 = R::combine(s0, hn::LoadU(d, a));
      s1 = R::combine(s1, hn::LoadU(d, a + c.in_row[0]));
    }
    if (r < c.rows) s0 = R::combine(s0, hn::LoadU(d, a));
    const V sum = R::combine(s0, s1);
    if constexpr (wide) {
      add_wide(d, sum, static_cast<double*>(c.dst) + j);
    } else {
      float* out = static_cast<float*>(c.dst) + j;
      hn::StoreU(R::combine(hn::LoadU(d, out), sum), d, out);
    }
  }
}

template <class R, bool wide>
void fold_none(const TileCall& c) {
  const D d;
  for (int64_t r = 0; r < c.rows; ++r) {
    const float* a = row_of(c, 0, r);
    for (int64_t j = 0; j < c.n; j += static_cast<int64_t>(hn::Lanes(d))) {
      if constexpr (wide) {
        add_wide(d, hn::LoadU(d, a + j), static_cast<double*>(c.dst) + r * c.dst_row + j);
      } else {
        float* out = dst_row_of(c, r) + j;
        hn::StoreU(R::combine(hn::LoadU(d, out), hn::LoadU(d, a + j)), d, out);
      }
    }
  }
}

template <class R>
TileFn choose_fold(Fold fold) {
  if (fold == Fold::columns) return fold_columns<R, float>;
  return fold == Fold::rows ? fold_rows<R, false> : fold_none<R, false>;
}

template <template <class, unsigned> class Form, class F>
TileFn by_scalars(unsigned scalars) {
  switch (scalars) {
    case 0: return Form<F, 0>::run;
    case 1: return Form<F, 1>::run;
    case 2: return Form<F, 2>::run;
    default: return Form<F, 3>::run;
  }
}

template <template <class, unsigned> class Form, class F>
TileFn by_three_scalars(unsigned scalars) {
  switch (scalars) {
    case 4: return Form<F, 4>::run;
    case 5: return Form<F, 5>::run;
    case 6: return Form<F, 6>::run;
    case 7: return Form<F, 7>::run;
    default: return by_scalars<Form, F>(scalars);
  }
}

TileFn find_unary(ExprOp op) {
  switch (op) {
    case ExprOp::neg: return unary<Neg>;
    case ExprOp::abs: return unary<Abs>;
    case ExprOp::exp: return unary<Exp>;
    case ExprOp::exp2: return unary<Exp2>;
    case ExprOp::expm1: return unary<Expm1>;
    case ExprOp::log: return unary<Log>;
    case ExprOp::log2: return unary<Log2>;
    case ExprOp::log10: return unary<Log10>;
    case ExprOp::log1p: return unary<Log1p>;
    case ExprOp::sqrt: return unary<Sqrt>;
    case ExprOp::rsqrt: return unary<Rsqrt>;
    case ExprOp::sin: return sine<0>;
    case ExprOp::cos: return sine<1>;
    case ExprOp::tanh: return unary<Tanh>;
    case ExprOp::erf: return unary<Erf>;
    case ExprOp::floor: return unary<Floor>;
    case ExprOp::ceil: return unary<Ceil>;
    case ExprOp::round: return unary<Round>;
    case ExprOp::trunc: return unary<Trunc>;
    case ExprOp::isnan: return is_nan;
    default: return nullptr;
  }
}

TileFn find_binary(ExprOp op, unsigned scalars) {
  switch (op) {
    case ExprOp::add: return by_scalars<Binary, Add>(scalars);
    case ExprOp::sub: return by_scalars<Binary, Sub>(scalars);
    case ExprOp::mul: return by_scalars<Binary, Mul>(scalars);
    case ExprOp::div: return by_scalars<Binary, Div>(scalars);
    case ExprOp::min: return by_scalars<Binary, Min>(scalars);
    case ExprOp::max: return by_scalars<Binary, Max>(scalars);
    case ExprOp::eq: return by_scalars<Compare, Eq>(scalars);
    case ExprOp::ne: return by_scalars<Compare, Ne>(scalars);
    case ExprOp::lt: return by_scalars<Compare, Lt>(scalars);
    case ExprOp::le: return by_scalars<Compare, Le>(scalars);
    default: return nullptr;
  }
}

TileFn find_select(unsigned scalars) { return by_three_scalars<Select, void>(scalars); }

TileFn find_fused(FusedOp op, unsigned scalars) {
  if (op == FusedOp::mul_add) return by_three_scalars<Fused, MulAdd>(scalars);
  if (op == FusedOp::mul_sub) return by_three_scalars<Fused, MulSub>(scalars);
  return by_three_scalars<Fused, NegMulAdd>(scalars);
}

TileFn find_reduce(Reduction reduction, Fold fold, bool wide) {
  switch (reduction) {
    case Reduction::sum:
      if (!wide) return choose_fold<Sum>(fold);
      if (fold == Fold::columns) return fold_columns<Sum, double>;
      return fold == Fold::rows ? fold_rows<Sum, true> : fold_none<Sum, true>;
    case Reduction::product: return choose_fold<Product>(fold);
    case Reduction::min: return choose_fold<Least>(fold);
    default: return choose_fold<Greatest>(fold);
  }
}

}  // namespace
}  // namespace npusim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npusim::cpu {
HWY_EXPORT(find_unary);
HWY_EXPORT(find_binary);
HWY_EXPORT(find_select);
HWY_EXPORT(find_fused);
HWY_EXPORT(find_reduce);

TileFn float_unary_fn(ExprOp op) { return HWY_DYNAMIC_DISPATCH(find_unary)(op); }
TileFn float_binary_fn(ExprOp op, unsigned scalars) { return HWY_DYNAMIC_DISPATCH(find_binary)(op, scalars); }
TileFn float_select_fn(unsigned scalars) { return HWY_DYNAMIC_DISPATCH(find_select)(scalars); }
TileFn fused_fn(FusedOp op, unsigned scalars) { return HWY_DYNAMIC_DISPATCH(find_fused)(op, scalars); }
TileFn float_reduce_fn(Reduction reduction, Fold fold, bool wide) { return HWY_DYNAMIC_DISPATCH(find_reduce)(reduction, fold, wide); }
}  // namespace npusim::cpu
#endif
