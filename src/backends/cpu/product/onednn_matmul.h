// Large products with a constant matrix in types that the machine has arithmetic for, through oneDNN.
#pragma once
#include "backends/cpu/product/matmul.h"
#include "backends/cpu/product/operand.h"

namespace npusim::cpu {

// nullptr unless both operands are float32 in dense rows, or bfloat16 where context.bf16, and oneDNN can end the kernel
// itself. Operand a is what `rows` reads.
std::unique_ptr<BoundStep> make_product_step(const Kernel& kernel, std::span<const Binding> args,
                                             const Context& context, const MatmulAxes& axes, const Access& rows,
                                             const Operand& a, const Operand& b);

}  // namespace npusim::cpu
