// Changing the dtype a value is stored in, with every kernel that touches it.
#pragma once
#include <set>

#include "graph/graph.h"

namespace npusim {

// `wanted[v]` is the new dtype of value v (its own where unchanged). Only between float dtypes that compute in f32.
// What calls read and write keeps its dtype: their neighbours convert.
void retype_values(Graph& graph, std::vector<DType> wanted);

inline bool is_half(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }
// The 16-bit dtypes of a model that is given to it or stored in them, which another compute dtype replaces: what has
// another 16-bit dtype has it because the model asks for it.
std::set<DType> own_halves(const Graph& graph);

}  // namespace npusim
