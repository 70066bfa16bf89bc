// What pairs of elements of two operands give, and how that is gathered: products, and the distances that reductions of
// kernels spell out.
#pragma once
#include <cstdint>
#include <optional>

#include "kernel/kernel.h"

namespace npusim::cpu::product {

// Σ a·b, Σ (a − b)², Σ |a − b|, the largest |a − b|.
enum class Pairing : uint8_t { product, squares, distances, farthest };

// Of a reduction: the expressions of both elements.
struct Pair {
  Pairing pairing = Pairing::product;
  int32_t a = -1, b = -1;
};

// nullopt where a reduction is none of distances.
std::optional<Pair> pair_of_distances(const Kernel& kernel, const Expr& reduction);

}  // namespace npusim::cpu::product
