// The expressions around a contraction as kernels for Loops, and their execution on tiles of the contraction's value.
#pragma once
#include <span>
#include <vector>

#include "backends/cpu/loops/loops.h"
#include "backends/cpu/product/operand.h"
#include "backends/cpu/step.h"
#include "kernel/facts/epilogue_kernel.h"

namespace npusim::cpu::product {

// The memory of an epilogue kernel's arguments: the kernel's, with a slot for the leaf.
std::vector<void*> epilogue_args(const EpilogueKernel& epilogue, std::span<const Binding> args);

// Runs an epilogue on rectangles of a matrix per batch. The three axes and the dimensions in none of them (along which
// the contraction is the same) make up the space.
class TileEpilogue {
 public:
  // leaf[r, c] = tile[r·ld + c], and an attention's log of a sum is tile[r·ld + ld − 1]. in_place: the last argument of
  // the kernel is the tile itself, addressed like the leaf.
  TileEpilogue(const Kernel& kernel, std::span<const Binding> args, const Axis& batch, const Axis& rows,
               const Axis& columns, int64_t ld, int threads, bool in_place = false);
  // `tile` holds rows [r0, r1) and columns [c0, c1) of a batch, (r0, c0) first.
  void run(float* tile, int64_t at_batch, int64_t r0, int64_t r1, int64_t c0, int64_t c1, int thread);
  // After all tiles: throws bad_input when an index left its extent or an integer was divided by zero.
  void check();

 private:
  struct PerThread {
    std::vector<void*> args;
    bool trapped = false;
    std::vector<int64_t> begin, end;  // the box over the space
    std::vector<int64_t> row_lo, row_hi, col_lo, col_hi;
  };
  Axis batch_, rows_, columns_;
  int64_t ld_;
  bool in_place_;
  EpilogueKernel epilogue_;
  loops::Loops loops_;
  std::vector<PerThread> threads_;
};

}  // namespace npusim::cpu::product
