// Two products of the same rows as one kernel, where what one makes is read by the other's epilogue: gate and up.
#pragma once
#include "backends/cuda/codegen/generated.h"
#include "backends/cuda/codegen/products/tile.h"
#include "codegen/target.h"
#include "plan/product.h"

namespace npusim::cuda::codegen::products {

struct Pair {
  // The second product with the first one's epilogue in its own: what they hand over is in registers, rounded as it
  // would be stored, and stored too where it is kept. `contraction` 1 is the first product's sum.
  Kernel kernel;
  Product product;  // of the kernel; second_b: the argument that is the first product's matrix
  std::vector<std::pair<size_t, size_t>> given;  // by argument: of which of the two, and of its arguments
};

// Of two steps that follow each other, equal products but for their matrices. nullopt where they are not, or where one
// kernel is not expected to be faster than two, with the reason in `why`: none if the second is no product, or does not
// read what the first makes beside its own.
std::optional<Pair> find_pair(const GroupStep& first, const GroupStep& second, const Features& features, bool keep,
                              std::string& why);
// `ahead` by the pair's arguments. At most so many candidates, the likeliest first; or this one.
std::vector<GeneratedKernel> make_joined(const Pair& pair, const std::vector<bool>& ahead, const Features& features,
                                         size_t most);
GeneratedKernel make_joined(const Pair& pair, const std::vector<bool>& ahead, const Features& features,
                            const TileShape& shape);

}  // namespace npusim::cuda::codegen::products
