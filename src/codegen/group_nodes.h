// Which nodes of a method run once, at load, and which of the others are one launch.
#pragma once
#include <memory>
#include <vector>

#include "codegen/target.h"
#include "codegen/update_roots.h"

namespace npusim {

// Whether the node only moves a value to another device.
bool is_transfer(const Graph& graph, const Node& node);
// Whether it is work of the target's own device, the first.
bool is_launched(const Graph& graph, const Node& node);
// By node: whether its results are known early, so that it runs once, at load.
std::vector<bool> find_recipes(const Graph& graph);

// Makes the graph what one launch does, where the target has one for all its nodes; else leaves it as it is.
Whole launch_whole(Graph& graph, const CodegenTarget& target);

// The nodes that are no recipes, in order: those of each launch, or each alone.
struct NodeGroup {
  std::vector<size_t> nodes;
  std::shared_ptr<const LaunchPlan> plan = nullptr;
};
struct NodeGroups {
  std::vector<NodeGroup> groups;
  bool launched = false;  // whether there is any launch
};
NodeGroups group_nodes(const Graph& graph, const std::vector<bool>& recipes, const CodegenTarget* target,
                       UpdateRoots& roots);
NodeGroups group_all(const std::vector<bool>& recipes, std::shared_ptr<const LaunchPlan> plan);

}  // namespace npusim
