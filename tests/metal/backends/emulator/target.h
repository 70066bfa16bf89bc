// The emulator's compile-time side: kernels printed as Metal, small ones in groups, all in one library.
#pragma once
#include "codegen/target.h"

namespace npusim::emulator {

const CodegenTarget& target();
// The same with one launch for each kernel.
const CodegenTarget& target_without_groups();

}  // namespace npusim::emulator
