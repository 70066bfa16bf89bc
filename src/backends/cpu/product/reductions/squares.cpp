// A row of products at a time, compiled once per instruction set. Plain loops: the compiler vectorises them.
#include "backends/cpu/product/reductions/squares.h"

#include <limits>

#include "backends/cpu/vector_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/product/reductions/squares.cpp"
#include <hwy/foreach_target.h>

#include "backends/cpu/loops/tiles/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace npusim::cpu::product::reductions::HWY_NAMESPACE {
using namespace loops::tiles::HWY_NAMESPACE;

// A distance of an eighth of |a|² + |b|² has lost three bits to that. Below `tiny`, products lose what distances do
// not.
constexpr float near = 0.125f, tiny = 1e-30f;

bool squares_of_products(float* sums, float length, const float* lengths, int64_t count) {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN(), most = std::numeric_limits<float>::max();
  int32_t lost = 0;
  NPUSIM_IVDEP
  for (int64_t n = 0; n < count; ++n) {
    const float both = length + lengths[n], square = both - 2 * sums[n];
    const bool good = (square >= near * both) & (both >= tiny) & (both <= most);
    sums[n] = good ? square : nan;
    lost += good ? 0 : 1;
  }
  return lost > 0;
}

float square_of(const float* a, const float* b, int64_t depth) {
  constexpr int64_t lanes = 16;
  float lane[lanes] = {};
  int64_t k = 0;
  for (; k + lanes <= depth; k += lanes)
    for (int64_t n = 0; n < lanes; ++n) lane[n] += (a[k + n] - b[k + n]) * (a[k + n] - b[k + n]);
  float sum = 0;
  for (; k < depth; ++k) sum += (a[k] - b[k]) * (a[k] - b[k]);
  for (const float part : lane) sum += part;
  return sum;
}

}  // namespace npusim::cpu::product::reductions::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npusim::cpu::product::reductions {
HWY_EXPORT(squares_of_products);
HWY_EXPORT(square_of);

bool squares_of_products(float* sums, float length, const float* lengths, int64_t count) {
  return HWY_DYNAMIC_DISPATCH(squares_of_products)(sums, length, lengths, count);
}
float square_of(const float* a, const float* b, int64_t depth) { return HWY_DYNAMIC_DISPATCH(square_of)(a, b, depth); }

}  // namespace npusim::cpu::product::reductions
#endif
