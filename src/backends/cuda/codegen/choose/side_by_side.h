// Horizontal fusion: independent kernels side by side in one launch, each with blocks of its own.
#pragma once
#include <span>

#include "backends/cuda/codegen/choose/implementations.h"

namespace npusim::cuda::codegen::choose {

// Whether the kernel can be one of them: every point is a thread's.
bool can_be_side_by_side(const Kernel& kernel, const Features& features);
// At least two. Parameters are those of the kernels, one behind the other, then the trap word if one of them takes it.
GeneratedKernel make_side_by_side(std::span<const Kernel* const> kernels, const Features& features);

}  // namespace npusim::cuda::codegen::choose
