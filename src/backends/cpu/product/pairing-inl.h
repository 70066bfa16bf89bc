// Pairs of vectors, and what is gathered of them; included once per target.
#if defined(NPUSIM_PRODUCT_PAIRING_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef NPUSIM_PRODUCT_PAIRING_INL
#undef NPUSIM_PRODUCT_PAIRING_INL
#else
#define NPUSIM_PRODUCT_PAIRING_INL
#endif

#include <hwy/highway.h>

#include "backends/cpu/product/pairing.h"

HWY_BEFORE_NAMESPACE();
namespace npusim::cpu::product {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <Pairing pairing, class V>
HWY_INLINE V merged(V a, V b) {
  if constexpr (pairing != Pairing::farthest) {
    return hn::Add(a, b);
  } else {  // Of floats that are not negative the order is that of their bits, and NaN is above all.
    const hn::DFromV<V> d;
    const hn::RebindToSigned<hn::DFromV<V>> bits;
    return hn::BitCast(d, hn::Max(hn::BitCast(bits, a), hn::BitCast(bits, b)));
  }
}
template <Pairing pairing, class V>
HWY_INLINE V paired(V a, V b, V so_far) {
  if constexpr (pairing == Pairing::product) {
    if constexpr (hwy::IsFloat<hn::TFromV<V>>()) return hn::MulAdd(a, b, so_far);
    return hn::Add(so_far, hn::Mul(a, b));
  } else {
    const V apart = hn::Sub(a, b);
    if constexpr (pairing == Pairing::squares) return hn::MulAdd(apart, apart, so_far);
    return merged<pairing>(so_far, hn::Abs(apart));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace npusim::cpu::product
HWY_AFTER_NAMESPACE();
#endif
