#define INFINITY __int_as_float(0x7f800000)
__device__ __forceinline__ float nan_max(float a, float b) {
  float x;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(x) : "f"(a), "f"(b));
  return x;
}
__device__ __forceinline__ long long warp_min_long(long long x) {
  for (int mask = 16; mask > 0; mask /= 2) x = min(x, (long long)__shfl_xor_sync(0xffffffffu, x, mask));
  return x;
}
__device__ __forceinline__ float warp_max(float x) {
  for (int mask = 16; mask > 0; mask /= 2) x = nan_max(x, __shfl_xor_sync(0xffffffffu, x, mask));
  return x;
}

// argmax: [2, 3000], the last 1 the row
// in0 float32[6000] out0 int64[2] out1 float32[2]
// 2 blocks of 512 threads, one block a row
extern "C" __global__ void __launch_bounds__(512) argmax_b4d257068fb6228d(
    const float* __restrict__ in0,
    long long* __restrict__ out0,
    float* __restrict__ out1) {
  const int row = blockIdx.x;
  const int i0 = row;
  __shared__ float shared_max_1[16];
  float max_1 = (-INFINITY);
  for (int i1 = threadIdx.x; i1 < 3000; i1 += 512) {
    const float x_0 = in0[i0 * 3000 + i1];
    max_1 = nan_max(max_1, x_0);
  }
  max_1 = warp_max(max_1);
  if (threadIdx.x % 32 == 0) shared_max_1[threadIdx.x / 32] = max_1;
  __syncthreads();
  max_1 = shared_max_1[0];
  for (int warp = 1; warp < 16; ++warp) max_1 = nan_max(max_1, shared_max_1[warp]);
  __shared__ long long shared_min_6[16];
  long long min_6 = 9223372036854775807LL;
  for (int i1 = threadIdx.x; i1 < 3000; i1 += 512) {
    const float x_0 = in0[i0 * 3000 + i1];
    const bool eq_3 = x_0 == max_1;
    const int select_5 = eq_3 ? i1 : 3000;
    min_6 = min(min_6, (long long)select_5);
  }
  min_6 = warp_min_long(min_6);
  if (threadIdx.x % 32 == 0) shared_min_6[threadIdx.x / 32] = min_6;
  __syncthreads();
  min_6 = shared_min_6[0];
  for (int warp = 1; warp < 16; ++warp) min_6 = min(min_6, (long long)shared_min_6[warp]);
  if (threadIdx.x == 0) {
    out0[i0] = min_6;
    out1[i0] = max_1;
  }
}
