// A convolution as oneDNN and the backend's own steps describe it.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "backends/cpu/product/onednn.h"
#include "backends/cpu/step.h"
#include "kernel/kernel.h"

namespace npusim::cpu {

// All of a spec but what the epilogue decides: types, dst_strides, bias, ops and add_strides.
struct ConvForm {
  ConvSpec spec;
  bool constant = false;  // the weight is
  std::string declined;   // why the kernel is better not computed window by window; empty: it may be
  bool product = false;   // because a product of matrices is faster
};
ConvForm conv_form(const Kernel& kernel, std::span<const Binding> args, const Context& context);

std::vector<int64_t> tensor_extents(int64_t n, int64_t channels, const std::vector<int64_t>& spatial);
// Strides of a dense tensor over [n, channel, spatial…].
std::vector<int64_t> dense_strides(const std::vector<int64_t>& extents, bool channels_last);
// Strides over [n, channel, spatial…] of an access over the kernel's space; false when group and channel do not join,
// or the access is more than strides.
bool output_strides(const Kernel& kernel, const Access& access, const std::vector<int64_t>& extents,
                    std::vector<int64_t>& strides);

}  // namespace npusim::cpu
