// Large products with a constant matrix in types that the machine has arithmetic for, through oneDNN.
#pragma once
#include "backends/cpu/contraction_operand.h"
#include "backends/cpu/matmul.h"

namespace npusim::cpu {

// nullptr unless both operands are float32, or bfloat16 where context.bf16, rows are dense, and oneDNN can end the
// kernel itself.
std::unique_ptr<Step> make_product_step(const Kernel& kernel, std::span<const Binding> args, const Context& context,
                                        const MatmulAxes& axes, const Operand& a, const Operand& b);

}  // namespace npusim::cpu
