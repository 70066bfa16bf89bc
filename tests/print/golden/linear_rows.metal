#include <metal_stdlib>
using namespace metal;

static inline float nan_max(float a, float b) { return a > b || a != a ? a : b; }
static inline float warp_sum(float x) {
  for (int mask = 16; mask > 0; mask /= 2) x = x + simd_shuffle_xor(x, mask);
  return x;
}

// linear_relu: [4, 40, 96], the last 1 the row
// in0 float16[384] in1 float16[3840] in2 float32[40] out0 float16[160]
// 40 blocks of 128 threads, one warp a row
kernel void linear_relu_b9469d8ee9490f60(
    device const half* in0 [[buffer(0)]],
    device const half* in1 [[buffer(1)]],
    device const float* in2 [[buffer(2)]],
    device half* out0 [[buffer(3)]],
    uint block_index [[threadgroup_position_in_grid]],
    uint thread_index [[thread_position_in_threadgroup]]) {
  const int lane = thread_index % 32;
  const int row = block_index * 4 + thread_index / 32;
  if (row >= 160) return;
  const int i0 = row / 40;
  const int i1 = row % 40;
  const float x_4 = in2[i1];
  float sum_3 = 0.0f;
  for (int i2 = lane; i2 < 96; i2 += 32) {
    const float x_0 = float(in0[i0 * 96 + i2]);
    const float x_1 = float(in1[i1 * 96 + i2]);
    const float mul_2 = x_0 * x_1;
    sum_3 = sum_3 + mul_2;
  }
  sum_3 = warp_sum(sum_3);
  const float add_5 = sum_3 + x_4;
  const float max_7 = nan_max(add_5, 0.0f);
  if (lane == 0) {
    out0[i0 * 40 + i1] = half(max_7);
  }
}
