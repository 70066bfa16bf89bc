// Address spaces, scalar and vector types, vector constructors of MSL.
#pragma once
#pragma clang system_header

#ifdef MSLX_AS_CHECK  // syntax-only pass: real, distinct address spaces
#define MSLX_DEVICE __attribute__((address_space(1)))
#define MSLX_CONSTANT const __attribute__((address_space(2)))
#define MSLX_THREADGROUP __attribute__((address_space(3)))
#else
#define MSLX_DEVICE
#define MSLX_CONSTANT const
#define MSLX_THREADGROUP
#endif

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long int64_t;
typedef unsigned long uint64_t;
typedef unsigned long size_t;
typedef long ptrdiff_t;
typedef unsigned long uintptr_t;
typedef _Float16 half;
typedef __bf16 bfloat;

constexpr half operator""h(long double v) { return (half)v; }
constexpr half operator"" H(long double v) { return (half)v; }
constexpr bfloat operator"" bf(long double v) { return (bfloat)(float)v; }

// What the runtime provides (runtime/group.cpp).
extern "C" {
#define MSLX_CONV __attribute__((convergent))
MSLX_CONV void mslx_barrier(unsigned flags, unsigned site);
MSLX_CONV void mslx_simd_barrier(unsigned flags, unsigned site);
// publish n (<=64) bytes, wait for every live lane of the simdgroup, return the 32x64-byte slot table
MSLX_CONV const unsigned char* mslx_simd_xchg(const void* src, unsigned n, unsigned op, unsigned site,
                                              unsigned* active_mask, unsigned* lane);
void* mslx_tg_alloc(unsigned site, unsigned long bytes);
void mslx_fail(const char* msg);
}

namespace metal {
using ::bfloat;
using ::half;
using ::size_t;
using ::uchar;
using ::uint;
using ::ulong;
using ::ushort;
template <class T, int N>
using vec = T __attribute__((ext_vector_type(N)));
#define MSLX_VT(T)                                    \
  typedef T T##2 __attribute__((ext_vector_type(2))); \
  typedef T T##3 __attribute__((ext_vector_type(3))); \
  typedef T T##4 __attribute__((ext_vector_type(4)));
MSLX_VT(float)
MSLX_VT(half)
MSLX_VT(bfloat)
MSLX_VT(int)
MSLX_VT(uint)
MSLX_VT(short)
MSLX_VT(ushort)
MSLX_VT(char)
MSLX_VT(uchar)
MSLX_VT(long)
MSLX_VT(ulong)
MSLX_VT(bool)
}  // namespace metal
// The scalar/vector type names are visible in MSL without 'using namespace metal'
#define MSLX_USE(T)  \
  using metal::T##2; \
  using metal::T##3; \
  using metal::T##4;
MSLX_USE(float)
MSLX_USE(half)
MSLX_USE(bfloat)
MSLX_USE(int)
MSLX_USE(uint)
MSLX_USE(short)
MSLX_USE(ushort)
MSLX_USE(char)
MSLX_USE(uchar)
MSLX_USE(bool)

#define METAL_FUNC inline __attribute__((__always_inline__))
#define METAL_CONST constant
#define METAL_ALIGN(x) __attribute__((aligned(x)))
namespace mslx {
template <class T>
struct id {
  typedef T type;
};
template <class T>
struct rmcv {
  typedef T type;
};
template <class T>
struct rmcv<const T> {
  typedef T type;
};
template <class T>
struct rmcv<volatile T> {
  typedef T type;
};
template <class T>
struct rmcv<const volatile T> {
  typedef T type;
};
template <class T>
struct rmref {
  typedef T type;
};
template <class T>
struct rmref<T&> {
  typedef T type;
};
template <class T>
struct rmref<T&&> {
  typedef T type;
};
template <class T>
struct vt {
  enum { n = 1, is_vec = 0 };
  typedef T elem;
};
template <class T, int N>
struct vt<T __attribute__((ext_vector_type(N)))> {
  enum { n = N, is_vec = 1 };
  typedef T elem;
};

// vector constructors:  float4(a, b.xy, c)  ->  mslx::mk<float4>(a, b.xy, c)
template <class V, class T>
inline void put1(V& v, int& i, T s) {
  if constexpr (vt<T>::is_vec) {
    for (int k = 0; k < vt<T>::n; ++k) v[i++] = (typename vt<V>::elem)s[k];
  } else
    v[i++] = (typename vt<V>::elem)s;
}
constexpr int sumn(const int* c, int n) {
  int s = 0;
  for (int i = 0; i < n; ++i) s += c[i];
  return s;
}
template <class V, class A>
inline V mk(A a) {
  typedef typename vt<V>::elem E;
  if constexpr (!vt<V>::is_vec)
    return (V)a;
  else if constexpr (!vt<A>::is_vec) {
    V v;
    for (int i = 0; i < vt<V>::n; ++i) v[i] = (E)a;
    return v;
  } else {
    static_assert((int)vt<A>::n == (int)vt<V>::n, "vector conversion needs equal component counts");
    return __builtin_convertvector(a, V);
  }
}
template <class V, class A, class B, class... R>
inline V mk(A a, B b, R... r) {
  if constexpr (!vt<V>::is_vec)
    return V(a, b, r...);  // ordinary aggregate/class constructor
  else {
    constexpr int cnt[] = {(int)vt<A>::n, (int)vt<B>::n, (int)vt<R>::n...};
    static_assert(sumn(cnt, 2 + (int)sizeof...(R)) == (int)vt<V>::n,
                  "wrong number of components in vector constructor");
    V v;
    int i = 0;
    put1(v, i, a);
    put1(v, i, b);
    int dummy[] = {0, (put1(v, i, r), 0)...};
    (void)dummy;
    return v;
  }
}
template <class V>
inline V mk() {
  return V{};
}
template <class V>
struct vcast {
  template <class A>
  V operator->*(A a) const {
    return mk<V>(a);
  }
};
template <class X, class A>
constexpr inline X scast(A a) {  // by value: vector elements (v.x) cannot bind to references
  if constexpr (vt<X>::is_vec)
    return mk<X>(a);
  else
    return static_cast<X>(a);
}
}  // namespace mslx
