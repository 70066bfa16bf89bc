// Changing the dtype a value is stored in, with every kernel that touches it.
#pragma once
#include "graph/graph.h"

namespace npusim {

// `wanted[v]` is the new dtype of value v (its own where unchanged). Only between float dtypes that compute in f32.
void retype_values(Graph& graph, const std::vector<DType>& wanted);

}  // namespace npusim
