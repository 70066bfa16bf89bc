// SIMD loops of contractions, chosen for the CPU at run time: widening, transposing, and the product of two tiles.
#pragma once
#include <cstddef>
#include <cstdint>

#include "base/dtype.h"

namespace npusim::cpu {

// dst[i] = src[i] as f32; f32, f16 and bf16 only.
void widen(DType dtype, const void* src, int64_t count, float* dst);
// dst[r·ld + c] = src[r·stride + c] as f32.
void widen_rows(DType dtype, const void* src, int64_t stride, int64_t rows, int64_t cols, float* dst, int64_t ld);
// dst[c·ld + r] = src[r·stride + c] as f32.
void transpose(DType dtype, const void* src, int64_t stride, int64_t rows, int64_t cols, float* dst, int64_t ld);

// Columns of one packed panel of b, rows of one register tile.
struct TileShape {
  int64_t rows;
  int64_t columns;
};
TileShape tile_shape();

// Row distances of packed blocks of a, known to the compiler so that one register addresses all rows of a tile. Both
// are odd multiples of a cache line: rows do not share cache sets.
inline constexpr int64_t matmul_depth = 512, matmul_stride = matmul_depth + 16;
inline constexpr int64_t attention_depth = 128, attention_stride = attention_depth + 16;

struct Finish;

// A block of packed rows times panels of packed columns, n < tile_shape().columns:
// c[r·ldc + p·columns + n] (+)= Σ_k a[r·stride + k] · panels[p·panel_stride + k·columns + n],
// where stride is matmul_stride or attention_stride. The sum over k is in order, so results do not depend on how rows
// are blocked.
struct BlockProduct {
  const float* a = nullptr;
  int64_t rows = 0;
  const float* panels = nullptr;
  int64_t panel_stride = 0, panel_count = 1, depth = 0;
  float* c = nullptr;
  int64_t ldc = 0;
  bool add = false;
  // What comes after these panels: brought into the cache meanwhile, `next_bytes` of every `next_stride` bytes.
  const std::byte* next = nullptr;
  int64_t next_stride = 0, next_bytes = 0;
  // When not null, the sums are complete and end in its output, where c begins at (row, column); the columns from
  // `end_column` on are padding.
  const Finish* finish = nullptr;
  int64_t row = 0, column = 0, end_column = 0;
};
void multiply_matmul(const BlockProduct& product);
void multiply_attention(const BlockProduct& product);

}  // namespace npusim::cpu
