// Sums of weighted elements, compiled once per instruction set.
#include "backends/cpu/window/resample_rows.h"

#include "backends/cpu/vector_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/window/resample_rows.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backends/cpu/part_vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace npusim::cpu::window::HWY_NAMESPACE {
using namespace cpu::HWY_NAMESPACE;
namespace hn = hwy::HWY_NAMESPACE;

using F = hn::ScalableTag<float>;
constexpr int64_t lanes = static_cast<int64_t>(hn::MaxLanes(F()));
static_assert(resample_block % lanes == 0);

HWY_INLINE void store(hn::Vec<F> sum, int64_t n, int64_t count, float* to) {
  if (n + lanes <= count)
    hn::StoreU(sum, F(), to + n);
  else
    part::store(sum, to + n, count - n);
}

void resample_along(const float* from, const int32_t* offset, const float* weight, int64_t ld, int64_t taps,
                    int64_t count, float* to) {
  const F f;
  const hn::RebindToSigned<F> whole;
  for (int64_t n = 0; n < count; n += lanes) {
    auto sum = hn::Mul(hn::GatherIndex(f, from, hn::LoadU(whole, offset + n)), hn::LoadU(f, weight + n));
    for (int64_t t = 1; t < taps; ++t)
      sum = hn::MulAdd(hn::GatherIndex(f, from, hn::LoadU(whole, offset + t * ld + n)),
                       hn::LoadU(f, weight + t * ld + n), sum);
    store(sum, n, count, to);
  }
}

void resample_rows(const float* const* rows, const float* weight, int64_t taps, int64_t count, float* to) {
  const F f;
  for (int64_t n = 0; n < count; n += lanes) {
    auto sum = hn::Mul(hn::LoadU(f, rows[0] + n), hn::Set(f, weight[0]));
    for (int64_t t = 1; t < taps; ++t) sum = hn::MulAdd(hn::LoadU(f, rows[t] + n), hn::Set(f, weight[t]), sum);
    store(sum, n, count, to);
  }
}

}  // namespace npusim::cpu::window::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npusim::cpu::window {
HWY_EXPORT(resample_along);
HWY_EXPORT(resample_rows);

void resample_along(const float* from, const int32_t* offset, const float* weight, int64_t ld, int64_t taps,
                    int64_t count, float* to) {
  HWY_DYNAMIC_DISPATCH(resample_along)(from, offset, weight, ld, taps, count, to);
}
void resample_rows(const float* const* rows, const float* weight, int64_t taps, int64_t count, float* to) {
  HWY_DYNAMIC_DISPATCH(resample_rows)(rows, weight, taps, count, to);
}

}  // namespace npusim::cpu::window
#endif
