// Kernels that this device runs as several.
#pragma once
#include "backends/cuda/codegen/generated.h"
#include "kernel/fuse/unfuse.h"

namespace npusim::cuda::codegen::choose {

// Attention of few rows and many keys as that of pieces of the keys and their sum, that of many rows and keys with what
// is found out before about its mask, keys and values (attention_summary.h); attention that is not made in one as
// products around a softmax; a convolution whose weight is not read in words as
// its packing and a product; a product with too few tiles for all multiprocessors, or too long a depth, as pieces of
// its depth and their sum; few long rows, and what combines at few elements, as pieces and what they come to together.
// No steps: the kernel is one.
Unfused find_parts(const Kernel& kernel, const Features& features);

}  // namespace npusim::cuda::codegen::choose
