// Rewrites the argument dtypes of kernels; expressions stay as they are.
#include "passes/retype.h"

namespace npusim {

void retype_values(Graph& graph, std::vector<DType> wanted) {
  for (const Node& node : graph.nodes)
    if (node.kernel->call)
      for (const std::vector<ValueId>* values : {&node.inputs, &node.outputs})
        for (const ValueId v : *values) wanted[static_cast<size_t>(v)] = value_of(graph, v).type.dtype;
  for (Node& node : graph.nodes) {
    std::vector<ValueId> values = node.inputs;
    values.insert(values.end(), node.outputs.begin(), node.outputs.end());
    std::shared_ptr<Kernel> edited;
    for (size_t i = 0; i < values.size(); ++i) {
      const DType dtype = wanted[static_cast<size_t>(values[i])];
      if (node.kernel->args[i].dtype == dtype) continue;
      if (!edited) edited = std::make_shared<Kernel>(*node.kernel);
      edited->args[i].dtype = dtype;
    }
    if (edited) node.kernel = edited;
  }
  for (size_t v = 0; v < graph.values.size(); ++v) graph.values[v].type.dtype = wanted[v];
}

std::set<DType> own_halves(const Graph& graph) {
  std::set<DType> found;
  for (const Value& v : graph.values)
    if (is_half(v.type.dtype) && (v.source == ValueSource::weight || v.source == ValueSource::input))
      found.insert(v.type.dtype);
  return found;
}

}  // namespace npusim
