// Rows of one operand against rows of another, by the distances of their elements: kernels with a reduction, run as
// matrix products are.
#pragma once
#include <span>

#include "backends/cpu/product/blocks/matmul.h"

namespace npusim::cpu::product::reductions {

// Null where the kernel is none of Σ (a − b)², Σ |a − b| and max |a − b| along its row, of elements that run along
// different dimensions outside it.
std::unique_ptr<BoundStep> make_distances_step(const Kernel& kernel, std::span<const Binding> args,
                                               const Context& context);

}  // namespace npusim::cpu::product::reductions
