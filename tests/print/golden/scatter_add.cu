__device__ __forceinline__ bool check_index(long long index, long long extent, int* trap, int code) {
  if (index >= 0 && index < extent) return true;
  *trap = code;
  return false;
}

// index_add: [50, 12]
// in0 float32[48] in1 int64[50] in2 float32[600] out0 float32[48] is in0
// 1 blocks of 32 threads, one thread a point
extern "C" __global__ void __launch_bounds__(32) index_add_d1fb2d312d6f7784(
    const float* in0,
    const long long* __restrict__ in1,
    const float* __restrict__ in2,
    float* out0,
    int* __restrict__ trap) {
  const unsigned point = blockIdx.x * 32 + threadIdx.x;
  if (point >= 12) return;
  const int i1 = point;
  for (int batch = 0; batch < 50; batch += 16) {
    int positions[16];
    float values[16];
    float kept[16];
    #pragma unroll
    for (int step = 0; step < 16; ++step) {
      positions[step] = -1;
      const int i0 = batch + step;
      if (i0 < 50) {
        const long long x_1 = in1[i0];
        const float x_0 = in2[i0 * 12 + i1];
        positions[step] = check_index(x_1, 4, trap, 2) ? i1 + (int)x_1 * 12 : -1;
        values[step] = x_0;
      }
    }
    #pragma unroll
    for (int step = 0; step < 16; ++step) {
      if (positions[step] >= 0) kept[step] = out0[positions[step]];
    }
    #pragma unroll
    for (int step = 0; step < 16; ++step) {
      if (positions[step] < 0) continue;
      #pragma unroll
      for (int before = 0; before < step; ++before) {
        if (positions[before] == positions[step]) kept[step] = kept[before];
      }
      kept[step] = (kept[step] + values[step]);
      out0[positions[step]] = kept[step];
    }
  }
}
