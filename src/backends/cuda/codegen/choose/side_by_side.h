// Horizontal fusion: independent kernels side by side in one launch, each with blocks of its own.
#pragma once
#include <span>
#include <string>

#include "backends/cuda/codegen/choose/implementations.h"

namespace npusim::cuda::codegen::choose {

// Why a kernel cannot be one of them; "" if it can: every point is a thread's.
std::string side_by_side_declines(const Kernel& kernel, const Features& features);
// At least two. Parameters are those of the kernels, one behind the other, then the trap word if one of them takes it.
GeneratedKernel make_side_by_side(std::span<const Kernel* const> kernels, const Features& features);

}  // namespace npusim::cuda::codegen::choose
