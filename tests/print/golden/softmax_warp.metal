#include <metal_stdlib>
using namespace metal;

static inline float nan_max(float a, float b) { return a > b || a != a ? a : b; }
static inline float warp_sum(float x) {
  for (int mask = 16; mask > 0; mask /= 2) x = x + simd_shuffle_xor(x, mask);
  return x;
}
static inline float warp_max(float x) {
  for (int mask = 16; mask > 0; mask /= 2) x = nan_max(x, simd_shuffle_xor(x, mask));
  return x;
}

// softmax: [3, 5, 100], the last 1 the row
// in0 float16[1500] out0 float16[1500]
// 4 blocks of 128 threads, one warp a row
kernel void softmax_7d1fac4729bb085b(
    device const half* in0 [[buffer(0)]],
    device half* out0 [[buffer(1)]],
    uint block_index [[threadgroup_position_in_grid]],
    uint thread_index [[thread_position_in_threadgroup]]) {
  const int lane = thread_index % 32;
  const int row = block_index * 4 + thread_index / 32;
  if (row >= 15) return;
  const int i0 = row;
  float max_1 = (-INFINITY);
  for (int i1 = lane; i1 < 100; i1 += 32) {
    const float x_0 = float(in0[i0 * 100 + i1]);
    max_1 = nan_max(max_1, x_0);
  }
  max_1 = warp_max(max_1);
  float sum_4 = 0.0f;
  for (int i1 = lane; i1 < 100; i1 += 32) {
    const float x_0 = float(in0[i0 * 100 + i1]);
    const float sub_2 = x_0 - max_1;
    const float exp_3 = precise::exp(sub_2);
    sum_4 = sum_4 + exp_3;
  }
  sum_4 = warp_sum(sum_4);
  for (int i1 = lane; i1 < 100; i1 += 32) {
    const float x_0 = float(in0[i0 * 100 + i1]);
    const float sub_2 = x_0 - max_1;
    const float exp_3 = precise::exp(sub_2);
    const float div_5 = exp_3 / sum_4;
    out0[i0 * 100 + i1] = half(div_5);
  }
}
