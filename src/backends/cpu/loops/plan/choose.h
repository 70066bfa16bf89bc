// The shape of the tile and the order of the loops.
#pragma once
#include "backends/cpu/loops/plan/plan.h"

namespace npusim::cpu::loops::plan {

// Which dimensions the tile covers, its extents, and the loops over them.
// What is only copied is in tiles of `most_copied` elements or fewer.
void choose_tile(Plan& plan, int64_t most_copied);

}  // namespace npusim::cpu::loops::plan
