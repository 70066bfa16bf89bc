// One walk over the nodes in order, then back from the updates that belong to the run.
#include "passes/early_values.h"

#include <algorithm>
#include <utility>

namespace npusim {
namespace {

// Calls body(old value, updated value) for every update of the node.
template <typename Body>
void for_each_update(const Node& node, Body&& body) {
  if (!node.kernel) return;
  for (size_t i = 0; i < node.kernel->args.size(); ++i)
    if (const int source = node.kernel->args[i].updates; source >= 0)
      body(node.inputs[static_cast<size_t>(source)], node.outputs[i - node.inputs.size()]);
}

class EarlyValues {
 public:
  explicit EarlyValues(const Graph& graph)
      : graph_(graph),
        early_(graph.values.size(), false),
        late_versions_(graph.values.size(), false),
        next_(graph.values.size(), no_value),
        before_(next_) {
    for (size_t v = 0; v < graph.values.size(); ++v)
      early_[v] = graph.values[v].source == ValueSource::weight || graph.values[v].source == ValueSource::constant;
    for (const Node& node : graph.nodes) {
      const bool all = std::all_of(node.inputs.begin(), node.inputs.end(),
                                   [&](ValueId v) { return v < 0 || early_[static_cast<size_t>(v)]; });
      for (ValueId v : node.outputs) early_[static_cast<size_t>(v)] = all;
      for_each_update(node, [&](ValueId old, ValueId updated) {
        next_[static_cast<size_t>(old)] = updated;
        before_[static_cast<size_t>(updated)] = old;
      });
    }
  }

  std::vector<bool> run() {
    const auto readers = readers_of(graph_);
    for (const Node& node : graph_.nodes)
      if (std::any_of(node.outputs.begin(), node.outputs.end(),
                      [&](ValueId v) { return !early_[static_cast<size_t>(v)]; }))
        make_late(node);
    while (!work_.empty()) {
      const ValueId v = work_.back();
      work_.pop_back();
      if (const int32_t producer = value_of(graph_, v).producer; producer >= 0)
        make_late(graph_.nodes[static_cast<size_t>(producer)]);
      for (int32_t reader : readers[static_cast<size_t>(v)])
        if (reader >= 0) make_late(graph_.nodes[static_cast<size_t>(reader)]);
    }
    return std::move(early_);
  }

 private:
  // The node belongs to the run: so do its results, and all versions of what it overwrites or reads of the overwritten.
  void make_late(const Node& node) {
    for (ValueId v : node.outputs) make_late(v);
    for (const std::vector<ValueId>* values : {&node.inputs, &node.outputs})
      for (ValueId v : *values)
        if (v >= 0 && next_[static_cast<size_t>(v)] != no_value) make_late_versions(v);
  }
  void make_late(ValueId v) {
    if (!early_[static_cast<size_t>(v)] || value_of(graph_, v).source != ValueSource::node) return;
    early_[static_cast<size_t>(v)] = false;
    work_.push_back(v);
  }
  void make_late_versions(ValueId v) {
    const auto visit = [&](ValueId at, const std::vector<ValueId>& links) {
      for (; at != no_value && !late_versions_[static_cast<size_t>(at)]; at = links[static_cast<size_t>(at)]) {
        late_versions_[static_cast<size_t>(at)] = true;
        make_late(at);
      }
    };
    visit(next_[static_cast<size_t>(v)], next_);
    visit(v, before_);
  }

  const Graph& graph_;
  std::vector<bool> early_, late_versions_;
  std::vector<ValueId> next_, before_;  // by value: the one that updates it, the one it updates
  std::vector<ValueId> work_;           // late values whose producers and readers are still to be told
};

}  // namespace

std::vector<bool> early_values(const Graph& graph) { return EarlyValues(graph).run(); }

}  // namespace npusim
