// Metrics of closeness.
#include "npusim/compare.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace npusim {
namespace {

bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

struct Moments {
  double mean = 0, deviation = 0;
};

Moments moments(std::span<const double> values) {
  Moments m;
  for (double x : values) m.mean += x;
  m.mean /= static_cast<double>(std::max<size_t>(values.size(), 1));
  for (double x : values) m.deviation += (x - m.mean) * (x - m.mean);
  m.deviation = std::sqrt(m.deviation / static_cast<double>(std::max<size_t>(values.size(), 1)));
  return m;
}

double cosine(std::span<const double> a, std::span<const double> b) {
  double dot = 0, a_square = 0, b_square = 0;
  for (size_t i = 0; i < b.size(); ++i) dot += a[i] * b[i], a_square += a[i] * a[i], b_square += b[i] * b[i];
  const double norms = std::sqrt(a_square) * std::sqrt(b_square);
  return norms > 0 ? dot / norms : 0;
}

// In units of the largest golden element, whose square may be no double.
double relative_l2(std::span<const double> a, std::span<const double> b) {
  double largest = 0;
  for (double x : b) largest = std::max(largest, std::abs(x));
  if (largest == 0) return std::numeric_limits<double>::infinity();
  double difference = 0, norm = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    difference += (a[i] / largest - b[i] / largest) * (a[i] / largest - b[i] / largest);
    norm += b[i] / largest * (b[i] / largest);
  }
  return std::sqrt(difference / norm);
}

double pearson(std::span<const double> a, std::span<const double> b, const Moments& ma, const Moments& mb) {
  const double limit = 1e-12;
  if (mb.deviation <= limit * std::abs(mb.mean) || b.size() < 2) {
    for (size_t i = 0; i < b.size(); ++i)
      if (!same(a[i], b[i]) && !(std::abs(a[i] - b[i]) <= 0.01 * std::abs(b[i]))) return 0;
    return 1;
  }
  if (ma.deviation == 0) return 0;
  double sum = 0;
  for (size_t i = 0; i < b.size(); ++i) sum += (a[i] - ma.mean) / ma.deviation * ((b[i] - mb.mean) / mb.deviation);
  return sum / static_cast<double>(b.size());
}

double distance(std::span<const double> a, std::span<const double> b) {
  double square = 0;
  for (size_t i = 0; i < b.size(); ++i) square += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(square);
}

// Divides both by a power of two near the largest of them, whose square is a double then. The power.
double scale(std::vector<double>& a, std::vector<double>& b) {
  double largest = 0;
  for (const auto* values : {&a, &b})
    for (double x : *values) largest = std::max(largest, std::abs(x));
  if (largest == 0) return 1;
  const int exponent = std::ilogb(largest);
  for (auto* values : {&a, &b})
    for (double& x : *values) x = std::ldexp(x, -exponent);
  return std::ldexp(1, exponent);
}

bool rows_agree(std::span<const double> found, std::span<const double> expected, size_t row, double margin) {
  for (size_t begin = 0; row > 1 && begin + row <= expected.size(); begin += row) {
    const auto golden = expected.subspan(begin, row);
    const auto best = std::max_element(golden.begin(), golden.end());
    double second = -std::numeric_limits<double>::infinity();
    for (auto it = golden.begin(); it != golden.end(); ++it)
      if (it != best) second = std::max(second, *it);
    if (!(*best - second > margin)) continue;
    const auto mine = found.subspan(begin, row);
    if (std::max_element(mine.begin(), mine.end()) - mine.begin() != best - golden.begin()) return false;
  }
  return true;
}

}  // namespace

double relative_l2_bar(std::span<const DType> dtypes) {
  double bar = 1e-3;
  for (const DType dtype : dtypes) bar = std::max(bar, dtype == DType::bf16 ? 4e-2 : dtype == DType::f16 ? 2e-2 : 0);
  return bar;
}

Comparison compare(std::span<const double> found, std::span<const double> expected, int64_t row) {
  if (expected.size() > found.size())
    fail(ErrorKind::usage, "expected {} numbers or more to compare, found {}", expected.size(), found.size());
  Comparison result;
  result.elements = static_cast<int64_t>(expected.size());
  std::vector<double> mine, golden;  // the finite pairs: equal infinities and NaN say nothing of direction
  bool finite = true;                // … and unequal ones spoil it
  for (size_t i = 0; i < expected.size(); ++i) {
    const bool both = std::isfinite(found[i]) && std::isfinite(expected[i]);
    if (both) mine.push_back(found[i]), golden.push_back(expected[i]);
    if (same(found[i], expected[i])) {
      result.not_finite += !both;
      continue;
    }
    finite = finite && both;
    const double d = both ? std::abs(found[i] - expected[i]) : std::numeric_limits<double>::infinity();
    ++result.l0;
    result.l1 += d;
    result.l_inf = std::max(result.l_inf, d);
  }
  const double unit = scale(mine, golden);
  result.l2 = finite ? distance(mine, golden) * unit : std::numeric_limits<double>::infinity();
  const Moments spread = moments(golden);
  if (result.l0 == 0) {
    result.cosine = result.pearson_r = 1;
  } else if (!finite) {
    result.relative_l2 = std::numeric_limits<double>::infinity();
  } else {
    result.relative_l2 = relative_l2(mine, golden);
    result.cosine = cosine(mine, golden);
    result.pearson_r = pearson(mine, golden, moments(mine), spread);
  }
  result.argmax_equal =
      rows_agree(found, expected, static_cast<size_t>(std::max<int64_t>(row, 0)), 0.02 * spread.deviation * unit);
  return result;
}

std::vector<double> to_doubles(const TensorView& tensor) {
  std::vector<double> values(static_cast<size_t>(element_count(tensor.type.shape)));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = load_double(tensor.data, tensor.type.dtype, static_cast<int64_t>(i));
  return values;
}

}  // namespace npusim
