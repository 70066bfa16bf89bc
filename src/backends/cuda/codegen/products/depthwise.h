// Convolutions of each channel by itself: a thread makes eight channels of one pixel or of some neighbours.
#pragma once
#include <string>
#include <vector>

#include "backends/cuda/codegen/generated.h"
#include "plan/contracted.h"

namespace npusim::cuda::codegen::products {

// Why it is no convolution with a group for each channel, whose image has words of eight channels; "" if it is. Where
// the weight lies is not checked.
std::string no_depthwise(const Kernel& kernel, const plan::Contracted& contracted);
// Dimensions in the order in which the weight is read if it is stored so; empty: it is.
std::vector<int> depthwise_packing(const Kernel& kernel, const ConvWindows& windows);

// How many pixels a thread may make, neighbours along the last dimension: the likeliest to be fastest first.
std::vector<int> rate_depthwise(const ConvWindows& windows, const Features& features);

GeneratedKernel make_depthwise(const Kernel& kernel, const Product& product, const ConvWindows& windows, int pixels,
                               const Features& features);

}  // namespace npusim::cuda::codegen::products
