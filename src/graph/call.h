// Operators without a record: their schemas from the plugin, their calls as kernels.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "aten/calls.h"
#include "graph/bind.h"
#include "graph/graph.h"

namespace npusim {

// The schema of "aten.relu.default" as the plugin has it; null, and in `reason` why, for one that it does not know or
// that writes its operands or returns views of them.
std::shared_ptr<const Schema> plugin_schema(const AtenPlugin& plugin, const std::string& op, std::string& reason);

// A node, still without a name, whose kernel is the call. Throws unsupported for what a call cannot hold.
Node call_node(const Graph& graph, const Schema& schema, const Binding& binding, const std::vector<ValueId>& outputs);

}  // namespace npusim
