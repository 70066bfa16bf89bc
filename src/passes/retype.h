// Changing the dtype a value is stored in, with every kernel that touches it.
#pragma once
#include "graph/graph.h"

namespace npusim {

// `wanted[v]` is the new dtype of value v (its own where unchanged). Only between float dtypes that compute in f32.
// What calls read and write keeps its dtype: their neighbours convert.
void retype_values(Graph& graph, std::vector<DType> wanted);

}  // namespace npusim
