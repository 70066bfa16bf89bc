// Softmax of score tiles and their masks, compiled once per instruction set.
#include "backends/cpu/attention/simd.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/cpu/product/simd.h"
#include "backends/cpu/vector_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/attention/simd.cpp"
#include <hwy/foreach_target.h>

#include "backends/cpu/product/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace npusim::cpu::attention {
namespace HWY_NAMESPACE {
using namespace product::HWY_NAMESPACE;

constexpr int64_t attention_lanes = static_cast<int64_t>(hn::MaxLanes(F()));
constexpr float lowest = -std::numeric_limits<float>::infinity();

void softmax_tile(float* s, int64_t rows, int64_t keys, float* top, float* sum, float* factor) {
  const F f;
  HWY_ALIGN float part[16];
  float base[16];
  for (int64_t r0 = 0; r0 < rows; r0 += 16) {
    const int64_t count = std::min<int64_t>(16, rows - r0);
    // All maxima before all exponentials: no row waits for its own.
    for (int64_t r = r0; r < r0 + count; ++r) {
      float* row = s + r * product::narrow_stride;
      hn::StoreU(hn::Set(f, lowest), f, row + keys);
      VF most = hn::Set(f, lowest);
      for (int64_t j = 0; j < keys; j += attention_lanes) most = hn::Max(most, hn::LoadU(f, row + j));
      const float now = std::max(top[r], hn::GetLane(hn::MaxOfLanes(f, most)));
      base[r - r0] = now == lowest ? 0 : now;
      factor[r] = top[r] - base[r - r0];
      top[r] = now;
    }
    for (int64_t r = r0; r < r0 + count; ++r) {
      float* row = s + r * product::narrow_stride;
      const VF shift = hn::Set(f, base[r - r0]);
      VF total = hn::Zero(f);
      for (int64_t j = 0; j < keys; j += attention_lanes) {
        const VF p = exp_of_negative(hn::Sub(hn::LoadU(f, row + j), shift));
        hn::StoreU(p, f, row + j);
        total = hn::Add(total, p);
      }
      part[r - r0] = hn::GetLane(hn::SumOfLanes(f, total));
    }
    for (int64_t r = count; r < 16; ++r) part[r] = 0;
    for (int64_t n = 0; n < 16; n += attention_lanes) {
      const VF scale = exp_of_negative(hn::LoadU(f, factor + r0 + n));
      hn::StoreU(scale, f, factor + r0 + n);
      hn::StoreU(hn::MulAdd(hn::LoadU(f, sum + r0 + n), scale, hn::Load(f, part + n)), f, sum + r0 + n);
    }
  }
}

void scale_rows(float* x, int64_t ld, int64_t rows, int64_t count, const float* factor) {
  const F f;
  for (int64_t r = 0; r < rows; ++r) {
    if (factor[r] == 1) continue;
    float* row = x + r * ld;
    int64_t n = 0;
    for (; n + attention_lanes <= count; n += attention_lanes)
      hn::StoreU(hn::Mul(hn::LoadU(f, row + n), hn::Set(f, factor[r])), f, row + n);
    for (; n < count; ++n) row[n] *= factor[r];
  }
}

void add_mask(float* s, const float* mask, int64_t ld, int64_t rows, int64_t keys) {
  const F f;
  for (int64_t r = 0; r < rows; ++r) {
    float* row = s + r * product::narrow_stride;
    const float* from = mask + r * ld;
    int64_t j = 0;
    for (; j + attention_lanes <= keys; j += attention_lanes)
      hn::StoreU(hn::Add(hn::LoadU(f, row + j), hn::LoadU(f, from + j)), f, row + j);
    for (; j < keys; ++j) row[j] += from[j];
  }
}

void keep_scores(float* s, const uint8_t* kept, int64_t ld, bool keeps, Masked masked, int64_t rows, int64_t keys) {
  const F f;
  const hn::Rebind<uint8_t, F> bytes;
  const hn::RebindToSigned<F> whole;
  for (int64_t r = 0; r < rows; ++r) {
    float* row = s + r * product::narrow_stride;
    const uint8_t* from = kept + r * ld;
    int64_t j = 0;
    for (; j + attention_lanes <= keys; j += attention_lanes) {
      const auto zero = hn::Eq(hn::PromoteTo(whole, hn::LoadU(bytes, from + j)), hn::Zero(whole));
      const VF x = hn::LoadU(f, row + j), value = hn::Set(f, masked.value);
      const VF off = masked.added ? hn::Add(x, value) : value;
      const auto gone = hn::RebindMask(f, zero);
      hn::StoreU(keeps ? hn::IfThenElse(gone, off, x) : hn::IfThenElse(gone, x, off), f, row + j);
    }
    for (; j < keys; ++j)
      if ((from[j] != 0) != keeps) row[j] = masked.added ? row[j] + masked.value : masked.value;
  }
}

float largest(const float* x, int64_t count) {
  const F f;
  VF most = hn::Set(f, lowest);
  int64_t n = 0;
  for (; n + attention_lanes <= count; n += attention_lanes) {
    const VF v = hn::LoadU(f, x + n);
    most = hn::Max(most, hn::IfThenElse(hn::IsNaN(v), hn::Set(f, -lowest), v));
  }
  float result = hn::GetLane(hn::MaxOfLanes(f, most));
  for (; n < count; ++n) result = std::max(result, std::isnan(x[n]) ? -lowest : x[n]);
  return result;
}

}  // namespace HWY_NAMESPACE
}  // namespace npusim::cpu::attention
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npusim::cpu::attention {
HWY_EXPORT(softmax_tile);
HWY_EXPORT(scale_rows);
HWY_EXPORT(add_mask);
HWY_EXPORT(keep_scores);
HWY_EXPORT(largest);

void softmax_tile(float* s, int64_t rows, int64_t keys, float* top, float* sum, float* factor) {
  HWY_DYNAMIC_DISPATCH(softmax_tile)(s, rows, keys, top, sum, factor);
}
void scale_rows(float* x, int64_t ld, int64_t rows, int64_t count, const float* factor) {
  HWY_DYNAMIC_DISPATCH(scale_rows)(x, ld, rows, count, factor);
}
void add_mask(float* s, const float* mask, int64_t ld, int64_t rows, int64_t keys) {
  HWY_DYNAMIC_DISPATCH(add_mask)(s, mask, ld, rows, keys);
}
void keep_scores(float* s, const uint8_t* kept, int64_t ld, bool keeps, Masked masked, int64_t rows, int64_t keys) {
  HWY_DYNAMIC_DISPATCH(keep_scores)(s, kept, ld, keeps, masked, rows, keys);
}
float largest(const float* x, int64_t count) { return HWY_DYNAMIC_DISPATCH(largest)(x, count); }
}  // namespace npusim::cpu::attention
#endif
