// One walk over the nodes in order.
#include "passes/early_values.h"

#include <algorithm>

namespace npusim {

std::vector<bool> early_values(const Graph& graph) {
  std::vector<bool> early(graph.values.size(), false);
  for (size_t v = 0; v < graph.values.size(); ++v)
    early[v] = graph.values[v].source == ValueSource::weight || graph.values[v].source == ValueSource::constant;
  for (const Node& node : graph.nodes) {
    const bool all = std::all_of(node.inputs.begin(), node.inputs.end(),
                                 [&](ValueId v) { return v < 0 || early[static_cast<size_t>(v)]; });
    for (ValueId v : node.outputs) early[static_cast<size_t>(v)] = all;
  }
  return early;
}

}  // namespace npusim
