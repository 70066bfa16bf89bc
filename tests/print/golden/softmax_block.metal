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

// softmax: [3, 1500], the last 1 the row
// in0 float32[4500] out0 float16[4500]
// 3 blocks of 256 threads, one block a row
kernel void softmax_5e079caf1a265628(
    device const float* in0 [[buffer(0)]],
    device half* out0 [[buffer(1)]],
    uint block_index [[threadgroup_position_in_grid]],
    uint thread_index [[thread_position_in_threadgroup]]) {
  const int row = block_index;
  const int i0 = row;
  threadgroup float shared_max_1[8];
  float max_1 = (-INFINITY);
  for (int i1 = thread_index; i1 < 1500; i1 += 256) {
    const float x_0 = in0[i0 * 1500 + i1];
    max_1 = nan_max(max_1, x_0);
  }
  max_1 = warp_max(max_1);
  if (thread_index % 32 == 0) shared_max_1[thread_index / 32] = max_1;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  max_1 = shared_max_1[0];
  for (int warp = 1; warp < 8; ++warp) max_1 = nan_max(max_1, shared_max_1[warp]);
  threadgroup float shared_sum_4[8];
  float sum_4 = 0.0f;
  for (int i1 = thread_index; i1 < 1500; i1 += 256) {
    const float x_0 = in0[i0 * 1500 + i1];
    const float sub_2 = x_0 - max_1;
    const float exp_3 = precise::exp(sub_2);
    sum_4 = sum_4 + exp_3;
  }
  sum_4 = warp_sum(sum_4);
  if (thread_index % 32 == 0) shared_sum_4[thread_index / 32] = sum_4;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  sum_4 = shared_sum_4[0];
  for (int warp = 1; warp < 8; ++warp) sum_4 = sum_4 + shared_sum_4[warp];
  for (int i1 = thread_index; i1 < 1500; i1 += 256) {
    const float x_0 = in0[i0 * 1500 + i1];
    const float sub_2 = x_0 - max_1;
    const float exp_3 = precise::exp(sub_2);
    const float div_5 = exp_3 / sum_4;
    out0[i0 * 1500 + i1] = half(div_5);
  }
}
