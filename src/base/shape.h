// Shapes as the compiler computes with them.
#pragma once
#include "npusim/tensor.h"

namespace npusim {

// Strides of the dense row-major layout, in elements.
Shape row_major_strides(const Shape& shape);
// ATen broadcasting of two shapes; throws bad_input when they do not broadcast.
Shape broadcast_shapes(const Shape& a, const Shape& b);
// A dimension argument in [-rank, rank) as [0, rank) (a scalar counts as rank 1); throws bad_input outside.
int normalize_dim(int64_t dim, size_t rank);

}  // namespace npusim
