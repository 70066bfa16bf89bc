// Element types beside what npusim/tensor.h says of them: promotion, and exact conversions of the 16-bit floats.
#pragma once
#include <bit>
#include <cstdint>

#include "npusim/tensor.h"

namespace npusim {

// ATen's promotion of two tensor dtypes of the same priority class (c10/core/ScalarType.h).
DType promote_types(DType a, DType b);

inline float bf16_to_float(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
// Round to nearest even; NaN stays a quiet NaN.
inline uint16_t float_to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
float f16_to_float(uint16_t bits);
uint16_t float_to_f16(float value);

// Cuts off the fraction; as x86 converts, what does not fit and NaN give the smallest integer.
int64_t to_integer(double x);

// `value` as it comes back after being stored in `dtype`.
double round_through(DType dtype, double value);
int64_t wrap_through(DType dtype, int64_t value);

}  // namespace npusim
