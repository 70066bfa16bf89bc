// Elements that are weighted sums of a few others along each of several dimensions: images of another size.
#pragma once
#include <memory>
#include <span>

#include "backends/cpu/step.h"

namespace npusim::cpu::window {

// Null where the kernel computes no such sums, or other than along memory.
std::unique_ptr<BoundStep> make_resample_step(const Kernel& kernel, std::span<const Binding> args,
                                              const Context& context);

}  // namespace npusim::cpu::window
