// Kernels that this device runs as several.
#pragma once
#include "kernel/fuse/unfuse.h"

namespace npusim::cuda {

// Attention as products around a softmax; a convolution whose weight is not read in words as its packing and a product;
// a product with too few tiles for all multiprocessors, or too long a depth, as pieces of its depth and their sum.
// No steps: the kernel is one.
Unfused find_parts(const Kernel& kernel);

}  // namespace npusim::cuda
