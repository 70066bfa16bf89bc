// Widening, transposing and the register tile of the matrix product, compiled once per instruction set.
#include "backends/cpu/contraction_simd.h"

#include <algorithm>
#include <array>
#include <utility>

#include "backends/cpu/contraction_finish.h"

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

template <class Type>
HWY_INLINE void widen_row(const typename Type::T* from, int64_t count, float* dst) {
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(Type::load(from + i), F(), dst + i);
  for (; i < count; ++i) dst[i] = Type::one(from[i]);
}

void widen(DType dtype, const void* src, int64_t count, float* dst) {
  with_type(dtype, [&](auto type) {
    using Type = decltype(type);
    widen_row<Type>(static_cast<const typename Type::T*>(src), count, dst);
  });
}

void widen_rows(DType dtype, const void* src, int64_t stride, int64_t rows, int64_t cols, float* dst, int64_t ld) {
  with_type(dtype, [&](auto type) {
    using Type = decltype(type);
    const auto* from = static_cast<const typename Type::T*>(src);
    for (int64_t r = 0; r < rows; ++r) widen_row<Type>(from + r * stride, cols, dst + r * ld);
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

// What a tile fetches ahead: `lines` cache lines per `ahead_steps` steps of k.
struct Ahead {
  const std::byte* next;
  int64_t lines;
};
constexpr int64_t ahead_steps = 8;

template <int rows, int64_t stride, int vectors>
void tile(const float* HWY_RESTRICT a, const float* HWY_RESTRICT panel, int64_t depth, float* HWY_RESTRICT c,
          int64_t ldc, bool add, Ahead ahead) {
  const F f;
  VF sum[rows][vectors];
#pragma GCC unroll 16
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) sum[r][v] = hn::Zero(f);
  for (int64_t k = 0; k < depth;) {
    for (int64_t line = 0; line < ahead.lines; ++line, ahead.next += 64) __builtin_prefetch(ahead.next, 0, 2);
    for (const int64_t end = std::min(depth, k + ahead_steps); k < end; ++k) {
      VF b[vectors];
#pragma GCC unroll 2
      for (int v = 0; v < vectors; ++v) {
        b[v] = hn::LoadU(f, panel + v * lanes);
        // The hardware's prefetcher into L1 does not keep up with two lines per step.
        __builtin_prefetch(panel + 8 * tile_columns + v * lanes, 0, 3);
      }
      panel += tile_columns;
#pragma GCC unroll 16
      for (int r = 0; r < rows; ++r) {
        const VF x = hn::Set(f, a[r * stride + k]);
#pragma GCC unroll 2
        for (int v = 0; v < vectors; ++v) sum[r][v] = hn::MulAdd(x, b[v], sum[r][v]);
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) {
      float* to = c + r * ldc + v * lanes;
      if (add) sum[r][v] = hn::Add(sum[r][v], hn::LoadU(f, to));
      hn::StoreU(sum[r][v], f, to);
    }
}

using Tile = void (*)(const float*, const float*, int64_t, float*, int64_t, bool, Ahead);
template <int64_t stride, int vectors, int... rows>
constexpr std::array<Tile, sizeof...(rows)> tiles_of(std::integer_sequence<int, rows...>) {
  return {tile<rows + 1, stride, vectors>...};
}

// Blocks of rows as even as can be: one stays in L1 while the panels come from L2.
template <int64_t stride>
void multiply(const BlockProduct& p) {
  static constexpr auto rows = std::make_integer_sequence<int, tile_rows>();
  static constexpr auto tiles = tiles_of<stride, 2>(rows), narrow_tiles = tiles_of<stride, 1>(rows);
  const int64_t blocks = (p.rows + tile_rows - 1) / tile_rows, steps = (p.depth + ahead_steps - 1) / ahead_steps;
  const int64_t lines = p.next && steps > 0 ? (p.next_bytes + 64 * blocks * steps - 1) / (64 * blocks * steps) : 0;
  for (int64_t i = 0; i < blocks; ++i) {
    const int64_t r0 = p.rows * i / blocks, r1 = p.rows * (i + 1) / blocks, fetched = i * steps * lines * 64;
    for (int64_t n = 0; n < p.panel_count; ++n) {
      float* c = p.c + r0 * p.ldc + n * tile_columns;
      const int64_t n0 = p.column + n * tile_columns, n1 = std::min(p.end_column, n0 + tile_columns);
      if (p.finish) prefetch_tile(*p.finish, p.row + r0, p.row + r1, n0, n1);
      const Ahead ahead{p.next + n * p.next_stride + fetched, fetched < p.next_bytes ? lines : 0};
      const bool narrow = p.finish && n1 - n0 <= lanes;  // of the last panel only one vector is wanted
      (narrow ? narrow_tiles : tiles)[static_cast<size_t>(r1 - r0 - 1)](
          p.a + r0 * stride, p.panels + n * p.panel_stride, p.depth, c, p.ldc, p.add, ahead);
      if (p.finish) finish_tile(*p.finish, c, p.ldc, p.row + r0, p.row + r1, n0, n1);
    }
  }
}
void multiply_matmul(const BlockProduct& product) { multiply<matmul_stride>(product); }
void multiply_attention(const BlockProduct& product) { multiply<attention_stride>(product); }

TileShape tile_shape() { return {tile_rows, tile_columns}; }

}  // namespace HWY_NAMESPACE
}  // namespace npusim::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npusim::cpu {
HWY_EXPORT(widen);
HWY_EXPORT(widen_rows);
HWY_EXPORT(transpose);
HWY_EXPORT(multiply_matmul);
HWY_EXPORT(multiply_attention);
HWY_EXPORT(tile_shape);

void widen(DType dtype, const void* src, int64_t count, float* dst) {
  HWY_DYNAMIC_DISPATCH(widen)(dtype, src, count, dst);
}
void widen_rows(DType dtype, const void* src, int64_t stride, int64_t rows, int64_t cols, float* dst, int64_t ld) {
  HWY_DYNAMIC_DISPATCH(widen_rows)(dtype, src, stride, rows, cols, dst, ld);
}
void transpose(DType dtype, const void* src, int64_t stride, int64_t rows, int64_t cols, float* dst, int64_t ld) {
  HWY_DYNAMIC_DISPATCH(transpose)(dtype, src, stride, rows, cols, dst, ld);
}
void multiply_matmul(const BlockProduct& product) { HWY_DYNAMIC_DISPATCH(multiply_matmul)(product); }
void multiply_attention(const BlockProduct& product) { HWY_DYNAMIC_DISPATCH(multiply_attention)(product); }
TileShape tile_shape() { return HWY_DYNAMIC_DISPATCH(tile_shape)(); }
}  // namespace npusim::cpu
#endif
