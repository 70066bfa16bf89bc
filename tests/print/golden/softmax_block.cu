#define INFINITY __int_as_float(0x7f800000)
typedef unsigned short f16;
__device__ __forceinline__ float exp_near(float x) {
  float power;
  asm("ex2.approx.f32 %0, %1;" : "=f"(power) : "f"(x * 1.44269504f));
  return power;
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

// softmax: [3, 1500], the last 1 the row
// in0 float32[4500] out0 float16[4500]
// 3 blocks of 256 threads, one block a row
extern "C" __global__ void __launch_bounds__(256) softmax_5e079caf1a265628(
    const float* __restrict__ in0,
    f16* __restrict__ out0) {
  const int row = blockIdx.x;
  const int i0 = row;
  __shared__ float shared_max_1[8];
  float max_1 = (-INFINITY);
  for (int i1 = threadIdx.x; i1 < 1500; i1 += 256) {
    const float x_0 = in0[i0 * 1500 + i1];
    max_1 = nan_max(max_1, x_0);
  }
  max_1 = warp_max(max_1);
  if (threadIdx.x % 32 == 0) shared_max_1[threadIdx.x / 32] = max_1;
  __syncthreads();
  max_1 = shared_max_1[0];
  for (int warp = 1; warp < 8; ++warp) max_1 = nan_max(max_1, shared_max_1[warp]);
  __shared__ float shared_sum_4[8];
  float sum_4 = 0.0f;
  for (int i1 = threadIdx.x; i1 < 1500; i1 += 256) {
    const float x_0 = in0[i0 * 1500 + i1];
    const float sub_2 = x_0 - max_1;
    const float exp_3 = exp_near(sub_2);
    sum_4 = sum_4 + exp_3;
  }
  sum_4 = warp_sum(sum_4);
  if (threadIdx.x % 32 == 0) shared_sum_4[threadIdx.x / 32] = sum_4;
  __syncthreads();
  sum_4 = shared_sum_4[0];
  for (int warp = 1; warp < 8; ++warp) sum_4 = sum_4 + shared_sum_4[warp];
  for (int i1 = threadIdx.x; i1 < 1500; i1 += 256) {
    const float x_0 = in0[i0 * 1500 + i1];
    const float sub_2 = x_0 - max_1;
    const float exp_3 = exp_near(sub_2);
    const float div_5 = exp_3 / sum_4;
    out0[i0 * 1500 + i1] = float_to_f16(div_5);
  }
}
