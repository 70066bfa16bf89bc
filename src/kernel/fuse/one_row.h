// A kernel for one row of its result: an index of its space becomes a number, loaded or known.
#pragma once
#include <map>
#include <optional>

#include "kernel/fuse/fuse.h"

namespace npusim {

// A value as [outer, extent, stride]: row i of it is [outer, i, stride], of elements / extent elements.
struct Rows {
  int64_t stride = 1, extent = 1;
};

// Which row: the integer in a value of one element or, without such a value, a number that is known.
struct RowNumber {
  int value = -1;
  int64_t known = 0;
  bool operator==(const RowNumber&) const = default;
};

struct OneRow {
  BoundKernel kernel;
  std::map<int, Rows> rows;  // operands, by value, that it takes one row of: they have that row's elements only
};

// `bound`, which stores `value` and nothing else, computing one row of it. nullopt where its points are not those of
// rows, or an operand's row would not be one.
std::optional<OneRow> one_row(const BoundKernel& bound, int value, const Rows& rows, const RowNumber& number);

// Of a copy (`is_copy`) that takes one row of its operand as it lies, and all of that row: which one.
std::optional<int64_t> copied_row(const Kernel& copy, const Rows& rows);

}  // namespace npusim
