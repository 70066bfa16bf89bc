// In-place updates made safe: a value that outlives its update, or is read elsewhere by it, is copied first.
#include <algorithm>

#include "codegen/build_program.h"
#include "kernel/facts/memory.h"

namespace npusim {
namespace {

// The kernel with an argument of its own, the last of those it reads, for the value that argument `written` updates.
std::shared_ptr<const Kernel> with_own_source(const Kernel& kernel, size_t written) {
  auto own = std::make_shared<Kernel>(kernel);
  const auto position = std::find_if(own->args.begin(), own->args.end(), [](const KernelArg& a) { return a.written; });
  const auto source = static_cast<int>(position - own->args.begin());
  own->args.insert(position, kernel.args[static_cast<size_t>(kernel.args[written].updates)]);
  own->args[written + 1].updates = source;
  for (Store& store : own->stores) ++store.access.arg;
  return own;
}

}  // namespace

std::vector<size_t> in_place_arguments(const Kernel& kernel) {
  if (kernel.contraction || kernel.stores.size() != 1) return {};
  const int to = kernel.stores[0].access.arg;
  if (kernel.args[static_cast<size_t>(to)].updates >= 0) return {};
  std::vector<size_t> found;
  for (size_t i = 0; i < kernel.args.size(); ++i)
    if (!kernel.args[i].written && may_be_one(kernel, static_cast<int>(i), to)) found.push_back(i);
  return found;
}

void protect_updated_values(Graph& graph) {
  const auto readers = readers_of(graph);
  std::vector<Node> nodes;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    Node node = graph.nodes[n];
    for (size_t i = 0; i < node.kernel->args.size(); ++i) {
      const int source = node.kernel->args[i].updates;
      if (source < 0) continue;
      const auto slot = static_cast<size_t>(source);  // reads come first: the position among the inputs
      const ValueId old = node.inputs[slot];
      const ValueId updated = node.outputs[i - node.inputs.size()];
      const Value& value = value_of(graph, old);
      const bool elsewhere = !may_share(*node.kernel, source, static_cast<int>(i));
      bool safe = !elsewhere && (value.source == ValueSource::node || value.source == ValueSource::input);
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
      nodes.push_back(copy_node(graph, old, copy, "copy", &node));
      if (elsewhere) {
        node.kernel = with_own_source(*node.kernel, i);
        node.inputs.push_back(copy);
        ++i;
      } else {
        node.inputs[slot] = copy;
      }
    }
    nodes.push_back(std::move(node));
  }
  graph.nodes = std::move(nodes);
  compact(graph, std::vector<bool>(graph.nodes.size(), false), false);
}

}  // namespace npusim
