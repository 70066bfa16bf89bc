// In a closed loop, attention that masks all keys behind the position has no more keys than that.
#include "kernel/fuse/bound_keys.h"

#include "passes/pass.h"

namespace npusim {

void bound_keys(Graph& graph, PassContext& context) {
  if (graph.position < 0) return;
  const ValueId position = graph.inputs[static_cast<size_t>(graph.position)];
  for (Node& node : graph.nodes) {
    if (!node.kernel->contraction || !node.kernel->contraction->score) continue;
    const auto found = std::find(node.inputs.begin(), node.inputs.end(), position);
    if (found == node.inputs.end()) continue;
    auto kernel = bound_keys(*node.kernel, static_cast<int>(found - node.inputs.begin()));
    if (!kernel || (context.refuse && !context.refuse(*kernel, node.device).empty())) continue;
    node.kernel = std::move(kernel);
    ++context.fusions["bound_keys"];
  }
}

}  // namespace npusim
