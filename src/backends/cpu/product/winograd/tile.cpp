// Transforms of tiles, compiled once per instruction set.
#include "backends/cpu/product/winograd/tile.h"

#include "backends/cpu/vector_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/product/winograd/tile.cpp"
#include <hwy/foreach_target.h>

#include "backends/cpu/product/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace npusim::cpu::product::winograd {
namespace HWY_NAMESPACE {
using namespace product::HWY_NAMESPACE;

constexpr int64_t winograd_lanes = static_cast<int64_t>(hn::MaxLanes(F()));

// Bᵀ x.
HWY_INLINE void transform_input(const VF* x, VF* y) {
  const F f;
  const VF four = hn::Set(f, 4.0f), five = hn::Set(f, 5.0f), two = hn::Set(f, 2.0f);
  const VF even = hn::NegMulAdd(four, x[2], x[4]), odd = hn::NegMulAdd(four, x[1], x[3]);
  const VF even2 = hn::Sub(x[4], x[2]), odd2 = hn::Mul(two, hn::Sub(x[3], x[1]));
  y[0] = hn::MulAdd(four, x[0], hn::NegMulAdd(five, x[2], x[4]));
  y[1] = hn::Add(even, odd);
  y[2] = hn::Sub(even, odd);
  y[3] = hn::Add(even2, odd2);
  y[4] = hn::Sub(even2, odd2);
  y[5] = hn::MulAdd(four, x[1], hn::NegMulAdd(five, x[3], x[5]));
}

// Aᵀ x.
HWY_INLINE void transform_output(const VF* x, VF* y) {
  const F f;
  const VF sum1 = hn::Add(x[1], x[2]), difference1 = hn::Sub(x[1], x[2]);
  const VF sum2 = hn::Add(x[3], x[4]), difference2 = hn::Sub(x[3], x[4]);
  y[0] = hn::Add(x[0], hn::Add(sum1, sum2));
  y[1] = hn::MulAdd(hn::Set(f, 2.0f), difference2, difference1);
  y[2] = hn::MulAdd(hn::Set(f, 4.0f), sum2, sum1);
  y[3] = hn::Add(x[5], hn::MulAdd(hn::Set(f, 8.0f), difference2, difference1));
}

template <class Type>
void input_tile_of(const std::byte* const* HWY_RESTRICT pixels, int64_t channels, float* HWY_RESTRICT to,
                   int64_t to_stride) {
  VF half[in_edge][in_edge], x[in_edge], y[in_edge];
  for (int64_t c = 0; c < channels; c += winograd_lanes) {
#pragma GCC unroll 6
    for (int64_t i = 0; i < in_edge; ++i) {
#pragma GCC unroll 6
      for (int64_t j = 0; j < in_edge; ++j)
        x[j] = Type::load(reinterpret_cast<const typename Type::T*>(pixels[i * in_edge + j]) + c);
      transform_input(x, half[i]);
    }
    float* position = to + c;
    for (int64_t j = 0; j < in_edge; ++j, position += to_stride) {
#pragma GCC unroll 6
      for (int64_t i = 0; i < in_edge; ++i) x[i] = half[i][j];
      transform_input(x, y);
      float* at = position;
#pragma GCC unroll 6
      for (int64_t i = 0; i < in_edge; ++i, at += in_edge * to_stride) hn::StoreU(y[i], F(), at);
    }
  }
}

void input_tile(DType dtype, const std::byte* const* pixels, int64_t channels, float* to, int64_t to_stride) {
  with_type(dtype, [&](auto type) { input_tile_of<decltype(type)>(pixels, channels, to, to_stride); });
}

bool output_tile(const float* from, int64_t from_stride, int64_t channels, float* to, int64_t to_stride) {
  const F f;
  VF half[out_edge][in_edge], x[in_edge], y[out_edge];
  VF zero = hn::Zero(f);  // while all is finite
  for (int64_t c = 0; c < channels; c += winograd_lanes) {
    for (int64_t j = 0; j < in_edge; ++j) {
#pragma GCC unroll 6
      for (int64_t i = 0; i < in_edge; ++i) x[i] = hn::LoadU(f, from + (i * in_edge + j) * from_stride + c);
      transform_output(x, y);
#pragma GCC unroll 4
      for (int64_t i = 0; i < out_edge; ++i) half[i][j] = y[i];
    }
    for (int64_t i = 0; i < out_edge; ++i) {
      transform_output(half[i], y);
#pragma GCC unroll 4
      for (int64_t j = 0; j < out_edge; ++j) {
        hn::StoreU(y[j], f, to + (i * out_edge + j) * to_stride + c);
        zero = hn::Add(zero, hn::Sub(y[j], y[j]));
      }
    }
  }
  return hn::AllTrue(f, hn::Eq(zero, hn::Zero(f)));
}

}  // namespace HWY_NAMESPACE
}  // namespace npusim::cpu::product::winograd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npusim::cpu::product::winograd {
HWY_EXPORT(input_tile);
HWY_EXPORT(output_tile);

void input_tile(DType dtype, const std::byte* const* pixels, int64_t channels, float* to, int64_t to_stride) {
  HWY_DYNAMIC_DISPATCH(input_tile)(dtype, pixels, channels, to, to_stride);
}
bool output_tile(const float* from, int64_t from_stride, int64_t channels, float* to, int64_t to_stride) {
  return HWY_DYNAMIC_DISPATCH(output_tile)(from, from_stride, channels, to, to_stride);
}

std::array<double, positions> transform_filter(const std::array<double, 9>& g) {
  constexpr double G[in_edge][3] = {{1. / 4, 0, 0},
                                    {-1. / 6, -1. / 6, -1. / 6},
                                    {-1. / 6, 1. / 6, -1. / 6},
                                    {1. / 24, 1. / 12, 1. / 6},
                                    {1. / 24, -1. / 12, 1. / 6},
                                    {0, 0, 1}};
  std::array<double, positions> u{};
  for (size_t i = 0; i < in_edge; ++i)
    for (size_t j = 0; j < in_edge; ++j)
      for (size_t y = 0; y < 3; ++y)
        for (size_t x = 0; x < 3; ++x) u[i * in_edge + j] += G[i][y] * g[y * 3 + x] * G[j][x];
  return u;
}

}  // namespace npusim::cpu::product::winograd
#endif
