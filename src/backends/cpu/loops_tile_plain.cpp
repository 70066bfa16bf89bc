// Tile functions on integer, boolean and double lanes, casts, and conversions of stored types: plain loops, which the
// compiler vectorises for each instruction set.
#include "backends/cpu/loops_tile.h"
#include "backends/cpu/vector_targets.h"
#include "base/dtype.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/loops_tile_plain.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <limits>

#ifndef NPUSIM_IVDEP
#ifdef __clang__
#define NPUSIM_IVDEP _Pragma("clang loop vectorize(assume_safety)")
#else
#define NPUSIM_IVDEP _Pragma("GCC ivdep")
#endif
#endif

HWY_BEFORE_NAMESPACE();
namespace npusim::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
const T* row_of(const TileCall& c, int k, int64_t row) {
  return static_cast<const T*>(c.in[k]) + row * c.in_row[k];
}
template <class T>
T* dst_row_of(const TileCall& c, int64_t row) {
  return static_cast<T*>(c.dst) + row * c.dst_row;
}

template <class F, class In, class Out>
void unary(const TileCall& c) {
  for (int64_t r = 0; r < c.rows; ++r) {
    const In* a = row_of<In>(c, 0, r);
    Out* out = dst_row_of<Out>(c, r);
    NPUSIM_IVDEP
    for (int64_t j = 0; j < c.n; ++j) out[j] = static_cast<Out>(F::of(a[j]));
  }
}

template <class F, class In, class Out, bool sa, bool sb>
void binary(const TileCall& c) {
  for (int64_t r = 0; r < c.rows; ++r) {
    const In *a = row_of<In>(c, 0, r), *b = row_of<In>(c, 1, r);
    Out* out = dst_row_of<Out>(c, r);
    const In fa = *a, fb = *b;
    NPUSIM_IVDEP
    for (int64_t j = 0; j < c.n; ++j) out[j] = static_cast<Out>(F::of(sa ? fa : a[j], sb ? fb : b[j]));
  }
}

template <class F, class In, class Out>
TileFn by_scalars(unsigned scalars) {
  switch (scalars) {
    case 0: return binary<F, In, Out, false, false>;
    case 1: return binary<F, In, Out, true, false>;
    case 2: return binary<F, In, Out, false, true>;
    default: return binary<F, In, Out, true, true>;
  }
}

struct Plus { template <class T> static T of(T a, T b) { return a + b; } };
struct Minus { template <class T> static T of(T a, T b) { return a - b; } };
struct Times { template <class T> static T of(T a, T b) { return a * b; } };
struct Divide { static double of(double a, double b) { return a / b; } };
struct And { template <class T> static T of(T a, T b) { return a & b; } };
struct Or { template <class T> static T of(T a, T b) { return a | b; } };
struct Xor { template <class T> static T of(T a, T b) { return a ^ b; } };
struct Eq { template <class T> static bool of(T a, T b) { return a == b; } };
struct Ne { template <class T> static bool of(T a, T b) { return a != b; } };
struct Lt { template <class T> static bool of(T a, T b) { return a < b; } };
struct Le { template <class T> static bool of(T a, T b) { return a <= b; } };
struct Lesser {
  static int64_t of(int64_t a, int64_t b) { return a < b ? a : b; }
  static double of(double a, double b) { return a != a ? a : b != b ? b : a < b ? a : b; }
};
struct Greater {
  static int64_t of(int64_t a, int64_t b) { return a > b ? a : b; }
  static double of(double a, double b) { return a != a ? a : b != b ? b : a > b ? a : b; }
};
// Wrapping arithmetic, and shifts that leave the width.
struct WrapPlus { static int64_t of(int64_t a, int64_t b) { return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b)); } };
struct WrapMinus { static int64_t of(int64_t a, int64_t b) { return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b)); } };
struct WrapTimes { static int64_t of(int64_t a, int64_t b) { return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b)); } };
struct ShiftLeft {
  static int64_t of(int64_t a, int64_t b) { return b < 0 || b > 63 ? 0 : static_cast<int64_t>(static_cast<uint64_t>(a) << b); }
};
struct ShiftRight {
  static int64_t of(int64_t a, int64_t b) { return a >> (b < 0 || b > 63 ? 63 : b); }
};
struct IntegerPower {
  static int64_t of(int64_t base, int64_t exponent) {
    if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
    int64_t result = 1;
    for (; exponent; exponent >>= 1, base = WrapTimes::of(base, base))
      if (exponent & 1) result = WrapTimes::of(result, base);
    return result;
  }
};

