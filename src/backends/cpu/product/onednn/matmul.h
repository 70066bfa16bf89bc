// Large products with a constant matrix in types that the machine has arithmetic for, through oneDNN.
#pragma once
#include "backends/cpu/product/problem.h"

namespace npusim::cpu::product::onednn {

// Declines unless both operands are float32 in dense rows, or bfloat16 where the machine multiplies it, oneDNN can end
// the kernel itself, and own tiles are not known to be faster.
Answer make_onednn_matmul_step(Problem& problem);

}  // namespace npusim::cpu::product::onednn
