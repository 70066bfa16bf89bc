// Which inputs are updated in place.
#include "passes/states.h"

#include <unordered_map>

#include "kernel/builder.h"

namespace npusim {

std::vector<int> updates_of_inputs(const Graph& graph) {
  std::vector<ValueId> last(graph.values.size(), no_value);  // by value: what it is after its updates
  for (size_t v = 0; v < last.size(); ++v) last[v] = static_cast<ValueId>(v);
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node)
    for (size_t i = 0; i < node->kernel->args.size(); ++i)
      if (const int source = node->kernel->args[i].updates; source >= 0)
        last[static_cast<size_t>(node->inputs[static_cast<size_t>(source)])] =
            last[static_cast<size_t>(node->outputs[i - node->inputs.size()])];
  std::unordered_map<ValueId, int> first;  // output of a value
  for (size_t i = 0; i < graph.outputs.size(); ++i) first.try_emplace(graph.outputs[i].value, static_cast<int>(i));
  std::vector<int> outputs;
  for (const ValueId id : graph.inputs) {
    const ValueId to = last[static_cast<size_t>(id)];
    const auto found = to == id ? first.end() : first.find(to);
    outputs.push_back(found == first.end() ? -1 : found->second);
  }
  return outputs;
}

Kernel update_kernel(const std::string& name, const TensorType& rows, const TensorType& state) {
  KernelBuilder k(rows.shape);
  std::vector<Coord> at;
  for (size_t d = 0; d < rows.shape.size(); ++d) at.emplace_back(k.dim(static_cast<int>(d)));
  const int old = k.input(state);
  const Ex x = k.load(k.input(rows), at);
  k.store(k.output(state, old), at, x);
  return k.finish(name);
}

}  // namespace npusim
