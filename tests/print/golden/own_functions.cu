
// own_functions: [4001]
// in0 float32[4001] out0 float32[4001] out1 float32[4001] out2 float32[4001] out3 float32[4001] out4 float32[4001]
// 16 blocks of 256 threads, one thread a point
extern "C" __global__ void __launch_bounds__(256) own_functions_9557267e11920371(
    const float* __restrict__ in0,
    float* __restrict__ out0,
    float* __restrict__ out1,
    float* __restrict__ out2,
    float* __restrict__ out3,
    float* __restrict__ out4) {
  const unsigned point = blockIdx.x * 256 + threadIdx.x;
  if (point >= 4001) return;
  const int i0 = point;
  const float x_0 = in0[i0];
  const float erf_1 = erff(x_0);
  out0[i0] = erf_1;
  const float erfc_5 = erfcf(x_0);
  const float neg_2 = -x_0;
  const float mul_3 = neg_2 * x_0;
  const float exp_4 = expf(mul_3);
  const float div_6 = erfc_5 / exp_4;
  out1[i0] = div_6;
  const float mul_8 = x_0 * 0.3f;
  const float expm1_9 = expm1f(mul_8);
  out2[i0] = expm1_9;
  const float log1p_10 = log1pf(mul_8);
  out3[i0] = log1p_10;
  const float mul_12 = x_0 * 0.0001f;
  const float expm1_16 = expm1f(mul_12);
  const float mul_17 = expm1_16 * 10000.0f;
  const float log1p_13 = log1pf(mul_12);
  const float mul_15 = log1p_13 * 10000.0f;
  const float add_18 = mul_17 + mul_15;
  out4[i0] = add_18;
}
