// Which convolutions are computed window by window, and how oneDNN names their layouts.
#include "backends/cpu/product/conv_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace npusim::cpu::product {
namespace {

// oneDNN knows layouts by all their strides, those of extents of 1 included: they follow the layout the others have.
std::vector<int64_t> named_layout(std::vector<int64_t> strides, const std::vector<int64_t>& extents) {
  for (bool channels_last : {true, false}) {
    const std::vector<int64_t> dense = dense_strides(extents, channels_last);
    bool same = true;
    for (size_t d = 0; d < extents.size(); ++d) same &= extents[d] == 1 || strides[d] == dense[d];
    if (same) return dense;
  }
  return strides;
}

std::vector<int64_t> weight_extents(const ConvWindows& s) {
  std::vector<int64_t> extents{s.groups, s.out_channels, s.in_channels};
  extents.insert(extents.end(), s.kernel.begin(), s.kernel.end());
  return extents;
}

// Strides along extents of 1 become what the rest spans.
void name_weight_strides(ConvSpec& s) {
  const std::vector<int64_t> extents = weight_extents(s);
  int64_t span = 1;
  for (size_t d = 0; d < extents.size(); ++d) {
    if (extents[d] > 1) span = std::max(span, extents[d] * std::abs(s.weight_strides[d]));
  }
  for (size_t d = 0; d < extents.size(); ++d)
    if (extents[d] == 1) s.weight_strides[d] = span;
}

// Why oneDNN cannot describe these windows; empty: it can.
std::string refuse_windows(const ConvWindows& s) {
  for (size_t i = 0; i < s.input.size(); ++i) {
    const int64_t reach = (s.kernel[i] - 1) * s.dilation[i];
    if (s.pad_low[i] > reach || s.pad_high[i] > reach) return "windows outside the image";
    if (s.pad_low[i] < 0 || s.pad_high[i] <= -s.stride[i]) return "windows that leave out part of the image";
  }
  const auto image = tensor_extents(s.batch, s.groups * s.in_channels, s.input), weight = weight_extents(s);
  for (size_t d = 0; d < image.size(); ++d)
    if (image[d] > 1 && s.image_strides[d] < 1) return "an image that is broadcast or reversed";
  for (size_t d = 0; d < weight.size(); ++d)
    if (weight[d] > 1 && s.weight_strides[d] == 0) return "a broadcast weight";
  return {};
}

// Pixels, their channels side by side, times a matrix: products run faster than convolutions.
bool is_pointwise(const ConvWindows& s) {
  auto all = [](const std::vector<int64_t>& values, int64_t value) {
    return std::all_of(values.begin(), values.end(), [&](int64_t v) { return v == value; });
  };
  return s.groups == 1 && s.image_strides[1] == 1 && all(s.kernel, 1) && all(s.pad_low, 0);
}

// Windows side by side, as a vision transformer's: a product too, for which oneDNN would copy the image. Worth it where
// a window's row is a stretch of memory.
bool is_patches(const ConvWindows& s) {
  const int64_t row = s.kernel.back() * (s.image_strides[1] == 1 ? s.in_channels : 1);
  const auto none = [](int64_t pad) { return pad == 0; };
  return s.groups == 1 && s.kernel == s.stride && row >= 8 && s.image_strides.back() <= s.in_channels &&
         std::all_of(s.pad_low.begin(), s.pad_low.end(), none);
}

}  // namespace

bool has_one_pixel(const ConvSpec& spec) {
  return spec.batch == 1 && std::all_of(spec.output.begin(), spec.output.end(), [](int64_t d) { return d == 1; });
}

std::vector<int64_t> tensor_extents(int64_t n, int64_t channels, const std::vector<int64_t>& spatial) {
  std::vector<int64_t> extents{n, channels};
  extents.insert(extents.end(), spatial.begin(), spatial.end());
  return extents;
}

std::vector<int64_t> dense_strides(const std::vector<int64_t>& extents, bool channels_last) {
  std::vector<int64_t> strides(extents.size());
  int64_t stride = 1;
  if (channels_last) strides[1] = stride, stride *= extents[1];
  for (size_t d = extents.size(); d-- > 2;) strides[d] = stride, stride *= extents[d];
  if (!channels_last) strides[1] = stride, stride *= extents[1];
  strides[0] = stride;
  return strides;
}

bool output_strides(const Kernel& k, const Access& access, const std::vector<int64_t>& extents,
                    std::vector<int64_t>& strides) {
  if (!access.guards.empty() || !access.terms.empty()) return false;
  const int64_t groups = k.space[1], channels = k.space[2];
  if (groups > 1 && channels > 1 && access.strides[1] != channels * access.strides[2]) return false;
  strides = {access.strides[0], channels > 1 ? access.strides[2] : access.strides[1]};
  strides.insert(strides.end(), access.strides.begin() + 3, access.strides.end());
  for (size_t d = 0; d < extents.size(); ++d)
    if (extents[d] > 1 && strides[d] <= 0) return false;
  strides = named_layout(strides, extents);
  return true;
}

namespace {
ConvForm refused(std::string why) {
  ConvForm form;
  form.declined = std::move(why);
  return form;
}
}  // namespace

ConvForm conv_form(const Kernel& kernel, std::span<const Binding> args, const Context& context) {
  const Contraction& c = *kernel.contraction;
  if (!context.primitives) return refused("no oneDNN");
  for (const Access* access : {&c.a, &c.b}) {
    const DType type = kernel.args[static_cast<size_t>(access->arg)].dtype;
    if (type != DType::f32 && type != DType::f16 && type != DType::bf16)
      return refused(fmt::format("an operand of {}", dtype_name(type)));
  }
  const auto windows = conv_windows(kernel);
  if (!windows) return refused("accesses that are no windows");
  if (std::string why = refuse_windows(*windows); !why.empty()) return refused(why);
  ConvForm form;
  form.constant = args[static_cast<size_t>(c.b.arg)].constant;
  static_cast<ConvWindows&>(form.spec) = *windows;
  name_weight_strides(form.spec);
  form.spec.image_strides = named_layout(
      windows->image_strides, tensor_extents(windows->batch, windows->groups * windows->in_channels, windows->input));
  if (is_pointwise(form.spec))
    form.declined = "windows of one pixel: a product of matrices is faster";
  else if (is_patches(form.spec))
    form.declined = "windows side by side: a product of matrices is faster";
  form.product = !form.declined.empty();
  return form;
}

}  // namespace npusim::cpu::product
