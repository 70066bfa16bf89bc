// Runs kernels element by element in double and int64: the living definition that every backend is tested against.
#pragma once
#include <span>

#include "kernel/kernel.h"

namespace npusim {

// `args[i]` is the memory of kernel.args[i], of at least `elements` elements. f32 expressions are computed in double
// unless `single` is set, which rounds every f32 expression to float. Throws bad_input when an index leaves its
// extent or an integer division has a zero divisor.
void evaluate(const Kernel& kernel, std::span<void* const> args, bool single = false);

}  // namespace npusim
