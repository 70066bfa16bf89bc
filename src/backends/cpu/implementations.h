// The choice of an implementation for a kernel with a contraction (matmul, convolution, attention).
#pragma once
#include <span>

#include "backends/cpu/step.h"

namespace npusim::cpu {

Context make_context(int threads);

// One binding per kernel argument, those written included. The kernel must satisfy check_kernel().
std::unique_ptr<BoundStep> make_contraction_step(const Kernel& kernel, std::span<const Binding> args,
                                                 const Context& context);

}  // namespace npusim::cpu
