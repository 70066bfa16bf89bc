// An order of rows spelled out as merges: the same kernel for devices without a sort of their own.
#pragma once
#include "kernel/fuse/unfuse.h"

namespace npusim {

// One kernel after the other merges neighbouring pairs of sorted runs, from single elements up to the whole row, and
// keeps of each run no more than the row stores: of n elements n log² n comparisons for a whole row, n log k for the
// first k. Every point of a kernel is one position of a merged run and finds which element comes there by a binary
// search, so that nothing is stored at computed positions and nothing traps.
Unfused merge_runs(const Kernel& kernel);

}  // namespace npusim
