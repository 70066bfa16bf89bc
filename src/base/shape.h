// Shapes and strides: a tensor's extents, row-major strides, element counts that cannot overflow.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace npusim {

using Shape = std::vector<int64_t>;

// Number of elements; 1 for a scalar. Throws bad_input when it does not fit in int64.
int64_t element_count(const Shape& shape);
// Strides of the dense row-major layout, in elements.
Shape row_major_strides(const Shape& shape);
// "[1, 3, 224, 224]"
std::string to_string(const Shape& shape);
// ATen broadcasting of two shapes; throws bad_input when they do not broadcast.
Shape broadcast_shapes(const Shape& a, const Shape& b);
// A dimension argument in [-rank, rank) as [0, rank) (a scalar counts as rank 1); throws bad_input outside.
int normalize_dim(int64_t dim, size_t rank);

}  // namespace npusim
