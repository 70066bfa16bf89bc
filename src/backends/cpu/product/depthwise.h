// Depthwise convolutions of channels-last images: one filter per channel, read in the image's own type.
#pragma once
#include <span>

#include "backends/cpu/product/onednn.h"
#include "backends/cpu/step.h"

namespace npusim::cpu {

// nullptr unless every channel has one filter, lies next to its neighbour, and a Finish ends the kernel.
std::unique_ptr<BoundStep> make_depthwise_step(const Kernel& kernel, std::span<const Binding> args,
                                               const Context& context, const ConvSpec& spec);

}  // namespace npusim::cpu
