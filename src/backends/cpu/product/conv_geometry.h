// A convolution as oneDNN and the backend's own steps describe it, recovered from the accesses of its kernel.
#pragma once
#include <cstdint>
#include <vector>

#include "backends/cpu/product/onednn.h"
#include "kernel/kernel.h"

namespace npusim::cpu {

// Fills all of `spec` but what the epilogue decides: dst_strides, bias, ops and add_strides. False when the kernel's
// accesses are not those of a convolution over windows that touch the image.
bool find_geometry(const Kernel& kernel, ConvSpec& spec);

std::vector<int64_t> tensor_extents(int64_t n, int64_t channels, const std::vector<int64_t>& spatial);
// Strides of a dense tensor over [n, channel, spatial…].
std::vector<int64_t> dense_strides(const std::vector<int64_t>& extents, bool channels_last);
// Strides over [n, channel, spatial…] of an access over the kernel's space; false when group and channel do not join,
// or the access is more than strides.
bool output_strides(const Kernel& kernel, const Access& access, const std::vector<int64_t>& extents,
                    std::vector<int64_t>& strides);

}  // namespace npusim::cpu