// Only the columns that count: a zero in the padding must not trap.
template <bool remainder>
void integer_divide(const TileCall& c, unsigned scalars) {
  for (int64_t r = 0; r < c.rows; ++r) {
    const int64_t *a = row_of<int64_t>(c, 0, r), *b = row_of<int64_t>(c, 1, r);
    int64_t* out = dst_row_of<int64_t>(c, r);
    for (int64_t j = 0; j < c.columns; ++j) {
      const int64_t x = scalars & 1 ? *a : a[j], y = scalars & 2 ? *b : b[j];
      if (y == 0) c.trap->division();
      if (y == 0 || y == -1) out[j] = y == 0 || remainder ? 0 : WrapMinus::of(0, x);
      else out[j] = remainder ? x % y : x / y;
    }
  }
}
template <bool remainder, unsigned scalars>
void integer_divide_by(const TileCall& c) { integer_divide<remainder>(c, scalars); }
template <bool remainder>
TileFn find_divide(unsigned scalars) {
  constexpr TileFn fns[] = {integer_divide_by<remainder, 0>, integer_divide_by<remainder, 1>, integer_divide_by<remainder, 2>,
                            integer_divide_by<remainder, 3>};
  return fns[scalars];
}

template <class T>
void select(const TileCall& c, unsigned scalars) {
  for (int64_t r = 0; r < c.rows; ++r) {
    const uint8_t* m = row_of<uint8_t>(c, 0, r);
    const T *a = row_of<T>(c, 1, r), *b = row_of<T>(c, 2, r);
    T* out = dst_row_of<T>(c, r);
    const int64_t sm = !(scalars & 1), sa = !(scalars & 2), sb = !(scalars & 4);
    if (sm && sa && sb) {
      NPUSIM_IVDEP
      for (int64_t j = 0; j < c.n; ++j) out[j] = m[j] ? a[j] : b[j];
    } else if (sm && !sb && sa) {
      const T fb = *b;
      NPUSIM_IVDEP
      for (int64_t j = 0; j < c.n; ++j) out[j] = m[j] ? a[j] : fb;
    } else {
      for (int64_t j = 0; j < c.n; ++j) out[j] = m[j * sm] ? a[j * sa] : b[j * sb];
    }
  }
}
template <class T, unsigned scalars>
void select_by(const TileCall& c) { select<T>(c, scalars); }
template <class T>
TileFn find_select_of(unsigned scalars) {
  constexpr TileFn fns[] = {select_by<T, 0>, select_by<T, 1>, select_by<T, 2>, select_by<T, 3>,
                            select_by<T, 4>, select_by<T, 5>, select_by<T, 6>, select_by<T, 7>};
  return fns[scalars];
}

template <class T, bool scalar>
void copy(const TileCall& c) {
  for (int64_t r = 0; r < c.rows; ++r) {
    const T* a = row_of<T>(c, 0, r);
    T* out = dst_row_of<T>(c, r);
    const T fixed = *a;
    NPUSIM_IVDEP
    for (int64_t j = 0; j < c.n; ++j) out[j] = scalar ? fixed : a[j];
  }
}

// ---- casts and stored types

struct Truth { template <class T> static bool of(T a) { return a != 0; } };
struct Plain { template <class T> static T of(T a) { return a; } };
// As x86 converts: what does not fit (and NaN) gives the smallest integer.
struct ToInteger {
  static int64_t of(double x) {
    return x >= -9223372036854775808.0 && x < 9223372036854775808.0 ? static_cast<int64_t>(x) : std::numeric_limits<int64_t>::min();
  }
};
struct FromBf16 { static float of(uint16_t a) { return bf16_to_float(a); } };
struct ToBf16 { static uint16_t of(float a) { return float_to_bf16(a); } };
struct ThroughBf16 { static float of(float a) { return bf16_to_float(float_to_bf16(a)); } };

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
constexpr bool has_f16 = true;
#else
constexpr bool has_f16 = false;
#endif

using F32 = hn::ScalableTag<float>;
using F16 = hn::Rebind<hwy::float16_t, F32>;

