// Kernels that sum products in float64 or int64, convolutions among them, or distances in float64, as products of
// matrices: panels of packed operands, tiles of sums.
#pragma once
#include <memory>
#include <span>

#include "backends/cpu/step.h"

namespace npusim::cpu::product::reductions {

// Null where the kernel is none, or loops are as good: few rows or columns. What it makes of its sums loops do behind
// all of them.
std::unique_ptr<BoundStep> make_wide_step(const Kernel& kernel, std::span<const Binding> args, const Context& context);

}  // namespace npusim::cpu::product::reductions
