// The roles of a text model's inputs and outputs, found by their names, dtypes and shapes.
#pragma once
#include <vector>

#include "codegen/build_program.h"

namespace npusim {

// For each input of a lowered graph the output that is its update in place; -1 where it is no state.
std::vector<int> updates_of_inputs(const Graph& graph);

// Sets the roles of a lowered graph's inputs and outputs. Those that fit no role stay data; logits are looked for only
// where every input has a role or is a state.
void find_roles(MethodGraph& method);

}  // namespace npusim