void from_f16(const TileCall& c) {
  for (int64_t r = 0; r < c.rows; ++r) {
    const uint16_t* a = row_of<uint16_t>(c, 0, r);
    float* out = dst_row_of<float>(c, r);
    if constexpr (has_f16) {
      for (int64_t j = 0; j < c.n; j += static_cast<int64_t>(hn::Lanes(F32())))
        hn::StoreU(hn::PromoteTo(F32(), hn::LoadU(F16(), reinterpret_cast<const hwy::float16_t*>(a + j))), F32(), out + j);
    } else {
      for (int64_t j = 0; j < c.n; ++j) out[j] = f16_to_float(a[j]);
    }
  }
}
void to_f16(const TileCall& c) {
  for (int64_t r = 0; r < c.rows; ++r) {
    const float* a = row_of<float>(c, 0, r);
    uint16_t* out = dst_row_of<uint16_t>(c, r);
    if constexpr (has_f16) {
      for (int64_t j = 0; j < c.n; j += static_cast<int64_t>(hn::Lanes(F32())))
        hn::StoreU(hn::DemoteTo(F16(), hn::LoadU(F32(), a + j)), F16(), reinterpret_cast<hwy::float16_t*>(out + j));
    } else {
      for (int64_t j = 0; j < c.n; ++j) out[j] = float_to_f16(a[j]);
    }
  }
}
void through_f16(const TileCall& c) {
  for (int64_t r = 0; r < c.rows; ++r) {
    const float* a = row_of<float>(c, 0, r);
    float* out = dst_row_of<float>(c, r);
    if constexpr (has_f16) {
      for (int64_t j = 0; j < c.n; j += static_cast<int64_t>(hn::Lanes(F32())))
        hn::StoreU(hn::PromoteTo(F32(), hn::DemoteTo(F16(), hn::LoadU(F32(), a + j))), F32(), out + j);
    } else {
      for (int64_t j = 0; j < c.n; ++j) out[j] = f16_to_float(float_to_f16(a[j]));
    }
  }
}
template <DType dtype>
void round_double(const TileCall& c) {
  for (int64_t r = 0; r < c.rows; ++r)
    for (int64_t j = 0; j < c.columns; ++j) dst_row_of<double>(c, r)[j] = round_through(dtype, row_of<double>(c, 0, r)[j]);
}
template <class T>
struct Wrap { static int64_t of(int64_t a) { return static_cast<T>(a); } };

void iota(const TileCall& c) {
  const int64_t begin = *static_cast<const int64_t*>(c.extra);
  for (int64_t j = 0; j < c.n; ++j) static_cast<int64_t*>(c.dst)[j] = begin + j;
}
void index_value(const TileCall& c) {
  for (int64_t j = 0; j < lane_block; ++j) static_cast<int64_t*>(c.dst)[j] = *static_cast<const int64_t*>(c.extra);
}

// ---- rows

template <class T, class F>
void fold(const TileCall& c, Fold form) {
  for (int64_t r = 0; r < c.rows; ++r) {
    const T* a = row_of<T>(c, 0, r);
    T* out = static_cast<T*>(c.dst) + (form == Fold::rows ? 0 : r * c.dst_row);
    if (form != Fold::columns) {
      NPUSIM_IVDEP
      for (int64_t j = 0; j < c.n; ++j) out[j] = F::of(out[j], a[j]);
      continue;
    }
    T sums[8];
    const int64_t whole = c.columns / 8 * 8;
    for (int64_t k = 0; k < 8; ++k) sums[k] = *out;
    if (whole) {
      for (int64_t k = 0; k < 8; ++k) sums[k] = a[k];
      for (int64_t j = 8; j < whole; j += 8)
        for (int64_t k = 0; k < 8; ++k) sums[k] = F::of(sums[k], a[j + k]);
      for (int64_t k = 1; k < 8; ++k) sums[0] = F::of(sums[0], sums[k]);
      *out = F::of(*out, sums[0]);
    }
    for (int64_t j = whole; j < c.columns; ++j) *out = F::of(*out, a[j]);
  }
}
template <class T, class F, Fold form>
void fold_as(const TileCall& c) { fold<T, F>(c, form); }
template <class T, class F>
TileFn choose_fold(Fold form) {
  if (form == Fold::columns) return fold_as<T, F, Fold::columns>;
  return form == Fold::rows ? fold_as<T, F, Fold::rows> : fold_as<T, F, Fold::none>;
}

