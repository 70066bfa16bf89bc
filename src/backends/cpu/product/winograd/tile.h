// The transforms of Winograd's F(4x4, 3x3): the constants are those of the paper named in winograd.h.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/dtype.h"

namespace npusim::cpu::product::winograd {

inline constexpr int64_t out_edge = 4, in_edge = 6, positions = in_edge * in_edge;
inline constexpr int64_t channel_step = 16;  // channels of the image are a multiple: whole vectors on every machine

// G g Gᵀ.
std::array<double, positions> transform_filter(const std::array<double, 9>& g);
// Bᵀ d B of one tile for all channels: position p goes to to[p · to_stride].
void input_tile(DType dtype, const std::byte* const* pixels, int64_t channels, float* to, int64_t to_stride);
// Aᵀ m A of one tile for `channels` channels, rounded up to whole vectors: pixel p goes to to[p · to_stride]. False
// when one of the results is not finite.
bool output_tile(const float* from, int64_t from_stride, int64_t channels, float* to, int64_t to_stride);

}  // namespace npusim::cpu::product::winograd
