// Convolutions of images whose channels are planes, into such: rows of pixels lie side by side in memory, and tiles
// have some channels of the result by some of its pixels.
#pragma once
#include "backends/cpu/product/problem.h"

namespace npusim::cpu::product::planes {

// Declines unless image and weight are float32 in one group, image and result have rows of neighbouring pixels, a
// Finish ends the kernel, whose bias may be along the channels, and windows are of more than a pixel.
Answer make_planes_step(Problem& problem);

}  // namespace npusim::cpu::product::planes
