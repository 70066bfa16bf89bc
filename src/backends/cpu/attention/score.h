// The score of attention through Loops, where it is none of the forms that attention computes itself.
#pragma once
#include <vector>

#include "kernel/kernel.h"

namespace npusim::cpu::attention {

// The score as a kernel of its own that overwrites the contraction's value: `outer`'s read arguments, then the tile.
Kernel score_on_tile(const Kernel& outer, const std::vector<int64_t>& strides);

}  // namespace npusim::cpu::attention
