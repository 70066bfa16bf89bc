// Reductions over what rows of two operands have side by side, as distances of all pairs: a block keeps elements of
// some rows of both in shared memory, and a thread has several pairs.
#pragma once
#include <string>

#include "backends/cuda/codegen/generated.h"

namespace npusim::cuda::codegen::rows {

// Whether the kernel is such a reduction, however many pairs there are.
bool has_pairs(const Kernel& kernel);
std::string pairs_decline(const Kernel& kernel);  // "" if it does not
GeneratedKernel make_pairs(const Kernel& kernel, const Features& features);

}  // namespace npusim::cuda::codegen::rows
