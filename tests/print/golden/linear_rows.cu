typedef unsigned short f16;
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

// linear_relu: [4, 40, 96], the last 1 the row
// in0 float16[384] in1 float16[3840] in2 float32[40] out0 float16[160]
// 40 blocks of 128 threads, one warp a row
extern "C" __global__ void __launch_bounds__(128) linear_relu_b9469d8ee9490f60(
    const f16* __restrict__ in0,
    const f16* __restrict__ in1,
    const float* __restrict__ in2,
    f16* __restrict__ out0) {
  const int lane = threadIdx.x % 32;
  const int row = blockIdx.x * 4 + threadIdx.x / 32;
  if (row >= 160) return;
  const int i0 = row / 40;
  const int i1 = row % 40;
  const float x_4 = in2[i1];
  float sum_3 = 0.0f;
  for (int i2 = lane; i2 < 96; i2 += 32) {
    const float x_0 = f16_to_float(in0[i0 * 96 + i2]);
    const float x_1 = f16_to_float(in1[i1 * 96 + i2]);
    const float mul_2 = x_0 * x_1;
    sum_3 = sum_3 + mul_2;
  }
  sum_3 = warp_sum(sum_3);
  const float add_5 = sum_3 + x_4;
  const float max_7 = nan_max(add_5, 0.0f);
  if (lane == 0) {
    out0[i0 * 40 + i1] = float_to_f16(max_7);
  }
}
