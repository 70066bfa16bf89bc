// A kernel for one row of its result: an index of its space becomes a loaded number.
#pragma once
#include <map>
#include <optional>

#include "kernel/fuse/fuse.h"

namespace npusim {

// A value as [outer, extent, stride]: row i of it is [outer, i, stride], of elements / extent elements.
struct Rows {
  int64_t stride = 1, extent = 1;
};

struct OneRow {
  BoundKernel kernel;
  std::map<int, Rows> rows;  // operands, by value, that it takes one row of: they have that row's elements only
};

// `bound`, which stores `value` and nothing else, computing one row of it: the one that the integer in `index`, a value
// of one element, names. nullopt where its points are not those of rows, or an operand's row would not be one.
std::optional<OneRow> one_row(const BoundKernel& bound, int value, const Rows& rows, int index);

}  // namespace npusim
