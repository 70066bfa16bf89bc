// A graph as text, for dumps and pass tests: prints and parses back to the same graph.
#pragma once
#include <string>
#include <string_view>

#include "graph/graph.h"

namespace npusim {

std::string to_text(const Graph& graph);
// Throws bad_input naming line and expectation.
Graph parse_graph(std::string_view text);

}  // namespace npusim
