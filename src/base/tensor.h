// Tensors (npusim/tensor.h), and layouts of them that are not row-major.
#pragma once
#include "base/dtype.h"
#include "base/shape.h"

namespace npusim {

// Elements in memory of a value whose extents there are `stored`, outermost first: its shape's in another order, some
// of them split or padded. Empty: row-major.
inline int64_t stored_elements(const TensorType& type, const Shape& stored) {
  return element_count(stored.empty() ? type.shape : stored);
}

}  // namespace npusim
