// A decode method that loops on its own output: steps that follow each other without the host.
#pragma once
#include <optional>

#include "codegen/build_program.h"

namespace npusim {

// The likeliest token, the first of equals; or one drawn with the probabilities of softmax(logits / temperature), which
// is the likeliest again where the temperature is 0; or drawn so among the likeliest that have a probability together
// (compiler/nucleus). What is drawn with is a state, its seed and the number of tokens drawn, and so are the
// temperature and that probability.
enum class NextToken : uint8_t { likeliest, drawn, drawn_of_nucleus };

// From a lowered method for one token, with roles, the same method whose token and position are states: a run writes
// the next token over the token and adds 1 to the position, and the mask is computed from the position. Weights and
// other states are shared with the method it comes from. nullopt where it is no such method, or draws by itself what a
// token would be drawn with.
std::optional<MethodGraph> close_loop(const MethodGraph& decode, std::string name, NextToken next);

}  // namespace npusim
