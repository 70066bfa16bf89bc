// Products of the same rows with several matrices, as queries, keys and values where heads share keys: the tiles of all
// are one launch, whatever their columns and what is done with their results.
#pragma once
#include "backends/cuda/codegen/made.h"
#include "backends/cuda/codegen/product.h"
#include "backends/cuda/codegen/products/tile.h"
#include "codegen/target.h"

namespace npusim::cuda::codegen::products {

// How many of these steps, from the first on, one launch makes; 1 where that is not expected to be faster.
size_t count_columns(std::span<const GroupStep> steps, const Features& features);
// `ahead` by the arguments of all, one kernel's behind the other's. At most so many ways, the likeliest first; or this
// one.
std::vector<Made> make_columns(std::span<const Kernel* const> kernels, const std::vector<bool>& ahead, size_t most);
Made make_columns(std::span<const Kernel* const> kernels, const std::vector<bool>& ahead, const TileShape& shape);

}  // namespace npusim::cuda::codegen::products
