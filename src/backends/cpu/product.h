// Large float32 products with a constant matrix, through oneDNN.
#pragma once
#include "backends/cpu/contraction_operand.h"
#include "backends/cpu/matmul.h"

namespace npusim::cpu {

// nullptr unless all is float32, rows are dense and oneDNN can end the kernel itself.
std::unique_ptr<Step> make_product_step(const Kernel& kernel, std::span<const Binding> args, const Context& context,
                                        const MatmulAxes& axes, const Operand& a, const Operand& b);

}  // namespace npusim::cpu
