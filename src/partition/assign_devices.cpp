// Which device does which node's work.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "kernel/facts/memory.h"
#include "partition/partition.h"
#include "passes/early_values.h"

namespace npusim {
namespace {

constexpr int32_t undecided = -1;

bool has_updates(const Node& node) {
  return std::any_of(node.kernel->args.begin(), node.kernel->args.end(),
                     [](const KernelArg& arg) { return arg.updates >= 0; });
}

// By value: the state that it is a version of; no_value for others.
std::vector<ValueId> states_of(const Graph& graph) {
  std::vector<ValueId> state(graph.values.size(), no_value);
  for (const ValueId input : graph.inputs) state[static_cast<size_t>(input)] = input;
  for (const Node& node : graph.nodes)
    for (size_t i = 0; i < node.kernel->args.size(); ++i)
      if (const int source = node.kernel->args[i].updates; source >= 0)
        state[static_cast<size_t>(node.outputs[i - node.inputs.size()])] =
            state[static_cast<size_t>(node.inputs[static_cast<size_t>(source)])];
  return state;
}

std::string state_name(const MethodGraph& method, ValueId input) {
  if (const std::string& name = value_of(method.graph, input).state; !name.empty()) return name;
  const std::vector<ValueId>& inputs = method.graph.inputs;
  const size_t own = inputs.size() - method.fills.size();
  const auto at = static_cast<size_t>(std::find(inputs.begin(), inputs.end(), input) - inputs.begin());
  return at < own ? value_of(method.graph, input).name : method.fills[at - own];
}

// The first device, or the fallback for what has a reason.
void place_by_reasons(Graph& graph) {
  for (Node& node : graph.nodes)
    node.device =
        std::any_of(node.origins.begin(), node.origins.end(),
                    [&](int32_t origin) { return !graph.origins[static_cast<size_t>(origin)].reason.empty(); })
            ? fallback_device
            : 0;
}

// Whatever updates a state that the fallback updates somewhere goes there too. False: it is there.
bool gather_updates(std::vector<MethodGraph>& methods, std::set<std::string>& away) {
  bool changed = false;
  for (MethodGraph& method : methods) {
    Graph& graph = method.graph;
    const std::vector<ValueId> states = states_of(graph);
    for (Node& node : graph.nodes)
      for (size_t i = 0; i < node.kernel->args.size(); ++i) {
        if (node.kernel->args[i].updates < 0) continue;
        const ValueId state = states[static_cast<size_t>(node.outputs[i - node.inputs.size()])];
        if (state == no_value) continue;
        const std::string name = state_name(method, state);
        if (node.device == fallback_device) {
          changed = away.insert(name).second || changed;
        } else if (away.contains(name)) {
          send_away(graph, node, fmt::format("updates '{}', which another node updates there", name));
          node.device = fallback_device;
          changed = true;
        }
      }
  }
  return changed;
}

// Nodes without a device of their own.
class Followers {
 public:
  explicit Followers(Graph& graph) : graph_(graph), early_(early_values(graph)), readers_(readers_of(graph)) {
    for (const Node& node : graph.nodes)
      follows_.push_back(node.device != fallback_device && !has_updates(node) &&
                         (is_copy(*node.kernel) || is_early(node)));
  }

  void run() {
    for (size_t n = graph_.nodes.size(); n-- > 0;) {
      Node& node = graph_.nodes[n];
      if (!follows_[n]) continue;
      node.device = wanted(node);
    }
    for (size_t n = 0; n < graph_.nodes.size(); ++n)
      if (follows_[n]) settle(graph_.nodes[n]);
  }

 private:
  bool is_early(const Node& node) const {
    return std::all_of(node.outputs.begin(), node.outputs.end(),
                       [&](ValueId v) { return early_[static_cast<size_t>(v)]; });
  }

  // The device of all that read the node's results.
  int32_t wanted(const Node& node) const {
    int32_t wanted = undecided;
    for (const ValueId v : node.outputs)
      for (const int32_t reader : readers_[static_cast<size_t>(v)]) {
        if (reader < 0) continue;
        const int32_t device = graph_.nodes[static_cast<size_t>(reader)].device;
        if (device == undecided || (wanted != undecided && wanted != device)) return undecided;
        wanted = device;
      }
    return wanted;
  }

  // What it reads is settled.
  void settle(Node& node) const {
    if (is_early(node)) {
      node.device = std::max(node.device, 0);
      return;
    }
    const int32_t producer = value_of(graph_, node.inputs[0]).producer;
    if (producer < 0) {
      node.device = std::max(node.device, 0);
      return;
    }
    const int32_t from = graph_.nodes[static_cast<size_t>(producer)].device;
    const auto bytes = [&](ValueId v) { return byte_size(value_of(graph_, v).type); };
    if (node.device == undecided || bytes(node.outputs[0]) < bytes(node.inputs[0])) node.device = from;
  }

  Graph& graph_;
  std::vector<bool> early_;
  std::vector<std::vector<int32_t>> readers_;
  std::vector<bool> follows_;  // by node
};

}  // namespace

bool has_fallbacks(const std::vector<MethodGraph>& methods) {
  return std::any_of(methods.begin(), methods.end(), [](const MethodGraph& method) {
    return std::any_of(method.graph.origins.begin(), method.graph.origins.end(),
                       [](const Origin& origin) { return !origin.reason.empty(); });
  });
}

void assign_devices(std::vector<MethodGraph>& methods) {
  for (MethodGraph& method : methods) place_by_reasons(method.graph);
  std::set<std::string> away;
  while (gather_updates(methods, away)) {
  }
  for (MethodGraph& method : methods) {
    for (Value& value : method.graph.values)
      if (!value.state.empty()) value.device = away.contains(value.state) ? fallback_device : 0;
    Followers(method.graph).run();
  }
}

}  // namespace npusim
