// The dimensions of a product of matrices by role.
#pragma once
#include <cstdint>
#include <vector>

#include "kernel/kernel.h"

namespace npusim {

// Some dimensions of a kernel's space ++ reduce walked as one index, the last dimension fastest.
struct Axis {
  std::vector<int> dims;
  std::vector<int64_t> extents;
  int64_t size() const;
};
Axis make_axis(const std::vector<int64_t>& all_extents, std::vector<int> dims);

// Whether the access reaches another element, or none, along a dimension. Index terms are not considered.
bool depends_on(const Access& access, int dim);

// result[batch, rows, columns] = Σ over depth of a[batch, rows, depth] · b[batch, columns, depth]. A dimension of the
// space that neither operand depends on is in no axis.
struct ProductAxes {
  Axis batch, rows, columns, depth;
};
// Of a matmul, and of a convolution as a product: a reads the same pixel for several rows and depths.
ProductAxes product_axes(const Kernel& kernel);

// The same dimensions, those outside along which the access takes longer steps: it walks memory forward.
void walk_forward(Axis& axis, const Access& access);

}  // namespace npusim
