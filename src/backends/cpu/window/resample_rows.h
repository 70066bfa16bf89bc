// SIMD loops of resampling: a row made of a few elements each, and of a few rows.
#pragma once
#include <cstdint>

namespace npusim::cpu::window {

inline constexpr int64_t most_resampled = 4;   // elements, or rows, that make up one
inline constexpr int64_t resample_block = 16;  // tables, and rows that are added, are read to a multiple of so many

// to[n] = Σ_t from[offset[t·ld + n]] · weight[t·ld + n], n < count; offsets behind it are read, too.
void resample_along(const float* from, const int32_t* offset, const float* weight, int64_t ld, int64_t taps,
                    int64_t count, float* to);
// to[n] = Σ_t rows[t][n] · weight[t]
void resample_rows(const float* const* rows, const float* weight, int64_t taps, int64_t count, float* to);

}  // namespace npusim::cpu::window
