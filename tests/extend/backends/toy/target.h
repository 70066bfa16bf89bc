// The toy target's compile-time side.
#pragma once
#include "codegen/target.h"

namespace npusim::toy {

const CodegenTarget& target();

}  // namespace npusim::toy
