// The end of a register tile of sums, rows by vectors: bias, activation, residual, clamp, and storing; included once
// per target.
#if defined(NPUSIM_PRODUCT_TILE_END_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef NPUSIM_PRODUCT_TILE_END_INL
#undef NPUSIM_PRODUCT_TILE_END_INL
#else
#define NPUSIM_PRODUCT_TILE_END_INL
#endif

#include <cstring>
#include <type_traits>

#include "backends/cpu/product/finish-inl.h"
#include "backends/cpu/product/tile_end.h"

HWY_BEFORE_NAMESPACE();
namespace npusim::cpu::product {
namespace HWY_NAMESPACE {

// The last vector of a row, of which `count` elements are there.
template <class In>
HWY_INLINE VF load_last(const typename In::T* from, int64_t count) {
  return count == finish_lanes ? In::load(from) : load_first<In>(from, count);
}
template <class Out>
HWY_INLINE void store_last(VF x, typename Out::T* to, int64_t count) {
  if (count == finish_lanes) return Out::store(x, to);
  if constexpr (std::is_same_v<Out, ToF32>) return store_first(x, to, count);
  HWY_ALIGN typename Out::T some[finish_lanes];
  Out::store(x, some);
  if constexpr (HWY_TARGET == HWY_AVX3 && sizeof(some[0]) == 2) {
    const hn::Rebind<uint16_t, F> bits;
    hn::BlendedStore(hn::Load(bits, some), hn::FirstN(bits, static_cast<size_t>(count)), bits, to);
  } else {
    std::memcpy(to, some, static_cast<size_t>(count) * sizeof(some[0]));
  }
}

template <int rows, int vectors>
HWY_INLINE void activate(VF (&sum)[rows][vectors], Activation activation) {
  HWY_ALIGN float values[rows * vectors * finish_lanes];
#pragma GCC unroll 24
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) hn::Store(sum[r][v], F(), values + (r * vectors + v) * finish_lanes);
  activate_values(activation, values, rows * vectors * finish_lanes);
#pragma GCC unroll 24
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) sum[r][v] = hn::Load(F(), values + (r * vectors + v) * finish_lanes);
}

template <class In, class Out, int rows, int vectors>
HWY_INLINE void end_tile_as(VF (&sum)[rows][vectors], const TileEnd& end, const float* HWY_RESTRICT bias,
                            const std::byte* residual_at, std::byte* out_at, int64_t last) {
  const int64_t residual_stride = end.residual_stride, out_stride = end.out_stride;
  const auto* residual = reinterpret_cast<const typename In::T*>(residual_at);
  auto* out = reinterpret_cast<typename Out::T*>(out_at);
  constexpr int behind = vectors - 1;
  if (bias) {
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      const VF x = hn::Load(F(), bias + v * finish_lanes);
#pragma GCC unroll 24
      for (int r = 0; r < rows; ++r) sum[r][v] = hn::Add(sum[r][v], x);
    }
  }
  if (end.activation != Activation::linear) activate(sum, end.activation);
  if (residual) {
#pragma GCC unroll 24
    for (int r = 0; r < rows; ++r, residual += residual_stride) {
#pragma GCC unroll 4
      for (int v = 0; v < behind; ++v) sum[r][v] = hn::Add(sum[r][v], In::load(residual + v * finish_lanes));
      sum[r][behind] = hn::Add(sum[r][behind], load_last<In>(residual + behind * finish_lanes, last));
    }
  }
  if (end.clamps) {
    const VF low = hn::Set(F(), end.low), high = hn::Set(F(), end.high);
#pragma GCC unroll 24
    for (int r = 0; r < rows; ++r)
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) sum[r][v] = clamp(sum[r][v], low, high);
  }
#pragma GCC unroll 24
  for (int r = 0; r < rows; ++r, out += out_stride) {
#pragma GCC unroll 4
    for (int v = 0; v < behind; ++v) Out::store(sum[r][v], out + v * finish_lanes);
    store_last<Out>(sum[r][behind], out + behind * finish_lanes, last);
  }
}

// `last` elements of each row's last vector are there. The bias has whole vectors, or is null like the residual.
template <int rows, int vectors>
HWY_INLINE void end_tile(VF (&sum)[rows][vectors], const TileEnd& end, const float* HWY_RESTRICT bias,
                         const std::byte* residual, std::byte* out, int64_t last) {
  if (end.dtype == DType::f32)
    end_tile_as<F32, ToF32>(sum, end, bias, residual, out, last);
  else if (end.dtype == DType::f16)
    end_tile_as<F16, ToF16>(sum, end, bias, residual, out, last);
  else
    end_tile_as<BF16, ToBF16>(sum, end, bias, residual, out, last);
}

}  // namespace HWY_NAMESPACE
}  // namespace npusim::cpu::product
HWY_AFTER_NAMESPACE();
#endif
