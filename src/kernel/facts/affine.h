// Affine values of expressions.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "kernel/kernel.h"

namespace npusim {

// offset + Σ coeffs[d]·index[d] over the dimensions of the space.
struct IndexForm {
  std::vector<int64_t> coeffs;
  int64_t offset = 0;
};

// The affine value of an integer expression of indices, or of one as a float: none of what is no sum or product of
// them, of numbers beyond 2^40, or of a form of more than 1024 operations, each counted as often as it is used.
std::optional<IndexForm> affine_of(const Kernel& kernel, int32_t expr);

}  // namespace npusim
