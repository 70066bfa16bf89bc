// The end of a section's making.
#pragma once
#include <vector>

#include "backends/cpu/loops/plan/plan.h"

namespace npusim::cpu::loops::plan {

// Orders a section's loads and instructions by depth, appends its stores, and decides what is written in place.
void finish_section(Section& section, std::vector<moves::Move> stores, int levels);

}  // namespace npusim::cpu::loops::plan
