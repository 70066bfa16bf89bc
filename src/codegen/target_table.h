// The targets of this build; its definition is generated from the folders of backends/ (src/CMakeLists.txt).
#pragma once
#include "codegen/target.h"

namespace npusim {

struct TargetRow {
  const char* name;
  const CodegenTarget& (*get)();
};
std::vector<TargetRow> target_table();

}  // namespace npusim
