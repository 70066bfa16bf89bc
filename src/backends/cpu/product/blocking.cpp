// Choices of blocks, tiles and shares.
#include "backends/cpu/product/blocking.h"

namespace npusim::cpu::product {
namespace {

// With 16 registers a step of a tile reads 16 numbers of b for 6 of a, and L1 is small: one panel stays there while the
// rows come from L2. Rows of float32 may stay where they are unless they share cache sets; packing them pays where many
// columns meet them.
Blocking choose_narrow_blocking(const Operand& a, int64_t columns) {
  constexpr int64_t slice_depth = 256, page_floats = 1024;
  const bool dense = a.dtype == DType::f32 && a.bounds.empty() && a.step[1] != -1 && a.step[2] == 1 && a.size(2) > 0;
  const bool in_place = dense && (a.step[1] % page_floats != 0 || columns < 128);
  return {wide_tile(),
          slice_depth,
          128,
          wide_tile().columns,
          in_place ? Blocking::in_place : Blocking::by_row,
          in_place ? a.step[1] : slice_depth + 16};
}

}  // namespace

// With 32 registers a block of rows stays in L1 while the panels come from L2. Packing rows tile by tile costs more,
// and element by element far more where rows are not evenly apart; many products of each packed element pay for it.
Blocking choose_blocking(const Operand& a, int64_t columns) {
  if (!many_registers()) return choose_narrow_blocking(a, columns);
  const bool even = a.bounds.empty() && ((a.step[1] != -1 && a.step[2] == 1) || (a.step[1] == 1 && a.step[2] != -1));
  if (even && a.size(1) >= 64 && columns >= 256 && a.size(2) >= 256)
    return {wide_tile(), 384, 64, 64, Blocking::by_tile, 0};
  return {tall_tile(), wide_depth, 128, 128, Blocking::by_row, wide_stride};
}

Blocking blocking_of_pairs() {
  return {wide_tile(), 256, 128, many_registers() ? 128 : wide_tile().columns, Blocking::by_tile, 0};
}

std::string own_product_wins(const Operand& a, int64_t columns) {
  const int64_t depth = a.size(2);
  if (a.dtype != DType::f32) return {};
  if (!many_registers())
    return depth >= 64 ? "float32 without AVX-512, of depth 64 or more: own tiles are faster (measured)" : "";
  if (a.size(1) < 64 && depth >= 256) return "fewer than 64 rows of float32: own tiles are faster (measured)";
  const bool many = choose_blocking(a, columns).rows == Blocking::by_tile && columns >= 2 * depth &&
                    columns * depth >= int64_t{1} << 20;
  return many ? "a large float32 weight of many columns: own tiles are faster (measured)" : "";
}

// Smallest estimated cycles of the slowest thread: products, packing of a (done by every thread of a row part) and
// widening or reading of b (by every thread of a panel part).
Grid choose_grid(int64_t batches, int64_t rows, int64_t panels, int threads) {
  if (batches >= threads) return {threads, 1, 1};
  Grid best;
  double least = 0;
  for (int64_t r = 1; r <= threads; ++r) {
    const int64_t p = threads / r;
    const auto my_rows = static_cast<double>(ceil_div(rows, r)), my_panels = static_cast<double>(ceil_div(panels, p));
    const double cost = my_rows * my_panels + 0.5 * my_rows + 8 * my_panels;
    if (r == 1 || cost < least) best = {1, r, p}, least = cost;
  }
  return best;
}

}  // namespace npusim::cpu::product
