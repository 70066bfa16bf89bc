// Vector loads of f32, f16 and bf16 as f32, shared by the SIMD files of contractions; included once per target.
#if defined(NPUSIM_PRODUCT_SIMD_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef NPUSIM_PRODUCT_SIMD_INL
#undef NPUSIM_PRODUCT_SIMD_INL
#else
#define NPUSIM_PRODUCT_SIMD_INL
#endif

#include <hwy/highway.h>

#include <cstring>
#include <type_traits>

#include "base/dtype.h"

HWY_BEFORE_NAMESPACE();
namespace npusim::cpu::product {
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

#if HWY_TARGET != HWY_SCALAR
// The first four elements of a row.
template <class Type>
HWY_INLINE hn::Vec<hn::Full128<float>> load_four(const typename Type::T* p) {
  const hn::Full128<float> four;
  if constexpr (std::is_same_v<Type, F32>) {
    return hn::LoadU(four, p);
  } else if constexpr (std::is_same_v<Type, BF16>) {
    const hn::Full128<uint32_t> whole;
    return hn::BitCast(four, hn::ShiftLeft<16>(hn::PromoteTo(whole, hn::LoadU(hn::Full64<uint16_t>(), p))));
  } else if constexpr (has_f16) {
    return hn::PromoteTo(four, hn::LoadU(hn::Full64<hwy::float16_t>(), reinterpret_cast<const hwy::float16_t*>(p)));
  } else {
    HWY_ALIGN const float values[4]{Type::one(p[0]), Type::one(p[1]), Type::one(p[2]), Type::one(p[3])};
    return hn::Load(four, values);
  }
}

// Rows i, i + 4, i + 8, … in the blocks of a vector.
template <class Type, class Row>
HWY_INLINE VF every_fourth(Row&& row, int64_t i) {
  constexpr size_t lanes = hn::MaxLanes(F());
  if constexpr (lanes == 4) {
    return load_four<Type>(row(i));
  } else if constexpr (lanes == 8) {
    return hn::Combine(F(), load_four<Type>(row(i + 4)), load_four<Type>(row(i)));
#if HWY_TARGET == HWY_AVX3  // a block from memory goes where it is wanted; between registers it takes a shuffle
  } else if constexpr (std::is_same_v<Type, F32>) {
    __m512 all = _mm512_castps128_ps512(_mm_loadu_ps(row(i)));
    all = _mm512_insertf32x4(all, _mm_loadu_ps(row(i + 4)), 1);
    all = _mm512_insertf32x4(all, _mm_loadu_ps(row(i + 8)), 2);
    return VF{_mm512_insertf32x4(all, _mm_loadu_ps(row(i + 12)), 3)};
#endif
  } else {
    const hn::Half<F> half;
    return hn::Combine(F(), hn::Combine(half, load_four<Type>(row(i + 12)), load_four<Type>(row(i + 8))),
                       hn::Combine(half, load_four<Type>(row(i + 4)), load_four<Type>(row(i))));
  }
}
HWY_INLINE void transpose_blocks(VF a, VF b, VF c, VF d, VF (&to)[4]) {
  const F f;
  const hn::Repartition<uint64_t, F> pair;
  const auto low_ab = hn::BitCast(pair, hn::InterleaveLower(f, a, b));
  const auto low_cd = hn::BitCast(pair, hn::InterleaveLower(f, c, d));
  const auto high_ab = hn::BitCast(pair, hn::InterleaveUpper(f, a, b));
  const auto high_cd = hn::BitCast(pair, hn::InterleaveUpper(f, c, d));
  to[0] = hn::BitCast(f, hn::InterleaveLower(pair, low_ab, low_cd));
  to[1] = hn::BitCast(f, hn::InterleaveUpper(pair, low_ab, low_cd));
  to[2] = hn::BitCast(f, hn::InterleaveLower(pair, high_ab, high_cd));
  to[3] = hn::BitCast(f, hn::InterleaveUpper(pair, high_ab, high_cd));
}
#endif

// Four columns of as many rows as a vector has lanes: lane i of column[c] is row(i)[c].
template <class Type, class Row>
HWY_INLINE void load_columns(Row&& row, VF (&column)[4]) {
#if HWY_TARGET == HWY_SCALAR
  for (int c = 0; c < 4; ++c) column[c] = hn::Set(F(), Type::one(row(0)[c]));
#else
  transpose_blocks(every_fourth<Type>(row, 0), every_fourth<Type>(row, 1), every_fourth<Type>(row, 2),
                   every_fourth<Type>(row, 3), column);
#endif
}

// The first `count` elements, at most a vector's, and 0 behind them; reads no others.
template <class Type>
HWY_INLINE VF load_first(const typename Type::T* p, int64_t count) {
  using Bits = std::conditional_t<sizeof(*p) == 4, float, uint16_t>;
  constexpr bool masks = HWY_TARGET == HWY_AVX3 || (HWY_TARGET == HWY_AVX2 && sizeof(*p) == 4);
  const hn::Rebind<Bits, F> bits;
  HWY_ALIGN typename Type::T some[hn::MaxLanes(F())] = {};
  if constexpr (masks) {
    const auto there = hn::MaskedLoad(hn::FirstN(bits, static_cast<size_t>(count)), bits, p);
    if constexpr (std::is_same_v<Type, F32>) return there;
    hn::Store(there, bits, some);
  } else {
    for (int64_t i = 0; i < static_cast<int64_t>(hn::MaxLanes(F())); ++i)
      if (i < count) some[i] = p[i];
  }
  return Type::load(some);
}
// The first `count` lanes, at most all; writes no others.
HWY_INLINE void store_first(VF x, float* to, int64_t count) {
  constexpr int64_t lanes = static_cast<int64_t>(hn::MaxLanes(F()));
  if (count >= lanes) return hn::StoreU(x, F(), to);
  if constexpr (HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2)
    return hn::BlendedStore(x, hn::FirstN(F(), static_cast<size_t>(count)), F(), to);
  HWY_ALIGN float some[lanes];
  hn::Store(x, F(), some);
  std::memcpy(to, some, static_cast<size_t>(count) * sizeof(float));
}

// e^(x − n ln 2) for the whole number n next to x / ln 2: a polynomial in pairs, whose chain is shorter.
HWY_INLINE VF exp_of_rest(VF x, VF n) {
  const F f;
  VF r = hn::NegMulAdd(n, hn::Set(f, 0.693359375f), x);
  r = hn::MulAdd(n, hn::Set(f, 2.12194440e-4f), r);
  const VF square = hn::Mul(r, r);
  const VF high = hn::MulAdd(r, hn::Set(f, 1.9875691500e-4f), hn::Set(f, 1.3981999507e-3f)),
           middle = hn::MulAdd(r, hn::Set(f, 8.3334519073e-3f), hn::Set(f, 4.1665795894e-2f)),
           low = hn::MulAdd(r, hn::Set(f, 1.6666665459e-1f), hn::Set(f, 5.0000001201e-1f));
  const VF tail = hn::MulAdd(hn::MulAdd(high, square, middle), square, low);
  return hn::Add(hn::MulAdd(tail, square, r), hn::Set(f, 1.0f));
}

// e^x of x <= 0, where 0 below −87.3 (where the result would be subnormal); NaN stays NaN. Of x > 0 any number or NaN.
// Relative error < 2^-22.
HWY_INLINE VF exp_of_negative(VF x) {
  const F f;
  const hn::RebindToSigned<F> i;
  const VF low = hn::Set(f, -87.33654f), shift = hn::Set(f, 0x1.8p23f);
  const VF sum = hn::MulAdd(hn::Max(low, x), hn::Set(f, 1.44269504f), shift);  // its last bits are n, rounded
  const VF p = exp_of_rest(x, hn::Sub(sum, shift));
  // A factor of 2^n rather than n added to the exponent, which would make numbers of NaN.
  const VF scale = hn::BitCast(f, hn::ShiftLeft<23>(hn::Add(hn::BitCast(i, sum), hn::Set(i, 127))));
  return hn::IfThenElse(hn::Lt(x, low), hn::Zero(f), hn::Mul(p, scale));
}

}  // namespace HWY_NAMESPACE
}  // namespace npusim::cpu::product
HWY_AFTER_NAMESPACE();
#endif
