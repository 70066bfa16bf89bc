// The roles of a text model's inputs and outputs, found by their names, dtypes and shapes.
#pragma once
#include "codegen/build_program.h"

namespace npusim {

// Whether an input is the tokens of a text.
bool takes_tokens(const Graph& graph);

// Sets the roles of a lowered graph's inputs and outputs. Those that fit no role stay data; logits are looked for only
// where every input has a role or is a state.
void find_roles(MethodGraph& method);

}  // namespace npusim
