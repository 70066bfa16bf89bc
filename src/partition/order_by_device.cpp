// The order of nodes that changes device least.
//
// Whoever takes all nodes of one device that are ready, then all of the other, and so on, changes device once for each
// change along the longest chain of dependent nodes: every order has at least those.
#include <algorithm>
#include <functional>
#include <queue>

#include "partition/partition.h"
#include "passes/early_values.h"

namespace npusim {
namespace {

class Scheduler {
 public:
  explicit Scheduler(const Graph& graph) : graph_(graph), after_(graph.nodes.size()), before_(graph.nodes.size(), 0) {
    const auto readers = readers_of(graph);
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      const Node& node = graph.nodes[n];
      for (const ValueId v : node.outputs)
        for (const int32_t reader : readers[static_cast<size_t>(v)])
          if (reader >= 0) add(n, static_cast<size_t>(reader));
      // What reads the old value does so before the update.
      for (const KernelArg& arg : node.kernel->args) {
        if (arg.updates < 0) continue;
        for (const int32_t reader : readers[static_cast<size_t>(node.inputs[static_cast<size_t>(arg.updates)])])
          if (reader >= 0 && static_cast<size_t>(reader) < n) add(static_cast<size_t>(reader), n);
      }
    }
  }

  // Positions of nodes: the first ones, then the others, beginning with those of a device that are ready.
  std::vector<size_t> run(size_t first, int32_t device, int64_t& changes) const {
    using Ready = std::priority_queue<size_t, std::vector<size_t>, std::greater<>>;
    std::array<Ready, 2> ready;
    std::vector<int> open = before_;
    std::vector<size_t> order;
    const auto take = [&](size_t n) {
      order.push_back(n);
      for (const size_t next : after_[n])
        if (--open[next] == 0 && next >= first) ready[device_of(next)].push(next);
    };
    for (size_t n = first; n < open.size(); ++n)
      if (open[n] == 0) ready[device_of(n)].push(n);
    for (size_t n = 0; n < first; ++n) take(n);
    changes = 0;
    for (auto now = static_cast<size_t>(device); order.size() < open.size();) {
      if (ready[now].empty()) {
        now = 1 - now;
        changes += order.size() > first;
      }
      const size_t n = ready[now].top();
      ready[now].pop();
      take(n);
    }
    return order;
  }

 private:
  void add(size_t from, size_t to) {
    after_[from].push_back(to);
    ++before_[to];
  }
  size_t device_of(size_t node) const { return static_cast<size_t>(graph_.nodes[node].device); }

  const Graph& graph_;
  std::vector<std::vector<size_t>> after_;  // by node: those that must follow
  std::vector<int> before_;                 // by node: how many must come first
};

}  // namespace

void order_by_device(Graph& graph) {
  // What runs once at load comes first and counts for nothing.
  const std::vector<bool> early = early_values(graph);
  const auto late = std::stable_partition(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) {
    return std::all_of(node.outputs.begin(), node.outputs.end(),
                       [&](ValueId v) { return early[static_cast<size_t>(v)]; });
  });
  const auto first = static_cast<size_t>(late - graph.nodes.begin());
  set_producers(graph);
  const Scheduler scheduler(graph);
  int64_t changes = 0, other_changes = 0;
  std::vector<size_t> order = scheduler.run(first, 0, changes),
                      other = scheduler.run(first, fallback_device, other_changes);
  if (other_changes < changes) order = std::move(other);
  std::vector<Node> nodes;
  nodes.reserve(order.size());
  for (const size_t n : order) nodes.push_back(std::move(graph.nodes[n]));
  graph.nodes = std::move(nodes);
  set_producers(graph);
}

}  // namespace npusim
