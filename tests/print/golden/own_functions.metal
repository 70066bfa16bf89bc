#include <metal_stdlib>
using namespace metal;

static inline float erfc_tail(float x) {
  const float t = 1.0f / (1.0f + 0.5f * x);
  float p = fma(-0.02635598161f, t, 0.04977573716f);
  p = fma(p, t, 0.09441832613f);
  p = fma(p, t, -0.3045727009f);
  p = fma(p, t, 0.1733140079f);
  p = fma(p, t, 0.009750411005f);
  p = fma(p, t, 0.1953631862f);
  p = fma(p, t, 0.2438413327f);
  p = fma(p, t, 0.282357077f);
  p = fma(p, t, 0.2820849657f);
  const float square = x * x;
  const float rest = fma(x, x, -square);
  return square > 120.0f ? 0.0f : precise::exp(-square) * (1.0f - rest) * t * p;
}
static inline float erf_f32(float x) {
  if (fabs(x) >= 1.0f) return copysign(1.0f - erfc_tail(fabs(x)), x);
  const float z = x * x;
  float p = fma(7.875875063e-5f, z, -0.0008016864287f);
  p = fma(p, z, 0.005189087423f);
  p = fma(p, z, -0.02685421201f);
  p = fma(p, z, 0.1128359472f);
  p = fma(p, z, -0.3761262667f);
  p = fma(p, z, 1.128379166f);
  return x * p;
}
static inline float erfc_f32(float x) {
  if (fabs(x) < 0.5f || isnan(x)) return 1.0f - erf_f32(x);
  return x < 0.0f ? 2.0f - erfc_tail(-x) : erfc_tail(x);
}
static inline float expm1_f32(float x) {
  if (!(fabs(x) < 0.5f)) return precise::exp(x) - 1.0f;
  float p = fma(2.492243643e-5f, x, 0.0001996217623f);
  p = fma(p, x, 0.001388873772f);
  p = fma(p, x, 0.008333182072f);
  p = fma(p, x, 0.04166666714f);
  p = fma(p, x, 0.1666666714f);
  p = fma(p, x, 0.5f);
  return fma(x * x, p, x);
}
static inline float log1p_f32(float x) {
  const float u = 1.0f + x;
  if (u == 1.0f) return x;
  return u == INFINITY ? u : precise::log(u) * x / (u - 1.0f);
}

// own_functions: [4001]
// in0 float32[4001] out0 float32[4001] out1 float32[4001] out2 float32[4001] out3 float32[4001] out4 float32[4001]
// 16 blocks of 256 threads, one thread a point
kernel void own_functions_9557267e11920371(
    device const float* in0 [[buffer(0)]],
    device float* out0 [[buffer(1)]],
    device float* out1 [[buffer(2)]],
    device float* out2 [[buffer(3)]],
    device float* out3 [[buffer(4)]],
    device float* out4 [[buffer(5)]],
    uint block_index [[threadgroup_position_in_grid]],
    uint thread_index [[thread_position_in_threadgroup]]) {
  const uint point = block_index * 256 + thread_index;
  if (point >= 4001) return;
  const int i0 = point;
  const float x_0 = in0[i0];
  const float erf_1 = erf_f32(x_0);
  out0[i0] = erf_1;
  const float erfc_5 = erfc_f32(x_0);
  const float neg_2 = -x_0;
  const float mul_3 = neg_2 * x_0;
  const float exp_4 = precise::exp(mul_3);
  const float div_6 = erfc_5 / exp_4;
  out1[i0] = div_6;
  const float mul_8 = x_0 * 0.3f;
  const float expm1_9 = expm1_f32(mul_8);
  out2[i0] = expm1_9;
  const float log1p_10 = log1p_f32(mul_8);
  out3[i0] = log1p_10;
  const float mul_12 = x_0 * 0.0001f;
  const float expm1_16 = expm1_f32(mul_12);
  const float mul_17 = expm1_16 * 10000.0f;
  const float log1p_13 = log1p_f32(mul_12);
  const float mul_15 = log1p_13 * 10000.0f;
  const float add_18 = mul_17 + mul_15;
  out4[i0] = add_18;
}
