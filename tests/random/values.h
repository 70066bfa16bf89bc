// Values of a random program's inputs and weights. A tensor's name says of which kind they are ("x3_normal",
// "i2_below7"), so that a graph's text and one seed are all that is needed to have them again.
#pragma once
#include <cstdint>
#include <random>
#include <string>

#include "base/tensor.h"

namespace npusim::test {

// Kinds of floats: normal (within ±2), wide (±100), huge (around ±1e30), tiny (around ±1e-30), whole (small integers),
// zeros (half of them, of both signs), special (one in eight is an infinity, a NaN or a zero), positive (0.5 to 2).
// Of integers: small (within ±4), big (all of the dtype), belowN (0 to N - 1), distinctN (different ones of them),
// sortedN (in order). Any other kind of integers is 0 to 3. Booleans are half true.
HostTensor make_values(const std::string& name, const TensorType& type, uint64_t seed);

// The kind in a name: what follows the last '_', with its number apart ("below", 7).
struct ValueKind {
  std::string kind;
  int64_t number = 0;
};
ValueKind kind_of(const std::string& name);

}  // namespace npusim::test
