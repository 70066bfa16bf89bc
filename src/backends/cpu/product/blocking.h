// How a product is cut: into blocks for the caches, register tiles, and shares of the threads.
#pragma once
#include <cstdint>
#include <string>

#include "backends/cpu/product/operand.h"
#include "backends/cpu/product/simd.h"

namespace npusim::cpu::product {

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// A block of rows of a meets a group of columns of b, one slice of the depth after the other. In L2 lie a slice of the
// rows, the group's sums, and what is used next of b.
struct Blocking {
  TileShape tile;
  int64_t slice_depth, group_columns;
  int64_t pass_columns;                          // of the group, that meet all rows before the next do
  enum Rows { by_tile, by_row, in_place } rows;  // packed for multiply_blocks, packed, or as they are in memory
  int64_t row_stride;
};
Blocking choose_blocking(const Operand& a, int64_t columns);
Blocking blocking_of_pairs();  // of other pairings than the product

// How threads share batches, rows and panels: each its own contiguous part, no barrier.
struct Grid {
  int64_t batches = 1, rows = 1, panels = 1;
};

Grid choose_grid(int64_t batches, int64_t rows, int64_t panels, int threads);

// Why own tiles are the better choice; empty: they are not known to be. Of float32 products oneDNN computes more slowly
// on Cascade Lake: those of few rows, by 15 %, and where many columns meet each packed row and the weight comes from
// memory, by 2 to 6 %. Without AVX-512 it runs its BLAS routine: on the 16 registers of a Zen 5 that is 40 % behind
// where rows of the weight are a multiple of 4 KB apart, and elsewhere within 5 % but for small depths, where a tile's
// beginning and end weigh.
std::string own_product_wins(const Operand& a, int64_t columns);

}  // namespace npusim::cpu::product
