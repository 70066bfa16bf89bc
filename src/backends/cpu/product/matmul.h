// Kernels with a matmul as products of blocks, with the epilogue run on each block of the result while it is in cache.
#pragma once
#include "backends/cpu/product/problem.h"
#include "backends/cpu/product/simd.h"

namespace npusim::cpu {

// Any matmul, and any convolution, as a matmul whose operand a is gathered: never declines.
Answer make_matmul_step(Problem& problem);
// The same with another pairing, of a kernel whose contraction stands for it.
std::unique_ptr<BoundStep> make_paired_step(Problem& problem, Pairing pairing);

}  // namespace npusim::cpu
