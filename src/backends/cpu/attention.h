// Kernels with attention: flash style over tiles of keys, never holding a whole row of scores.
#pragma once
#include "backends/cpu/matmul.h"

namespace npusim::cpu {

std::unique_ptr<Step> make_attention_step(const Kernel& kernel, std::span<const Binding> args, const Context& context);

}  // namespace npusim::cpu
