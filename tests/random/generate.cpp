// Chooses actions by weight and, at the end, what the graph gives.
#include "random/generate.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "random/maker.h"

namespace npusim::test {
namespace {

std::vector<Action> all_actions() {
  std::vector<Action> all;
  for (const auto& actions : {pointwise_actions(), reduce_actions(), contract_actions(), attention_actions(),
                              view_actions(), index_actions(), update_actions()})
    all.insert(all.end(), actions.begin(), actions.end());
  return all;
}

void run_actions(Maker& m) {
  std::vector<Action> actions;
  for (const Action& action : all_actions())
    if (m.on(action.name)) actions.push_back(action);
  if (actions.empty()) fail(ErrorKind::usage, "every action is switched off");
  // A few of them more often, so that programs differ in what they are about.
  for (int i = 0; i < 3; ++i) actions[static_cast<size_t>(m.pick(static_cast<int64_t>(actions.size())))].weight += 12;
  const int total =
      std::accumulate(actions.begin(), actions.end(), 0, [](int sum, const Action& a) { return sum + a.weight; });
  const auto wanted = static_cast<size_t>(3 + m.pick(m.chance(70) ? 10 : 23));
  for (int tries = 0; tries < 200 && m.graph().nodes.size() < wanted; ++tries) {
    int64_t at = m.pick(total);
    const auto chosen =
        std::find_if(actions.begin(), actions.end(), [&](const Action& a) { return (at -= a.weight) < 0; });
    chosen->run(m);
  }
}

void add_output(Graph& graph, ValueId value, bool again) {
  std::string name = value_of(graph, value).name;
  if (again) name += "_again" + std::to_string(graph.outputs.size());
  graph.outputs.push_back({name, value, {}});
}

// What nobody reads, mostly; what was written in place; a few others, among them inputs, weights and one value twice.
void choose_outputs(Maker& m) {
  Graph& graph = m.graph();
  std::vector<bool> wanted(graph.values.size());
  const auto readers = readers_of(graph);
  for (size_t v = 0; v < graph.values.size(); ++v)
    wanted[v] = graph.values[v].source == ValueSource::node && readers[v].empty() && m.chance(75);
  for (const Node& node : graph.nodes)
    if (node.in_place && m.chance(60)) wanted[static_cast<size_t>(node.inputs[0])] = true;
  for (int64_t more = m.pick(3); more > 0; --more)
    wanted[static_cast<size_t>(m.pick(static_cast<int64_t>(wanted.size())))] = m.on("alias_outputs") || m.chance(50);
  if (!graph.nodes.empty() && !graph.nodes.back().outputs.empty())
    wanted[static_cast<size_t>(graph.nodes.back().outputs[0])] = true;
  std::set<std::string> names;
  for (size_t v = 0; v < wanted.size(); ++v) {
    const bool given = graph.values[v].source != ValueSource::node;
    if (!wanted[v] || (given && !m.on("alias_outputs") && !m.on("states"))) continue;
    add_output(graph, static_cast<ValueId>(v), false);
    if (m.on("alias_outputs") && m.chance(4)) add_output(graph, static_cast<ValueId>(v), true);
  }
}

// Inputs that no call came to read.
void drop_unread_inputs(Graph& graph) {
  const auto readers = readers_of(graph);
  std::erase_if(graph.inputs, [&](ValueId v) { return readers[static_cast<size_t>(v)].empty(); });
  compact(graph, std::vector<bool>(graph.nodes.size(), false), false);
}

}  // namespace

std::vector<std::string> feature_names() {
  std::vector<std::string> names;
  for (const Action& action : all_actions()) names.emplace_back(action.name);
  for (const char* name :
       {"alias_outputs", "double", "empty", "epilogue", "half", "huge", "large", "mask", "native_batch_norm", "reshape",
        "special", "states", "tiny", "twice", "update_weights", "zeros"})
    names.emplace_back(name);
  return names;
}

Graph generate(uint64_t seed, const std::set<std::string>& off) {
  Maker m(seed, off);
  run_actions(m);
  choose_outputs(m);
  drop_unread_inputs(m.graph());
  return std::move(m.graph());
}

}  // namespace npusim::test
