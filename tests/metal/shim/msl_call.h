// How the host calls a kernel: one call is one GPU thread. runtime/emulator.h has the same three structs.
#pragma once
#pragma clang system_header
#include "msl_types.h"

struct mslx_call {
  void* const* buf;
  void* const* tgm;
  unsigned tpig[3], tgpig[3], tpitg[3], tptg[3], tgpg[3], tpg[3], tiitg, tiisg, sgitg, sgptg, tpsg, qgitg, tiiqg, qgptg;
};
namespace mslx {
template <class F, int K>
struct param;
template <class R, class A0, class... A>
struct param<R (*)(A0, A...), 0> {
  typedef A0 type;
};
template <class R, class A0, class... A, int K>
struct param<R (*)(A0, A...), K> : param<R (*)(A...), K - 1> {};
template <class T>
struct ptr_or_ref {
  static_assert(sizeof(T) == 0, "buffer parameter must be pointer or reference");
};
template <class T>
struct ptr_or_ref<T*> {
  static T* get(void* p) { return (T*)p; }
};
template <class T>
struct ptr_or_ref<T&> {
  static T& get(void* p) { return *(T*)p; }
};
template <class A>
inline A b3(const unsigned* u) {
  if constexpr (vt<A>::is_vec) {
    A r;
    for (int i = 0; i < vt<A>::n; ++i) r[i] = (typename vt<A>::elem)u[i];
    return r;
  } else {
    return (A)u[0];
  }
}
}  // namespace mslx
struct mslx_param_desc {
  int kind, index, is_const;
  unsigned esize;
  const char* name;
  const char* attr;
};
struct mslx_kernel_desc {
  const char* name;
  void (*thunk)(const mslx_call*);
  void (*flat)(const mslx_call*);
  const mslx_param_desc* params;
  int nparams;
};
namespace mslx {
template <class T>
struct esize {
  enum { n = 0 };
};
template <class T>
struct esize<T*> {
  enum { n = sizeof(T) };
};
template <class T>
struct esize<T&> {
  enum { n = sizeof(T) };
};
template <>
struct esize<void*> {
  enum { n = 1 };
};
template <>
struct esize<const void*> {
  enum { n = 1 };
};
// A kernel without barriers: the whole threadgroup as one loop nest, which clang inlines and vectorises.
template <class F>
inline __attribute__((always_inline)) void flat(F f, const mslx_call& c0) {
  const unsigned X = c0.tptg[0], Y = c0.tptg[1], Z = c0.tptg[2];
  for (unsigned z = 0; z < Z; ++z)
    for (unsigned y = 0; y < Y; ++y)
      for (unsigned x = 0; x < X; ++x) {
        mslx_call c = c0;
        c.tpitg[0] = x;
        c.tpitg[1] = y;
        c.tpitg[2] = z;
        c.tpig[0] = c0.tpig[0] + x;
        c.tpig[1] = c0.tpig[1] + y;
        c.tpig[2] = c0.tpig[2] + z;
        c.tiitg = (z * Y + y) * X + x;
        c.tiisg = c.tiitg & 31;
        c.sgitg = c.tiitg >> 5;
        c.qgitg = c.tiitg >> 2;
        c.tiiqg = c.tiitg & 3;
        f(c);
      }
}
}  // namespace mslx
