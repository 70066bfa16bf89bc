// The null target's compile-time side: what the compiler asks of a target. Copy this folder to start a backend.
#pragma once
#include "codegen/target.h"

namespace npusim::null {

// Found by the build through the folder's name: npusim::<folder>::target().
const CodegenTarget& target();

}  // namespace npusim::null
