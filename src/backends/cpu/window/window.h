// Windows that slide over memory: pools, folded line by line.
#pragma once
#include <memory>
#include <span>

#include "backends/cpu/step.h"

namespace npusim::cpu::window {

// Null where the kernel is none of such windows, or loops are as good.
std::unique_ptr<BoundStep> make_window_step(const Kernel& kernel, std::span<const Binding> args,
                                            const Context& context);

}  // namespace npusim::cpu::window
