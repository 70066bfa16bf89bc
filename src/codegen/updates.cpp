// In-place updates made safe: a value that outlives its update is copied first.
#include <algorithm>

#include "codegen/build_program.h"

namespace npusim {

std::vector<size_t> in_place_arguments(const Kernel& kernel) {
  if (kernel.contraction || kernel.stores.size() != 1 || kernel.stores[0].accumulate) return {};
  const Access& to = kernel.stores[0].access;
  const KernelArg& result = kernel.args[static_cast<size_t>(to.arg)];
  if (result.updates >= 0 || !to.guards.empty() || !to.terms.empty()) return {};
  std::vector<bool> reads(kernel.args.size()), elsewhere(kernel.args.size());
  for (const Access& access : kernel.accesses) {
    const auto arg = static_cast<size_t>(access.arg);
    reads[arg] = true;
    elsewhere[arg] = elsewhere[arg] || access.offset != to.offset || access.strides != to.strides ||
                     !access.guards.empty() || !access.terms.empty();
  }
  // A result without the row's dimensions is stored once for all points of the row, which read on.
  for (size_t d = kernel.space.size() - static_cast<size_t>(kernel.row_dims); d < kernel.space.size(); ++d)
    if (kernel.space[d] > 1 && to.strides[d] == 0) return {};
  std::vector<size_t> found;
  for (size_t i = 0; i < kernel.args.size(); ++i)
    if (reads[i] && !elsewhere[i] && !kernel.args[i].written && kernel.args[i].dtype == result.dtype &&
        kernel.args[i].elements == result.elements)
      found.push_back(i);
  return found;
}

void protect_updated_values(Graph& graph) {
  const auto readers = readers_of(graph);
  std::vector<Node> nodes;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    Node node = graph.nodes[n];
    const Kernel& kernel = *node.kernel;
    for (size_t i = 0; i < kernel.args.size(); ++i) {
      const int source = kernel.args[i].updates;
      if (source < 0) continue;
      const auto slot = static_cast<size_t>(source);  // reads come first: the position among the inputs
      const ValueId old = node.inputs[slot];
      const ValueId updated = node.outputs[i - node.inputs.size()];
      const Value& value = value_of(graph, old);
      bool safe = value.source == ValueSource::node || value.source == ValueSource::input;
      if (static_cast<size_t>(old) < readers.size())
        for (int32_t reader : readers[static_cast<size_t>(old)])
          safe = safe && reader != -1 && reader <= static_cast<int32_t>(n);
      if (value.source == ValueSource::input) {
        // A state: the updated value is what the caller gets back.
        safe = safe && std::any_of(graph.outputs.begin(), graph.outputs.end(),
                                   [&](const GraphOutput& o) { return o.value == updated; });
      }
      if (safe) continue;
      const ValueId copy = add_value(graph, value.name + "_copy", value.type);
      nodes.push_back(copy_node(graph, old, copy, "copy"));
      node.inputs[slot] = copy;
    }
    nodes.push_back(std::move(node));
  }
  graph.nodes = std::move(nodes);
  compact(graph, std::vector<bool>(graph.nodes.size(), false), false);
}

}  // namespace npusim
