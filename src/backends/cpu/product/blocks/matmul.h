// Kernels with a matmul as products of blocks, with the epilogue run on each block of the result while it is in cache.
#pragma once
#include <memory>

#include "backends/cpu/product/problem.h"
#include "backends/cpu/product/simd.h"

namespace npusim::cpu::product::blocks {

// Any matmul, and any convolution, as a matmul whose operand a is gathered: never declines.
Answer make_matmul_step(Problem& problem);
// What becomes of the sums of rows [r0, r1) and columns [c0, c1) of a batch, ld apart, before the epilogue.
struct TileSums {
  virtual ~TileSums() = default;
  virtual void complete(float* sums, int64_t ld, int64_t batch, int64_t r0, int64_t r1, int64_t c0, int64_t c1) = 0;
};
// The same with another pairing, of a kernel whose contraction stands for it, or with other sums.
std::unique_ptr<BoundStep> make_paired_step(Problem& problem, Pairing pairing, TileSums* sums = nullptr);

}  // namespace npusim::cpu::product::blocks
