// Kernels that a target runs as several, before memory is planned.
#pragma once
#include "codegen/target.h"
#include "graph/graph.h"

namespace npusim {

// Each kernel of the first device that the target wants in parts becomes those kernels, on behalf of the same nodes;
// what one of them leaves for the next is a value of the graph. What writes nothing else, and reads the same values in
// by the same recipe, is done once.
void split_kernels(Graph& graph, const CodegenTarget& target);

}  // namespace npusim
