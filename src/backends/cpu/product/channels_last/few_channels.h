// Convolutions of images with up to three channels, as the first of a net is: a channel at a time fills no vector, and
// all taps of a window together are a short sum.
#pragma once
#include "backends/cpu/product/problem.h"

namespace npusim::cpu::product::channels_last {

// Declines unless image and weight are float32, the weight is constant, a Finish ends the kernel, and rows of the
// result hold a register tile. The image may lie in any order.
Answer make_few_channels_step(Problem& problem);

}  // namespace npusim::cpu::product::channels_last
