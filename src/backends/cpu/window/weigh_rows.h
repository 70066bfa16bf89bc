// SIMD loops of weighted sums of integers, which wrap at 32 bits.
#pragma once
#include <cstdint>

namespace npusim::cpu::window {

// x as it is weighted: min(max((x + add) >> shift, low), high), of which the sum wraps.
struct Scaling {
  int32_t add = 0, shift = 0, low = INT32_MIN, high = INT32_MAX;
};

// to[n] = scaled from[n]
void scale_row(const uint8_t* from, const Scaling& scaling, int64_t count, int32_t* to);
void scale_row(const int32_t* from, const Scaling& scaling, int64_t count, int32_t* to);
// to[n] = Σ_t row[offset[t·count + n]] · weight[t·count + n]
void weigh_along(const int32_t* row, const int32_t* offset, const int32_t* weight, int64_t taps, int64_t count,
                 int32_t* to);
// to[n] = Σ_t scaled from[offset[t·step] + n] · weight[t·step]
void weigh_rows(const uint8_t* from, const int32_t* offset, const int32_t* weight, int64_t taps, int64_t step,
                const Scaling& scaling, int64_t count, int32_t* to);
void weigh_rows(const int32_t* from, const int32_t* offset, const int32_t* weight, int64_t taps, int64_t step,
                const Scaling& scaling, int64_t count, int32_t* to);

}  // namespace npusim::cpu::window
