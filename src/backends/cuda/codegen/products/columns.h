// Products of the same rows with several matrices, as queries, keys and values where heads share keys: the tiles of all
// are one launch, whatever their columns and what is done with their results.
#pragma once
#include "backends/cuda/codegen/generated.h"
#include "backends/cuda/codegen/products/tile.h"
#include "codegen/target.h"
#include "plan/contracted.h"

namespace npusim::cuda::codegen::products {

// Whether none has to do with what the other one writes.
bool are_apart(const GroupStep& a, const GroupStep& b);
// Those of these steps, from the first on, that one launch makes: products by step. None where that is not expected to
// be faster, with the reason in `why`: none if the first two do not multiply the same rows, or are equal. `contracted`:
// of the steps that have a contraction, up to the first that has none.
std::vector<Product> find_columns(std::span<const GroupStep> steps, std::span<const plan::Contracted> contracted,
                                  const Features& features, std::string& why);
// `ahead` by the arguments of all, one kernel's behind the other's. At most so many candidates, the likeliest first; or
// this one.
std::vector<GeneratedKernel> make_columns(std::span<const Kernel* const> kernels, std::span<const Product> products,
                                          const std::vector<bool>& ahead, const Features& features, size_t most);
GeneratedKernel make_columns(std::span<const Kernel* const> kernels, std::span<const Product> products,
                             const std::vector<bool>& ahead, const Features& features, const TileShape& shape);

}  // namespace npusim::cuda::codegen::products
