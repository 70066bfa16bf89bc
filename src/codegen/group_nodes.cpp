// Asks the target for launches: one for all nodes, or for as many as follow each other.
#include "codegen/group_nodes.h"

#include <algorithm>

#include "codegen/build_program.h"
#include "passes/early_values.h"

namespace npusim {
namespace {

GroupStep step_of(const Node& node, UpdateRoots& roots) {
  GroupStep step{node.kernel.get(), {}};
  for (const std::vector<ValueId>* values : {&node.inputs, &node.outputs})
    for (ValueId v : *values) step.values.push_back(roots.of(v));
  return step;
}

}  // namespace

bool is_transfer(const Graph& g, const Node& node) {
  return node.inputs.size() == 1 && device_of(g, node.inputs[0]) != node.device;
}

bool is_launched(const Graph& g, const Node& node) { return node.device == 0 && !is_transfer(g, node); }

std::vector<bool> find_recipes(const Graph& g) {
  const std::vector<bool> early = early_values(g);
  std::vector<bool> recipes;
  for (const Node& node : g.nodes)
    recipes.push_back(std::all_of(node.outputs.begin(), node.outputs.end(),
                                  [&](ValueId v) { return early[static_cast<size_t>(v)]; }));
  return recipes;
}

std::optional<std::string> launch_whole(Graph& graph, const CodegenTarget& target) {
  Graph whole = graph;
  protect_updated_values(whole);
  const std::vector<bool> recipes = find_recipes(whole);
  UpdateRoots roots(whole);
  WholeMethod method;
  method.uses.assign(whole.values.size(), ValueUse::inside);
  const auto use = [&](ValueId v) -> ValueUse& { return method.uses[static_cast<size_t>(roots.of(v))]; };
  for (size_t v = 0; v < whole.values.size(); ++v)
    if (const ValueSource source = whole.values[v].source; source == ValueSource::input)
      use(static_cast<ValueId>(v)) = ValueUse::outside;
    else if (source == ValueSource::weight || source == ValueSource::constant)
      use(static_cast<ValueId>(v)) = ValueUse::known;
  for (const GraphOutput& o : whole.outputs)
    if (use(o.value) == ValueUse::inside) use(o.value) = ValueUse::outside;
  for (size_t n = 0; n < whole.nodes.size(); ++n) {
    const Node& node = whole.nodes[n];
    if (!is_launched(whole, node)) return std::string("a step of another device");
    if (recipes[n]) {
      if (!target.in_parts(*node.kernel).steps.empty()) return std::string("a recipe of several steps");
      for (ValueId v : node.outputs) use(v) = ValueUse::known;
    } else {
      method.steps.push_back(step_of(node, roots));
    }
  }
  if (method.steps.empty()) return std::string();
  std::optional<std::string> several = target.cannot_launch_whole(method);
  if (!several) graph = std::move(whole);
  return several;
}

NodeGroups group_all(const std::vector<bool>& recipes) {
  NodeGroups found{{{}}, true};
  for (size_t n = 0; n < recipes.size(); ++n)
    if (!recipes[n]) found.groups[0].push_back(n);
  return found;
}

NodeGroups group_nodes(const Graph& g, const std::vector<bool>& recipes, const CodegenTarget* target,
                       UpdateRoots& roots) {
  NodeGroups found;
  std::vector<GroupStep> steps;  // of the target's device, that follow each other
  std::vector<size_t> nodes;
  const auto group_steps = [&] {
    for (size_t i = 0; i < nodes.size();) {
      const size_t asked = target->group(std::span(steps).subspan(i));
      found.launched = found.launched || asked > 0;
      const size_t count = std::clamp<size_t>(asked, 1, nodes.size() - i);
      found.groups.emplace_back(nodes.begin() + static_cast<ptrdiff_t>(i),
                                nodes.begin() + static_cast<ptrdiff_t>(i + count));
      i += count;
    }
    steps.clear();
    nodes.clear();
  };
  for (size_t n = 0; n < g.nodes.size(); ++n) {
    if (recipes[n]) continue;
    if (!target || !is_launched(g, g.nodes[n])) {
      group_steps();
      found.groups.push_back({n});
      continue;
    }
    nodes.push_back(n);
    steps.push_back(step_of(g.nodes[n], roots));
  }
  group_steps();
  return found;
}

}  // namespace npusim
