// Which values are known before the first run.
#pragma once
#include <vector>

#include "graph/graph.h"

namespace npusim {

// By value: weights, constants, and what is computed from nothing else. What is updated in place is known early only
// if all of it is, every update and every reader of what they overwrite: else each run starts it afresh.
std::vector<bool> early_values(const Graph& graph);

}  // namespace npusim
