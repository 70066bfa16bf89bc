// Places of registers in the scratch.
#pragma once
#include "backends/cpu/loops/plan/plan.h"

namespace npusim::cpu::loops::plan {

// Gives every register its place: registers that are never alive together share memory.
void place_registers(Plan& plan);

}  // namespace npusim::cpu::loops::plan
