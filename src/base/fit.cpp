// Integers that a dtype cannot hold.
#include "base/fit.h"

#include <fmt/format.h>

#include "base/dtype.h"

namespace npusim {
namespace {

bool fits_exactly(DType dtype, int64_t value) {
  const double rounded = round_through(dtype, static_cast<double>(value));
  return rounded >= -0x1p63 && rounded < 0x1p63 && static_cast<int64_t>(rounded) == value;
}

}  // namespace

std::optional<std::string> refuse_integers(const TensorView& from, DType dtype) {
  const DType own = from.type.dtype;
  if (own == dtype || (is_float(own) && is_float(dtype))) return std::nullopt;
  const int64_t count = element_count(from.type.shape);
  const auto refuse = [&](int64_t i, auto value) {
    return fmt::format("element {} is {}, which {} does not hold", i, value, dtype_name(dtype));
  };
  for (int64_t i = 0; i < count; ++i) {
    if (is_float(own)) {
      const double value = load_double(from.data, own, i);
      if (round_through(dtype, value) != value) return refuse(i, value);  // nor a NaN
      continue;
    }
    const int64_t value = load_int(from.data, own, i);
    const bool same = is_float(dtype) ? fits_exactly(dtype, value) : wrap_through(dtype, value) == value;
    if (!same) return refuse(i, value);
  }
  return std::nullopt;
}

}  // namespace npusim
