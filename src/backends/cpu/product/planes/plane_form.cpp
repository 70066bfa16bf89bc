// The bias of planes apart from the rest of their epilogue.
#include "backends/cpu/product/planes/plane_form.h"

#include <fmt/format.h>

#include <utility>

namespace npusim::cpu::product::planes {
namespace {

// Whether it is one number for each channel.
bool is_along_channels(const Kernel& k, const Access& access) {
  if (!access.guards.empty() || !access.terms.empty() || k.args[static_cast<size_t>(access.arg)].dtype != DType::f32)
    return false;
  for (size_t d = 0; d < k.space.size(); ++d)
    if (d != 1 && d != 2 && k.space[d] > 1 && access.strides[d] != 0) return false;
  return true;
}

const float* first_of(const Problem& p, const Access& access) {
  return static_cast<const float*>(p.args[static_cast<size_t>(access.arg)].data) + access.offset;
}

}  // namespace

std::string refuse_planes(const Problem& p) {
  for (const Access* access : {&p.kernel.contraction->a, &p.kernel.contraction->b})
    if (const DType type = p.kernel.args[static_cast<size_t>(access->arg)].dtype; type != DType::f32)
      return fmt::format("an operand of {}", dtype_name(type));
  if (p.conv.spec.image_strides.back() != 1 && p.conv.spec.input.back() > 1)
    return "pixels that do not lie side by side";
  return {};
}

std::optional<PlaneForm> plane_form(const Problem& p, std::string& why) {
  const auto none = [&](std::string reason) {
    why = std::move(reason);
    return std::nullopt;
  };
  const Kernel& k = p.kernel;
  if (!p.chain) return none(no_chain(k));
  PlaneForm form;
  form.image = first_of(p, k.contraction->a), form.weight = first_of(p, k.contraction->b);
  std::vector<EpilogueOp> others = *p.chain;
  if (!others.empty() && others[0].add >= 0) {
    const Access& first = k.accesses[static_cast<size_t>(others[0].add)];
    if (is_along_channels(k, first)) {
      form.bias = first_of(p, first), form.bias_group = first.strides[1], form.bias_channel = first.strides[2];
      others.erase(others.begin());
    }
  }
  std::vector<int> pixels;
  for (size_t d = 3; d < k.space.size(); ++d) pixels.push_back(static_cast<int>(d));
  const ProductAxes axes{make_axis(k.space, {0}), make_axis(k.space, {1, 2}), make_axis(k.space, pixels), {}};
  form.finishes = match_finishes(k, p.args, axes, std::move(others));
  if (form.finishes.empty()) return none("a result that is no planes, or an epilogue that tiles do not end with");
  const Finish& first = form.finishes[0];
  if (first.bias.data) return none("a sum along the pixels");
  if (first.residual.data && first.residual.dtype != first.out.dtype)
    return none(fmt::format("a residual of {}", dtype_name(first.residual.dtype)));
  return form;
}

int64_t weight_at(const ConvWindows& s, int64_t channel, int64_t tap) {
  int64_t at = channel * s.weight_strides[1];
  for (size_t d = s.kernel.size(); d-- > 0; tap /= s.kernel[d]) at += tap % s.kernel[d] * s.weight_strides[3 + d];
  return at + tap * s.weight_strides[2];
}

void read_bias(const PlaneForm& form, const ConvWindows& s, float* to) {
  for (int64_t group = 0; group < s.groups; ++group)
    for (int64_t c = 0; c < s.out_channels; ++c)
      *to++ = form.bias ? form.bias[group * form.bias_group + c * form.bias_channel] : 0;
}

}  // namespace npusim::cpu::product::planes
