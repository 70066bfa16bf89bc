// Ends of products on vectors of sums: bias, clamp, rounding and storing; included once per target.
#if defined(NPUSIM_PRODUCT_FINISH_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef NPUSIM_PRODUCT_FINISH_INL
#undef NPUSIM_PRODUCT_FINISH_INL
#else
#define NPUSIM_PRODUCT_FINISH_INL
#endif

#include <cstring>

#include "backends/cpu/product/finish.h"
#include "backends/cpu/product/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace npusim::cpu {
namespace HWY_NAMESPACE {

constexpr int64_t finish_lanes = static_cast<int64_t>(hn::MaxLanes(F()));

// NaN stays NaN.
HWY_INLINE VF clamp(VF x, VF low, VF high) {
#if HWY_ARCH_X86  // its min and max give the second operand when one is NaN
  return hn::Min(high, hn::Max(low, x));
#else
  const VF above = hn::IfThenElse(hn::Lt(x, low), low, x);
  return hn::IfThenElse(hn::Gt(above, high), high, above);
#endif
}

// The elements of a row's last vector, of which only `count` are there.
template <class Type>
HWY_INLINE VF load_some(const typename Type::T* from, int64_t count) {
  HWY_ALIGN typename Type::T some[finish_lanes] = {};
  std::memcpy(some, from, static_cast<size_t>(count) * sizeof(typename Type::T));
  return Type::load(some);
}

// Element types as tags: round one vector and store it.
struct ToF32 {
  using T = float;
  static HWY_INLINE void store(VF x, T* to) { hn::StoreU(x, F(), to); }
};
struct ToF16 {
  using T = uint16_t;
  static HWY_INLINE void store(VF x, T* to) {
    if constexpr (has_f16) {
      const hn::Rebind<hwy::float16_t, F> half;
      hn::StoreU(hn::DemoteTo(half, x), half, reinterpret_cast<hwy::float16_t*>(to));
    } else {
      HWY_ALIGN float values[finish_lanes];
      hn::Store(x, F(), values);
      for (int64_t i = 0; i < finish_lanes; ++i) to[i] = float_to_f16(values[i]);
    }
  }
};
struct ToBF16 {
  using T = uint16_t;
  // To nearest, ties to even; NaN stays NaN.
  static HWY_INLINE void store(VF x, T* to) {
    const hn::RebindToUnsigned<F> whole;
    const hn::Rebind<uint16_t, F> half;
    const auto bits = hn::BitCast(whole, x), top = hn::ShiftRight<16>(bits);
    const auto rounded =
        hn::ShiftRight<16>(hn::Add(bits, hn::Add(hn::Set(whole, 0x7fff), hn::And(top, hn::Set(whole, 1)))));
    const auto nan = hn::RebindMask(whole, hn::IsNaN(x));
    const auto result = hn::IfThenElse(nan, hn::Or(top, hn::Set(whole, 0x40)), rounded);
    hn::StoreU(hn::DemoteTo(half, hn::BitCast(hn::RebindToSigned<decltype(whole)>(), result)), half, to);
  }
};

HWY_INLINE VF load_bias(const Finish::Tensor& bias, int64_t n, int64_t count) {
  VF x = hn::Set(F(), -0.0f);  // leaves every sum as it is
  if (bias.data)
    with_type(bias.dtype, [&](auto type) {
      using Type = decltype(type);
      const auto* from = reinterpret_cast<const typename Type::T*>(bias.data) + n;
      x = count >= finish_lanes ? Type::load(from) : load_some<Type>(from, count);
    });
  return x;
}

}  // namespace HWY_NAMESPACE
}  // namespace npusim::cpu
HWY_AFTER_NAMESPACE();
#endif
