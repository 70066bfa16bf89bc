// CUDA's compile-time side: kernels printed as CUDA C++ and compiled by NVRTC, on machines without a GPU.
#pragma once
#include "codegen/target.h"

namespace npusim::cuda {

// For sm_80 and sm_90a.
const CodegenTarget& target();

}  // namespace npusim::cuda
