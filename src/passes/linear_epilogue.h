// The epilogue of a contraction as scale·leaf + shift, where both are known at load.
#pragma once
#include <vector>

#include "kernel/kernel.h"

namespace npusim {

// One expression as scale·leaf + shift, both expressions of the kernel that do not depend on the leaf (-1: 1 or 0).
struct Linear {
  bool depends = false;
  bool linear = true;
  int32_t scale = -1, shift = -1;
};

// The highest expression that is linear in the contraction's leaf, has a scale, and through which alone the leaf is
// used; -1 if there is none. The expressions of scale and shift are appended to the kernel. `early_args`: the arguments
// that are known at load.
int32_t find_linear_epilogue(Kernel& kernel, const std::vector<bool>& early_args, Linear& found);

}  // namespace npusim
