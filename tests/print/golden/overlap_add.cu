typedef unsigned short bf16;
__device__ __forceinline__ float bf16_to_float(bf16 bits) { return __uint_as_float((unsigned)bits << 16); }
__device__ __forceinline__ bf16 float_to_bf16(float x) {
  unsigned bits;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(0.0f), "f"(x));
  return (bf16)bits;
}

// overlap_add: [6, 4, 3]
// in0 bfloat16[24] in1 float32[72] out0 bfloat16[24] is in0
// 1 blocks of 32 threads, one thread a point
extern "C" __global__ void __launch_bounds__(32) overlap_add_fa14c62e670609b1(
    const bf16* in0,
    const float* __restrict__ in1,
    bf16* out0) {
  const unsigned point = blockIdx.x * 32 + threadIdx.x;
  if (point >= 3) return;
  const int i2 = point;
  for (int i0 = 0; i0 < 6; ++i0) {
    for (int batch = 0; batch < 4; batch += 4) {
      int positions[4];
      float values[4];
      bf16 kept[4];
      #pragma unroll
      for (int step = 0; step < 4; ++step) {
        positions[step] = -1;
        const int i1 = batch + step;
        const float x_0 = in1[i0 * 12 + i1 * 3 + i2];
        const int at0 = i0 + i1 - 1;
        positions[step] = at0 >= 0 ? i2 + at0 * 3 : -1;
        values[step] = x_0;
      }
      #pragma unroll
      for (int step = 0; step < 4; ++step) {
        if (positions[step] >= 0) kept[step] = out0[positions[step]];
      }
      #pragma unroll
      for (int step = 0; step < 4; ++step) {
        if (positions[step] < 0) continue;
        #pragma unroll
        for (int before = 0; before < step; ++before) {
          if (positions[before] == positions[step]) kept[step] = kept[before];
        }
        kept[step] = float_to_bf16((bf16_to_float(kept[step]) + values[step]));
        out0[positions[step]] = kept[step];
      }
    }
  }
}
