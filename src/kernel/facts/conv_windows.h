// The windows of a convolution, recovered from the accesses of its kernel.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "kernel/kernel.h"

namespace npusim {

// Lists run over the spatial dimensions: output o and tap k of a window see coordinate o·stride + k·dilation − pad_low.
// Channels are those of one group. The windows reach pad_high beyond the image, or leave −pad_high of it out.
struct ConvWindows {
  int64_t batch = 1, groups = 1, out_channels = 1, in_channels = 1;
  std::vector<int64_t> input, output, kernel, stride, dilation, pad_low, pad_high;
  // In elements: over [n, channel, spatial…], and over [group, out channel, in channel, spatial…].
  std::vector<int64_t> image_strides, weight_strides;
};

// nullopt when the accesses are not those of a convolution with something to compute, or group and channel are not one
// dimension of the image. Where nothing is padded the image's extent is what the next larger stride leaves room for,
// when that fits the windows, and else what they touch.
std::optional<ConvWindows> conv_windows(const Kernel& kernel);

// The taps of a window along one dimension that lie within the image, [begin, end), and the coordinate that tap `begin`
// sees.
struct TapRange {
  int64_t begin = 0, end = 0, first = 0;
};
std::vector<TapRange> taps_within(const ConvWindows& windows, size_t dim);  // by output

// Whether the argument's memory has all elements of the image within its extents.
bool is_whole(const Kernel& kernel, const ConvWindows& windows);

}  // namespace npusim
