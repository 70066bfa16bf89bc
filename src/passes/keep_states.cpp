// What the IR calls the next value of an input is stored where that input lies.
#include "passes/pass.h"
#include "passes/states.h"

namespace npusim {
namespace {

// Outputs that are not yet updates of the inputs whose next values they are.
std::vector<size_t> outputs_to_keep(const Graph& graph) {
  const std::vector<int> updates = updates_of_inputs(graph);
  std::vector<ValueId> updated_by(graph.outputs.size(), no_value);
  for (size_t i = 0; i < updates.size(); ++i)
    if (updates[i] >= 0) updated_by[static_cast<size_t>(updates[i])] = graph.inputs[i];
  std::vector<size_t> found;
  for (size_t o = 0; o < graph.outputs.size(); ++o)
    if (const ValueId of = graph.outputs[o].next_of; of != no_value && updated_by[o] != of) found.push_back(o);
  return found;
}

// What outputs read of states as they were is copied before any of them is stored: of an input that is shown, or of
// two that change places.
void copy_old_values(Graph& graph, const std::vector<size_t>& kept) {
  std::vector<bool> overwritten(graph.values.size(), false);
  for (const size_t o : kept) overwritten[static_cast<size_t>(graph.outputs[o].next_of)] = true;
  std::vector<ValueId> copies(graph.values.size(), no_value);
  for (GraphOutput& output : graph.outputs) {
    const ValueId old = output.value;
    if (!overwritten[static_cast<size_t>(old)]) continue;
    ValueId& copy = copies[static_cast<size_t>(old)];
    if (copy == no_value) {
      copy = add_value(graph, output.name + "_was", value_of(graph, old).type);
      Node node = copy_node(graph, old, copy, "copy", nullptr);
      node.name = output.name;
      add_node(graph, std::move(node));
    }
    output.value = copy;
  }
}

}  // namespace

void keep_states(Graph& graph) {
  const std::vector<size_t> kept = outputs_to_keep(graph);
  copy_old_values(graph, kept);
  for (const size_t o : kept) {
    GraphOutput& next = graph.outputs[o];
    const TensorType type = value_of(graph, next.next_of).type;
    Node node;
    node.name = next.name;
    node.origins = origins_of(graph, next.value);
    node.device = device_of(graph, next.value);
    node.kernel = std::make_shared<const Kernel>(update_kernel("keep", type, type));
    node.inputs = {next.next_of, next.value};
    node.outputs = {add_value(graph, next.name + "_kept", type)};
    next.value = node.outputs[0];
    next.shape = type.shape;
    add_node(graph, std::move(node));
  }
}

// Behind all nodes: whoever reads the state reads what it was before. Where a node updates it in place, as one that
// writes a row of a cache does, there is nothing left to do.
void keep_states(Graph& graph, PassContext& context) {
  if (context.violations.empty()) keep_states(graph);  // else not all nodes are kernels
}

}  // namespace npusim
