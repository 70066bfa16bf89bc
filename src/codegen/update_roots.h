// Which values of a graph are one memory, since kernels update one to the other.
#pragma once
#include <vector>

#include "graph/graph.h"

namespace npusim {

class UpdateRoots {
 public:
  UpdateRoots() = default;
  explicit UpdateRoots(const Graph& graph);
  // One of those values, the same for all of them.
  ValueId of(ValueId value);

 private:
  std::vector<ValueId> parent_;
};

}  // namespace npusim
