// Orders of rows, each in a block's shared memory.
#pragma once
#include <string>

#include "backends/cuda/codegen/generated.h"

namespace npusim::cuda::codegen::rows {

// Of a kernel that orders; "" if it does not decline.
std::string order_decline(const Kernel& kernel);
GeneratedKernel make_ordered(const Kernel& kernel, const Features& features);

}  // namespace npusim::cuda::codegen::rows
