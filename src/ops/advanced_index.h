// PyTorch's x[indices]: which dimensions the index tensors stand in for, and where theirs go in the result.
#pragma once
#include <string>
#include <vector>

#include "ops/index.h"

namespace npusim {

// For a call with arguments `self` and `indices`. Index tensors broadcast to each other; their dimensions take the
// place of the indexed ones where those are neighbours and come first otherwise; None and missing ones keep a
// dimension.
struct AdvancedIndex {
  explicit AdvancedIndex(const OpCall& call);  // throws bad_input where the operands do not fit

  // Coordinates of self at each point of `shape`. The kernel's space starts with `shape`.
  std::vector<Coord> coordinates(OpKernel& k) const;

  // Masks have results of no static shape.
  static std::string refuse(const OpCall& call);

  Shape shape;
  Shape broadcast;   // of the index tensors
  size_t first = 0;  // where their dimensions stand in `shape`

 private:
  Shape self_;
  std::vector<int> operands_;  // by dimension of self; -1: not indexed
};

}  // namespace npusim
