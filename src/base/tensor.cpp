// Construction and printing of host tensors.
#include "base/tensor.h"

#include "base/error.h"
#include "base/fit.h"
#include "base/machine_memory.h"

namespace npusim {

size_t byte_size(const TensorType& type) {
  return static_cast<size_t>(element_count(type.shape)) * dtype_size(type.dtype);
}

void check_count(const TensorType& type, size_t count) {
  if (element_count(type.shape) != static_cast<int64_t>(count))
    fail(ErrorKind::usage, "expected {} elements for {}, found {}", element_count(type.shape), to_string(type), count);
}

std::string to_string(const TensorType& type) { return std::string(dtype_name(type.dtype)) + to_string(type.shape); }

HostTensor make_tensor(TensorType type) {
  const size_t bytes = byte_size(type);
  check_machine_memory(to_string(type), bytes);
  return {std::move(type), std::vector<std::byte>(bytes)};
}

HostTensor copy_tensor(const TensorView& view) {
  return {view.type, std::vector<std::byte>(view.data, view.data + byte_size(view.type))};
}

HostTensor convert_tensor(const TensorView& from, DType dtype) {
  if (const auto problem = refuse_integers(from, dtype)) fail(ErrorKind::bad_input, "{}", *problem);
  HostTensor to = make_tensor({dtype, from.type.shape});
  const int64_t count = element_count(from.type.shape);
  const bool ints = !is_float(from.type.dtype) && !is_float(dtype);
  for (int64_t i = 0; i < count; ++i) {
    if (ints)
      store_int(to.data.data(), dtype, i, load_int(from.data, from.type.dtype, i));
    else
      store_double(to.data.data(), dtype, i, load_double(from.data, from.type.dtype, i));
  }
  return to;
}

}  // namespace npusim
