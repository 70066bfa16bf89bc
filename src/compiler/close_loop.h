// A decode method that feeds itself: steps that follow each other without the host.
#pragma once
#include <optional>

#include "codegen/build_program.h"

namespace npusim {

// From a lowered method for one token, with roles, the same method whose token and position are states: a run writes
// the likeliest next token (the first of equals) over the token and adds 1 to the position, and the mask is computed
// from the position. Weights and other states are shared with the method it comes from. nullopt where it is no such
// method.
std::optional<MethodGraph> close_loop(const MethodGraph& decode, std::string name);

}  // namespace npusim
