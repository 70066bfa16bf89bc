// A block's keys, compiled once per instruction set: a plain loop that the compiler vectorises.
#include "backends/cpu/order/float_keys.h"

#include "backends/cpu/order/entries.h"
#include "backends/cpu/vector_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/order/float_keys.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace npusim::cpu::order::HWY_NAMESPACE {

// As signed numbers with the sign's bit flipped, which is how vectors compare. The key of a number is that of its bits
// as they are if positive, of their complement if negative; zeros are one, and so are NaN: the largest.
bool float_keys(const uint32_t* elements, uint32_t flip, uint32_t limit, uint32_t* keys) {
  constexpr uint32_t sign = 0x80000000;
  const auto signed_limit = static_cast<int32_t>(limit ^ sign);
  int32_t below = 0;
  for (int64_t i = 0; i < scan_block; ++i) {
    const auto x = static_cast<int32_t>(elements[i]);
    const int32_t magnitude = x & 0x7fffffff;
    const int32_t ordered = x >> 31 ^ (x | static_cast<int32_t>(sign));  // of a negative one the complement
    const int32_t number = magnitude == 0 ? static_cast<int32_t>(sign) : ordered;
    const uint32_t key = static_cast<uint32_t>(magnitude > 0x7f800000 ? -1 : number) ^ flip;
    keys[i] = key;
    below |= static_cast<int32_t>(key ^ sign) < signed_limit ? -1 : 0;
  }
  return below != 0;
}

}  // namespace npusim::cpu::order::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npusim::cpu::order {
HWY_EXPORT(float_keys);

bool float_keys(const uint32_t* elements, uint32_t flip, uint32_t limit, uint32_t* keys) {
  return HWY_DYNAMIC_DISPATCH(float_keys)(elements, flip, limit, keys);
}

}  // namespace npusim::cpu::order
#endif
