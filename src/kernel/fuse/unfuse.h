// Contractions spelled out as reductions along rows: the same kernel for devices without a product of their own.
#pragma once
#include <vector>

#include "kernel/fuse/fuse.h"

namespace npusim {

// Kernels without a contraction that, one after the other, do what one kernel does.
struct Unfused {
  std::vector<int64_t> scratch;    // elements of each f32 memory that only the steps use
  std::vector<BoundKernel> steps;  // values: arguments of the kernel by position, and behind them the scratch
};

// A product or a convolution becomes one row kernel, whose row is what it sums over: Σ a·b in f32, where an operand
// outside its guards is 0 and is multiplied like any other. Attention becomes three: the scores, their softmax, the
// product with the values; keys that do not exist are selected away there. What accumulates has no row: there the sum
// is stored and the epilogue is a step behind it. A kernel without a contraction is its own only step.
Unfused unfuse(const Kernel& kernel);

// The one step of a kernel that has no more, with the kernel's own arguments in their order.
Kernel only_step(const Kernel& kernel, const BoundKernel& step);

}  // namespace npusim
