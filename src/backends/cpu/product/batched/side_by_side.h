// Many small products: as many of them side by side as a vector has lanes.
#pragma once
#include "backends/cpu/product/problem.h"

namespace npusim::cpu::product::batched {

// Declines unless there are several products of matrices so small, and so dense, that those of a vector fit in L1.
Answer make_side_by_side_step(Problem& problem);

}  // namespace npusim::cpu::product::batched
