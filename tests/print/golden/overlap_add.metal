#include <metal_stdlib>
using namespace metal;


// overlap_add: [6, 4, 3]
// in0 bfloat16[24] in1 float32[72] out0 bfloat16[24] is in0
// 1 blocks of 32 threads, one thread a point
kernel void overlap_add_fa14c62e670609b1(
    device const bfloat* in0 [[buffer(0)]],
    device const float* in1 [[buffer(1)]],
    device bfloat* out0 [[buffer(2)]],
    uint block_index [[threadgroup_position_in_grid]],
    uint thread_index [[thread_position_in_threadgroup]]) {
  const uint point = block_index * 32 + thread_index;
  if (point >= 3) return;
  const int i2 = point;
  for (int i0 = 0; i0 < 6; ++i0) {
    for (int batch = 0; batch < 4; batch += 4) {
      int positions[4];
      float values[4];
      bfloat kept[4];
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
        kept[step] = bfloat((float(kept[step]) + values[step]));
        out0[positions[step]] = kept[step];
      }
    }
  }
}
