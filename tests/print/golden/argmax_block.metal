#include <metal_stdlib>
using namespace metal;

static inline float nan_max(float a, float b) { return a > b || a != a ? a : b; }
static inline long warp_min_long(long x) {
  for (int mask = 16; mask > 0; mask /= 2) x = min(x, (long)as_type<long>(simd_shuffle_xor(as_type<uint2>(x), mask)));
  return x;
}
static inline float warp_max(float x) {
  for (int mask = 16; mask > 0; mask /= 2) x = nan_max(x, simd_shuffle_xor(x, mask));
  return x;
}

// argmax: [2, 3000], the last 1 the row
// in0 float32[6000] out0 int64[2] out1 float32[2]
// 2 blocks of 512 threads, one block a row
kernel void argmax_b4d257068fb6228d(
    device const float* in0 [[buffer(0)]],
    device long* out0 [[buffer(1)]],
    device float* out1 [[buffer(2)]],
    uint block_index [[threadgroup_position_in_grid]],
    uint thread_index [[thread_position_in_threadgroup]]) {
  const int row = block_index;
  const int i0 = row;
  threadgroup float shared_max_1[16];
  float max_1 = (-INFINITY);
  for (int i1 = thread_index; i1 < 3000; i1 += 512) {
    const float x_0 = in0[i0 * 3000 + i1];
    max_1 = nan_max(max_1, x_0);
  }
  max_1 = warp_max(max_1);
  if (thread_index % 32 == 0) shared_max_1[thread_index / 32] = max_1;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  max_1 = shared_max_1[0];
  for (int warp = 1; warp < 16; ++warp) max_1 = nan_max(max_1, shared_max_1[warp]);
  threadgroup long shared_min_6[16];
  long min_6 = 9223372036854775807L;
  for (int i1 = thread_index; i1 < 3000; i1 += 512) {
    const float x_0 = in0[i0 * 3000 + i1];
    const bool eq_3 = x_0 == max_1;
    const int select_5 = eq_3 ? i1 : 3000;
    min_6 = min(min_6, (long)select_5);
  }
  min_6 = warp_min_long(min_6);
  if (thread_index % 32 == 0) shared_min_6[thread_index / 32] = min_6;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  min_6 = shared_min_6[0];
  for (int warp = 1; warp < 16; ++warp) min_6 = min(min_6, (long)shared_min_6[warp]);
  if (thread_index == 0) {
    out0[i0] = min_6;
    out1[i0] = max_1;
  }
}
