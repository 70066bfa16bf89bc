// Functions across the 32 lanes of a simdgroup.
#pragma once
#pragma clang system_header
#include "msl_math.h"

namespace metal {
#ifdef MSLX_BF_MATH
#define MSLX_SIMD_T(T)
#else
#define MSLX_SIMD_T(T)                                          \
  static_assert(!is_same_v<typename mslx::vt<T>::elem, bfloat>, \
                "MSL simd_* functions are not defined for bfloat: cast to float")
#endif
namespace d_ {
template <class T>
struct xr {
  const unsigned char* tab;
  unsigned mask, lane;
  T at(unsigned i) const {
    T v;
    __builtin_memcpy(&v, tab + 64 * i, sizeof(T));
    return v;
  }
  bool on(unsigned i) const { return mask >> i & 1; }
};
template <class T>
MSLX_CONV inline xr<T> xchg(T x, unsigned op, unsigned s) {
  static_assert(sizeof(T) <= 64, "");
  xr<T> r;
  r.tab = mslx_simd_xchg(&x, sizeof(T), op, s, &r.mask, &r.lane);
  return r;
}
// butterfly order, like a hardware tree; inactive lanes are skipped
template <class T, class F>
MSLX_CONV inline T red(T x, unsigned op, unsigned s, F f) {
  MSLX_SIMD_T(T);
  xr<T> r = xchg(x, op, s);
  T v[32];
  unsigned m = r.mask;
  for (unsigned i = 0; i < 32; ++i)
    if (m >> i & 1) v[i] = r.at(i);
  for (unsigned d = 16; d; d >>= 1)
    for (unsigned i = 0; i < d; ++i) {
      bool a = m >> i & 1, b = m >> (i + d) & 1;
      if (a && b)
        v[i] = f(v[i], v[i + d]);
      else if (b) {
        v[i] = v[i + d];
        m |= 1u << i;
      }
    }
  return v[0];
}
}  // namespace d_
#define MSLX_SITE unsigned l_ = __builtin_LINE(), unsigned c_ = __builtin_COLUMN()
#define MSLX_S (l_ * 256 + c_)
template <class T>
MSLX_CONV inline T simd_sum(T x, MSLX_SITE) {
  return d_::red(x, 1, MSLX_S, [](T a, T b) { return (T)(a + b); });
}
template <class T>
MSLX_CONV inline T simd_product(T x, MSLX_SITE) {
  return d_::red(x, 2, MSLX_S, [](T a, T b) { return (T)(a * b); });
}
template <class T>
MSLX_CONV inline T simd_max(T x, MSLX_SITE) {
  return d_::red(x, 3, MSLX_S, [](T a, T b) { return a < b ? b : a; });
}
template <class T>
MSLX_CONV inline T simd_min(T x, MSLX_SITE) {
  return d_::red(x, 4, MSLX_S, [](T a, T b) { return b < a ? b : a; });
}
template <class T>
MSLX_CONV inline T simd_and(T x, MSLX_SITE) {
  return d_::red(x, 5, MSLX_S, [](T a, T b) { return (T)(a & b); });
}
template <class T>
MSLX_CONV inline T simd_or(T x, MSLX_SITE) {
  return d_::red(x, 6, MSLX_S, [](T a, T b) { return (T)(a | b); });
}
MSLX_CONV inline bool simd_any(bool x, MSLX_SITE) {
  return d_::red((int)x, 7, MSLX_S, [](int a, int b) { return a | b; });
}
MSLX_CONV inline bool simd_all(bool x, MSLX_SITE) {
  return d_::red((int)x, 8, MSLX_S, [](int a, int b) { return a & b; });
}
template <class T>
MSLX_CONV inline T simd_broadcast(T x, ushort lane, MSLX_SITE) {
  auto r = d_::xchg(x, 9, MSLX_S);
  if (lane > 31 || !r.on(lane)) mslx_fail("simd_broadcast from inactive lane");
  return r.at(lane);
}
template <class T>
MSLX_CONV inline T simd_broadcast_first(T x, MSLX_SITE) {
  auto r = d_::xchg(x, 10, MSLX_S);
  return r.at(__builtin_ctz(r.mask));
}
template <class T>
MSLX_CONV inline T simd_shuffle(T x, ushort lane, MSLX_SITE) {
  auto r = d_::xchg(x, 11, MSLX_S);
  if (lane > 31 || !r.on(lane)) mslx_fail("simd_shuffle from inactive lane");
  return r.at(lane & 31);
}
template <class T>
MSLX_CONV inline T simd_shuffle_xor(T x, ushort m, MSLX_SITE) {
  auto r = d_::xchg(x, 12, MSLX_S);
  unsigned s = (r.lane ^ m) & 31;
  if (!r.on(s)) mslx_fail("simd_shuffle_xor from inactive lane");
  return r.at(s);
}
template <class T>
MSLX_CONV inline T simd_shuffle_down(T x, ushort d, MSLX_SITE) {
  auto r = d_::xchg(x, 13, MSLX_S);
  unsigned s = r.lane + d;
  return s < 32 && r.on(s) ? r.at(s) : x;
}
template <class T>
MSLX_CONV inline T simd_shuffle_up(T x, ushort d, MSLX_SITE) {
  auto r = d_::xchg(x, 14, MSLX_S);
  return r.lane >= d ? r.at(r.lane - d) : x;
}
template <class T>
MSLX_CONV inline T simd_prefix_inclusive_sum(T x, MSLX_SITE) {
  auto r = d_::xchg(x, 15, MSLX_S);
  T s = (T)0;
  for (unsigned i = 0; i <= r.lane; ++i)
    if (r.on(i)) s += r.at(i);
  return s;
}
template <class T>
MSLX_CONV inline T simd_prefix_exclusive_sum(T x, MSLX_SITE) {
  auto r = d_::xchg(x, 16, MSLX_S);
  T s = (T)0;
  for (unsigned i = 0; i < r.lane; ++i)
    if (r.on(i)) s += r.at(i);
  return s;
}
MSLX_CONV inline bool simd_is_first(MSLX_SITE) {
  auto r = d_::xchg((int)0, 17, MSLX_S);
  return r.lane == (unsigned)__builtin_ctz(r.mask);
}

template <class T>
MSLX_CONV inline T simd_xor(T x, MSLX_SITE) {
  return d_::red(x, 18, MSLX_S, [](T a, T b) { return (T)(a ^ b); });
}
template <class T>
MSLX_CONV inline T simd_shuffle_and_fill_up(T x, T f, ushort d, MSLX_SITE) {
  struct P {
    T x, f;
  } p{x, f};
  auto r = d_::xchg(p, 30, MSLX_S);
  return r.lane >= d ? r.at(r.lane - d).x : r.at(32 - d + r.lane).f;
}
template <class T>
MSLX_CONV inline T simd_shuffle_and_fill_down(T x, T f, ushort d, MSLX_SITE) {
  struct P {
    T x, f;
  } p{x, f};
  auto r = d_::xchg(p, 31, MSLX_S);
  return r.lane + d < 32 ? r.at(r.lane + d).x : r.at(r.lane + d - 32).f;
}
template <class T>
MSLX_CONV inline T simd_shuffle_rotate_up(T x, ushort d, MSLX_SITE) {
  auto r = d_::xchg(x, 32, MSLX_S);
  return r.at((r.lane - d) & 31);
}
template <class T>
MSLX_CONV inline T simd_shuffle_rotate_down(T x, ushort d, MSLX_SITE) {
  auto r = d_::xchg(x, 33, MSLX_S);
  return r.at((r.lane + d) & 31);
}
template <class T>
MSLX_CONV inline T simd_prefix_inclusive_product(T x, MSLX_SITE) {
  auto r = d_::xchg(x, 34, MSLX_S);
  T s = (T)1;
  for (unsigned i = 0; i <= r.lane; ++i)
    if (r.on(i)) s *= r.at(i);
  return s;
}
template <class T>
MSLX_CONV inline T simd_prefix_exclusive_product(T x, MSLX_SITE) {
  auto r = d_::xchg(x, 35, MSLX_S);
  T s = (T)1;
  for (unsigned i = 0; i < r.lane; ++i)
    if (r.on(i)) s *= r.at(i);
  return s;
}
template <class T>
MSLX_CONV inline T quad_sum(T x, MSLX_SITE) {
  auto r = d_::xchg(x, 36, MSLX_S);
  T s = (T)0;
  for (unsigned i = r.lane & ~3u; i < (r.lane & ~3u) + 4; ++i)
    if (r.on(i)) s += r.at(i);
  return s;
}
template <class T>
MSLX_CONV inline T quad_max(T x, MSLX_SITE) {
  auto r = d_::xchg(x, 37, MSLX_S);
  T s = x;
  for (unsigned i = r.lane & ~3u; i < (r.lane & ~3u) + 4; ++i)
    if (r.on(i) && s < r.at(i)) s = r.at(i);
  return s;
}
template <class T>
MSLX_CONV inline T quad_shuffle_xor(T x, ushort m, MSLX_SITE) {
  auto r = d_::xchg(x, 38, MSLX_S);
  return r.at(r.lane ^ (m & 3));
}
template <class T>
using uniform = T;
template <class T>
constexpr T make_uniform(T x) {
  return x;
}
template <class T>
using remove_addrspace_t = T;
template <class T, unsigned long N>
struct array {
  T v_[N];
  T& operator[](unsigned long i) { return v_[i]; }
  const T& operator[](unsigned long i) const { return v_[i]; }
  constexpr unsigned long size() const { return N; }
};
enum thread_scope {
  thread_scope_thread,
  thread_scope_simdgroup,
  thread_scope_threadgroup,
  thread_scope_device,
  thread_scope_system
};
inline void atomic_thread_fence(mem_flags, memory_order, thread_scope = thread_scope_device) {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
}  // namespace metal
