// The list of every file's records; its definition is generated from the file list of this folder (src/CMakeLists.txt).
#pragma once
#include <span>
#include <vector>

namespace npusim {

struct OpRecord;
std::vector<std::span<const OpRecord>> op_tables();

}  // namespace npusim
