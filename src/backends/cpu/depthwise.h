// Depthwise convolutions of channels-last images: one filter per channel, read in the image's own type.
#pragma once
#include "backends/cpu/contraction.h"
#include "backends/cpu/onednn.h"

namespace npusim::cpu {

// nullptr unless every channel has one filter, lies next to its neighbour, and a Finish ends the kernel.
std::unique_ptr<Step> make_depthwise_step(const Kernel& kernel, std::span<const Binding> args, const Context& context,
                                          const ConvSpec& spec);

}  // namespace npusim::cpu
