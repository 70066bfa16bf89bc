// 8x8 simdgroup matrices.
#pragma once
#pragma clang system_header
#include "msl_simd.h"

namespace metal {
// The map from lanes to elements is not specified by MSL; kernels must not depend on this one.
template <class T, int R, int C>
struct simdgroup_matrix {
  static_assert(R == 8 && C == 8, "only 8x8");
  vec<T, 2> e_;
  simdgroup_matrix() = default;
  explicit simdgroup_matrix(T v) { e_ = mslx::mk<vec<T, 2>>(v); }
  vec<T, 2>& thread_elements() { return e_; }
  static void rc(unsigned lane, unsigned& r, unsigned& c) {
    unsigned q = lane / 4;
    r = (q & 4) + (lane / 2) % 4;
    c = (q & 2) * 2 + (lane % 2) * 2;
  }
};
typedef simdgroup_matrix<float, 8, 8> simdgroup_float8x8;
typedef simdgroup_matrix<half, 8, 8> simdgroup_half8x8;
typedef simdgroup_matrix<bfloat, 8, 8> simdgroup_bfloat8x8;
template <class T, int R, int C>
inline simdgroup_matrix<T, R, C> make_filled_simdgroup_matrix(T v) {
  return simdgroup_matrix<T, R, C>(v);
}
template <class T, class P>
MSLX_CONV inline void simdgroup_load(simdgroup_matrix<T, 8, 8>& d, P src, ulong ld = 8, ulong2 o = ulong2{0, 0},
                                     bool tr = false, MSLX_SITE) {
  auto x = d_::xchg((int)0, 20, MSLX_S);
  unsigned r, c;
  d.rc(x.lane, r, c);
  src += o.y * ld + o.x;
  for (unsigned k = 0; k < 2; ++k) d.e_[k] = (T)(tr ? src[(c + k) * ld + r] : src[r * ld + c + k]);
}
template <class T, class P>
MSLX_CONV inline void simdgroup_store(simdgroup_matrix<T, 8, 8> s, P dst, ulong ld = 8, ulong2 o = ulong2{0, 0},
                                      bool tr = false, MSLX_SITE) {
  auto x = d_::xchg((int)0, 21, MSLX_S);
  unsigned r, c;
  s.rc(x.lane, r, c);
  dst += o.y * ld + o.x;
  for (unsigned k = 0; k < 2; ++k)
    if (tr)
      dst[(c + k) * ld + r] = s.e_[k];
    else
      dst[r * ld + c + k] = s.e_[k];
}
template <class TD, class TA, class TB, class TC>
MSLX_CONV inline void simdgroup_multiply_accumulate(simdgroup_matrix<TD, 8, 8>& d, simdgroup_matrix<TA, 8, 8> a,
                                                    simdgroup_matrix<TB, 8, 8> b, simdgroup_matrix<TC, 8, 8> c,
                                                    MSLX_SITE) {
  struct P {
    vec<TA, 2> a;
    vec<TB, 2> b;
  } p{a.e_, b.e_};
  auto x = d_::xchg(p, 22, MSLX_S);
  if (x.mask != 0xffffffffu) mslx_fail("simdgroup_multiply_accumulate with inactive lanes");
  unsigned r, c0;
  d.rc(x.lane, r, c0);
  float acc[2] = {(float)c.e_[0], (float)c.e_[1]};
  for (unsigned k = 0; k < 8; ++k) {  // owner lane of (r,k) in A and (k,c0) in B
    auto own = [](unsigned rr, unsigned cc) {
      return ((rr & 4) << 2) | ((cc & 4) << 1) | ((rr & 3) << 1) | ((cc & 2) >> 1);
    };
    float av = (float)x.at(own(r, k)).a[k & 1];
    auto bv = x.at(own(k, c0)).b;
    acc[0] += av * (float)bv[0];
    acc[1] += av * (float)bv[1];
  }
  d.e_ = vec<TD, 2>{(TD)acc[0], (TD)acc[1]};
}
template <class TD, class TA, class TB>
MSLX_CONV inline void simdgroup_multiply(simdgroup_matrix<TD, 8, 8>& d, simdgroup_matrix<TA, 8, 8> a,
                                         simdgroup_matrix<TB, 8, 8> b, MSLX_SITE) {
  simdgroup_multiply_accumulate(d, a, b, simdgroup_matrix<TD, 8, 8>((TD)0), l_, c_);
}
}  // namespace metal
