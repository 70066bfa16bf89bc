// Attention through the interpreter.
#pragma once
#include "backends/cpu/product/problem.h"

namespace npusim::cpu::attention {

// For forms no lowering produces: slow and allocating, but right. Never declines.
Answer make_reference_step(product::Problem& problem);

}  // namespace npusim::cpu::attention
