typedef unsigned short f16;
__device__ __forceinline__ float quotient_near(float a, float b) {
  float inverse;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(b * 0.25f));
  return a * 0.25f * inverse;
}
__device__ __forceinline__ float f16_to_float(f16 bits) {
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
  return x;
}
__device__ __forceinline__ f16 float_to_f16(float x) {
  f16 bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
}
__device__ __forceinline__ float warp_sum(float x) {
  for (int mask = 16; mask > 0; mask /= 2) x = x + __shfl_xor_sync(0xffffffffu, x, mask);
  return x;
}

// rms_norm: [3, 600], the last 1 the row
// in0 float32[1800] out0 float16[1800]
// 3 blocks of 128 threads, one block a row
__device__ __forceinline__ void group_a043933ba8cbaddb_part0(
    const float* in0,
    f16* out0,
    float* shared_sum_2,
    unsigned block,
    unsigned thread_index) {
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
  __syncthreads();
  sum_2 = shared_sum_2[0];
  for (int warp = 1; warp < 4; ++warp) sum_2 = sum_2 + shared_sum_2[warp];
  const float div_4 = quotient_near(sum_2, 600.0f);
  const float add_6 = div_4 + 1e-05f;
  const float rsqrt_7 = rsqrtf(add_6);
  for (int i1 = thread_index; i1 < 600; i1 += 128) {
    const float x_0 = in0[i0 * 600 + i1];
    const float mul_8 = x_0 * rsqrt_7;
    out0[i0 * 600 + i1] = float_to_f16(mul_8);
  }
}

// product: [3, 8, 600], the last 1 the row
// in0 float16[1800] in1 float32[4800] out0 float32[24]
// 6 blocks of 128 threads, one warp a row
__device__ __forceinline__ void group_a043933ba8cbaddb_part1(
    const f16* in0,
    const float* in1,
    float* out0,
    unsigned block,
    unsigned thread_index) {
  const int lane = thread_index % 32;
  const int row = block * 4 + thread_index / 32;
  if (row >= 24) return;
  const int i0 = row / 8;
  const int i1 = row % 8;
  float sum_3 = 0.0f;
  for (int i2 = lane; i2 < 600; i2 += 32) {
    const float x_1 = f16_to_float(in0[i0 * 600 + i2]);
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
__device__ __forceinline__ void group_a043933ba8cbaddb_part2(
    const float* in0,
    float* out0,
    unsigned block,
    unsigned thread_index) {
  const unsigned point = block * 128 + thread_index;
  if (point >= 24) return;
  const int i0 = point;
  const float x_0 = in0[i0];
  const float mul_2 = x_0 * 0.5f;
  out0[i0] = mul_2;
}

// group_a043933ba8cbaddb: 3 kernels, one block of 128 threads
extern "C" __global__ void __launch_bounds__(128) group_a043933ba8cbaddb(
    const float* m0,
    const float* m2,
    float* m3,
    float* m4) {
  __shared__ f16 m1[1800];
  __shared__ float part0_shared_sum_2[4];
  for (unsigned block = 0; block < 3; ++block) {
    group_a043933ba8cbaddb_part0(m0, m1, part0_shared_sum_2, block, threadIdx.x);
    __syncthreads();
  }
  __syncthreads();
  for (unsigned block = 0; block < 6; ++block) group_a043933ba8cbaddb_part1(m1, m2, m3, block, threadIdx.x);
  __syncthreads();
  group_a043933ba8cbaddb_part2(m3, m4, 0, threadIdx.x);
}
