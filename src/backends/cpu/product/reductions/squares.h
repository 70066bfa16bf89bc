// Squared distances from products: |a − b|² = |a|² + |b|² − 2 a·b, where that loses little.
#pragma once
#include <cstdint>

namespace npusim::cpu::product::reductions {

// sums[n] = a·b[n] becomes the squared distance, with the squared lengths of a and of each b. Whether some may be wrong
// by more than a few units in the last place: of vectors that are near each other for their lengths, or not finite.
// Those are left as NaN.
bool squares_of_products(float* sums, float length, const float* lengths, int64_t count);

// Σ (a[k] − b[k])²
float square_of(const float* a, const float* b, int64_t depth);

}  // namespace npusim::cpu::product::reductions
