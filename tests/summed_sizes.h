// The scale at which an element is checked: the size of what was summed to make it, not that of its neighbours.
#pragma once
#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <vector>

#include "base/tensor.h"

namespace npusim::test {

// Relative noise that is large beside the rounding of the dtype, and small beside one.
inline double noise_of(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return 0x1p-5;
    case DType::f16:
      return 0x1p-8;
    case DType::f32:
      return 0x1p-16;
    default:
      return 0x1p-40;
  }
}

inline void add_noise(HostTensor& tensor, double noise, std::mt19937& random) {
  for (int64_t i = 0; is_float(tensor.type.dtype) && i < element_count(tensor.type.shape); ++i) {
    const double exact = load_double(tensor.data.data(), tensor.type.dtype, i);
    store_double(tensor.data.data(), tensor.type.dtype, i, exact * (1 + (random() % 2 ? noise : -noise)));
  }
}

// By output and element: how much it changes, in units of the noise, when every element of every input is off by a
// relative noise with a sign of its own. That is |a| + |b| for a - b and |x| for x, however small the difference: what
// rounding errors of operands and partial sums are relative to. Random signs add up to less than the sum of magnitudes,
// as rounding errors do, so it is twice the largest change of a few trials. Infinite where the result jumps or leaves
// its domain. `evaluate` gives the outputs of the inputs, in double precision.
inline std::vector<std::vector<double>> summed_sizes(
    const std::vector<HostTensor>& inputs, const std::vector<HostTensor>& outputs,
    const std::function<std::vector<HostTensor>(const std::vector<HostTensor>&, double noise)>& evaluate) {
  double noise = 0;
  for (const std::vector<HostTensor>* tensors : {&inputs, &outputs})
    for (const HostTensor& tensor : *tensors)
      if (is_float(tensor.type.dtype)) noise = std::max(noise, noise_of(tensor.type.dtype));
  std::vector<std::vector<double>> sizes;
  for (const HostTensor& output : outputs)
    sizes.emplace_back(static_cast<size_t>(element_count(output.type.shape)), 0.0);
  std::mt19937 random(1);
  constexpr int trials = 8;
  for (int trial = 0; trial < trials; ++trial) {
    std::vector<HostTensor> noisy = inputs;
    for (HostTensor& tensor : noisy) add_noise(tensor, noise, random);
    const std::vector<HostTensor> changed = evaluate(noisy, noise);
    for (size_t k = 0; k < outputs.size(); ++k)
      for (size_t i = 0; is_float(outputs[k].type.dtype) && i < sizes[k].size(); ++i) {
        const auto at = static_cast<int64_t>(i);
        const double a = load_double(changed[k].data.data(), outputs[k].type.dtype, at),
                     b = load_double(outputs[k].data.data(), outputs[k].type.dtype, at);
        if (a == b) continue;
        const double change = 2 * std::fabs(a - b) / noise;
        sizes[k][i] = std::max(sizes[k][i], std::isnan(change) ? INFINITY : change);
      }
  }
  return sizes;
}

}  // namespace npusim::test
