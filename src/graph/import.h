// Reads IR JSON (docs/ir_format.md) into a graph, reporting every problem found.
#pragma once
#include <string>
#include <string_view>

#include "graph/graph.h"

namespace npusim {

struct ImportOptions {
  int max_problems = 50;                      // lines of the error; the rest is counted
  std::vector<std::string>* notes = nullptr;  // gets what was taken for granted
};

// Throws one bad_input error whose lines are the problems (unsupported, when all of them are ops without a record or
// attributes a record refuses). `where` names the file in messages.
Graph import_ir(std::string_view json, const std::string& where, const ImportOptions& options = {});

}  // namespace npusim
