// The numbers that coordinates, addresses and integer expressions can be.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "kernel/kernel.h"

namespace npusim {

struct Range {
  int64_t low = 0, high = 0;  // both included
};

// Extremes of offset + Σ coeffs·index over a box without empty dimensions; nullopt when they leave int64, which those
// of a checked kernel do not.
std::optional<Range> range_of(int64_t offset, const std::vector<int64_t>& coeffs, const std::vector<int64_t>& extents);
// Widened by stride · value, 0 <= value < extent; nullopt when that leaves int64.
std::optional<Range> widened(Range range, int64_t stride, int64_t extent);

// What the elements of a dtype of integers are, of at most 32 bits.
std::optional<Range> element_range(DType dtype);
// The range of an expression of type i64 whose operands' ranges are known where they are.
std::optional<Range> integer_range(const Kernel& kernel, const Expr& e, const std::vector<std::optional<Range>>& known);
// By expression: the range of those of type i64, where one is known.
std::vector<std::optional<Range>> integer_ranges(const Kernel& kernel);

}  // namespace npusim