template <class T, class Carry, class F>
void scan(const TileCall& c) {
  for (int64_t r = 0; r < c.rows; ++r) {
    Carry& carry = const_cast<Carry*>(static_cast<const Carry*>(c.in[1]))[r];
    const T* a = row_of<T>(c, 0, r);
    T* out = dst_row_of<T>(c, r);
    for (int64_t j = 0; j < c.columns; ++j) out[j] = static_cast<T>(carry = F::of(carry, static_cast<Carry>(a[j])));
  }
}

// ---- tables

TileFn find_integer(ExprOp op, unsigned s) {
  switch (op) {
    case ExprOp::add: return by_scalars<WrapPlus, int64_t, int64_t>(s);
    case ExprOp::sub: return by_scalars<WrapMinus, int64_t, int64_t>(s);
    case ExprOp::mul: return by_scalars<WrapTimes, int64_t, int64_t>(s);
    case ExprOp::min: return by_scalars<Lesser, int64_t, int64_t>(s);
    case ExprOp::max: return by_scalars<Greater, int64_t, int64_t>(s);
    case ExprOp::pow: return by_scalars<IntegerPower, int64_t, int64_t>(s);
    case ExprOp::idiv: return find_divide<false>(s);
    case ExprOp::irem: return find_divide<true>(s);
    case ExprOp::bit_and: return by_scalars<And, int64_t, int64_t>(s);
    case ExprOp::bit_or: return by_scalars<Or, int64_t, int64_t>(s);
    case ExprOp::bit_xor: return by_scalars<Xor, int64_t, int64_t>(s);
    case ExprOp::shl: return by_scalars<ShiftLeft, int64_t, int64_t>(s);
    case ExprOp::shr: return by_scalars<ShiftRight, int64_t, int64_t>(s);
    case ExprOp::eq: return by_scalars<Eq, int64_t, uint8_t>(s);
    case ExprOp::ne: return by_scalars<Ne, int64_t, uint8_t>(s);
    case ExprOp::lt: return by_scalars<Lt, int64_t, uint8_t>(s);
    case ExprOp::le: return by_scalars<Le, int64_t, uint8_t>(s);
    default: return nullptr;
  }
}
TileFn find_double(ExprOp op, unsigned s) {
  switch (op) {
    case ExprOp::add: return by_scalars<Plus, double, double>(s);
    case ExprOp::sub: return by_scalars<Minus, double, double>(s);
    case ExprOp::mul: return by_scalars<Times, double, double>(s);
    case ExprOp::div: return by_scalars<Divide, double, double>(s);
    case ExprOp::min: return by_scalars<Lesser, double, double>(s);
    case ExprOp::max: return by_scalars<Greater, double, double>(s);
    case ExprOp::eq: return by_scalars<Eq, double, uint8_t>(s);
    case ExprOp::ne: return by_scalars<Ne, double, uint8_t>(s);
    case ExprOp::lt: return by_scalars<Lt, double, uint8_t>(s);
    case ExprOp::le: return by_scalars<Le, double, uint8_t>(s);
    default: return nullptr;
  }
}
TileFn find_boolean(ExprOp op, unsigned s) {
  switch (op) {
    case ExprOp::bit_and: return by_scalars<And, uint8_t, uint8_t>(s);
    case ExprOp::bit_or: return by_scalars<Or, uint8_t, uint8_t>(s);
    case ExprOp::bit_xor:
    case ExprOp::ne: return by_scalars<Xor, uint8_t, uint8_t>(s);
    case ExprOp::eq: return by_scalars<Eq, uint8_t, uint8_t>(s);
    case ExprOp::lt: return by_scalars<Lt, uint8_t, uint8_t>(s);
    case ExprOp::le: return by_scalars<Le, uint8_t, uint8_t>(s);
    default: return nullptr;
  }
}
TileFn find_plain(ExprOp op, Scalar type, unsigned scalars) {
  if (type == Scalar::i64) return find_integer(op, scalars);
  return type == Scalar::f64 ? find_double(op, scalars) : find_boolean(op, scalars);
}

