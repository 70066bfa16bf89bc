// Where in a row its extreme is: reductions that kernels spell out with comparisons, done in one pass.
#pragma once
#include <optional>

#include "kernel/kernel.h"

namespace npusim::cpu::loops::rewrite {

// How an expression that is_candidate(), and that only a reduction reads, says what stands at a point of the row.
struct Candidate {
  int32_t value = -1;
  int32_t index = -1;     // a float of the lanes' width: but for columns of the row, whose index times step it lacks
  int32_t inside = -1;    // boolean: whether the point counts. -1: all do
  int64_t step = 0;       // indices from column to column
  bool affine = true;     // else every point has its own index
  bool last_nan = false;  // of several NaN the last counts, not the first
};
bool is_candidate(const Expr& e);
Candidate candidate(const Kernel& kernel, int32_t i);

// Makes reductions of candidates, whose value is the index as such a float, or infinity where none counts, of
//   reduce min of (inside && x == top ? index : none), where top is the least or the largest x of the row,
// with what follows for NaN. Indices are affine, or such floats; `column` is the dimension of the tile's columns.
void find_extreme_indices(Kernel& kernel, int column);

}  // namespace npusim::cpu::loops::rewrite
