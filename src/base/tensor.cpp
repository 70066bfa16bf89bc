// Construction and printing of host tensors.
#include "base/tensor.h"

namespace npusim {

std::string to_string(const TensorType& type) { return std::string(dtype_name(type.dtype)) + to_string(type.shape); }

HostTensor make_tensor(TensorType type) {
  const size_t bytes = byte_size(type);
  return {std::move(type), std::vector<std::byte>(bytes)};
}

HostTensor copy_tensor(const TensorView& view) {
  return {view.type, std::vector<std::byte>(view.data, view.data + byte_size(view.type))};
}

}  // namespace npusim
