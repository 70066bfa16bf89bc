// Depthwise convolutions of channels-last images: one filter per channel, read in the image's own type.
#pragma once
#include "backends/cpu/product/problem.h"

namespace npusim::cpu::product::channels_last {

// Declines unless every channel has one filter, lies next to its neighbour, and a Finish ends the kernel.
Answer make_depthwise_step(Problem& problem);

}  // namespace npusim::cpu::product::channels_last
