typedef unsigned short f16;
__device__ __forceinline__ float f16_to_float(f16 bits) {
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
  return x;
}
__device__ __forceinline__ long long wrap_sub(long long a, long long b) { return (long long)((unsigned long long)a - (unsigned long long)b); }
__device__ __forceinline__ long long wrap_mul(long long a, long long b) { return (long long)((unsigned long long)a * (unsigned long long)b); }

// mixed_dtypes: [5, 7]
// in0 float16[35] in1 int32[35] in2 bool[35] in3 uint8[7] out0 float32[35] out1 int8[35] out2 bool[35]
// 1 blocks of 256 threads, one thread a point
extern "C" __global__ void __launch_bounds__(256) mixed_dtypes_f13865dc0acb6191(
    const f16* __restrict__ in0,
    const int* __restrict__ in1,
    const unsigned char* __restrict__ in2,
    const unsigned char* __restrict__ in3,
    float* __restrict__ out0,
    signed char* __restrict__ out1,
    unsigned char* __restrict__ out2) {
  const unsigned point = blockIdx.x * 256 + threadIdx.x;
  if (point >= 35) return;
  const int i0 = point / 7;
  const int i1 = point % 7;
  const bool x_7 = (in2[i0 * 7 + i1] != 0);
  const float x_0 = f16_to_float(in0[i0 * 7 + i1]);
  const int x_1 = in1[i0 * 7 + i1];
  const float cast_5 = (float)x_1;
  const float mul_6 = x_0 * cast_5;
  const float sub_4 = x_0 - 0.1f;
  const float select_8 = x_7 ? mul_6 : sub_4;
  const int x_2 = in3[i1];
  const float cast_9 = (float)x_2;
  const float add_10 = select_8 + cast_9;
  out0[i0 * 7 + i1] = add_10;
  const long long mul_12 = wrap_mul(x_1, 50);
  const long long sub_13 = wrap_sub(mul_12, x_2);
  out1[i0 * 7 + i1] = (signed char)sub_13;
  const bool lt_15 = x_0 < 0.5f;
  const bool not_16 = !lt_15;
  const bool and_17 = not_16 && x_7;
  out2[i0 * 7 + i1] = and_17;
}
