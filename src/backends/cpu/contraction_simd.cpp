// Widening, transposing and the register tile of the matrix product, compiled once per instruction set.
#include "backends/cpu/contraction_simd.h"

#include <algorithm>

#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/contraction_simd.cpp"
#include <hwy/foreach_target.h>

#include "backends/cpu/contraction_simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace npusim::cpu {
namespace HWY_NAMESPACE {

constexpr int64_t lanes = static_cast<int64_t>(hn::MaxLanes(F()));
// 12 x 2 vectors of sums with 32 registers, 6 x 2 with 16.
constexpr int tile_rows = HWY_TARGET == HWY_AVX3 ? 12 : 6;
constexpr int64_t tile_columns = 2 * lanes;

void widen(DType dtype, const void* src, int64_t count, float* dst) {
  with_type(dtype, [&](auto type) {
    using Type = decltype(type);
    const auto* from = static_cast<const typename Type::T*>(src);
    int64_t i = 0;
    for (; i + lanes <= count; i += lanes) hn::StoreU(Type::load(from + i), F(), dst + i);
    for (; i < count; ++i) dst[i] = Type::one(from[i]);
  });
}

// Four rows become the four elements of an interleaved store; wider blocks come from the lanes.
void transpose(DType dtype, const void* src, int64_t stride, int64_t rows, int64_t cols, float* dst, int64_t ld) {
  with_type(dtype, [&](auto type) {
    using Type = decltype(type);
    const auto* from = static_cast<const typename Type::T*>(src);
    HWY_ALIGN float block[4 * lanes];
    int64_t r = 0;
    for (; r + 4 <= rows; r += 4) {
      const auto* row = from + r * stride;
      int64_t c = 0;
      for (; c + lanes <= cols; c += lanes) {
        hn::StoreInterleaved4(Type::load(row + c), Type::load(row + stride + c), Type::load(row + 2 * stride + c),
                              Type::load(row + 3 * stride + c), F(), block);
        const hn::CappedTag<float, 4> four;
        for (int64_t n = 0; n < lanes; ++n) hn::StoreU(hn::Load(four, block + 4 * n), four, dst + (c + n) * ld + r);
      }
      for (; c < cols; ++c)
        for (int64_t n = 0; n < 4; ++n) dst[c * ld + r + n] = Type::one(row[n * stride + c]);
    }
    for (; r < rows; ++r)
      for (int64_t c = 0; c < cols; ++c) dst[c * ld + r] = Type::one(from[r * stride + c]);
  });
}

template <int rows, int64_t stride>
void tile(const float* HWY_RESTRICT a, const float* HWY_RESTRICT panel, int64_t depth, float* HWY_RESTRICT c,
          int64_t ldc, bool add) {
  const F f;
  VF sum[rows][2];
#pragma GCC unroll 16
  for (int r = 0; r < rows; ++r) sum[r][0] = sum[r][1] = hn::Zero(f);
  for (int64_t k = 0; k < depth; ++k) {
    const VF b0 = hn::LoadU(f, panel), b1 = hn::LoadU(f, panel + lanes);
    panel += tile_columns;
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r) {
      const VF x = hn::Set(f, a[r * stride + k]);
      sum[r][0] = hn::MulAdd(x, b0, sum[r][0]);
      sum[r][1] = hn::MulAdd(x, b1, sum[r][1]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < rows; ++r) {
    float* to = c + r * ldc;
    if (add) {
      sum[r][0] = hn::Add(sum[r][0], hn::LoadU(f, to));
      sum[r][1] = hn::Add(sum[r][1], hn::LoadU(f, to + lanes));
    }
    hn::StoreU(sum[r][0], f, to);
    hn::StoreU(sum[r][1], f, to + lanes);
  }
}

// Blocks of rows as even as can be.
template <int64_t stride>
void multiply(const float* a, int64_t rows, const float* panel, int64_t depth, float* c, int64_t ldc, bool add) {
  using Tile = void (*)(const float*, const float*, int64_t, float*, int64_t, bool);
  static constexpr Tile tiles[] = {
      tile<1, stride>,
      tile<2, stride>,
      tile<3, stride>,
      tile<4, stride>,
      tile<5, stride>,
      tile<6, stride>,
      tile < tile_rows == 12 ? 7 : 1,
      stride >,
      tile < tile_rows == 12 ? 8 : 1,
      stride >,
      tile < tile_rows == 12 ? 9 : 1,
      stride >,
      tile < tile_rows == 12 ? 10 : 1,
      stride >
      , tile < tile_rows == 12 ? 11 : 1, stride >, tile < tile_rows == 12 ? 12 : 1, stride > };
  const int64_t blocks = (rows + tile_rows - 1) / tile_rows;
  for (int64_t i = 0; i < blocks; ++i) {
    const int64_t r0 = rows * i / blocks, r1 = rows * (i + 1) / blocks;
    tiles[r1 - r0 - 1](a + r0 * stride, panel, depth, c + r0 * ldc, ldc, add);
  }
}
void multiply_matmul(const float* a, int64_t rows, const float* panel, int64_t depth, float* c, int64_t ldc, bool add) {
  multiply<matmul_stride>(a, rows, panel, depth, c, ldc, add);
}
void multiply_attention(const float* a, int64_t rows, const float* panel, int64_t depth, float* c, int64_t ldc,
                        bool add) {
  multiply<attention_stride>(a, rows, panel, depth, c, ldc, add);
}

TileShape tile_shape() { return {tile_rows, tile_columns}; }

}  // namespace HWY_NAMESPACE
}  // namespace npusim::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npusim::cpu {
HWY_EXPORT(widen);
HWY_EXPORT(transpose);
HWY_EXPORT(multiply_matmul);
HWY_EXPORT(multiply_attention);
HWY_EXPORT(tile_shape);

void widen(DType dtype, const void* src, int64_t count, float* dst) {
  HWY_DYNAMIC_DISPATCH(widen)(dtype, src, count, dst);
}
void transpose(DType dtype, const void* src, int64_t stride, int64_t rows, int64_t cols, float* dst, int64_t ld) {
  HWY_DYNAMIC_DISPATCH(transpose)(dtype, src, stride, rows, cols, dst, ld);
}
void multiply_matmul(const float* a, int64_t rows, const float* panel, int64_t depth, float* c, int64_t ldc, bool add) {
  HWY_DYNAMIC_DISPATCH(multiply_matmul)(a, rows, panel, depth, c, ldc, add);
}
void multiply_attention(const float* a, int64_t rows, const float* panel, int64_t depth, float* c, int64_t ldc,
                        bool add) {
  HWY_DYNAMIC_DISPATCH(multiply_attention)(a, rows, panel, depth, c, ldc, add);
}
TileShape tile_shape() { return HWY_DYNAMIC_DISPATCH(tile_shape)(); }
}  // namespace npusim::cpu
#endif
