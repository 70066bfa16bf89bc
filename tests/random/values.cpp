// Random values by kind.
#include "random/values.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

namespace npusim::test {
namespace {

uint64_t mixed(uint64_t seed, const std::string& name) {
  uint64_t hash = 1469598103934665603ULL ^ seed;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return hash;
}

double real_value(const std::string& kind, std::mt19937_64& random) {
  const auto uniform = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  const auto power = [&](double exponent) {
    return (random() % 2 ? 1 : -1) * std::pow(10, uniform(exponent - 2, exponent + 2));
  };
  if (kind == "wide") return uniform(-100, 100);
  if (kind == "huge") return power(30);
  if (kind == "tiny") return power(-30);
  if (kind == "whole") return static_cast<double>(static_cast<int64_t>(random() % 9)) - 4;
  if (kind == "zeros" && random() % 2) return random() % 2 ? 0.0 : -0.0;
  if (kind == "positive") return uniform(0.5, 2);
  if (kind == "special" && random() % 8 == 0) {
    constexpr double inf = std::numeric_limits<double>::infinity();
    const double values[] = {inf, -inf, std::numeric_limits<double>::quiet_NaN(), 0.0, -0.0};
    return values[random() % 5];
  }
  return uniform(-2, 2);
}

int64_t integer_value(const ValueKind& kind, std::mt19937_64& random) {
  if (kind.kind == "small") return static_cast<int64_t>(random() % 9) - 4;
  if (kind.kind == "big") return static_cast<int64_t>(random());
  const auto limit = static_cast<uint64_t>(kind.number > 0 ? kind.number : 4);
  return static_cast<int64_t>(random() % limit);
}

}  // namespace

ValueKind kind_of(const std::string& name) {
  ValueKind result;
  std::string kind = name.substr(name.rfind('_') + 1);
  const size_t digits = kind.find_first_of("0123456789");
  if (digits != std::string::npos && digits > 0 && kind.size() - digits < 10) {
    result.number = std::strtoll(kind.c_str() + digits, nullptr, 10);
    kind.resize(digits);
  }
  result.kind = kind;
  return result;
}

HostTensor make_values(const std::string& name, const TensorType& type, uint64_t seed) {
  const ValueKind kind = kind_of(name);
  std::mt19937_64 random(mixed(seed, name));
  HostTensor tensor = make_tensor(type);
  const int64_t count = element_count(type.shape);
  std::vector<int64_t> integers;
  if (kind.kind == "distinct") {
    integers.resize(static_cast<size_t>(std::max(kind.number, count)));
    std::iota(integers.begin(), integers.end(), 0);
    std::shuffle(integers.begin(), integers.begin() + static_cast<std::ptrdiff_t>(std::max(kind.number, int64_t{0})),
                 random);
  } else if (!is_float(type.dtype)) {
    for (int64_t i = 0; i < count; ++i)
      integers.push_back(type.dtype == DType::boolean ? static_cast<int64_t>(random() % 2)
                                                      : integer_value(kind, random));
    if (kind.kind == "sorted") std::sort(integers.begin(), integers.end());
  }
  for (int64_t i = 0; i < count; ++i) {
    if (is_float(type.dtype))
      store_double(tensor.data.data(), type.dtype, i, real_value(kind.kind, random));
    else
      store_int(tensor.data.data(), type.dtype, i, integers[static_cast<size_t>(i)]);
  }
  return tensor;
}

}  // namespace npusim::test
