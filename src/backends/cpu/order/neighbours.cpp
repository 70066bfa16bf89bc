// Exchanges of neighbours, and ranges, compiled once per instruction set.
#include "backends/cpu/order/neighbours.h"

#include <algorithm>

#include "backends/cpu/vector_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/order/neighbours.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace npusim::cpu::order::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void order_neighbours(uint64_t* entries, int64_t n, int64_t passes) {
  const hn::ScalableTag<uint64_t> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t pass = 0; pass < passes; ++pass) {
    int64_t i = pass % 2;
    for (; lanes > 1 && i + lanes <= n; i += lanes) {
      const auto x = hn::LoadU(d, entries + i), other = hn::Reverse2(d, x);
      hn::StoreU(hn::OddEven(hn::Max(x, other), hn::Min(x, other)), d, entries + i);
    }
    for (; i + 1 < n; i += 2)
      if (entries[i + 1] < entries[i]) std::swap(entries[i], entries[i + 1]);
  }
}

std::pair<int64_t, int64_t> range_of(const int64_t* x, int64_t n) {
  const hn::ScalableTag<int64_t> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto low = hn::Set(d, x[0]), high = low;
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto some = hn::LoadU(d, x + i);
    low = hn::Min(low, some), high = hn::Max(high, some);
  }
  HWY_ALIGN int64_t lows[hn::MaxLanes(d)], highs[hn::MaxLanes(d)];
  hn::Store(low, d, lows), hn::Store(high, d, highs);
  std::pair<int64_t, int64_t> range{*std::min_element(lows, lows + lanes), *std::max_element(highs, highs + lanes)};
  for (; i < n; ++i) range = {std::min(range.first, x[i]), std::max(range.second, x[i])};
  return range;
}

}  // namespace npusim::cpu::order::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npusim::cpu::order {
HWY_EXPORT(order_neighbours);
HWY_EXPORT(range_of);

void order_neighbours(uint64_t* entries, int64_t n, int64_t passes) {
  HWY_DYNAMIC_DISPATCH(order_neighbours)(entries, n, passes);
}
std::pair<int64_t, int64_t> range_of(const int64_t* x, int64_t n) { return HWY_DYNAMIC_DISPATCH(range_of)(x, n); }

}  // namespace npusim::cpu::order
#endif
