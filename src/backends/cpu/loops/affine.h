// Affine values of expressions.
#pragma once
#include <optional>

#include "backends/cpu/loops/fold.h"
#include "kernel/kernel.h"

namespace npusim::cpu {

// The affine value of an integer expression of indices, or of one as a float. The form's dimensions are the kernel's.
std::optional<IndexForm> affine_of(const Kernel& kernel, int32_t i);

}  // namespace npusim::cpu
