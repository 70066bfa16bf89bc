// Ties the outputs of one method (prefill) to the states of another (decode).
#pragma once
#include <string>
#include <vector>

#include "program/program.h"

namespace npusim {

// From a KV mapping file when `kv_map` names one, else by shape and order, noting how. With one method nothing is done.
void link_states(Program& program, const std::string& kv_map, std::vector<std::string>& notes);

}  // namespace npusim
