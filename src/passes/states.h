// Which inputs of a lowered graph are states.
#pragma once
#include <vector>

#include "graph/graph.h"

namespace npusim {

// For each input the output that is its update in place; -1 where it is not updated.
std::vector<int> updates_of_inputs(const Graph& graph);

// Reads a state and rows of no larger extents, and updates the state's first positions with them.
Kernel update_kernel(const std::string& name, const TensorType& rows, const TensorType& state);

// Stores what is the next value of an input (GraphOutput::next_of) where that input lies, behind all nodes, unless a
// node updates it in place.
void keep_states(Graph& graph);

}  // namespace npusim
