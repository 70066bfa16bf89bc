// The first elements of a vector of 32 or 64 bits each, loaded and stored without those behind; included once per
// target.
#if defined(NPUSIM_PART_VECTOR_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef NPUSIM_PART_VECTOR_INL
#undef NPUSIM_PART_VECTOR_INL
#else
#define NPUSIM_PART_VECTOR_INL
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace npusim::cpu {
namespace HWY_NAMESPACE {
namespace part {
namespace hn = hwy::HWY_NAMESPACE;

// Elsewhere a masked load reads, and a blended store writes, what the mask leaves out.
constexpr bool masks = HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2;

// `count` of at most a vector's lanes, and 0 in those behind.
template <class T>
HWY_INLINE hn::Vec<hn::ScalableTag<T>> load(const T* p, int64_t count) {
  const hn::ScalableTag<T> d;
  if constexpr (masks) return hn::MaskedLoad(hn::FirstN(d, static_cast<size_t>(count)), d, p);
  HWY_ALIGN T some[hn::MaxLanes(d)] = {};
  std::copy_n(p, count, some);
  return hn::Load(d, some);
}
template <class T>
HWY_INLINE void store(hn::Vec<hn::ScalableTag<T>> x, T* to, int64_t count) {
  const hn::ScalableTag<T> d;
  if constexpr (masks) return hn::BlendedStore(x, hn::FirstN(d, static_cast<size_t>(count)), d, to);
  HWY_ALIGN T some[hn::MaxLanes(d)];
  hn::Store(x, d, some);
  std::copy_n(some, count, to);
}

}  // namespace part
}  // namespace HWY_NAMESPACE
}  // namespace npusim::cpu
HWY_AFTER_NAMESPACE();
#endif
