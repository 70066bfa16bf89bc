// Float32 products of rows that stay where they are: no copies, and sums that end in registers.
#pragma once
#include "backends/cpu/product/problem.h"

namespace npusim::cpu {

// Declines unless the rows, a constant weight and all that ends the product are float32 in dense rows, and the end is a
// bias, a residual and a clamp.
Answer make_rows_in_place_step(Problem& problem);

}  // namespace npusim::cpu
