// Shape arithmetic.
#include "base/shape.h"

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace npusim {

int64_t element_count(const Shape& shape) {
  int64_t count = 1;
  bool zero = false;
  for (int64_t extent : shape) {
    if (extent < 0) fail(ErrorKind::bad_input, "negative dimension in shape {}", to_string(shape));
    if (extent == 0) {
      zero = true;
    } else if (__builtin_mul_overflow(count, extent, &count) || count > (int64_t{1} << 56)) {
      const bool empty = std::find(shape.begin(), shape.end(), 0) != shape.end();
      fail(ErrorKind::bad_input, "shape {} has too many elements{}", to_string(shape),
           empty ? " beside its zeros" : "");
    }
  }
  return zero ? 0 : count;
}

Shape row_major_strides(const Shape& shape) {
  Shape strides(shape.size());
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= std::max<int64_t>(shape[i], 1);
  }
  return strides;
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

Shape broadcast_shapes(const Shape& a, const Shape& b) {
  Shape result(std::max(a.size(), b.size()));
  for (size_t i = 0; i < result.size(); ++i) {
    const int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1;
    const int64_t y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1)
      fail(ErrorKind::bad_input, "shapes {} and {} do not broadcast", to_string(a), to_string(b));
    result[result.size() - 1 - i] = x == 1 ? y : x;
  }
  return result;
}

int normalize_dim(int64_t dim, size_t rank) {
  const int64_t limit = std::max<int64_t>(static_cast<int64_t>(rank), 1);
  if (dim < -limit || dim >= limit) fail(ErrorKind::bad_input, "dimension {} is out of range for rank {}", dim, rank);
  return static_cast<int>(dim < 0 ? dim + limit : dim);
}

}  // namespace npusim
