// How wide the lanes are that a kernel's integers need.
#pragma once
#include "backends/cpu/loops/tiles/tile.h"
#include "kernel/facts/range.h"

namespace npusim::cpu::loops::plan {

// The narrowest lanes in which all integers of the kernel can be computed. A lane has the low bits of its value, which
// sums, products and bits keep, and what is stored in no more bits; it has the value itself, which all else needs,
// where that is proven to fit, from the dtypes of what is loaded.
tiles::IntLane integer_lanes(const Kernel& kernel);

Range values_of(tiles::IntLane lane);  // that are themselves in a lane

}  // namespace npusim::cpu::loops::plan
