// Convolutions through oneDNN.
#pragma once
#include <span>

#include "backends/cpu/step.h"

namespace npusim::cpu {

// nullptr where the kernel is no convolution oneDNN takes: it is then computed as a matmul.
std::unique_ptr<BoundStep> make_conv_step(const Kernel& kernel, std::span<const Binding> args, const Context& context);

}  // namespace npusim::cpu
