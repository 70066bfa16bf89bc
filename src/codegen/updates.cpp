// In-place updates made safe: a value that outlives its update is copied first.
#include <algorithm>

#include "codegen/build_program.h"

namespace npusim {
namespace {

Node copy_node(Graph& graph, ValueId from, ValueId& to) {
  const TensorType type = value_of(graph, from).type;
  to = add_value(graph, value_of(graph, from).name + "_copy", type);
  KernelBuilder k({element_count(type.shape)});
  const int in = k.input(type);
  const Ex x = k.load_flat(in);
  k.store_flat(k.output(type), x);
  Node node;
  node.name = value_of(graph, from).name;
  node.inputs = {from};
  node.outputs = {to};
  node.kernel = std::make_shared<const Kernel>(k.finish("copy"));
  return node;
}

}  // namespace

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
      ValueId copy = no_value;
      nodes.push_back(copy_node(graph, old, copy));
      node.inputs[slot] = copy;
    }
    nodes.push_back(std::move(node));
  }
  graph.nodes = std::move(nodes);
  compact(graph, std::vector<bool>(graph.nodes.size(), false), false);
}

}  // namespace npusim
