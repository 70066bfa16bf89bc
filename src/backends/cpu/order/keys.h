// Elements as unsigned keys whose order is theirs: equal elements have equal keys, and NaN the largest.
#pragma once
#include <cstdint>
#include <type_traits>

#include "base/dtype.h"
#include "base/error.h"

namespace npusim::cpu::order {

// Of one dtype: Raw is an element's memory; keys have so many bits, which `bits` of Key hold. Those of a row may be
// `narrow`: lie near each other.
template <typename RawType, int key_bits>
struct KeyOfInteger {
  using Raw = std::make_unsigned_t<RawType>;
  using Key = std::conditional_t<key_bits == 64, uint64_t, uint32_t>;
  static constexpr int bits = key_bits;
  static constexpr bool narrow = key_bits >= 32;
  static Key key(Raw x) {
    constexpr Key sign = std::is_signed_v<RawType> ? Key{1} << (bits - 1) : 0;
    return static_cast<Key>(x) ^ sign;
  }
};

struct KeyOfBoolean : KeyOfInteger<uint8_t, 8> {
  static Key key(Raw x) { return x != 0; }
};

template <typename RawType, RawType infinity>
struct KeyOfFloat {
  using Raw = RawType;
  using Key = std::conditional_t<sizeof(Raw) == 8, uint64_t, uint32_t>;
  static constexpr int bits = 8 * sizeof(Raw);
  static constexpr bool narrow = false;
  static Key key(Raw raw) {
    constexpr Key sign = Key{1} << (bits - 1), all = (sign - 1) | sign;
    const Key x = raw == sign ? 0 : raw;  // −0 is 0
    const Key ordered = x & sign ? x ^ all : x | sign;
    return (x & (sign - 1)) > infinity ? all : ordered;
  }
};

// Calls f with what makes keys of the dtype.
template <typename F>
auto with_keys_of(DType dtype, F&& f) {
  switch (dtype) {
    case DType::boolean:
      return f(KeyOfBoolean{});
    case DType::u8:
      return f(KeyOfInteger<uint8_t, 8>{});
    case DType::i8:
      return f(KeyOfInteger<int8_t, 8>{});
    case DType::i16:
      return f(KeyOfInteger<int16_t, 16>{});
    case DType::i32:
      return f(KeyOfInteger<int32_t, 32>{});
    case DType::i64:
      return f(KeyOfInteger<int64_t, 64>{});
    case DType::f16:
      return f(KeyOfFloat<uint16_t, 0x7c00>{});
    case DType::bf16:
      return f(KeyOfFloat<uint16_t, 0x7f80>{});
    case DType::f32:
      return f(KeyOfFloat<uint32_t, 0x7f800000>{});
    case DType::f64:
      return f(KeyOfFloat<uint64_t, 0x7ff0000000000000>{});
  }
  fail(ErrorKind::internal, "no order of {}", static_cast<int>(dtype));
}

}  // namespace npusim::cpu::order
