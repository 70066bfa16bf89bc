// What is near enough for results of 16 bits, float32 from and to those, and minima and maxima that keep NaN.
#pragma once
#include "print/cuda/elements.cuh"

// ---- exp_near
// e to the x, to a few steps of float32.
__device__ __forceinline__ float exp_near(float x) {
  float power;
  asm("ex2.approx.f32 %0, %1;" : "=f"(power) : "f"(x * 1.44269504f));
  return power;
}

// ---- exp2_near
// 2 to the x, to a few steps of float32; below the smallest normal number it is 0.
__device__ __forceinline__ float exp2_near(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}

// ---- quotient
// a / b, where neither they nor what is between them is too large or too small: who calls asks that of the least
// and the most of many, and else divides. In the order in which the compiler divides.
__device__ __forceinline__ float quotient(const float a, const float b, float& least, float& most) {
  float inverse;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(b));
  inverse = __fmaf_rn(inverse, __fmaf_rn(-b, inverse, 1.0f), inverse);
  const float near = a * inverse;
  least = fminf(least, fminf(fabsf(a), fabsf(b)));
  most = fmaxf(most, fmaxf(fabsf(a), fabsf(b)));
  return __fmaf_rn(inverse, __fmaf_rn(-b, near, a), near);
}

// ---- quotient_near
// a / b of a b that is at least 1, to a few steps of float32. The inverse of a quarter is never too small.
__device__ __forceinline__ float quotient_near(float a, float b) {
  float inverse;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(b * 0.25f));
  return a * 0.25f * inverse;
}

// ---- f16_to_float
__device__ __forceinline__ float f16_to_float(f16 bits) {
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
  return x;
}

// ---- float_to_f16
__device__ __forceinline__ f16 float_to_f16(float x) {
  f16 bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
}

// ---- bf16_to_float
__device__ __forceinline__ float bf16_to_float(bf16 bits) { return __uint_as_float((unsigned)bits << 16); }

// ---- float_to_bf16
__device__ __forceinline__ bf16 float_to_bf16(float x) {
  unsigned bits;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(0.0f), "f"(x));
  return (bf16)bits;
}

// ---- nan_min
__device__ __forceinline__ float nan_min(float a, float b) {
  float x;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(x) : "f"(a), "f"(b));
  return x;
}

// ---- nan_max
__device__ __forceinline__ float nan_max(float a, float b) {
  float x;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(x) : "f"(a), "f"(b));
  return x;
}
