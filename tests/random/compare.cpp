// Spread of the noise as the measure of an element.
#include "random/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace npusim::test {
namespace {

// How many times the largest spread an element may be off. Where results are stored in 16 bits their rounding is nearly
// all there is; sums in another order, approximations and fused operations are more different than the noise.
double spreads_of(DType stored) { return stored == DType::f16 || stored == DType::bf16 ? 4 : 3; }

bool same_kind(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) == std::isnan(b);
  if (std::isinf(a) || std::isinf(b)) return a == b;
  return true;
}

double step_of(DType dtype) {
  return dtype == DType::bf16 ? 0x1p-8 : dtype == DType::f16 ? 0x1p-11 : dtype == DType::f32 ? 0x1p-24 : 0x1p-53;
}

double least_of(DType dtype) { return dtype == DType::f64 ? 0 : dtype == DType::f16 ? 0x1p-24 : 0x1p-126; }

Comparison compare_integers(const HostTensor& found, const HostTensor& expected, const std::vector<HostTensor>& noisy) {
  Comparison result;
  result.elements = element_count(expected.type.shape);
  for (int64_t i = 0; i < result.elements; ++i) {
    const int64_t a = load_int(found.data.data(), found.type.dtype, i),
                  b = load_int(expected.data.data(), expected.type.dtype, i);
    if (std::any_of(noisy.begin(), noisy.end(),
                    [&](const HostTensor& t) { return load_int(t.data.data(), t.type.dtype, i) != b; }))
      ++result.skipped;
    else if (a != b && result.wrong.empty())
      result.wrong = fmt::format("element {}: {}, expected {}", i, a, b);
  }
  return result;
}

}  // namespace

Comparison compare_tensor(const HostTensor& found, const HostTensor& expected, const std::vector<HostTensor>& noisy,
                          bool exact, DType stored) {
  Comparison result;
  if (found.type.shape != expected.type.shape || is_float(found.type.dtype) != is_float(expected.type.dtype)) {
    result.wrong = fmt::format("is {}, expected {}", to_string(found.type), to_string(expected.type));
    return result;
  }
  const DType dtype = expected.type.dtype;
  if (!is_float(dtype)) return compare_integers(found, expected, noisy);
  result.elements = element_count(expected.type.shape);
  const DType wider = dtype == DType::f64 || step_of(dtype) > step_of(stored) ? dtype : stored;
  for (int64_t i = 0; i < result.elements; ++i) {
    const double a = load_double(found.data.data(), found.type.dtype, i),
                 b = load_double(expected.data.data(), dtype, i);
    double spread = 0;
    bool stable = true;
    for (const HostTensor& t : noisy) {
      const double x = load_double(t.data.data(), t.type.dtype, i);
      stable = stable && same_kind(x, b);
      if (stable && x != b) spread = std::max(spread, std::fabs(x - b));
    }
    if (!stable) {
      ++result.skipped;
      continue;
    }
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    const double rounding = 8 * step_of(dtype == DType::f64 ? dtype : DType::f32) + 2 * step_of(wider);
    double allowed =
        exact && wider == dtype ? 0 : spreads_of(wider) * spread + rounding * std::fabs(b) + least_of(wider);
    if (allowed > 0.1 * std::fabs(b) && std::fabs(b) > least_of(wider)) {
      ++result.loose;
      allowed *= 10;  // a few runs do not show how far what is so uncertain can go
      if (std::isinf(a) && allowed > std::fabs(b)) continue;
    }
    const bool near = std::isfinite(a) && std::isfinite(b) && std::fabs(a - b) <= allowed;
    if (!near && result.wrong.empty())
      result.wrong =
          fmt::format("element {} of {}: {}, expected {} within {:.3}", i, to_string(expected.type), a, b, allowed);
  }
  return result;
}

}  // namespace npusim::test
