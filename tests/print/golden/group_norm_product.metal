#include <metal_stdlib>
using namespace metal;

static inline float warp_sum(float x) {
  for (int mask = 16; mask > 0; mask /= 2) x = x + simd_shuffle_xor(x, mask);
  return x;
}

// rms_norm: [3, 600], the last 1 the row
// in0 float32[1800] out0 float16[1800]
// 3 blocks of 128 threads, one block a row
static inline void group_a043933ba8cbaddb_part0(
    device const float* in0,
    threadgroup half* out0,
    threadgroup float* shared_sum_2,
    uint block,
    uint thread_index) {
  const int row = block;
  const int i0 = row;
  float sum_2 = 0.0f;
  for (int i1 = thread_index; i1 < 600; i1 += 128) {
    const float x_0 = in0[i0 * 600 + i1];
    const float mul_1 = x_0 * x_0;
    sum_2 = sum_2 + mul_1;
  }
  sum_2 = warp_sum(sum_2);
  if (thread_index % 32 == 0) shared_sum_2[thread_index / 32] = sum_2;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  sum_2 = shared_sum_2[0];
  for (int warp = 1; warp < 4; ++warp) sum_2 = sum_2 + shared_sum_2[warp];
  const float div_4 = sum_2 / 600.0f;
  const float add_6 = div_4 + 1e-05f;
  const float rsqrt_7 = precise::rsqrt(add_6);
  for (int i1 = thread_index; i1 < 600; i1 += 128) {
    const float x_0 = in0[i0 * 600 + i1];
    const float mul_8 = x_0 * rsqrt_7;
    out0[i0 * 600 + i1] = half(mul_8);
  }
}

// product: [3, 8, 600], the last 1 the row
// in0 float16[1800] in1 float32[4800] out0 float32[24]
// 6 blocks of 128 threads, one warp a row
static inline void group_a043933ba8cbaddb_part1(
    threadgroup const half* in0,
    device const float* in1,
    device float* out0,
    uint block,
    uint thread_index) {
  const int lane = thread_index % 32;
  const int row = block * 4 + thread_index / 32;
  if (row >= 24) return;
  const int i0 = row / 8;
  const int i1 = row % 8;
  float sum_3 = 0.0f;
  for (int i2 = lane; i2 < 600; i2 += 32) {
    const float x_1 = float(in0[i0 * 600 + i2]);
    const float x_0 = in1[i1 * 600 + i2];
    const float mul_2 = x_1 * x_0;
    sum_3 = sum_3 + mul_2;
  }
  sum_3 = warp_sum(sum_3);
  if (lane == 0) {
    out0[i0 * 8 + i1] = sum_3;
  }
}

// scale: [24]
// in0 float32[24] out0 float32[24]
// 1 blocks of 128 threads, one thread a point
static inline void group_a043933ba8cbaddb_part2(
    device const float* in0,
    device float* out0,
    uint block,
    uint thread_index) {
  const uint point = block * 128 + thread_index;
  if (point >= 24) return;
  const int i0 = point;
  const float x_0 = in0[i0];
  const float mul_2 = x_0 * 0.5f;
  out0[i0] = mul_2;
}

// group_a043933ba8cbaddb: 3 kernels, one block of 128 threads
kernel void group_a043933ba8cbaddb(
    device const float* m0 [[buffer(0)]],
    device const float* m2 [[buffer(1)]],
    device float* m3 [[buffer(2)]],
    device float* m4 [[buffer(3)]],
    uint block_index [[threadgroup_position_in_grid]],
    uint thread_index [[thread_position_in_threadgroup]]) {
  threadgroup half m1[1800];
  threadgroup float part0_shared_sum_2[4];
  for (uint block = 0; block < 3; ++block) {
    group_a043933ba8cbaddb_part0(m0, m1, part0_shared_sum_2, block, thread_index);
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
  threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);
  for (uint block = 0; block < 6; ++block) group_a043933ba8cbaddb_part1(m1, m2, m3, block, thread_index);
  threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);
  group_a043933ba8cbaddb_part2(m3, m4, 0, thread_index);
}
