// Reads IR JSON (docs/ir_format.md) into a graph, reporting every problem found.
#pragma once
#include <functional>
#include <string>
#include <string_view>

#include "aten/calls.h"
#include "graph/graph.h"

namespace npusim {

struct ImportOptions {
  int max_problems = 50;                      // lines of the error; the rest is counted
  std::vector<std::string>* notes = nullptr;  // gets what was taken for granted
  // Asked, once, for what runs operators without a record: find_aten_plugin, or nothing. Where there is none they are
  // refused, and the reason is part of the message.
  std::function<std::shared_ptr<const AtenPlugin>(std::string& reason)> find_plugin = {};
};

// An operator without a record becomes a node of a kernel that is a call, if the plugin can run it: its operands and
// results keep their dtypes, and passes know nothing of it. Throws one bad_input error whose lines are the problems
// (unsupported, when all of them are ops without a record or attributes a record refuses). `where` names the file in
// messages.
Graph import_ir(std::string_view json, const std::string& where, const ImportOptions& options = {});

}  // namespace npusim
