// Kernels with attention: flash style over tiles of keys, never holding a whole row of scores.
#pragma once
#include <span>

#include "backends/cpu/step.h"

namespace npusim::cpu {

std::unique_ptr<BoundStep> make_attention_step(const Kernel& kernel, std::span<const Binding> args,
                                               const Context& context);

}  // namespace npusim::cpu
