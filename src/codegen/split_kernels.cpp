// Replaces nodes by the kernels that do their work.
#include "codegen/split_kernels.h"

#include <fmt/format.h>

#include "kernel/fuse/unfuse.h"

namespace npusim {
namespace {

// Values of the kernel's arguments in their order, and behind them the scratch.
std::vector<ValueId> values_of_arguments(Graph& graph, const Node& node, const std::vector<Unfused::Scratch>& scratch) {
  std::vector<ValueId> values = node.inputs;
  values.insert(values.end(), node.outputs.begin(), node.outputs.end());
  for (size_t i = 0; i < scratch.size(); ++i)
    values.push_back(add_value(graph, fmt::format("{}_between", node.name), {scratch[i].dtype, {scratch[i].elements}}));
  return values;
}

}  // namespace

void split_kernels(Graph& graph, const CodegenTarget& target) {
  std::vector<Node> nodes = std::move(graph.nodes);
  graph.nodes.clear();
  for (Node& node : nodes) {
    Unfused unfused = node.device == 0 ? target.in_parts(*node.kernel) : Unfused{};
    if (unfused.steps.size() < 2) {
      add_node(graph, std::move(node));
      continue;
    }
    const std::vector<ValueId> values = values_of_arguments(graph, node, unfused.scratch);
    for (BoundKernel& step : unfused.steps) {
      Node part;
      part.name = node.name;
      part.origins = node.origins;
      part.device = node.device;
      for (size_t i = 0; i < step.values.size(); ++i)
        (step.kernel.args[i].written ? part.outputs : part.inputs)
            .push_back(values[static_cast<size_t>(step.values[i])]);
      part.kernel = std::make_shared<const Kernel>(std::move(step.kernel));
      add_node(graph, std::move(part));
    }
  }
}

}  // namespace npusim
