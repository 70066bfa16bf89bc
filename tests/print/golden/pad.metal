#include <metal_stdlib>
using namespace metal;


// constant_pad: [2, 3, 8, 10]
// in0 float32[180] out0 float32[480]
// 2 blocks of 256 threads, one thread a point
kernel void constant_pad_5def31bc58d81f37(
    device const float* in0 [[buffer(0)]],
    device float* out0 [[buffer(1)]],
    uint block_index [[threadgroup_position_in_grid]],
    uint thread_index [[thread_position_in_threadgroup]]) {
  const uint point = block_index * 256 + thread_index;
  if (point >= 480) return;
  const int i0 = point / 80;
  const int i1 = point / 10 % 8;
  const int i2 = point % 10;
  const int add_2 = (-1) + i1;
  const bool le_4 = 0 <= add_2;
  const bool lt_6 = add_2 < 5;
  const bool and_7 = le_4 && lt_6;
  const int add_10 = (-2) + i2;
  const bool le_11 = 0 <= add_10;
  const bool lt_13 = add_10 < 6;
  const bool and_14 = le_11 && lt_13;
  const bool and_15 = and_7 && and_14;
  const int at0 = i1 - 1;
  const int at1 = i2 - 2;
  const float x_16 = at0 >= 0 && at0 < 5 && at1 >= 0 && at1 < 6 ? in0[i0 * 30 + at0 * 6 + at1] : 0.0f;
  const float select_18 = and_15 ? x_16 : 1.5f;
  out0[i0 * 80 + i1 * 10 + i2] = select_18;
}
