#include <metal_stdlib>
using namespace metal;


// mul_silu: [1, 128, 300]
// in0 bfloat16[38400] in1 bfloat16[38400] out0 bfloat16[38400]
// 150 blocks of 256 threads, one thread a point
kernel void mul_silu_4b4066b37949ccc8(
    device const bfloat* in0 [[buffer(0)]],
    device const bfloat* in1 [[buffer(1)]],
    device bfloat* out0 [[buffer(2)]],
    uint block_index [[threadgroup_position_in_grid]],
    uint thread_index [[thread_position_in_threadgroup]]) {
  const uint point = block_index * 256 + thread_index;
  if (point >= 38400) return;
  const int i0 = point;
  const float x_0 = float(in0[i0]);
  const float neg_2 = -x_0;
  const float exp_3 = precise::exp(neg_2);
  const float add_5 = 1.0f + exp_3;
  const float div_6 = x_0 / add_5;
  const float x_1 = float(in1[i0]);
  const float mul_7 = div_6 * x_1;
  out0[i0] = bfloat(mul_7);
}
