#include <metal_stdlib>
using namespace metal;

static inline bool check_index(long index, long extent, device atomic_int* trap, int code) {
  if (index >= 0 && index < extent) return true;
  atomic_store_explicit(trap, code, memory_order_relaxed);
  return false;
}

// index_add: [50, 12]
// in0 float32[48] in1 int64[50] in2 float32[600] out0 float32[48] is in0
// 1 blocks of 32 threads, one thread a point
kernel void index_add_d1fb2d312d6f7784(
    device const float* in0 [[buffer(0)]],
    device const long* in1 [[buffer(1)]],
    device const float* in2 [[buffer(2)]],
    device float* out0 [[buffer(3)]],
    device atomic_int* trap [[buffer(4)]],
    uint block_index [[threadgroup_position_in_grid]],
    uint thread_index [[thread_position_in_threadgroup]]) {
  const uint point = block_index * 32 + thread_index;
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
        const long x_1 = in1[i0];
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
