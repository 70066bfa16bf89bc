// Transfers between the devices of a method's nodes.
#include <algorithm>

#include "kernel/builder.h"
#include "partition/partition.h"
#include "passes/early_values.h"

namespace npusim {
namespace {

// Where what is given is put. Weights and constants are on the first device if anything there reads them, inputs on the
// fallback, which is the host, if anything there does; a state is where it is updated, of another method too
// (assign_devices knows).
void place_given(Graph& graph) {
  const auto readers = readers_of(graph);
  for (size_t v = 0; v < graph.values.size(); ++v) {
    Value& value = graph.values[v];
    if (value.source == ValueSource::node || !value.state.empty()) continue;
    bool there[2] = {false, false};
    for (const int32_t reader : readers[v])
      if (reader >= 0) there[graph.nodes[static_cast<size_t>(reader)].device] = true;
    const bool stays = value.source == ValueSource::input ? !there[fallback_device] : there[0];
    value.device = stays || !there[fallback_device] ? 0 : fallback_device;
  }
  std::vector<ValueId> state(graph.values.size(), no_value);
  for (const ValueId input : graph.inputs) state[static_cast<size_t>(input)] = input;
  for (const Node& node : graph.nodes)
    for (size_t i = 0; i < node.kernel->args.size(); ++i) {
      const int source = node.kernel->args[i].updates;
      if (source < 0) continue;
      const ValueId of = state[static_cast<size_t>(node.inputs[static_cast<size_t>(source)])];
      if (of != no_value) value_of(graph, of).device = node.device;
      state[static_cast<size_t>(node.outputs[i - node.inputs.size()])] = of;
    }
}

class Transfers {
 public:
  explicit Transfers(Graph& graph)
      : graph_(graph), early_(early_values(graph)), transferred_(graph.values.size(), no_value) {
    for (size_t v = 0; v < graph.values.size(); ++v) device_.push_back(device_of(graph, static_cast<ValueId>(v)));
  }

  void run() {
    std::vector<Node> nodes = std::move(graph_.nodes);
    graph_.nodes.clear();
    for (size_t first = 0; first < nodes.size();) {
      const auto same = [&](const Node& node) {
        return node.device == nodes[first].device && is_early(node) == is_early(nodes[first]);
      };
      size_t end = first + 1;
      while (end < nodes.size() && same(nodes[end])) ++end;
      for (size_t n = first; n < end; ++n) transfer_operands(nodes[n]);
      for (; first < end; ++first) add_node(graph_, std::move(nodes[first]));
    }
  }

 private:
  bool is_early(const Node& node) const { return early_[static_cast<size_t>(node.outputs[0])]; }

  void transfer_operands(Node& node) {
    for (ValueId& v : node.inputs) {
      const auto from = static_cast<size_t>(v);
      if (device_[from] == node.device) continue;
      if (transferred_[from] == no_value) transferred_[from] = add_transfer(v, node);
      v = transferred_[from];
    }
  }

  ValueId add_transfer(ValueId v, const Node& reader) {
    const Value from = value_of(graph_, v);
    const ValueId there = add_value(graph_, from.name + (reader.device == 0 ? "_there" : "_here"), from.type);
    value_of(graph_, there).stored = from.stored;
    KernelBuilder k({stored_elements(from.type, from.stored)});
    const TensorType memory{from.type.dtype, {stored_elements(from.type, from.stored)}};
    const Ex x = k.load_flat(k.input(memory));
    k.store_flat(k.output(memory), x);
    Node transfer;
    transfer.name = from.name;
    transfer.inputs = {v};
    transfer.outputs = {there};
    transfer.kernel = std::make_shared<const Kernel>(k.finish("transfer"));
    transfer.origins = origins_of(graph_, v);
    transfer.device = reader.device;
    add_node(graph_, std::move(transfer));
    return there;
  }

  Graph& graph_;
  std::vector<bool> early_;
  std::vector<int32_t> device_;       // by value
  std::vector<ValueId> transferred_;  // by value: what it is on the other device
};

}  // namespace

void divide(Graph& graph) {
  order_by_device(graph);
  add_transfers(graph);
}

void add_transfers(Graph& graph) {
  place_given(graph);
  Transfers(graph).run();
}

}  // namespace npusim
