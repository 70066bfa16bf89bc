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
#include "backends/cpu/vector_math.h"

HWY_BEFORE_NAMESPACE();
namespace npusim::cpu::product {
namespace HWY_NAMESPACE {
using namespace cpu::HWY_NAMESPACE;

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

// 1 + e^-x to a few ulp for x >= least_logistic, below which e^-x is no float; of NaN anything. With fewer instructions
// than vector_exp: no 2^n is subnormal.
constexpr float least_logistic = -88.72f;
HWY_INLINE VF logistic_denominator(VF x) {
  const F d;
  const hn::RebindToSigned<F> i;
  const VF y = clamp(hn::Neg(x), hn::Set(d, -87.33f), hn::Set(d, -least_logistic));
  const VF shift = hn::Set(d, 0x1.8p23f);  // the sum's last bits are n, rounded
  const VF sum = hn::MulAdd(y, hn::Set(d, 1.44269504f), shift);
  const VF power = exp_of_rest(y, hn::Sub(sum, shift));
  const auto scaled = hn::Add(hn::BitCast(i, power), hn::ShiftLeft<23>(hn::BitCast(i, sum)));
  return hn::Add(hn::Set(d, 1.0f), hn::BitCast(d, scaled));
}

// Calls body with what applies the activation to a vector; not for linear, clip and leaky_relu, which a Finish has not.
template <class Body>
HWY_INLINE void with_activation(Activation activation, Body&& body) {
  const F d;
  const VF half = hn::Set(d, 0.5f), one = hn::Set(d, 1.0f);
  const VF least = hn::Set(d, least_logistic);
  switch (activation) {
    case Activation::logistic:
      return body([&](VF x) {
        const VF y = hn::IfThenElse(hn::IsNaN(x), x, hn::Div(one, logistic_denominator(x)));
        return hn::IfThenElse(hn::Lt(x, least), hn::Zero(d), y);
      });
    case Activation::tanh:
      return body([&](VF x) { return vector_tanh(d, x); });
    case Activation::swish:
      return body([&](VF x) {  // of -inf it is NaN
        const VF y = hn::Div(x, logistic_denominator(x));
        return hn::IfThenElse(hn::Lt(x, least), hn::Mul(x, hn::Zero(d)), y);
      });
    case Activation::hardswish:
      return body([&](VF x) {
        const VF gate = clamp(hn::Add(x, hn::Set(d, 3.0f)), hn::Zero(d), hn::Set(d, 6.0f));
        return hn::Mul(hn::Mul(x, gate), hn::Set(d, 1.0f / 6));
      });
    case Activation::gelu_erf:
      return body(
          [&](VF x) { return hn::Mul(hn::Mul(x, half), vector_one_plus_erf(d, hn::Mul(x, hn::Set(d, 0.70710678f)))); });
    case Activation::gelu_tanh:
      return body([&](VF x) {
        const VF cubic = hn::MulAdd(hn::Mul(hn::Mul(x, x), x), hn::Set(d, 0.044715f), x);
        return hn::Mul(hn::Mul(x, half), hn::Add(one, vector_tanh(d, hn::Mul(cubic, hn::Set(d, 0.79788456f)))));
      });
    case Activation::linear:
    case Activation::clip:
    case Activation::leaky_relu:
      return;
  }
}

// values[i] = activation(values[i]), whole vectors, out of line: a tile's sums are in registers but for this.
inline HWY_NOINLINE void activate_values(Activation activation, float* values, int64_t count) {
  with_activation(activation, [&](auto act) {
    for (int64_t i = 0; i < count; i += finish_lanes) hn::Store(act(hn::Load(F(), values + i)), F(), values + i);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace npusim::cpu::product
HWY_AFTER_NAMESPACE();
#endif
