// Convolutions of images whose channels are planes, into a few such planes of each group: depthwise ones, heads of one
// channel, gates.
#pragma once
#include "backends/cpu/product/problem.h"

namespace npusim::cpu::product::planes {

// Declines unless image and weight are float32, image and result have rows of neighbouring pixels, windows are at most
// two pixels apart along the row, groups have few channels of the result (or windows one tap), and a Finish ends the
// kernel, whose bias may be along the channels.
Answer make_few_planes_step(Problem& problem);

}  // namespace npusim::cpu::product::planes
