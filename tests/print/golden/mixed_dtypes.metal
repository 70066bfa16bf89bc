#include <metal_stdlib>
using namespace metal;

static inline long wrap_sub(long a, long b) { return (long)((ulong)a - (ulong)b); }
static inline long wrap_mul(long a, long b) { return (long)((ulong)a * (ulong)b); }

// mixed_dtypes: [5, 7]
// in0 float16[35] in1 int32[35] in2 bool[35] in3 uint8[7] out0 float32[35] out1 int8[35] out2 bool[35]
// 1 blocks of 256 threads, one thread a point
kernel void mixed_dtypes_f13865dc0acb6191(
    device const half* in0 [[buffer(0)]],
    device const int* in1 [[buffer(1)]],
    device const uchar* in2 [[buffer(2)]],
    device const uchar* in3 [[buffer(3)]],
    device float* out0 [[buffer(4)]],
    device char* out1 [[buffer(5)]],
    device uchar* out2 [[buffer(6)]],
    uint block_index [[threadgroup_position_in_grid]],
    uint thread_index [[thread_position_in_threadgroup]]) {
  const uint point = block_index * 256 + thread_index;
  if (point >= 35) return;
  const int i0 = point / 7;
  const int i1 = point % 7;
  const bool x_7 = (in2[i0 * 7 + i1] != 0);
  const float x_0 = float(in0[i0 * 7 + i1]);
  const int x_1 = in1[i0 * 7 + i1];
  const float cast_5 = (float)x_1;
  const float mul_6 = x_0 * cast_5;
  const float sub_4 = x_0 - 0.1f;
  const float select_8 = x_7 ? mul_6 : sub_4;
  const int x_2 = in3[i1];
  const float cast_9 = (float)x_2;
  const float add_10 = select_8 + cast_9;
  out0[i0 * 7 + i1] = add_10;
  const long mul_12 = wrap_mul(x_1, 50);
  const long sub_13 = wrap_sub(mul_12, x_2);
  out1[i0 * 7 + i1] = (char)sub_13;
  const bool lt_15 = x_0 < 0.5f;
  const bool not_16 = !lt_15;
  const bool and_17 = not_16 && x_7;
  out2[i0 * 7 + i1] = uchar(and_17);
}
