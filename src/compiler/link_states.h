// Ties the outputs of one method (prefill) to the states of another (decode).
#pragma once
#include <string>
#include <vector>

#include "npusim/compiler.h"
#include "program/program.h"

namespace npusim {

// From a KV mapping when one is given, else by shape and order, noting how. With one method nothing is done.
void link_states(Program& program, const JsonSource& kv_map, std::vector<std::string>& notes);

}  // namespace npusim
