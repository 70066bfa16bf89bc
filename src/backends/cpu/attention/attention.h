// Kernels with attention: flash style over tiles of keys, never holding a whole row of scores.
#pragma once
#include "backends/cpu/product/problem.h"

namespace npusim::cpu::attention {

// Declines when both operands of the score depend on the keys, or rows have numbers of keys of their own.
Answer make_attention_step(product::Problem& problem);

}  // namespace npusim::cpu::attention
