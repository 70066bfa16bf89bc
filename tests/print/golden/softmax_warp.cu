#define INFINITY __int_as_float(0x7f800000)
typedef unsigned short f16;
__device__ __forceinline__ float exp_near(float x) {
  float power;
  asm("ex2.approx.f32 %0, %1;" : "=f"(power) : "f"(x * 1.44269504f));
  return power;
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
__device__ __forceinline__ float nan_max(float a, float b) {
  float x;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(x) : "f"(a), "f"(b));
  return x;
}
__device__ __forceinline__ float warp_sum(float x) {
  for (int mask = 16; mask > 0; mask /= 2) x = x + __shfl_xor_sync(0xffffffffu, x, mask);
  return x;
}
__device__ __forceinline__ float warp_max(float x) {
  for (int mask = 16; mask > 0; mask /= 2) x = nan_max(x, __shfl_xor_sync(0xffffffffu, x, mask));
  return x;
}

// softmax: [3, 5, 100], the last 1 the row
// in0 float16[1500] out0 float16[1500]
// 4 blocks of 128 threads, one warp a row
extern "C" __global__ void __launch_bounds__(128) softmax_7d1fac4729bb085b(
    const f16* in0,
    f16* out0) {
  const int lane = threadIdx.x % 32;
  const int row = blockIdx.x * 4 + threadIdx.x / 32;
  if (row >= 15) return;
  const int i0 = row;
  float max_1 = (-INFINITY);
  for (int i1 = lane; i1 < 100; i1 += 32) {
    const float x_0 = f16_to_float(in0[i0 * 100 + i1]);
    max_1 = nan_max(max_1, x_0);
  }
  max_1 = warp_max(max_1);
  float sum_4 = 0.0f;
  for (int i1 = lane; i1 < 100; i1 += 32) {
    const float x_0 = f16_to_float(in0[i0 * 100 + i1]);
    const float sub_2 = x_0 - max_1;
    const float exp_3 = exp_near(sub_2);
    sum_4 = sum_4 + exp_3;
  }
  sum_4 = warp_sum(sum_4);
  for (int i1 = lane; i1 < 100; i1 += 32) {
    const float x_0 = f16_to_float(in0[i0 * 100 + i1]);
    const float sub_2 = x_0 - max_1;
    const float exp_3 = exp_near(sub_2);
    const float div_5 = exp_3 / sum_4;
    out0[i0 * 100 + i1] = float_to_f16(div_5);
  }
}
