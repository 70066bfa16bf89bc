// Convolutions of each channel by itself: a thread makes eight channels of one pixel or of some neighbours.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "backends/cuda/codegen/made.h"
#include "backends/cuda/codegen/product.h"
#include "kernel/facts/conv_windows.h"

namespace npusim::cuda::codegen::products {

// Of a convolution with a group for each channel, whose image has words of eight channels. Why it is none in `why`,
// then. Where the weight lies is not looked at.
std::optional<ConvWindows> find_depthwise(const Kernel& kernel, std::string& why);
// Dimensions in the order in which the weight is read if it is stored so; empty: it is.
std::vector<int> depthwise_packing(const Kernel& kernel, const ConvWindows& windows);

// How many pixels a thread may make, neighbours along the last dimension: the likeliest to be fastest first.
std::vector<int> rate_depthwise(const ConvWindows& windows);

std::string depthwise_decline(const Kernel& kernel);  // "" if it does not
Made make_depthwise(const Kernel& kernel, const Product& product, int pixels);

}  // namespace npusim::cuda::codegen::products
