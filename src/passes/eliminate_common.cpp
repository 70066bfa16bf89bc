// Common subexpressions: nodes with the same op, operands and attributes compute the same values.
#include <numeric>
#include <unordered_map>

#include "passes/pass.h"

namespace npusim {

void eliminate_common(Graph& graph, PassContext&) {
  std::vector<ValueId> to(graph.values.size());
  std::iota(to.begin(), to.end(), 0);
  std::vector<bool> dead(graph.nodes.size(), false);
  std::unordered_map<std::string, size_t> known;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    Node& node = graph.nodes[n];
    for (ValueId& v : node.inputs)
      if (v >= 0) v = to[static_cast<size_t>(v)];
    if (!node.op || node.in_place) continue;
    std::string key = node.op->name();
    for (ValueId v : node.inputs) key += "," + std::to_string(v);
    for (int size : node.list_sizes) key += ";" + std::to_string(size);
    for (const Attr& a : node.attrs) key += "|" + to_string(a);
    for (ValueId v : node.outputs) key += ":" + to_string(value_of(graph, v).type);
    const auto [first, fresh] = known.try_emplace(std::move(key), n);
    if (fresh) continue;
    const Node& same = graph.nodes[first->second];
    for (size_t i = 0; i < node.outputs.size(); ++i) to[static_cast<size_t>(node.outputs[i])] = same.outputs[i];
    dead[n] = true;
  }
  replace_values(graph, to);
  compact(graph, dead, true);
}

}  // namespace npusim
