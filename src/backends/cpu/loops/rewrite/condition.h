// Conditions on indices alone: filled in by runs, instead of compared index by index.
#pragma once
#include "kernel/kernel.h"

namespace npusim::cpu::loops::rewrite {

// Makes of comparisons of affine indices, and of such conditions that all have to hold, loads whose guards they are:
// is_condition().
void find_conditions(Kernel& kernel);
// A load of nothing: 1 where the guards of its access hold, else 0.
bool is_condition(const Expr& e);

}  // namespace npusim::cpu::loops::rewrite
