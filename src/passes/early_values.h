// Which values are known before the first run.
#pragma once
#include <vector>

#include "graph/graph.h"

namespace npusim {

// By value: weights, constants, and what is computed from nothing else.
std::vector<bool> early_values(const Graph& graph);

}  // namespace npusim
