// Kernels with a matmul as products of blocks, with the epilogue run on each block of the result while it is in cache.
#pragma once
#include "backends/cpu/product/problem.h"

namespace npusim::cpu {

// Any matmul, and any convolution, as a matmul whose operand a is gathered: never declines.
Answer make_matmul_step(Problem& problem);

}  // namespace npusim::cpu
