// Products of rows that stay where they are, if they are float32, and sums that end in registers.
#pragma once
#include "backends/cpu/product/problem.h"

namespace npusim::cpu::product::in_place {

// Declines unless a constant weight is float32 and a bias, an activation, a residual of the output's type and a clamp
// end the product. Rows of 16 bits are widened, as many at once as stay in a cache.
// Whether every run would pack b, no constant: nothing next to many rows that lie densely.
bool packs_by_runs(const Matrices& matrices);

Answer make_rows_in_place_step(Problem& problem);

}  // namespace npusim::cpu::product::in_place
