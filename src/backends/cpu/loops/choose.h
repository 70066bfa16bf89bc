// The shape of the tile and the order of the loops.
#pragma once
#include "backends/cpu/loops/plan.h"

namespace npusim::cpu {

// Which dimensions the tile covers, its extents, and the loops over them.
void choose_tile(Plan& plan);

}  // namespace npusim::cpu
