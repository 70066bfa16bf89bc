#include <metal_stdlib>
using namespace metal;

static inline bool check_index(long index, long extent, device atomic_int* trap, int code) {
  if (index >= 0 && index < extent) return true;
  atomic_store_explicit(trap, code, memory_order_relaxed);
  return false;
}

// embedding: [6, 40]
// in0 int64[6] in1 bfloat16[360] out0 bfloat16[240]
// 1 blocks of 256 threads, one thread a point
kernel void embedding_349a6ac917220831(
    device const long* in0 [[buffer(0)]],
    device const bfloat* in1 [[buffer(1)]],
    device bfloat* out0 [[buffer(2)]],
    device atomic_int* trap [[buffer(3)]],
    uint block_index [[threadgroup_position_in_grid]],
    uint thread_index [[thread_position_in_threadgroup]]) {
  const uint point = block_index * 256 + thread_index;
  if (point >= 240) return;
  const int i0 = point / 40;
  const int i1 = point % 40;
  const long x_0 = in0[i0];
  const float x_1 = check_index(x_0, 9, trap, 2) ? float(in1[i1 + (int)x_0 * 40]) : 0.0f;
  out0[i0 * 40 + i1] = bfloat(x_1);
}
