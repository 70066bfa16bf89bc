// Replaces nodes by the kernels that do their work.
#include "codegen/split_kernels.h"

#include <fmt/ranges.h>

#include <unordered_map>
#include <unordered_set>

#include "kernel/facts/fourier.h"
#include "kernel/facts/order.h"
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

// Whether all that a step writes is scratch that no other step writes.
bool is_inner(const Unfused& unfused, const BoundKernel& step, size_t arguments) {
  const auto writers = [&](int value) {
    int64_t count = 0;
    for (const BoundKernel& other : unfused.steps)
      for (size_t i = 0; i < other.values.size(); ++i)
        count += other.values[i] == value && other.kernel.args[i].written;
    return count;
  };
  for (size_t i = 0; i < step.values.size(); ++i)
    if (step.kernel.args[i].written && (static_cast<size_t>(step.values[i]) < arguments || writers(step.values[i]) > 1))
      return false;
  return true;
}

}  // namespace

void split_kernels(Graph& graph, const CodegenTarget& target) {
  std::vector<Node> nodes = std::move(graph.nodes);
  graph.nodes.clear();
  std::unordered_map<std::string, std::vector<ValueId>> known;  // what inner steps write, by what they do and read
  std::unordered_set<const Kernel*> stay;                       // one kernel, whichever node it is of
  for (Node& node : nodes) {
    const bool asks = node.device == 0 && !stay.contains(node.kernel.get());
    const Unfused unfused = asks ? target.in_parts(*node.kernel) : Unfused{};
    // A contraction that is one kernel with and without it stays one; a kernel that orders or transforms rows does not.
    if (!asks || unfused.steps.size() < (has_order(*node.kernel) || has_fourier(*node.kernel) ? 1 : 2)) {
      if (asks) stay.insert(node.kernel.get());
      add_node(graph, std::move(node));
      continue;
    }
    std::vector<ValueId> values = values_of_arguments(graph, node, unfused.scratch);
    for (const BoundKernel& step : unfused.steps) {
      Node part;
      part.name = node.name;
      part.origins = node.origins;
      part.device = node.device;
      for (size_t i = 0; i < step.values.size(); ++i)
        (step.kernel.args[i].written ? part.outputs : part.inputs)
            .push_back(values[static_cast<size_t>(step.values[i])]);
      if (is_inner(unfused, step, node.inputs.size() + node.outputs.size())) {
        const auto [same, fresh] = known.try_emplace(
            fmt::format("{}:{}:{}", part.device, fmt::join(part.inputs, ","), to_text(step.kernel)), part.outputs);
        for (size_t i = 0, n = 0; i < step.values.size(); ++i)
          if (step.kernel.args[i].written) values[static_cast<size_t>(step.values[i])] = same->second[n++];
        if (!fresh) continue;
      }
      part.kernel = std::make_shared<const Kernel>(step.kernel);
      add_node(graph, std::move(part));
    }
  }
}

}  // namespace npusim
