// Counts what fused and which views became copies, for the report.
#include "kernel/facts/memory.h"
#include "passes/early_values.h"
#include "passes/pass.h"
#include "passes/recognize.h"

namespace npusim {

void count_fusions(Graph& graph, PassContext& context) {
  const std::vector<bool> early = early_values(graph);
  for (const Node& node : graph.nodes) {
    for (const std::string& name : recognize(*node.kernel)) ++context.fusions[name];
    if (!is_copy(*node.kernel) || early[static_cast<size_t>(node.outputs[0])]) continue;
    const Kernel& k = *node.kernel;
    const Access& from = k.accesses[0];
    bool expands = false;
    for (size_t d = 0; d < k.space.size(); ++d) expands = expands || (k.space[d] > 1 && from.strides[d] == 0);
    const bool converts =
        value_of(graph, node.inputs[0]).stored.empty() != value_of(graph, node.outputs[0]).stored.empty();
    ++context.materialized[expands ? "expand" : converts ? "layout" : "transpose"];
  }
}

}  // namespace npusim
