// Inputs of the printer's samples, their reference results, and the comparison.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "kernel/evaluate.h"
#include "samples.h"

namespace npusim {

std::vector<HostTensor> sample_memory(const PrintSample& sample) {
  std::mt19937_64 random(7);
  std::vector<HostTensor> memory;
  for (const KernelArg& arg : sample.kernel.args) {
    HostTensor t = make_tensor({arg.dtype, {arg.elements}});
    if (arg.written) {
      std::fill(t.data.begin(), t.data.end(), std::byte{0xcd});
      if (arg.updates >= 0) t.data = memory[static_cast<size_t>(arg.updates)].data;
    } else {
      std::uniform_real_distribution<double> real(sample.low, sample.high);
      std::uniform_int_distribution<int64_t> whole(0, sample.integers - 1);
      for (int64_t i = 0; i < arg.elements; ++i) {
        if (is_float(arg.dtype))
          store_double(t.data.data(), arg.dtype, i, real(random));
        else if (sample.distinct)
          store_int(t.data.data(), arg.dtype, i, (3 + i * 7) % sample.integers);
        else
          store_int(t.data.data(), arg.dtype, i, arg.dtype == DType::boolean ? whole(random) % 2 : whole(random));
      }
    }
    memory.push_back(std::move(t));
  }
  return memory;
}

std::vector<HostTensor> sample_reference(const PrintSample& sample) {
  std::vector<HostTensor> memory = sample_memory(sample);
  std::vector<void*> args;
  for (HostTensor& t : memory) args.push_back(t.data.data());
  evaluate(sample.kernel, args);
  return memory;
}

std::string sample_difference(const PrintSample& sample, const std::vector<HostTensor>& expected,
                              const std::vector<HostTensor>& found) {
  for (size_t n = 0; n < expected.size(); ++n) {
    const KernelArg& arg = sample.kernel.args[n];
    if (!arg.written) continue;
    const double step = arg.dtype == DType::f64   ? 0x1p-52
                        : arg.dtype == DType::f32 ? 0x1p-23
                        : arg.dtype == DType::f16 ? 0x1p-10
                                                  : 0x1p-7;
    for (int64_t i = 0; i < arg.elements; ++i) {
      if (!is_float(arg.dtype)) {
        const int64_t a = load_int(expected[n].data.data(), arg.dtype, i),
                      b = load_int(found[n].data.data(), arg.dtype, i);
        if (a != b) return fmt::format("{}: argument {} element {}: expected {}, found {}", sample.name, n, i, a, b);
        continue;
      }
      const double a = load_double(expected[n].data.data(), arg.dtype, i),
                   b = load_double(found[n].data.data(), arg.dtype, i);
      const double allowed = (arg.dtype == DType::f32 || arg.dtype == DType::f64 ? sample.tolerance : 2) * step *
                             std::max(1.0, std::fabs(a));
      if (a == b || (std::isnan(a) && std::isnan(b)) || std::fabs(a - b) <= allowed) continue;
      return fmt::format("{}: argument {} element {}: expected {}, found {}", sample.name, n, i, a, b);
    }
  }
  return {};
}

}  // namespace npusim
