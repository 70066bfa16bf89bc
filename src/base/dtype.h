// Element types of tensors: names, sizes, categories, and exact conversions of the 16-bit floats.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace npusim {

enum class DType : uint8_t { boolean, u8, i8, i16, i32, i64, f16, bf16, f32, f64 };
inline constexpr int dtype_count = 10;

// The name the IR uses ("bool", "uint8", …, "bfloat16").
std::string_view dtype_name(DType dtype);
// Accepts the IR's names and the attribute form with a "torch." prefix; nullopt for anything else.
std::optional<DType> parse_dtype(std::string_view name);
size_t dtype_size(DType dtype);

inline bool is_float(DType d) { return d >= DType::f16; }
inline bool is_integer(DType d) { return d >= DType::u8 && d <= DType::i64; }

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

// One element at `data[index]` as double or int64 (exact for every type of the category), and back with
// round-to-nearest-even for floats and wrap-around for integers.
double load_double(const void* data, DType dtype, int64_t index);
int64_t load_int(const void* data, DType dtype, int64_t index);
void store_double(void* data, DType dtype, int64_t index, double value);
void store_int(void* data, DType dtype, int64_t index, int64_t value);

// `value` as it comes back after being stored in `dtype`.
double round_through(DType dtype, double value);
int64_t wrap_through(DType dtype, int64_t value);

}  // namespace npusim
