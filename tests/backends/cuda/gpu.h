// The GPU of this machine, and the target for it alone.
#pragma once
#include <memory>
#include <string>

#include "codegen/target.h"
#include "runtime/backend.h"

namespace npusim::test {

// Why nothing can be run: no driver, no device; "" where there is one.
std::string why_no_gpu();
// Opened once: the driver's context stays.
const std::shared_ptr<Backend>& gpu();
// Compiles for the GPU's own architecture: half of the time. Or for what the environment's NPUSIM_TEST_CUDA says, as
// behind --target cuda: "sm_90a", "sm_90a,stream".
const CodegenTarget& gpu_target();

}  // namespace npusim::test
