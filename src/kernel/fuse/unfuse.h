// Contractions spelled out as reductions along rows, and orders as merges: the same kernel for devices without a
// product or a sort of their own.
#pragma once
#include <vector>

#include "kernel/fuse/fuse.h"

namespace npusim {

// Kernels without a contraction that, one after the other, do what one kernel does. A step that updates an argument
// finds in it what is in the one that it updates, of another value.
struct Unfused {
  struct Scratch {
    DType dtype = DType::f32;
    int64_t elements = 0;
  };
  std::vector<Scratch> scratch;    // memory that only the steps use
  std::vector<BoundKernel> steps;  // values: arguments of the kernel by position, and behind them the scratch
};

// A product or a convolution becomes one row kernel, whose row is what it sums over: Σ a·b in f32, where an operand
// outside its guards is 0 and is multiplied like any other. Attention becomes three: the scores, their softmax, the
// product with the values; keys that do not exist are selected away there. What accumulates has no row: there the sum
// is stored and the epilogue is a step behind it. A kernel that orders rows becomes several (fuse/merge_runs.h, and
// fuse/select_digits.h for one position of long rows), and so does one that transforms rows, which stay products
// (fuse/fourier_steps.h). Any other without a contraction is its own only step.
Unfused unfuse(const Kernel& kernel);

// Two steps that do what a product or a convolution does which stores without adding: sums over `parts` equal pieces of
// the reduced dimension `along`, by a product; and their sum in order, with the epilogue.
Unfused split_sum(const Kernel& kernel, size_t along, int64_t parts);
// Two steps: a copy of operand b, with the dimensions of space ++ reduce that it has in this order, outermost first,
// and zeros behind the last one's elements up to a multiple of `padding`; and the product that reads it.
Unfused pack_operand(const Kernel& kernel, const std::vector<int>& order, int64_t padding = 1);
// Attention as three steps of which the first and, where all keys exist, the last are products: what the softmax gives
// is stored in `weights`.
Unfused attention_products(const Kernel& kernel, DType weights);
// `unfused`, of a kernel with so many arguments, with the n-th of its steps done by those of `inner`.
void replace_step(Unfused& unfused, size_t arguments, size_t n, Unfused inner);

// The one step of a kernel that has no more, with the kernel's own arguments in their order.
Kernel only_step(const Kernel& kernel, const BoundKernel& step);

}  // namespace npusim
