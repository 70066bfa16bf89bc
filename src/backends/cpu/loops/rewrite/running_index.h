// Where running extremes were met last: a scan that kernels spell out with a comparison, done as one instruction.
#pragma once
#include "kernel/kernel.h"

namespace npusim::cpu::loops::rewrite {

// Makes of scan max of (x == top || x is NaN ? index : negative), where top is a scan of x, one expression that
// is_running_index(): an equality of type i64.
void find_running_indices(Kernel& kernel);
bool is_running_index(const Expr& e);

}  // namespace npusim::cpu::loops::rewrite
