// Weighted sums of integers, compiled once per instruction set.
#include "backends/cpu/window/weigh_rows.h"

#include "backends/cpu/vector_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/window/weigh_rows.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <type_traits>

HWY_BEFORE_NAMESPACE();
namespace npusim::cpu::window::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using I = hn::ScalableTag<int32_t>;
using V = hn::Vec<I>;
constexpr int64_t lanes = static_cast<int64_t>(hn::MaxLanes(I()));

int32_t wrapped_sum(int32_t a, int32_t b) {
  return static_cast<int32_t>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
}
int32_t wrapped_product(int32_t a, int32_t b) {
  return static_cast<int32_t>(static_cast<uint32_t>(a) * static_cast<uint32_t>(b));
}

template <class T>
HWY_INLINE V load(const T* from) {
  if constexpr (std::is_same_v<T, int32_t>)
    return hn::LoadU(I(), from);
  else
    return hn::PromoteTo(I(), hn::LoadU(hn::Rebind<uint8_t, I>(), from));
}
HWY_INLINE V scaled(V x, const Scaling& s) {
  const V moved = hn::ShiftRightSame(hn::Add(x, hn::Set(I(), s.add)), s.shift);
  return hn::Min(hn::Max(moved, hn::Set(I(), s.low)), hn::Set(I(), s.high));
}
int32_t scaled(int32_t x, const Scaling& s) {
  return std::min(std::max(wrapped_sum(x, s.add) >> s.shift, s.low), s.high);
}

template <class T>
void scale_of(const T* from, const Scaling& scaling, int64_t count, int32_t* to) {
  int64_t n = 0;
  for (; n + lanes <= count; n += lanes) hn::StoreU(scaled(load(from + n), scaling), I(), to + n);
  for (; n < count; ++n) to[n] = scaled(static_cast<int32_t>(from[n]), scaling);
}

void weigh_along(const int32_t* row, const int32_t* offset, const int32_t* weight, int64_t taps, int64_t count,
                 int32_t* to) {
  const I d;
  int64_t n = 0;
  for (; n + lanes <= count; n += lanes) {
    V sum = hn::Zero(d);
    for (int64_t t = 0, at = n; t < taps; ++t, at += count)
      sum = hn::Add(sum, hn::Mul(hn::GatherIndex(d, row, hn::LoadU(d, offset + at)), hn::LoadU(d, weight + at)));
    hn::StoreU(sum, d, to + n);
  }
  for (; n < count; ++n) {
    int32_t sum = 0;
    for (int64_t t = 0, at = n; t < taps; ++t, at += count)
      sum = wrapped_sum(sum, wrapped_product(row[offset[at]], weight[at]));
    to[n] = sum;
  }
}

template <class T>
void weigh_across(const T* from, const int32_t* offset, const int32_t* weight, int64_t taps, int64_t step,
                  const Scaling& scaling, int64_t count, int32_t* to) {
  const I d;
  int64_t n = 0;
  for (; n + lanes <= count; n += lanes) {
    V sum = hn::Zero(d);
    for (int64_t t = 0; t < taps; ++t)
      sum = hn::Add(sum, hn::Mul(scaled(load(from + offset[t * step] + n), scaling), hn::Set(d, weight[t * step])));
    hn::StoreU(sum, d, to + n);
  }
  for (; n < count; ++n) {
    int32_t sum = 0;
    for (int64_t t = 0; t < taps; ++t) {
      const int32_t x = scaled(static_cast<int32_t>(from[offset[t * step] + n]), scaling);
      sum = wrapped_sum(sum, wrapped_product(x, weight[t * step]));
    }
    to[n] = sum;
  }
}

void scale_bytes(const uint8_t* from, const Scaling& scaling, int64_t count, int32_t* to) {
  scale_of(from, scaling, count, to);
}
void scale_words(const int32_t* from, const Scaling& scaling, int64_t count, int32_t* to) {
  scale_of(from, scaling, count, to);
}
void weigh_bytes(const uint8_t* from, const int32_t* offset, const int32_t* weight, int64_t taps, int64_t step,
                 const Scaling& scaling, int64_t count, int32_t* to) {
  weigh_across(from, offset, weight, taps, step, scaling, count, to);
}
void weigh_words(const int32_t* from, const int32_t* offset, const int32_t* weight, int64_t taps, int64_t step,
                 const Scaling& scaling, int64_t count, int32_t* to) {
  weigh_across(from, offset, weight, taps, step, scaling, count, to);
}

}  // namespace npusim::cpu::window::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npusim::cpu::window {
HWY_EXPORT(scale_bytes);
HWY_EXPORT(scale_words);
HWY_EXPORT(weigh_along);
HWY_EXPORT(weigh_bytes);
HWY_EXPORT(weigh_words);

void scale_row(const uint8_t* from, const Scaling& scaling, int64_t count, int32_t* to) {
  HWY_DYNAMIC_DISPATCH(scale_bytes)(from, scaling, count, to);
}
void scale_row(const int32_t* from, const Scaling& scaling, int64_t count, int32_t* to) {
  HWY_DYNAMIC_DISPATCH(scale_words)(from, scaling, count, to);
}
void weigh_along(const int32_t* row, const int32_t* offset, const int32_t* weight, int64_t taps, int64_t count,
                 int32_t* to) {
  HWY_DYNAMIC_DISPATCH(weigh_along)(row, offset, weight, taps, count, to);
}
void weigh_rows(const uint8_t* from, const int32_t* offset, const int32_t* weight, int64_t taps, int64_t step,
                const Scaling& scaling, int64_t count, int32_t* to) {
  HWY_DYNAMIC_DISPATCH(weigh_bytes)(from, offset, weight, taps, step, scaling, count, to);
}
void weigh_rows(const int32_t* from, const int32_t* offset, const int32_t* weight, int64_t taps, int64_t step,
                const Scaling& scaling, int64_t count, int32_t* to) {
  HWY_DYNAMIC_DISPATCH(weigh_words)(from, offset, weight, taps, step, scaling, count, to);
}

}  // namespace npusim::cpu::window
#endif
