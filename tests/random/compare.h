// Comparison element by element, each with what its own conditioning allows.
#pragma once
#include <string>
#include <vector>

#include "base/tensor.h"

namespace npusim::test {

struct Comparison {
  int64_t elements = 0;
  int64_t skipped = 0;  // whose kind the noise changes: NaN, infinity, an integer
  int64_t loose = 0;    // floats of which less than a digit is certain
  std::string wrong;    // the first element that differs by more than it may; empty: none
};

// `noisy`: the same tensor from runs with different rounding errors. A float may be off by `spreads` times the largest
// difference that noise made (ten times that where this leaves less than a digit), and by rounding in the wider of
// `stored` and its own dtype. NaN matches NaN, an infinity
// itself; integers, booleans and what is `exact` (no rounding made it) match exactly.
Comparison compare_tensor(const HostTensor& found, const HostTensor& expected, const std::vector<HostTensor>& noisy,
                          bool exact, DType stored);

}  // namespace npusim::test
