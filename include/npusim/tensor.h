// Tensors in host memory: dense, row-major, little-endian; owned, or borrowed from whoever has them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "npusim/export.h"

namespace npusim {

enum class DType : uint8_t { boolean, u8, i8, i16, i32, i64, f16, bf16, f32, f64 };
inline constexpr int dtype_count = 10;

// The name the IR uses ("bool", "uint8", …, "bfloat16").
NPUSIM_API std::string_view dtype_name(DType dtype);
// Accepts the IR's names and the attribute form with a "torch." prefix; nullopt for anything else.
NPUSIM_API std::optional<DType> parse_dtype(std::string_view name);
NPUSIM_API size_t dtype_size(DType dtype);  // bytes

inline bool is_float(DType d) { return d >= DType::f16; }
inline bool is_integer(DType d) { return d >= DType::u8 && d <= DType::i64; }

using Shape = std::vector<int64_t>;

// Number of elements; 1 for a scalar. Throws bad_input when it does not fit in int64.
NPUSIM_API int64_t element_count(const Shape& shape);
// "[1, 3, 224, 224]"
NPUSIM_API std::string to_string(const Shape& shape);

struct TensorType {
  DType dtype = DType::f32;
  Shape shape;
  bool operator==(const TensorType&) const = default;
};
NPUSIM_API size_t byte_size(const TensorType& type);
// "float32[1, 3]"
NPUSIM_API std::string to_string(const TensorType& type);

// Memory that someone else has, for as long as the call or the object that takes the view says.
struct TensorView {
  TensorType type;
  const std::byte* data = nullptr;  // byte_size(type) bytes
};

// Likewise, to be written.
struct TensorSpan {
  TensorType type;
  std::byte* data = nullptr;
  operator TensorView() const { return {type, data}; }
};

struct HostTensor {
  TensorType type;
  std::vector<std::byte> data;  // byte_size(type) bytes
};

struct NamedTensor {
  std::string name;
  TensorView tensor;
};

NPUSIM_API HostTensor make_tensor(TensorType type);  // zero-filled
NPUSIM_API HostTensor copy_tensor(const TensorView& view);
// In another dtype: each element rounded once, integers wrapped around.
NPUSIM_API HostTensor convert_tensor(const TensorView& from, DType dtype);
inline TensorView view_of(const HostTensor& tensor) { return {tensor.type, tensor.data.data()}; }

// One element at `data[index]` as double or int64 (exact for every type of the category), and back with
// round-to-nearest-even for floats and wrap-around for integers.
NPUSIM_API double load_double(const void* data, DType dtype, int64_t index);
NPUSIM_API int64_t load_int(const void* data, DType dtype, int64_t index);
NPUSIM_API void store_double(void* data, DType dtype, int64_t index, double value);
NPUSIM_API void store_int(void* data, DType dtype, int64_t index, int64_t value);

// The dtype of a C++ type; 16-bit floats have no C++ type.
template <typename T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, bool>) return DType::boolean;
  if constexpr (std::is_same_v<T, uint8_t>) return DType::u8;
  if constexpr (std::is_same_v<T, int8_t>) return DType::i8;
  if constexpr (std::is_same_v<T, int16_t>) return DType::i16;
  if constexpr (std::is_same_v<T, int32_t>) return DType::i32;
  if constexpr (std::is_same_v<T, int64_t>) return DType::i64;
  if constexpr (std::is_same_v<T, float>) return DType::f32;
  if constexpr (std::is_same_v<T, double>) return DType::f64;
}

// Throws usage unless a tensor of this type has `count` elements.
NPUSIM_API void check_count(const TensorType& type, size_t count);

// The elements of a vector, an array or a span as a tensor. Throws usage when the shape has more or fewer.
template <typename Elements>
TensorView view_of(const Elements& elements, Shape shape) {
  TensorType type{dtype_of<std::remove_cvref_t<decltype(*std::data(elements))>>(), std::move(shape)};
  check_count(type, std::size(elements));
  return {std::move(type), reinterpret_cast<const std::byte*>(std::data(elements))};
}
template <typename Elements>
TensorSpan span_of(Elements& elements, Shape shape) {
  TensorType type{dtype_of<std::remove_cvref_t<decltype(*std::data(elements))>>(), std::move(shape)};
  check_count(type, std::size(elements));
  return {std::move(type), reinterpret_cast<std::byte*>(std::data(elements))};
}

}  // namespace npusim
