// Building, rewriting and compacting graphs, all in linear time.
#include "graph/graph.h"

#include <algorithm>

#include "base/error.h"
#include "kernel/builder.h"

namespace npusim {
namespace {

std::string unique_name(Graph& graph, std::string name) {
  if (name.empty()) name = "value";
  const auto [it, fresh] = graph.names.try_emplace(name, 1);
  if (fresh) return name;
  while (true) {
    std::string candidate = name + "_" + std::to_string(it->second++);
    if (graph.names.count(candidate)) continue;
    graph.names.emplace(candidate, 1);
    return candidate;
  }
}

// Positions of the nodes to keep that reach an output, or change an operand.
std::vector<bool> reachable_nodes(const Graph& graph, const std::vector<bool>& keep,
                                  const std::vector<int32_t>& producer) {
  std::vector<bool> reached(graph.nodes.size());
  std::vector<int32_t> work;
  auto reach = [&](int32_t node) {
    if (node < 0 || !keep[static_cast<size_t>(node)] || reached[static_cast<size_t>(node)]) return;
    reached[static_cast<size_t>(node)] = true;
    work.push_back(node);
  };
  for (const GraphOutput& output : graph.outputs) reach(producer[static_cast<size_t>(output.value)]);
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    if (graph.nodes[i].in_place) reach(static_cast<int32_t>(i));
  while (!work.empty()) {
    const Node& node = graph.nodes[static_cast<size_t>(work.back())];
    work.pop_back();
    for (ValueId id : node.inputs)
      if (id != no_value) reach(producer[static_cast<size_t>(id)]);
  }
  return reached;
}

// The kept nodes in topological order: each as early as its place in the list and its readers ask for.
std::vector<int32_t> topological_order(const Graph& graph, const std::vector<bool>& keep,
                                       const std::vector<int32_t>& producer) {
  enum : uint8_t { unseen, open, done };
  struct Frame {
    int32_t node;
    size_t next_input;
  };
  std::vector<uint8_t> state(graph.nodes.size(), unseen);
  std::vector<int32_t> order;
  std::vector<Frame> stack;
  for (size_t root = 0; root < graph.nodes.size(); ++root) {
    if (!keep[root] || state[root] != unseen) continue;
    stack.push_back({static_cast<int32_t>(root), 0});
    state[root] = open;
    while (!stack.empty()) {
      Frame& frame = stack.back();
      const Node& node = graph.nodes[static_cast<size_t>(frame.node)];
      if (frame.next_input == node.inputs.size()) {
        state[static_cast<size_t>(frame.node)] = done;
        order.push_back(frame.node);
        stack.pop_back();
        continue;
      }
      const ValueId id = node.inputs[frame.next_input++];
      const int32_t from = id == no_value ? -1 : producer[static_cast<size_t>(id)];
      if (from < 0 || !keep[static_cast<size_t>(from)] || state[static_cast<size_t>(from)] == done) continue;
      if (state[static_cast<size_t>(from)] == open)
        fail(ErrorKind::internal, "graph '{}': node '{}' depends on itself", graph.name, node.name);
      state[static_cast<size_t>(from)] = open;
      stack.push_back({from, 0});
    }
  }
  return order;
}

// Drops the values nobody names and renumbers the others, keeping their order.
void compact_values(Graph& graph) {
  std::vector<ValueId> renumbered(graph.values.size(), no_value);
  constexpr ValueId used = 0;
  auto use = [&](ValueId id) {
    if (id != no_value) renumbered[static_cast<size_t>(id)] = used;
  };
  for (ValueId id : graph.inputs) use(id);
  for (const GraphOutput& output : graph.outputs) use(output.value), use(output.next_of);
  for (const Node& node : graph.nodes) {
    for (ValueId id : node.inputs) use(id);
    for (ValueId id : node.outputs) use(id);
  }
  size_t count = 0;
  for (size_t i = 0; i < graph.values.size(); ++i) {
    if (renumbered[i] == no_value) {
      graph.names.erase(graph.values[i].name);
      continue;
    }
    renumbered[i] = static_cast<ValueId>(count);
    if (i != count) graph.values[count] = std::move(graph.values[i]);
    ++count;
  }
  graph.values.resize(count);
  auto renumber = [&](ValueId& id) {
    if (id != no_value) id = renumbered[static_cast<size_t>(id)];
  };
  for (ValueId& id : graph.inputs) renumber(id);
  for (GraphOutput& output : graph.outputs) renumber(output.value), renumber(output.next_of);
  for (Node& node : graph.nodes) {
    for (ValueId& id : node.inputs) renumber(id);
    for (ValueId& id : node.outputs) renumber(id);
  }
}

}  // namespace

ValueId add_value(Graph& graph, std::string name, TensorType type) {
  Value value;
  value.name = unique_name(graph, std::move(name));
  value.type = std::move(type);
  graph.values.push_back(std::move(value));
  return static_cast<ValueId>(graph.values.size()) - 1;
}

void rename_values(Graph& graph, const std::vector<std::pair<ValueId, std::string>>& names) {
  if (names.empty()) return;
  std::unordered_map<std::string, ValueId> called;
  for (size_t v = 0; v < graph.values.size(); ++v) called.emplace(graph.values[v].name, static_cast<ValueId>(v));
  for (const auto& [id, name] : names) {
    Value& value = value_of(graph, id);
    if (value.name == name) continue;
    if (const auto other = called.find(name); other != called.end()) {
      const ValueId moved = other->second;
      value_of(graph, moved).name = unique_name(graph, name);
      called.erase(other);
      called.emplace(value_of(graph, moved).name, moved);
    }
    called.erase(value.name);
    graph.names.erase(value.name);
    graph.names.try_emplace(name, 1);
    value.name = name;
    called.emplace(name, id);
  }
}

ValueId add_constant(Graph& graph, std::string name, HostTensor tensor) {
  const ValueId id = add_value(graph, std::move(name), tensor.type);
  Value& value = value_of(graph, id);
  value.source = ValueSource::constant;
  value.data = std::make_shared<const HostTensor>(std::move(tensor));
  return id;
}

int32_t add_node(Graph& graph, Node node) {
  const auto position = static_cast<int32_t>(graph.nodes.size());
  for (ValueId id : node.outputs) value_of(graph, id).producer = position;
  graph.nodes.push_back(std::move(node));
  return position;
}

Node copy_node(const Graph& graph, ValueId from, ValueId to, std::string kernel, const Node* behalf) {
  const Value& source = value_of(graph, from);
  KernelBuilder k({element_count(source.type.shape)});
  const Ex x = k.load_flat(k.input(source.type));
  k.store_flat(k.output(value_of(graph, to).type), x);
  Node node;
  node.name = source.name;
  node.inputs = {from};
  node.outputs = {to};
  node.kernel = std::make_shared<const Kernel>(k.finish(std::move(kernel)));
  if (behalf) {
    node.origins = behalf->origins;
    node.device = behalf->device;
  }
  return node;
}

void set_origins(Graph& graph) {
  graph.origins.clear();
  for (Node& node : graph.nodes) {
    node.origins = {static_cast<int32_t>(graph.origins.size())};
    graph.origins.push_back({node.name, node.op ? node.op->name() : node.kernel->name, {}});
  }
}

std::vector<int32_t> origins_of(const Graph& graph, ValueId id) {
  const int32_t producer = value_of(graph, id).producer;
  return producer < 0 ? std::vector<int32_t>{} : graph.nodes[static_cast<size_t>(producer)].origins;
}

void add_origins(Node& into, const std::vector<int32_t>& from) {
  std::vector<int32_t> joined;
  std::set_union(into.origins.begin(), into.origins.end(), from.begin(), from.end(), std::back_inserter(joined));
  if (joined.size() > most_origins) joined.erase(joined.begin(), joined.end() - most_origins);
  into.origins = std::move(joined);
}

int32_t device_of(const Graph& graph, ValueId id) {
  const Value& value = value_of(graph, id);
  return value.producer < 0 ? value.device : graph.nodes[static_cast<size_t>(value.producer)].device;
}

void send_away(Graph& graph, const Node& node, const std::string& reason) {
  for (const int32_t origin : node.origins)
    if (std::string& known = graph.origins[static_cast<size_t>(origin)].reason; known.empty()) known = reason;
}

void set_producers(Graph& graph) {
  for (Value& value : graph.values) value.producer = -1;
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    for (ValueId id : graph.nodes[i].outputs) value_of(graph, id).producer = static_cast<int32_t>(i);
}

OpCall call_of(const Graph& graph, const Node& node) {
  OpCall call;
  call.op = node.op;
  call.inputs.reserve(node.inputs.size());
  for (ValueId id : node.inputs) call.inputs.push_back(id == no_value ? nullptr : &value_of(graph, id).type);
  call.list_sizes = node.list_sizes;
  call.attrs = node.attrs;
  call.outputs.reserve(node.outputs.size());
  for (ValueId id : node.outputs) call.outputs.push_back(value_of(graph, id).type);
  return call;
}

std::vector<std::vector<int32_t>> readers_of(const Graph& graph) {
  std::vector<std::vector<int32_t>> readers(graph.values.size());
  auto add = [&](ValueId id, int32_t reader) {
    if (id == no_value) return;
    auto& list = readers[static_cast<size_t>(id)];
    if (list.empty() || list.back() != reader) list.push_back(reader);
  };
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    for (ValueId id : graph.nodes[i].inputs) add(id, static_cast<int32_t>(i));
  for (const GraphOutput& output : graph.outputs) add(output.value, -1);
  return readers;
}

void replace_values(Graph& graph, const std::vector<ValueId>& to) {
  std::vector<ValueId> final = to;
  std::vector<ValueId> chain;
  auto replace = [&](ValueId& id) {
    if (id == no_value || static_cast<size_t>(id) >= final.size()) return;
    chain.clear();
    while (final[static_cast<size_t>(id)] != id) {
      if (chain.size() > final.size()) fail(ErrorKind::internal, "graph '{}': replacements form a cycle", graph.name);
      chain.push_back(id);
      id = final[static_cast<size_t>(id)];
      if (static_cast<size_t>(id) >= final.size()) break;
    }
    for (ValueId passed : chain) final[static_cast<size_t>(passed)] = id;
  };
  for (Node& node : graph.nodes)
    for (ValueId& id : node.inputs) replace(id);
  for (GraphOutput& output : graph.outputs) replace(output.value);
}

void compact(Graph& graph, const std::vector<bool>& dead, bool unused) {
  std::vector<bool> keep(graph.nodes.size(), true);
  for (size_t i = 0; i < std::min(dead.size(), keep.size()); ++i) keep[i] = !dead[i];
  std::vector<int32_t> producer(graph.values.size(), -1);
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    if (keep[i])
      for (ValueId id : graph.nodes[i].outputs) producer[static_cast<size_t>(id)] = static_cast<int32_t>(i);
  if (unused) keep = reachable_nodes(graph, keep, producer);
  std::vector<Node> nodes;
  for (int32_t position : topological_order(graph, keep, producer))
    nodes.push_back(std::move(graph.nodes[static_cast<size_t>(position)]));
  graph.nodes = std::move(nodes);
  compact_values(graph);
  set_producers(graph);
}

}  // namespace npusim
