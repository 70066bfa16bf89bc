// A dense row-major tensor in host memory, owned (HostTensor) or borrowed (TensorView), and its type.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/shape.h"

namespace npusim {

struct TensorType {
  DType dtype = DType::f32;
  Shape shape;
  bool operator==(const TensorType&) const = default;
};

inline size_t byte_size(const TensorType& type) {
  return static_cast<size_t>(element_count(type.shape)) * dtype_size(type.dtype);
}
// Elements in memory of a value whose extents there are `stored`, outermost first: its shape's in another order, some
// of them split or padded. Empty: row-major.
inline int64_t stored_elements(const TensorType& type, const Shape& stored) {
  return element_count(stored.empty() ? type.shape : stored);
}

// "float32[1, 3]"
std::string to_string(const TensorType& type);

struct HostTensor {
  TensorType type;
  std::vector<std::byte> data;  // byte_size(type) bytes, row-major
};

struct TensorView {
  TensorType type;
  const std::byte* data = nullptr;
};

HostTensor make_tensor(TensorType type);  // zero-filled
HostTensor copy_tensor(const TensorView& view);
inline TensorView view_of(const HostTensor& tensor) { return {tensor.type, tensor.data.data()}; }

}  // namespace npusim
