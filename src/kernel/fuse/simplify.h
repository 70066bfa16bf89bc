// Structural edits of kernels that keep their meaning.
#pragma once
#include <vector>

#include "kernel/fuse/fuse.h"

namespace npusim {

// The position of an expression equal to `e`, appended if there is none.
int32_t add_expr(Kernel& kernel, const Expr& e);
// New dimension i of the space is old dimension order[i]. Not for convolutions and attention.
void permute_dims(Kernel& kernel, const std::vector<size_t>& order);
// Read arguments first, written ones last, each in their order.
void order_args(BoundKernel& bound);

}  // namespace npusim
