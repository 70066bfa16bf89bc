// Scans of rows whose elements lie side by side: a warp, or the warps of a block, have some words of a row at a time.
#pragma once
#include <string>

#include "backends/cuda/codegen/generated.h"

namespace npusim::cuda::codegen::rows {

// Why the kernel is none whose rows can be scanned so, however many they are; "" if it is one.
std::string scan_problem(const Kernel& kernel, const Features& features);
// The same, and why another implementation is better; "" if it does not.
std::string scan_decline(const Kernel& kernel, const Features& features);
GeneratedKernel make_scanned(const Kernel& kernel, const Features& features);

}  // namespace npusim::cuda::codegen::rows
