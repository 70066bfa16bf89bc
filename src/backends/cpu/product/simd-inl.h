// Vector loads of f32, f16 and bf16 as f32, shared by the SIMD files of contractions; included once per target.
#if defined(NPUSIM_PRODUCT_SIMD_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef NPUSIM_PRODUCT_SIMD_INL
#undef NPUSIM_PRODUCT_SIMD_INL
#else
#define NPUSIM_PRODUCT_SIMD_INL
#endif

#include <hwy/highway.h>

#include "base/dtype.h"

HWY_BEFORE_NAMESPACE();
namespace npusim::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F = hn::ScalableTag<float>;
using VF = hn::Vec<F>;

// Highway's conversions of float16 without instructions for it make numbers of infinity and NaN.
constexpr bool has_f16 = HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3;

// Element types as tags: load one vector, or one element.
struct F32 {
  using T = float;
  static HWY_INLINE VF load(const T* p) { return hn::LoadU(F(), p); }
  static HWY_INLINE float one(T x) { return x; }
};
struct BF16 {
  using T = uint16_t;
  static HWY_INLINE VF load(const T* p) {
    const hn::Rebind<uint16_t, F> half;
    const hn::Rebind<uint32_t, F> whole;
    return hn::BitCast(F(), hn::ShiftLeft<16>(hn::PromoteTo(whole, hn::LoadU(half, p))));
  }
  static HWY_INLINE float one(T x) { return bf16_to_float(x); }
};
struct F16 {
  using T = uint16_t;
  static HWY_INLINE VF load(const T* p) {
    if constexpr (has_f16) {
      const hn::Rebind<hwy::float16_t, F> half;
      return hn::PromoteTo(F(), hn::LoadU(half, reinterpret_cast<const hwy::float16_t*>(p)));
    } else {
      HWY_ALIGN float values[hn::MaxLanes(F())];
      for (size_t i = 0; i < hn::Lanes(F()); ++i) values[i] = f16_to_float(p[i]);
      return hn::Load(F(), values);
    }
  }
  static HWY_INLINE float one(T x) { return f16_to_float(x); }
};

// Calls body with the tag of dtype.
template <typename Body>
HWY_INLINE void with_type(DType dtype, Body&& body) {
  if (dtype == DType::f32)
    body(F32{});
  else if (dtype == DType::bf16)
    body(BF16{});
  else
    body(F16{});
}

// e^x, 0 below −87.3 (where the result would be subnormal); NaN stays NaN. Relative error < 2^-22.
HWY_INLINE VF exp_of(VF x) {
  const F f;
  const hn::RebindToSigned<F> i;
  const VF low = hn::Set(f, -87.33654f);
  const VF clamped = hn::Max(low, hn::Min(hn::Set(f, 88.72284f), x));
  const VF n = hn::Round(hn::Mul(clamped, hn::Set(f, 1.44269504f)));
  VF r = hn::NegMulAdd(n, hn::Set(f, 0.693359375f), clamped);
  r = hn::NegMulAdd(n, hn::Set(f, -2.12194440e-4f), r);
  VF p = hn::Set(f, 1.9875691500e-4f);
  p = hn::MulAdd(p, r, hn::Set(f, 1.3981999507e-3f));
  p = hn::MulAdd(p, r, hn::Set(f, 8.3334519073e-3f));
  p = hn::MulAdd(p, r, hn::Set(f, 4.1665795894e-2f));
  p = hn::MulAdd(p, r, hn::Set(f, 1.6666665459e-1f));
  p = hn::MulAdd(p, r, hn::Set(f, 5.0000001201e-1f));
  p = hn::MulAdd(p, hn::Mul(r, r), hn::Add(r, hn::Set(f, 1.0f)));
  // 2^n in two factors: n = 128 has no float of its own.
  const auto whole = hn::ConvertTo(i, n);
  const auto half = hn::ShiftRight<1>(whole);
  const auto bias = hn::Set(i, 127);
  const VF first = hn::BitCast(f, hn::ShiftLeft<23>(hn::Add(half, bias)));
  const VF second = hn::BitCast(f, hn::ShiftLeft<23>(hn::Add(hn::Sub(whole, half), bias)));
  const VF result = hn::Mul(hn::Mul(p, first), second);
  return hn::IfThenElse(hn::Lt(x, low), hn::Zero(f), hn::IfThenElse(hn::IsNaN(x), x, result));
}

}  // namespace HWY_NAMESPACE
}  // namespace npusim::cpu
HWY_AFTER_NAMESPACE();
#endif
