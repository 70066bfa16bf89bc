// Sums of integers at indices that a table gives, times the weights of another, as an image of bytes is resampled by.
#pragma once
#include <memory>
#include <span>

#include "backends/cpu/step.h"

namespace npusim::cpu::window {

// Null if the kernel is no such sum. 32-bit integers are enough for it: what is above them is lost behind it.
std::unique_ptr<BoundStep> make_weighing_step(const Kernel& kernel, std::span<const Binding> args,
                                              const Context& context);

}  // namespace npusim::cpu::window
