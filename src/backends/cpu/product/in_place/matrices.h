// Products of small float32 matrices, none of them constant, where they lie in memory.
#pragma once
#include "backends/cpu/product/problem.h"

namespace npusim::cpu::product::in_place {

// Declines large matrices, few rows that others read as fast, and many that are worth packing what they meet. Matrices
// of other types or layouts are copied to scratch, one after the other.
Answer make_matrices_in_place_step(Problem& problem);

}  // namespace npusim::cpu::product::in_place
