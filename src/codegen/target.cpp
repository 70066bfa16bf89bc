// Lookup in the table of targets.
#include "codegen/target.h"

#include "codegen/target_table.h"

namespace npusim {

const CodegenTarget* find_target(const std::string& name) {
  for (const TargetRow& row : target_table())
    if (name == row.name) return &row.get();
  return nullptr;
}

std::vector<std::string> target_names() {
  std::vector<std::string> names;
  for (const TargetRow& row : target_table()) names.emplace_back(row.name);
  return names;
}

}  // namespace npusim
