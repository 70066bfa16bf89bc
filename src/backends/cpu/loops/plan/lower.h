// The expressions of a kernel compiled to the sections of its plan.
#pragma once
#include "backends/cpu/loops/plan/plan.h"

namespace npusim::cpu::loops::plan {

// Fills the sections, registers and constants of a plan whose tile is chosen, and estimates the cost of a tile.
void lower_expressions(Plan& plan);

}  // namespace npusim::cpu::loops::plan
