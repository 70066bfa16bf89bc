// SIMD loops of contractions, chosen for the CPU at run time: widening, transposing, finding what is not finite, and
// the product of two tiles.
#pragma once
#include <cstddef>
#include <cstdint>

#include "backends/cpu/product/pairing.h"
#include "base/dtype.h"

namespace npusim::cpu::product {

// Whether no element of rows `stride` apart, of f32, f16 or bf16, is infinite or NaN.
bool all_finite(DType dtype, const void* x, int64_t stride, int64_t rows, int64_t columns);
// dst[i] = src[i] as f32; f32, f16 and bf16 only.
void widen(DType dtype, const void* src, int64_t count, float* dst);
// dst[r·ld + c] = src[r·stride + c] as f32.
void widen_rows(DType dtype, const void* src, int64_t stride, int64_t rows, int64_t cols, float* dst, int64_t ld);
// dst[c·ld + r] = src[r·stride + c] as f32.
void transpose(DType dtype, const void* src, int64_t stride, int64_t rows, int64_t cols, float* dst, int64_t ld);

// Rows and columns of a register tile; the columns are those of a packed panel of b. A wide tile spends the fewest
// instructions other than its multiply-adds, which other hyperthreads of the core pay for; a tall one wastes the least
// where columns are few.
struct TileShape {
  int64_t rows = 0;
  int64_t columns = 0;
};
TileShape wide_tile();
TileShape tall_tile();
// Whether there are 32 vector registers. With 16 both tiles are the same, of 12 vectors of sums.
bool many_registers();

// Row distances of operands that are packed row by row, known to the compiler so that one register addresses all rows
// of a tile. Both are odd multiples of a cache line: rows do not share cache sets.
inline constexpr int64_t wide_depth = 512, wide_stride = wide_depth + 16;
inline constexpr int64_t narrow_depth = 128, narrow_stride = narrow_depth + 16;

struct Finish;

// Rows times `columns` columns, which lie in panels of w = tile.columns:
// c[r·ldc + n] (+)= Σ_k a(r, k) · panels[n / w·panel_stride + k·w + n % w]. The last panel has w columns too, and of c
// whole vectors are written.
// The sum over k is in order, so results do not depend on how rows are blocked.
struct BlockProduct {
  TileShape tile;
  Pairing pairing = Pairing::product;  // others: multiply_blocks only
  const float* a = nullptr;
  int64_t rows = 0;
  const float* panels = nullptr;
  int64_t panel_stride = 0, columns = 0, depth = 0;
  float* c = nullptr;
  int64_t ldc = 0;
  bool add = false;
  // What comes after these panels: prefetched into the cache meanwhile, `next_bytes` of every `next_stride` bytes.
  const std::byte* next = nullptr;
  int64_t next_stride = 0, next_bytes = 0;
  // When not null, the sums are complete and end in its output, where c begins at (row, column).
  const Finish* finish = nullptr;
  int64_t row = 0, column = 0;
};
// a(r, k) = a[r·a_stride + k]; where there are 16 registers. Best is one panel that stays in L1 while the rows come
// from L2.
void multiply_rows(const BlockProduct& product, int64_t a_stride);
// a(r, k) = a[r·wide_stride + k]; tall tiles only.
void multiply_wide(const BlockProduct& product);
// a(r, k) = a[r·narrow_stride + k]
void multiply_narrow(const BlockProduct& product);
// The rows [begin, end) of register tile i, of n = ⌈rows / tile.rows⌉ as even as can be, lie in columns:
// a(r, k) = a[begin·depth + k·(end - begin) + (r - begin)], begin = rows·i/n, end = rows·(i + 1)/n. Wide tiles only.
void multiply_blocks(const BlockProduct& product);

}  // namespace npusim::cpu::product
