// Names, sizes, promotion and scalar conversion of element types.
#include "base/dtype.h"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

namespace npusim {
namespace {

struct Row {
  std::string_view name;
  size_t size;
};
constexpr std::array<Row, dtype_count> rows{{{"bool", 1},
                                             {"uint8", 1},
                                             {"int8", 1},
                                             {"int16", 2},
                                             {"int32", 4},
                                             {"int64", 8},
                                             {"float16", 2},
                                             {"bfloat16", 2},
                                             {"float32", 4},
                                             {"float64", 8}}};

// A double rounded once to `mantissa_bits` explicit bits with the smallest normal exponent `min_exponent`
// (subnormals keep 2^(min_exponent - mantissa_bits) as their unit); beyond `largest` it becomes infinite.
double round_to_format(double value, int mantissa_bits, int min_exponent, double largest) {
  if (!std::isfinite(value) || value == 0) return value;
  const int exponent = std::max(std::ilogb(value), min_exponent);
  const double unit = std::ldexp(1.0, exponent - mantissa_bits);
  const double rounded = std::nearbyint(value / unit) * unit;
  return std::fabs(rounded) > largest ? std::copysign(std::numeric_limits<double>::infinity(), value) : rounded;
}

template <typename T>
T read(const void* data, int64_t index) {
  T value;
  std::memcpy(&value, static_cast<const char*>(data) + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}
template <typename T>
void write(void* data, int64_t index, T value) {
  std::memcpy(static_cast<char*>(data) + index * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
}

}  // namespace

int64_t to_integer(double x) {
  return x >= -0x1p63 && x < 0x1p63 ? static_cast<int64_t>(x) : std::numeric_limits<int64_t>::min();
}

std::string_view dtype_name(DType dtype) { return rows[static_cast<size_t>(dtype)].name; }
size_t dtype_size(DType dtype) { return rows[static_cast<size_t>(dtype)].size; }

std::optional<DType> parse_dtype(std::string_view name) {
  if (name.starts_with("torch.")) name.remove_prefix(6);
  for (int i = 0; i < dtype_count; ++i)
    if (rows[static_cast<size_t>(i)].name == name) return static_cast<DType>(i);
  if (name == "float") return DType::f32;
  if (name == "half") return DType::f16;
  if (name == "double") return DType::f64;
  if (name == "long") return DType::i64;
  if (name == "int") return DType::i32;
  return std::nullopt;
}

DType promote_types(DType a, DType b) {
  if (a == b) return a;
  if (a > b) std::swap(a, b);
  if (is_float(b)) {
    if (a == DType::f16 && b == DType::bf16) return DType::f32;
    return b;
  }
  if (a == DType::boolean) return b;
  if (a == DType::u8) return b == DType::i8 ? DType::i16 : b;  // uint8 with a signed type of more bits is that type
  return b;
}

float f16_to_float(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t magnitude = bits & 0x7fffu;
  if (magnitude >= 0x7c00u) return std::bit_cast<float>(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13));
  if (magnitude >= 0x400u) return std::bit_cast<float>(sign | ((magnitude << 13) + 0x38000000u));
  const float value = static_cast<float>(magnitude) * 0x1p-24f;
  return sign ? -value : value;
}

uint16_t float_to_f16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // 65520 and above round to infinity
  if (magnitude < 0x38800000u) {  // subnormal result: let the float adder round to a unit of 2^-24
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u));
  }
  const uint32_t odd = (magnitude >> 13) & 1u;
  return static_cast<uint16_t>(sign | ((magnitude - 0x38000000u + 0xfffu + odd) >> 13));
}

double round_through(DType dtype, double value) {
  switch (dtype) {
    case DType::f64:
      return value;
    case DType::f32:
      return static_cast<float>(value);
    case DType::bf16:
      return round_to_format(value, 7, -126, 0x1.fep127);
    case DType::f16:
      return round_to_format(value, 10, -14, 65504);
    default:
      return static_cast<double>(wrap_through(dtype, to_integer(value)));
  }
}

int64_t wrap_through(DType dtype, int64_t value) {
  switch (dtype) {
    case DType::boolean:
      return value != 0;
    case DType::u8:
      return static_cast<uint8_t>(value);
    case DType::i8:
      return static_cast<int8_t>(value);
    case DType::i16:
      return static_cast<int16_t>(value);
    case DType::i32:
      return static_cast<int32_t>(value);
    default:
      return value;
  }
}

double load_double(const void* data, DType dtype, int64_t index) {
  switch (dtype) {
    case DType::f16:
      return f16_to_float(read<uint16_t>(data, index));
    case DType::bf16:
      return bf16_to_float(read<uint16_t>(data, index));
    case DType::f32:
      return read<float>(data, index);
    case DType::f64:
      return read<double>(data, index);
    default:
      return static_cast<double>(load_int(data, dtype, index));
  }
}

int64_t load_int(const void* data, DType dtype, int64_t index) {
  switch (dtype) {
    case DType::boolean:
      return read<uint8_t>(data, index) != 0;
    case DType::u8:
      return read<uint8_t>(data, index);
    case DType::i8:
      return read<int8_t>(data, index);
    case DType::i16:
      return read<int16_t>(data, index);
    case DType::i32:
      return read<int32_t>(data, index);
    case DType::i64:
      return read<int64_t>(data, index);
    default:
      return to_integer(load_double(data, dtype, index));
  }
}

void store_double(void* data, DType dtype, int64_t index, double value) {
  switch (dtype) {
    case DType::f16:
      return write(data, index, float_to_f16(static_cast<float>(round_through(dtype, value))));
    case DType::bf16:
      return write(data, index, float_to_bf16(static_cast<float>(round_through(dtype, value))));
    case DType::f32:
      return write(data, index, static_cast<float>(value));
    case DType::f64:
      return write(data, index, value);
    case DType::boolean:
      return write(data, index, static_cast<uint8_t>(value != 0));
    default:
      return store_int(data, dtype, index, to_integer(value));
  }
}

void store_int(void* data, DType dtype, int64_t index, int64_t value) {
  switch (dtype) {
    case DType::boolean:
      return write(data, index, static_cast<uint8_t>(value != 0));
    case DType::u8:
    case DType::i8:
      return write(data, index, static_cast<uint8_t>(value));
    case DType::i16:
      return write(data, index, static_cast<uint16_t>(value));
    case DType::i32:
      return write(data, index, static_cast<uint32_t>(value));
    case DType::i64:
      return write(data, index, value);
    default:
      return store_double(data, dtype, index, static_cast<double>(value));
  }
}

}  // namespace npusim
