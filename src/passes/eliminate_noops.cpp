// Drops checks (asserts on metadata): what they assert is checked at import.
#include "passes/pass.h"

namespace npusim {

void eliminate_noops(Graph& graph, PassContext&) {
  std::vector<bool> dead(graph.nodes.size(), false);
  for (size_t n = 0; n < graph.nodes.size(); ++n) dead[n] = graph.nodes[n].op && graph.nodes[n].op->record.is_check;
  compact(graph, dead, true);
}

}  // namespace npusim