struct Negate { static int64_t of(int64_t a) { return WrapMinus::of(0, a); } static double of(double a) { return -a; } };
struct Magnitude {
  static int64_t of(int64_t a) { return a < 0 ? WrapMinus::of(0, a) : a; }
  static double of(double a) { return std::fabs(a); }
};
struct Root { static double of(double a) { return std::sqrt(a); } };
struct InverseRoot { static double of(double a) { return 1 / std::sqrt(a); } };
struct IsNan { static bool of(double a) { return a != a; } };
struct Not { static uint8_t of(uint8_t a) { return a ^ 1; } };

TileFn find_plain_unary(ExprOp op, Scalar type) {
  if (type == Scalar::boolean) return op == ExprOp::logical_not ? unary<Not, uint8_t, uint8_t> : nullptr;
  if (type == Scalar::i64) {
    if (op == ExprOp::neg) return unary<Negate, int64_t, int64_t>;
    return op == ExprOp::abs ? unary<Magnitude, int64_t, int64_t> : nullptr;
  }
  switch (op) {
    case ExprOp::neg: return unary<Negate, double, double>;
    case ExprOp::abs: return unary<Magnitude, double, double>;
    case ExprOp::sqrt: return unary<Root, double, double>;
    case ExprOp::rsqrt: return unary<InverseRoot, double, double>;
    case ExprOp::isnan: return unary<IsNan, double, uint8_t>;
    default: return nullptr;
  }
}

TileFn find_plain_select(Scalar type, unsigned scalars) {
  if (type == Scalar::boolean) return find_select_of<uint8_t>(scalars);
  return type == Scalar::i64 ? find_select_of<int64_t>(scalars) : find_select_of<double>(scalars);
}

TileFn find_copy(size_t lane_bytes, bool scalar) {
  switch (lane_bytes) {
    case 1: return scalar ? copy<uint8_t, true> : copy<uint8_t, false>;
    case 2: return scalar ? copy<uint16_t, true> : copy<uint16_t, false>;
    case 4: return scalar ? copy<uint32_t, true> : copy<uint32_t, false>;
    default: return scalar ? copy<uint64_t, true> : copy<uint64_t, false>;
  }
}

template <class From>
TileFn find_cast_from(Scalar to) {
  switch (to) {
    case Scalar::boolean: return unary<Truth, From, uint8_t>;
    case Scalar::i64: return std::is_floating_point_v<From> ? unary<ToInteger, From, int64_t> : unary<Plain, From, int64_t>;
    case Scalar::f32: return unary<Plain, From, float>;
    default: return unary<Plain, From, double>;
  }
}
TileFn find_cast(Scalar from, Scalar to) {
  switch (from) {
    case Scalar::boolean: return find_cast_from<uint8_t>(to);
    case Scalar::i64: return find_cast_from<int64_t>(to);
    case Scalar::f32: return find_cast_from<float>(to);
    default: return find_cast_from<double>(to);
  }
}
TileFn find_widen(DType dtype) {
  switch (dtype) {
    case DType::boolean: return unary<Truth, uint8_t, uint8_t>;
    case DType::u8: return unary<Plain, uint8_t, int64_t>;
    case DType::i8: return unary<Plain, int8_t, int64_t>;
    case DType::i16: return unary<Plain, int16_t, int64_t>;
    case DType::i32: return unary<Plain, int32_t, int64_t>;
    case DType::f16: return from_f16;
    case DType::bf16: return unary<FromBf16, uint16_t, float>;
    default: return nullptr;
  }
}
TileFn find_narrow(DType dtype) {
  switch (dtype) {
    case DType::u8:
    case DType::i8: return unary<Plain, int64_t, uint8_t>;
    case DType::i16: return unary<Plain, int64_t, uint16_t>;
    case DType::i32: return unary<Plain, int64_t, uint32_t>;
    case DType::f16: return to_f16;
    case DType::bf16: return unary<ToBf16, float, uint16_t>;
    default: return nullptr;
  }
}
TileFn find_round(DType dtype, Scalar type) {
  if (type == Scalar::f32) return dtype == DType::f16 ? through_f16 : dtype == DType::bf16 ? unary<ThroughBf16, float, float> : nullptr;
  if (type == Scalar::f64) {
    if (dtype == DType::f32) return round_double<DType::f32>;
    if (dtype == DType::f16) return round_double<DType::f16>;
    return dtype == DType::bf16 ? round_double<DType::bf16> : nullptr;
  }
  switch (dtype) {
    case DType::boolean: return unary<Truth, int64_t, int64_t>;
    case DType::u8: return unary<Wrap<uint8_t>, int64_t, int64_t>;
    case DType::i8: return unary<Wrap<int8_t>, int64_t, int64_t>;
    case DType::i16: return unary<Wrap<int16_t>, int64_t, int64_t>;
    case DType::i32: return unary<Wrap<int32_t>, int64_t, int64_t>;
    default: return nullptr;
  }
}

