// Offsets of registers in the scratch.
#pragma once
#include "backends/cpu/loops/plan/plan.h"

namespace npusim::cpu::loops::plan {

// Gives every register its offset: registers that are never alive together share memory.
void allocate_registers(Plan& plan);

}  // namespace npusim::cpu::loops::plan
