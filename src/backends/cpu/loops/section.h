// The end of a section's making.
#pragma once
#include <vector>

#include "backends/cpu/loops/plan.h"

namespace npusim::cpu {

// Orders a section's loads and instructions by depth, appends its stores, and decides what is written in place.
void finish_section(Section& section, std::vector<Move> stores, int levels);

}  // namespace npusim::cpu
