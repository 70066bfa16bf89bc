// Random graphs of ATen calls, well-formed by construction.
#pragma once
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace npusim::test {

// What can be switched off: the actions by name, and what values and shapes may be.
std::vector<std::string> feature_names();

// The same seed and features give the same graph. Its values are named by their kinds (random/values.h).
Graph generate(uint64_t seed, const std::set<std::string>& off = {});

}  // namespace npusim::test
