// Relaxed atomics of MSL.
#pragma once
#pragma clang system_header
#include "msl_traits.h"

namespace mslx {
template <class P>
struct pointee;
template <class T>
struct pointee<T*> {
  typedef T type;  // with its address space, which a nested type does not inherit
};
template <class P>
using value_of = typename pointee<P>::type::value;
// The atomic's memory without its address space, which only the syntax check has.
template <class P>
inline value_of<P>* plain(P p) {
#ifdef MSLX_AS_CHECK
  return nullptr;
#else
  return &p->v_;
#endif
}
}  // namespace mslx

namespace metal {
template <class T>
struct atomic {
  typedef T value;
  T v_;
};
typedef atomic<uint> atomic_uint;
typedef atomic<int> atomic_int;
typedef atomic<float> atomic_float;
typedef atomic<bool> atomic_bool;
template <class P>
inline auto atomic_load_explicit(P p, memory_order) {
  return __atomic_load_n(mslx::plain(p), __ATOMIC_RELAXED);
}
template <class P, class T>
inline void atomic_store_explicit(P p, T v, memory_order) {
  mslx::value_of<P> x = v;
  __atomic_store(mslx::plain(p), &x, __ATOMIC_RELAXED);
}
template <class P, class E, class T>
inline bool atomic_compare_exchange_weak_explicit(P p, E* e, T v, memory_order, memory_order) {
  mslx::value_of<P> x = v;
  return __atomic_compare_exchange(mslx::plain(p), e, &x, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}
template <class P, class T>
inline auto atomic_fetch_add_explicit(P p, T v, memory_order) {
  return __atomic_fetch_add(mslx::plain(p), v, __ATOMIC_RELAXED);
}
template <class P, class T>
inline auto atomic_fetch_max_explicit(P p, T v, memory_order) {
  return __atomic_fetch_max(mslx::plain(p), v, __ATOMIC_RELAXED);
}
template <class P, class T>
inline auto atomic_fetch_min_explicit(P p, T v, memory_order) {
  return __atomic_fetch_min(mslx::plain(p), v, __ATOMIC_RELAXED);
}
template <class P, class T>
inline auto atomic_fetch_and_explicit(P p, T v, memory_order) {
  return __atomic_fetch_and(mslx::plain(p), v, __ATOMIC_RELAXED);
}
template <class P, class T>
inline auto atomic_fetch_or_explicit(P p, T v, memory_order) {
  return __atomic_fetch_or(mslx::plain(p), v, __ATOMIC_RELAXED);
}
}  // namespace metal
