#include <metal_stdlib>
using namespace metal;

static inline float nan_max(float a, float b) { return a > b || a != a ? a : b; }

// max_pool2d: [2, 3, 5, 5, 3, 3], the last 2 the row
// in0 float32[486] out0 float32[150]
// 2 blocks of 128 threads, one thread a row
kernel void max_pool2d_84c49ccdc51f435b(
    device const float* in0 [[buffer(0)]],
    device float* out0 [[buffer(1)]],
    uint block_index [[threadgroup_position_in_grid]],
    uint thread_index [[thread_position_in_threadgroup]]) {
  const int row = block_index * 128 + thread_index;
  if (row >= 150) return;
  const int i0 = row / 25;
  const int i1 = row / 5 % 5;
  const int i2 = row % 5;
  const int mul_3 = i1 * 2;
  const int add_4 = (-1) + mul_3;
  const int mul_13 = i2 * 2;
  const int add_14 = (-1) + mul_13;
  float max_24 = (-INFINITY);
  for (int r = 0; r < 9; ++r) {
    const int i3 = r / 3;
    const int i4 = r % 3;
    const int add_6 = add_4 + i3;
    const bool le_8 = 0 <= add_6;
    const bool lt_10 = add_6 < 9;
    const bool and_11 = le_8 && lt_10;
    const int add_16 = add_14 + i4;
    const bool le_17 = 0 <= add_16;
    const bool lt_18 = add_16 < 9;
    const bool and_19 = le_17 && lt_18;
    const bool and_20 = and_11 && and_19;
    const int at0 = i1 * 2 + i3 - 1;
    const int at1 = i2 * 2 + i4 - 1;
    const float x_22 = at0 >= 0 && at0 < 9 && at1 >= 0 && at1 < 9 ? in0[i0 * 81 + at0 * 9 + at1] : 0.0f;
    const float select_23 = and_20 ? x_22 : (-INFINITY);
    max_24 = nan_max(max_24, select_23);
  }
  out0[i0 * 25 + i1 * 5 + i2] = max_24;
}
