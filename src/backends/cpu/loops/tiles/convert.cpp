// Tile functions that convert: casts between lanes, stored types to lanes and back, copies and indices.
#include "backends/cpu/loops/tiles/tile.h"
#include "backends/cpu/vector_targets.h"
#include "base/dtype.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/loops/tiles/convert.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/cpu/loops/tiles/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace npusim::cpu::loops::tiles::HWY_NAMESPACE {
namespace {

template <class T, bool scalar>
void copy(const TileCall& c) {
  const int64_t n = lanes_of(c);
  for (int64_t r = 0; r < c.rows; ++r) {
    const T* a = row_of<T>(c, 0, r);
    T* out = dst_row_of<T>(c, r);
    const T fixed = *a;
    NPUSIM_IVDEP
    for (int64_t j = 0; j < n; ++j) out[j] = scalar ? fixed : a[j];
  }
}

// ---- casts and stored types

struct Truth {
  template <class T>
  static bool of(T a) {
    return a != 0;
  }
};
struct Plain {
  template <class T>
  static T of(T a) {
    return a;
  }
};
// As x86 converts: what does not fit (and NaN) gives the smallest integer.
struct ToInteger {
  static int64_t of(double x) {
    return x >= -9223372036854775808.0 && x < 9223372036854775808.0 ? static_cast<int64_t>(x)
                                                                    : std::numeric_limits<int64_t>::min();
  }
};
struct FromBf16 {
  static float of(uint16_t a) { return bf16_to_float(a); }
};
struct ToBf16 {
  static uint16_t of(float a) { return float_to_bf16(a); }
};
struct ThroughBf16 {
  static float of(float a) { return bf16_to_float(float_to_bf16(a)); }
};

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
constexpr bool has_f16 = true;
#else
constexpr bool has_f16 = false;
#endif

using F32 = hn::ScalableTag<float>;
using F16 = hn::Rebind<hwy::float16_t, F32>;

void from_f16(const TileCall& c) {
  const int64_t n = lanes_of(c);
  for (int64_t r = 0; r < c.rows; ++r) {
    const uint16_t* a = row_of<uint16_t>(c, 0, r);
    float* out = dst_row_of<float>(c, r);
    if constexpr (has_f16) {
      for (int64_t j = 0; j < n; j += static_cast<int64_t>(hn::Lanes(F32())))
        hn::StoreU(hn::PromoteTo(F32(), hn::LoadU(F16(), reinterpret_cast<const hwy::float16_t*>(a + j))), F32(),
                   out + j);
    } else {
      for (int64_t j = 0; j < n; ++j) out[j] = f16_to_float(a[j]);
    }
  }
}
void to_f16(const TileCall& c) {
  const int64_t n = lanes_of(c);
  for (int64_t r = 0; r < c.rows; ++r) {
    const float* a = row_of<float>(c, 0, r);
    uint16_t* out = dst_row_of<uint16_t>(c, r);
    if constexpr (has_f16) {
      for (int64_t j = 0; j < n; j += static_cast<int64_t>(hn::Lanes(F32())))
        hn::StoreU(hn::DemoteTo(F16(), hn::LoadU(F32(), a + j)), F16(), reinterpret_cast<hwy::float16_t*>(out + j));
    } else {
      for (int64_t j = 0; j < n; ++j) out[j] = float_to_f16(a[j]);
    }
  }
}
void through_f16(const TileCall& c) {
  const int64_t n = lanes_of(c);
  for (int64_t r = 0; r < c.rows; ++r) {
    const float* a = row_of<float>(c, 0, r);
    float* out = dst_row_of<float>(c, r);
    if constexpr (has_f16) {
      for (int64_t j = 0; j < n; j += static_cast<int64_t>(hn::Lanes(F32())))
        hn::StoreU(hn::PromoteTo(F32(), hn::DemoteTo(F16(), hn::LoadU(F32(), a + j))), F32(), out + j);
    } else {
      for (int64_t j = 0; j < n; ++j) out[j] = f16_to_float(float_to_f16(a[j]));
    }
  }
}
template <DType dtype>
void round_double(const TileCall& c) {
  for (int64_t r = 0; r < c.rows; ++r)
    for (int64_t j = 0; j < c.columns; ++j)
      dst_row_of<double>(c, r)[j] = round_through(dtype, row_of<double>(c, 0, r)[j]);
}
template <class T>
struct Wrap {
  static int64_t of(int64_t a) { return static_cast<T>(a); }
};

// Vectors of integers below 2^51 are the low bits of doubles around 3 · 2^51: exact, and so rounded once.
template <class To>
void from_integer(const TileCall& c) {
  const int64_t n = lanes_of(c);
  const hn::ScalableTag<double> d;
  const hn::RebindToSigned<decltype(d)> di;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  constexpr int64_t limit = int64_t{1} << 51;
  const auto anchor = hn::Set(d, 0x1.8p52);
  for (int64_t r = 0; r < c.rows; ++r) {
    const int64_t* a = row_of<int64_t>(c, 0, r);
    To* out = dst_row_of<To>(c, r);
    for (int64_t j = 0; j < n; j += lanes) {
      const auto x = hn::LoadU(di, a + j);
      if (!hn::AllTrue(di, hn::And(hn::Lt(x, hn::Set(di, limit)), hn::Gt(x, hn::Set(di, -limit))))) {
        for (int64_t i = j; i < j + lanes; ++i) out[i] = static_cast<To>(a[i]);
        continue;
      }
      const auto real = hn::Sub(hn::BitCast(d, hn::Add(x, hn::BitCast(di, anchor))), anchor);
      if constexpr (sizeof(To) == sizeof(float))
        hn::StoreU(hn::DemoteTo(hn::Rebind<float, decltype(d)>(), real), hn::Rebind<float, decltype(d)>(), out + j);
      else
        hn::StoreU(real, d, out + j);
    }
  }
}

void iota(const TileCall& c) {
  const int64_t n = lanes_of(c);
  const int64_t begin = *static_cast<const int64_t*>(c.extra);
  for (int64_t j = 0; j < n; ++j) static_cast<int64_t*>(c.dst)[j] = begin + j;
}
void index_value(const TileCall& c) {
  for (int64_t j = 0; j < lane_block; ++j) static_cast<int64_t*>(c.dst)[j] = *static_cast<const int64_t*>(c.extra);
}

// ---- tables

TileFn find_copy(size_t lane_bytes, bool scalar) {
  switch (lane_bytes) {
    case 1:
      return scalar ? copy<uint8_t, true> : copy<uint8_t, false>;
    case 2:
      return scalar ? copy<uint16_t, true> : copy<uint16_t, false>;
    case 4:
      return scalar ? copy<uint32_t, true> : copy<uint32_t, false>;
    default:
      return scalar ? copy<uint64_t, true> : copy<uint64_t, false>;
  }
}

template <class From>
TileFn find_cast_from(Scalar to) {
  switch (to) {
    case Scalar::i64:
      return std::is_floating_point_v<From> ? unary<ToInteger, From, int64_t> : unary<Plain, From, int64_t>;
    case Scalar::f32:
      return unary<Plain, From, float>;
    default:
      return unary<Plain, From, double>;
  }
}
TileFn find_cast(Scalar from, Scalar to) {
  switch (from) {
    case Scalar::boolean:
      return find_cast_from<uint8_t>(to);
    case Scalar::i64:
      if (to == Scalar::f32) return from_integer<float>;
      return to == Scalar::f64 ? from_integer<double> : find_cast_from<int64_t>(to);
    case Scalar::f32:
      return find_cast_from<float>(to);
    default:
      return find_cast_from<double>(to);
  }
}
TileFn find_widen(DType dtype) {
  switch (dtype) {
    case DType::boolean:
      return unary<Truth, uint8_t, uint8_t>;
    case DType::u8:
      return unary<Plain, uint8_t, int64_t>;
    case DType::i8:
      return unary<Plain, int8_t, int64_t>;
    case DType::i16:
      return unary<Plain, int16_t, int64_t>;
    case DType::i32:
      return unary<Plain, int32_t, int64_t>;
    case DType::f16:
      return from_f16;
    case DType::bf16:
      return unary<FromBf16, uint16_t, float>;
    default:
      return nullptr;
  }
}
TileFn find_narrow(DType dtype) {
  switch (dtype) {
    case DType::u8:
    case DType::i8:
      return unary<Plain, int64_t, uint8_t>;
    case DType::i16:
      return unary<Plain, int64_t, uint16_t>;
    case DType::i32:
      return unary<Plain, int64_t, uint32_t>;
    case DType::f16:
      return to_f16;
    case DType::bf16:
      return unary<ToBf16, float, uint16_t>;
    default:
      return nullptr;
  }
}
TileFn find_round(DType dtype, Scalar type) {
  if (type == Scalar::f32)
    return dtype == DType::f16 ? through_f16 : dtype == DType::bf16 ? unary<ThroughBf16, float, float> : nullptr;
  if (type == Scalar::f64) {
    if (dtype == DType::f32) return round_double<DType::f32>;
    if (dtype == DType::f16) return round_double<DType::f16>;
    return dtype == DType::bf16 ? round_double<DType::bf16> : nullptr;
  }
  switch (dtype) {
    case DType::boolean:
      return unary<Truth, int64_t, int64_t>;
    case DType::u8:
      return unary<Wrap<uint8_t>, int64_t, int64_t>;
    case DType::i8:
      return unary<Wrap<int8_t>, int64_t, int64_t>;
    case DType::i16:
      return unary<Wrap<int16_t>, int64_t, int64_t>;
    case DType::i32:
      return unary<Wrap<int32_t>, int64_t, int64_t>;
    default:
      return nullptr;
  }
}

TileFn find_index(bool along_columns) { return along_columns ? iota : index_value; }

}  // namespace
}  // namespace npusim::cpu::loops::tiles::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npusim::cpu::loops::tiles {
HWY_EXPORT(find_copy);
HWY_EXPORT(find_cast);
HWY_EXPORT(find_widen);
HWY_EXPORT(find_narrow);
HWY_EXPORT(find_round);
HWY_EXPORT(find_index);

TileFn copy_fn(size_t lane_bytes, bool scalar) { return HWY_DYNAMIC_DISPATCH(find_copy)(lane_bytes, scalar); }
TileFn cast_fn(Scalar from, Scalar to) {
  if (to == Scalar::boolean && from != Scalar::boolean) return truth_fn(from);
  return HWY_DYNAMIC_DISPATCH(find_cast)(from, to);
}
TileFn widen_fn(DType dtype) { return HWY_DYNAMIC_DISPATCH(find_widen)(dtype); }
TileFn narrow_fn(DType dtype) { return HWY_DYNAMIC_DISPATCH(find_narrow)(dtype); }
TileFn round_fn(DType dtype, Scalar type) { return HWY_DYNAMIC_DISPATCH(find_round)(dtype, type); }
TileFn iota_fn() { return HWY_DYNAMIC_DISPATCH(find_index)(true); }
TileFn index_fn() { return HWY_DYNAMIC_DISPATCH(find_index)(false); }
}  // namespace npusim::cpu::loops::tiles
#endif
