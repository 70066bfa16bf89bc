// Lookup in the table of targets.
#include "codegen/target.h"

#include <fmt/format.h>

#include "codegen/target_table.h"
#include "npusim/message.h"

namespace npusim {

const CodegenTarget* find_target(const std::string& name) {
  for (const TargetRow& row : target_table())
    if (name == row.name) return &row.get();
  return nullptr;
}

std::shared_ptr<const CodegenTarget> open_target(const std::string& name) {
  const size_t colon = name.find(':');
  const CodegenTarget* target = find_target(name.substr(0, colon));
  if (!target)
    fail(ErrorKind::usage, "unknown target {}: this build has {}{}", name, fmt::join(target_names(), ", "),
         did_you_mean(name.substr(0, colon), target_names()));
  if (colon != std::string::npos) return target->for_architectures(name.substr(colon + 1));
  return {std::shared_ptr<void>(), target};
}

std::vector<std::string> target_names() {
  std::vector<std::string> names;
  for (const TargetRow& row : target_table()) names.emplace_back(row.name);
  return names;
}

}  // namespace npusim
