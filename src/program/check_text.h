// Validation of what a program says of itself as a text's.
#pragma once
#include <string>
#include <vector>

#include "program/state_stores.h"

namespace npusim {

// What a method would need to read tokens and to give logits, as "has no input …"; empty when it does. Of a method with
// sound roles.
std::vector<std::string> lacks_of_text(const Program& program, const Method& method);

// Whether `specs` have every state of `decode`.
bool have_states(const std::vector<TensorSpec>& specs, const Program& program, const Method& decode);

// Positions that decode's states hold: as many as its mask has keys, or else as its stores reach.
int64_t capacity_of(const Method& decode, const StateStores& stores);

// Program::text of a program that is sound otherwise, against its methods and what their kernels store. Empty when it
// is right.
std::vector<std::string> check_text(const Program& program);

}  // namespace npusim
