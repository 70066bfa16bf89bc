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

Whole launch_whole(Graph& graph, const CodegenTarget& target) {
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
    if (!is_launched(whole, node)) return {nullptr, "a step of another device"};
    if (recipes[n]) {
      if (!target.in_parts(*node.kernel).steps.empty()) return {nullptr, "a recipe of several steps"};
      for (ValueId v : node.outputs) use(v) = ValueUse::known;
    } else {
      method.steps.push_back(step_of(node, roots));
    }
  }
  if (method.steps.empty()) return {};
  Whole launch = target.launch_whole(method);
  if (launch.plan) graph = std::move(whole);
  return launch;
}

NodeGroups group_all(const std::vector<bool>& recipes, std::shared_ptr<const LaunchPlan> plan) {
  NodeGroups found{{{{}, std::move(plan)}}, true};
  for (size_t n = 0; n < recipes.size(); ++n)
    if (!recipes[n]) found.groups[0].nodes.push_back(n);
  return found;
}

namespace {

// By value (root of its updates): the last node that is no recipe and has to do with it; SIZE_MAX: the caller has.
std::vector<size_t> last_uses(const Graph& g, const std::vector<bool>& recipes, UpdateRoots& roots) {
  std::vector<size_t> last(g.values.size(), 0);
  const auto of = [&](ValueId v) -> size_t& { return last[static_cast<size_t>(roots.of(v))]; };
  for (size_t n = 0; n < g.nodes.size(); ++n)
    for (const std::vector<ValueId>* values : {&g.nodes[n].inputs, &g.nodes[n].outputs})
      for (ValueId v : *values) of(v) = recipes[n] ? SIZE_MAX : std::max(of(v), n);
  for (size_t v = 0; v < g.values.size(); ++v)
    if (g.values[v].source != ValueSource::node) of(static_cast<ValueId>(v)) = SIZE_MAX;
  for (const GraphOutput& o : g.outputs) of(o.value) = SIZE_MAX;
  return last;
}

}  // namespace

NodeGroups group_nodes(const Graph& g, const std::vector<bool>& recipes, const CodegenTarget* target,
                       UpdateRoots& roots) {
  NodeGroups found;
  const std::vector<size_t> last = last_uses(g, recipes, roots);
  std::vector<GroupStep> steps;  // of the target's device, that follow each other
  std::vector<size_t> nodes;
  const auto group_steps = [&] {
    for (size_t i = 0; i < nodes.size(); ++i)
      for (const int32_t value : steps[i].values)
        steps[i].kept.push_back(last[static_cast<size_t>(value)] > (i + 1 < nodes.size() ? nodes[i + 1] : nodes[i]));
    for (size_t i = 0; i < nodes.size();) {
      Group asked = target->group(std::span(steps).subspan(i));
      found.launched = found.launched || asked.count > 0;
      const size_t count = std::clamp<size_t>(asked.count, 1, nodes.size() - i);
      found.groups.push_back(
          {{nodes.begin() + static_cast<ptrdiff_t>(i), nodes.begin() + static_cast<ptrdiff_t>(i + count)},
           std::move(asked.plan)});
      i += count;
    }
    steps.clear();
    nodes.clear();
  };
  for (size_t n = 0; n < g.nodes.size(); ++n) {
    if (recipes[n]) continue;
    if (!target || !is_launched(g, g.nodes[n])) {
      group_steps();
      found.groups.push_back({{n}});
      continue;
    }
    nodes.push_back(n);
    steps.push_back(step_of(g.nodes[n], roots));
  }
  group_steps();
  return found;
}

}  // namespace npusim
