// Keys and values that a prefill writes where decode keeps them.
#pragma once
#include <string>
#include <vector>

#include "codegen/build_program.h"
#include "npusim/compiler.h"

namespace npusim {

// Of lowered methods: outputs of those without states become updates of the states of the first that has some, whose
// first positions they fill; what else read them reads the state. Which fill which says the KV mapping when one is
// given, else shapes and order, with a note. With one method nothing is done.
void fill_states(std::vector<MethodGraph>& methods, const JsonSource& kv_map, std::vector<std::string>& notes);

}  // namespace npusim
