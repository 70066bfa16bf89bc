// The CPU's compile-time side.
#pragma once
#include "codegen/target.h"

namespace npusim::cpu {

const CodegenTarget& target();

}  // namespace npusim::cpu