template <class T, class Add, class Multiply>
TileFn find_fold(Reduction reduction, Fold form) {
  switch (reduction) {
    case Reduction::sum: return choose_fold<T, Add>(form);
    case Reduction::product: return choose_fold<T, Multiply>(form);
    case Reduction::min: return choose_fold<T, Lesser>(form);
    default: return choose_fold<T, Greater>(form);
  }
}
TileFn find_plain_reduce(Reduction reduction, Scalar type, Fold form) {
  if (type == Scalar::i64) return find_fold<int64_t, WrapPlus, WrapTimes>(reduction, form);
  return find_fold<double, Plus, Times>(reduction, form);
}
TileFn find_scan(Reduction reduction, Scalar type) {
  const bool sum = reduction == Reduction::sum;
  if (type == Scalar::i64) return sum ? scan<int64_t, int64_t, WrapPlus> : scan<int64_t, int64_t, WrapTimes>;
  if (type == Scalar::f32) return sum ? scan<float, double, Plus> : scan<float, double, Times>;
  return sum ? scan<double, double, Plus> : scan<double, double, Times>;
}
TileFn find_index(bool along_columns) { return along_columns ? iota : index_value; }

}  // namespace
}  // namespace npusim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npusim::cpu {
HWY_EXPORT(find_plain);
HWY_EXPORT(find_plain_unary);
HWY_EXPORT(find_plain_select);
HWY_EXPORT(find_copy);
HWY_EXPORT(find_cast);
HWY_EXPORT(find_widen);
HWY_EXPORT(find_narrow);
HWY_EXPORT(find_round);
HWY_EXPORT(find_plain_reduce);
HWY_EXPORT(find_scan);
HWY_EXPORT(find_index);

TileFn unary_fn(ExprOp op, Scalar type) {
  const TileFn fn = type == Scalar::f32 ? float_unary_fn(op) : HWY_DYNAMIC_DISPATCH(find_plain_unary)(op, type);
  return fn ? fn : scalar_math_fn(op, type);
}
TileFn binary_fn(ExprOp op, Scalar type, unsigned scalars) {
  const TileFn fn = type == Scalar::f32 ? float_binary_fn(op, scalars) : HWY_DYNAMIC_DISPATCH(find_plain)(op, type, scalars);
  return fn ? fn : scalar_math_binary_fn(op, type, scalars);
}
TileFn select_fn(Scalar type, unsigned scalars) {
  return type == Scalar::f32 ? float_select_fn(scalars) : HWY_DYNAMIC_DISPATCH(find_plain_select)(type, scalars);
}
TileFn copy_fn(size_t lane_bytes, bool scalar) { return HWY_DYNAMIC_DISPATCH(find_copy)(lane_bytes, scalar); }
TileFn cast_fn(Scalar from, Scalar to) { return HWY_DYNAMIC_DISPATCH(find_cast)(from, to); }
TileFn widen_fn(DType dtype) { return HWY_DYNAMIC_DISPATCH(find_widen)(dtype); }
TileFn narrow_fn(DType dtype) { return HWY_DYNAMIC_DISPATCH(find_narrow)(dtype); }
TileFn round_fn(DType dtype, Scalar type) { return HWY_DYNAMIC_DISPATCH(find_round)(dtype, type); }
TileFn reduce_fn(Reduction reduction, Scalar type, Fold fold, bool wide) {
  if (type == Scalar::f32) return float_reduce_fn(reduction, fold, wide);
  return HWY_DYNAMIC_DISPATCH(find_plain_reduce)(reduction, type, fold);
}
TileFn scan_fn(Reduction reduction, Scalar type) { return HWY_DYNAMIC_DISPATCH(find_scan)(reduction, type); }
TileFn iota_fn() { return HWY_DYNAMIC_DISPATCH(find_index)(true); }
TileFn index_fn() { return HWY_DYNAMIC_DISPATCH(find_index)(false); }
}  // namespace npusim::cpu
#endif
