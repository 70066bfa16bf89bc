// A convolution as oneDNN and the backend's own steps describe it.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "backends/cpu/step.h"
#include "base/dtype.h"
#include "kernel/facts/conv_windows.h"
#include "kernel/facts/epilogue_chain.h"
#include "kernel/kernel.h"

namespace npusim::cpu::product {

// f32 or bf16 each. Sums and post-ops are f32; what is stored as bf16 is rounded once.
struct ElementTypes {
  DType operands = DType::f32;  // src and weight
  DType dst = DType::f32, bias = DType::f32;
  std::vector<DType> adds;  // of each op that adds
};

// A convolution: its windows, and the strides of what it writes and adds over [n, channel, spatial…].
struct ConvSpec : ConvWindows {
  ElementTypes types;
  std::vector<int64_t> dst_strides;
  bool bias = false;
  std::vector<EpilogueOp> ops;
  std::vector<std::vector<int64_t>> add_strides;  // of each op that adds; empty: along channels
};

// One image of one pixel: what is added to the output is a vector along the channels, in whatever form.
bool has_one_pixel(const ConvSpec& spec);

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

}  // namespace npusim::cpu::product
