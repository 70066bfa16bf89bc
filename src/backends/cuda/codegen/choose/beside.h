// Several kernels that have nothing to do with each other as one launch: each has blocks of its own.
#pragma once
#include <span>
#include <string>

#include "backends/cuda/codegen/choose/implementations.h"

namespace npusim::cuda::codegen::choose {

// Why a kernel cannot be one of them; "" if it can: every point is a thread's.
std::string beside_declines(const Kernel& kernel, const Features& features);
// At least two. Parameters are those of the kernels, one behind the other, then the trap word if one of them takes it.
Made make_beside(std::span<const Kernel* const> kernels, const Features& features);

}  // namespace npusim::cuda::codegen::choose
