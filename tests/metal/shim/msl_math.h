// Mathematical functions of MSL over float, half, bfloat and vectors.
#pragma once
#pragma clang system_header
#include "msl_traits.h"

namespace metal {
#ifdef MSLX_BF_MATH  // bfloat overloads like the ones MLX adds in bf16_math.h
#define MSLX_BFR bfloat
#else  // MSL 3.1: no bfloat math; the argument converts to float and the result is float
#define MSLX_BFR float
#endif
#define MSLX_F1(name, b)                                           \
  inline float name(float x) { return b(x); }                      \
  inline half name(half x) { return (half)b((float)x); }           \
  inline MSLX_BFR name(bfloat x) { return (MSLX_BFR)b((float)x); } \
  template <class T, int N>                                        \
  inline vec<T, N> name(vec<T, N> v) {                             \
    vec<T, N> r;                                                   \
    for (int i = 0; i < N; ++i) r[i] = name((T)v[i]);              \
    return r;                                                      \
  }
#define MSLX_F2(name, b)                                                               \
  inline float name(float x, float y) { return b(x, y); }                              \
  inline half name(half x, half y) { return (half)b((float)x, (float)y); }             \
  inline MSLX_BFR name(bfloat x, bfloat y) { return (MSLX_BFR)b((float)x, (float)y); } \
  template <class T, int N>                                                            \
  inline vec<T, N> name(vec<T, N> u, vec<T, N> v) {                                    \
    vec<T, N> r;                                                                       \
    for (int i = 0; i < N; ++i) r[i] = name((T)u[i], (T)v[i]);                         \
    return r;                                                                          \
  }
namespace d_ {
inline float rsqrt(float x) { return 1.0f / __builtin_sqrtf(x); }
inline float fract(float x) { return x - __builtin_floorf(x); }
inline float exp10(float x) { return __builtin_powf(10.0f, x); }
inline float sign(float x) { return x > 0 ? 1.0f : (x < 0 ? -1.0f : 0.0f); }
inline float sat(float x) { return x != x ? 0.0f : (x < 0 ? 0.0f : (x > 1 ? 1.0f : x)); }
}  // namespace d_
// clang-format off
#define MSLX_MATH \
  MSLX_F1(exp, __builtin_expf) MSLX_F1(exp2, __builtin_exp2f) MSLX_F1(exp10, d_::exp10) \
  MSLX_F1(log, __builtin_logf) MSLX_F1(log2, __builtin_log2f) MSLX_F1(log10, __builtin_log10f) \
  MSLX_F1(sqrt, __builtin_sqrtf) MSLX_F1(rsqrt, d_::rsqrt) MSLX_F1(sin, __builtin_sinf) \
  MSLX_F1(cos, __builtin_cosf) MSLX_F1(tan, __builtin_tanf) MSLX_F1(sinh, __builtin_sinhf) \
  MSLX_F1(cosh, __builtin_coshf) MSLX_F1(tanh, __builtin_tanhf) MSLX_F1(asin, __builtin_asinf) \
  MSLX_F1(acos, __builtin_acosf) MSLX_F1(atan, __builtin_atanf) MSLX_F1(asinh, __builtin_asinhf) \
  MSLX_F1(acosh, __builtin_acoshf) MSLX_F1(atanh, __builtin_atanhf) MSLX_F1(floor, __builtin_floorf) \
  MSLX_F1(ceil, __builtin_ceilf) MSLX_F1(round, __builtin_roundf) MSLX_F1(rint, __builtin_rintf) \
  MSLX_F1(trunc, __builtin_truncf) MSLX_F1(fract, d_::fract) MSLX_F1(fabs, __builtin_fabsf) \
  MSLX_F1(sign, d_::sign) MSLX_F1(saturate, d_::sat) MSLX_F2(pow, __builtin_powf) MSLX_F2(powr, __builtin_powf) \
  MSLX_F2(fmod, __builtin_fmodf) MSLX_F2(atan2, __builtin_atan2f) MSLX_F2(fmin, __builtin_fminf) \
  MSLX_F2(fmax, __builtin_fmaxf) MSLX_F2(copysign, __builtin_copysignf)
// clang-format on
MSLX_MATH
namespace precise {
MSLX_MATH
}
namespace fast {
MSLX_MATH
}
inline float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline half fma(half a, half b, half c) { return (half)__builtin_fmaf((float)a, (float)b, (float)c); }
template <class T, int N>
inline vec<T, N> fma(vec<T, N> a, vec<T, N> b, vec<T, N> c) {
  return a * b + c;
}
inline bool isnan(float x) { return __builtin_isnan(x); }
inline bool isnan(half x) { return __builtin_isnan((float)x); }
inline bool isinf(float x) { return __builtin_isinf(x); }
inline bool isinf(half x) { return __builtin_isinf((float)x); }
inline bool isfinite(float x) { return __builtin_isfinite(x); }
inline bool signbit(float x) { return __builtin_signbit(x); }

#define MSLX_MM(T)                                                            \
  inline T min(T a, T b) { return b < a ? b : a; }                            \
  inline T max(T a, T b) { return a < b ? b : a; }                            \
  inline T clamp(T x, T lo, T hi) { return x < lo ? lo : (hi < x ? hi : x); } \
  inline T select(T a, T b, bool c) { return c ? b : a; }
MSLX_MM(float)
MSLX_MM(half)
MSLX_MM(int)
MSLX_MM(uint)
MSLX_MM(short)
MSLX_MM(ushort)
MSLX_MM(char)
MSLX_MM(uchar)
MSLX_MM(long)
MSLX_MM(ulong)
inline MSLX_BFR min(bfloat a, bfloat b) { return (MSLX_BFR)(b < a ? b : a); }
inline MSLX_BFR max(bfloat a, bfloat b) { return (MSLX_BFR)(a < b ? b : a); }
inline MSLX_BFR abs(bfloat a) { return (MSLX_BFR)__builtin_fabsf((float)a); }
inline bfloat select(bfloat a, bfloat b, bool c) { return c ? b : a; }
inline bool isnan(bfloat x) { return __builtin_isnan((float)x); }
inline bool isinf(bfloat x) { return __builtin_isinf((float)x); }
inline uint abs(uint a) { return a; }
inline uchar abs(uchar a) { return a; }
inline ushort abs(ushort a) { return a; }
inline ulong abs(ulong a) { return a; }
inline char abs(char a) { return a < 0 ? -a : a; }
template <class T, int N>
inline vec<T, N> min(vec<T, N> a, vec<T, N> b) {
  vec<T, N> r;
  for (int i = 0; i < N; ++i) r[i] = b[i] < a[i] ? b[i] : a[i];
  return r;
}
template <class T, int N>
inline vec<T, N> max(vec<T, N> a, vec<T, N> b) {
  vec<T, N> r;
  for (int i = 0; i < N; ++i) r[i] = a[i] < b[i] ? b[i] : a[i];
  return r;
}
template <class T, int N>
inline vec<T, N> clamp(vec<T, N> a, vec<T, N> l, vec<T, N> h) {
  return min(max(a, l), h);
}
template <class T, int N>
inline vec<T, N> min(vec<T, N> a, typename mslx::id<T>::type b) {
  return min(a, mslx::mk<vec<T, N>>(b));
}
template <class T, int N>
inline vec<T, N> max(vec<T, N> a, typename mslx::id<T>::type b) {
  return max(a, mslx::mk<vec<T, N>>(b));
}
template <class T, int N, class C>
inline vec<T, N> select(vec<T, N> a, vec<T, N> b, C c) {
  vec<T, N> r;
  for (int i = 0; i < N; ++i) r[i] = c[i] ? b[i] : a[i];
  return r;
}
inline int abs(int a) { return a < 0 ? -a : a; }
inline long abs(long a) { return a < 0 ? -a : a; }
inline short abs(short a) { return a < 0 ? -a : a; }
inline float abs(float a) { return __builtin_fabsf(a); }
inline half abs(half a) { return a < (half)0 ? (half)-a : a; }
template <class T, int N>
inline vec<T, N> abs(vec<T, N> v) {
  vec<T, N> r;
  for (int i = 0; i < N; ++i) r[i] = v[i] < (T)0 ? (T)-v[i] : v[i];
  return r;
}
template <class T, int N>
inline T dot(vec<T, N> a, vec<T, N> b) {
  T s = (T)0;
  for (int i = 0; i < N; ++i) s += a[i] * b[i];
  return s;
}
template <class T, int N>
inline T length(vec<T, N> a) {
  return sqrt(dot(a, a));
}
template <class T>
inline T mix(T a, T b, typename mslx::id<T>::type t) {
  return a + (b - a) * t;
}
template <class V>
inline bool any(V v) {
  for (int i = 0; i < mslx::vt<V>::n; ++i)
    if (v[i]) return true;
  return false;
}
template <class V>
inline bool all(V v) {
  for (int i = 0; i < mslx::vt<V>::n; ++i)
    if (!v[i]) return false;
  return true;
}
inline uint popcount(uint x) { return __builtin_popcount(x); }
inline uint clz(uint x) { return x ? __builtin_clz(x) : 32; }
inline uint ctz(uint x) { return x ? __builtin_ctz(x) : 32; }
inline uint mulhi(uint a, uint b) { return (uint)(((ulong)a * b) >> 32); }
template <class T>
inline T divides_(T a, T b) {
  return a / b;
}
template <class To, class From>
inline To as_type(From f) {
  static_assert(sizeof(To) == sizeof(From), "as_type: size mismatch");
  return __builtin_bit_cast(To, f);
}
}  // namespace metal
