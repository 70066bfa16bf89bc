// Kernels with a matmul as products of blocks, with the epilogue run on each block of the result while it is in cache.
#pragma once
#include <span>

#include "backends/cpu/product/operand.h"
#include "backends/cpu/step.h"

namespace npusim::cpu {

// The dimensions of a matmul by role. A dimension neither operand depends on is in no axis.
struct MatmulAxes {
  Axis batch, rows, columns, depth;
};
MatmulAxes classify(const Kernel& kernel, const Access& a, const Access& b);

// Any matmul (and any convolution, as a matmul whose operand a is gathered).
std::unique_ptr<BoundStep> make_matmul_step(const Kernel& kernel, std::span<const Binding> args,
                                            const Context& context);

}  // namespace npusim::cpu
