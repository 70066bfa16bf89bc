// Which expressions end in numbers of 16 bits, so that their last bits of float32 are not seen.
#pragma once
#include <vector>

#include "kernel/kernel.h"

namespace npusim {

// By expression of type f32: how exactly it must be computed, and what is known of it.
struct Coarseness {
  // All that is made of it is rounded to 16 bits, by operations that keep relative errors: products, quotients, roots,
  // choices, sums of what is not negative. A few steps of float32 more or less are then as good.
  std::vector<bool> coarse;
  // Every sum that it is an operand of is at least 1 without it, and nothing else reads it: numbers below float32's
  // smallest normal one are as good as 0.
  std::vector<bool> next_to_one;
  std::vector<bool> at_least_one;  // or NaN
};

Coarseness coarseness_of(const Kernel& kernel);

}  // namespace npusim
