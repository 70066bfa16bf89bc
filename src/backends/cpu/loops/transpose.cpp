// Transposition by squares of 128-bit vectors; along the source's runs first, so that its cache lines are used up.
#include "backends/cpu/loops/transpose.h"

// The targets must be chosen before Highway is read.
// clang-format off
#include "backends/cpu/vector_targets.h"
#include <hwy/highway.h>
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace npusim::cpu {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
struct Square {
  static constexpr int64_t side = 4;
  static void run(T* dst, int64_t dst_row, const T* src, int64_t src_row) {
    for (int64_t i = 0; i < side; ++i)
      for (int64_t j = 0; j < side; ++j) dst[i * dst_row + j] = src[j * src_row + i];
  }
};

template <>
struct Square<uint32_t> {
  static constexpr int64_t side = 4;
  static HWY_INLINE void run(uint32_t* dst, int64_t dst_row, const uint32_t* src, int64_t src_row) {
    const hn::Simd<uint32_t, 4, 0> d;
    const hn::Simd<uint64_t, 2, 0> d2;
    const auto a = hn::LoadU(d, src), b = hn::LoadU(d, src + src_row);
    const auto c = hn::LoadU(d, src + 2 * src_row), e = hn::LoadU(d, src + 3 * src_row);
    const auto ab0 = hn::BitCast(d2, hn::InterleaveLower(d, a, b)), ab1 = hn::BitCast(d2, hn::InterleaveUpper(d, a, b));
    const auto ce0 = hn::BitCast(d2, hn::InterleaveLower(d, c, e)), ce1 = hn::BitCast(d2, hn::InterleaveUpper(d, c, e));
    hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d2, ab0, ce0)), d, dst);
    hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d2, ab0, ce0)), d, dst + dst_row);
    hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d2, ab1, ce1)), d, dst + 2 * dst_row);
    hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d2, ab1, ce1)), d, dst + 3 * dst_row);
  }
};

template <>
struct Square<uint16_t> {
  static constexpr int64_t side = 8;
  static HWY_INLINE void run(uint16_t* dst, int64_t dst_row, const uint16_t* src, int64_t src_row) {
    const hn::Simd<uint16_t, 8, 0> d;
    const hn::Simd<uint32_t, 4, 0> d4;
    const hn::Simd<uint64_t, 2, 0> d2;
    using V4 = hn::Vec<decltype(d4)>;
    using V2 = hn::Vec<decltype(d2)>;
    V4 pairs[8];  // [source rows 2k, 2k + 1][lower, upper half]
    for (int k = 0; k < 4; ++k) {
      const auto a = hn::LoadU(d, src + 2 * k * src_row), b = hn::LoadU(d, src + (2 * k + 1) * src_row);
      pairs[2 * k] = hn::BitCast(d4, hn::InterleaveLower(d, a, b));
      pairs[2 * k + 1] = hn::BitCast(d4, hn::InterleaveUpper(d, a, b));
    }
    for (int half = 0; half < 2; ++half) {
      V2 fours[4];  // [source rows 0-3, 4-7][lower, upper]
      for (int k = 0; k < 2; ++k) {
        fours[2 * k] = hn::BitCast(d2, hn::InterleaveLower(d4, pairs[4 * k + half], pairs[4 * k + 2 + half]));
        fours[2 * k + 1] = hn::BitCast(d2, hn::InterleaveUpper(d4, pairs[4 * k + half], pairs[4 * k + 2 + half]));
      }
      uint16_t* out = dst + 4 * half * dst_row;
      hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d2, fours[0], fours[2])), d, out);
      hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d2, fours[0], fours[2])), d, out + dst_row);
      hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d2, fours[1], fours[3])), d, out + 2 * dst_row);
      hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d2, fours[1], fours[3])), d, out + 3 * dst_row);
    }
  }
};

template <class T>
HWY_INLINE void transpose_of(T* dst, int64_t dst_row, const T* src, int64_t src_row, int64_t rows, int64_t columns) {
  constexpr int64_t side = Square<T>::side;
  int64_t c = 0;
  for (; c + side <= columns; c += side) {
    int64_t r = 0;
    for (; r + side <= rows; r += side) Square<T>::run(dst + r * dst_row + c, dst_row, src + c * src_row + r, src_row);
    for (; r < rows; ++r)
      for (int64_t j = 0; j < side; ++j) dst[r * dst_row + c + j] = src[(c + j) * src_row + r];
  }
  for (; c < columns; ++c)
    for (int64_t r = 0; r < rows; ++r) dst[r * dst_row + c] = src[c * src_row + r];
}

}  // namespace

void transpose(uint8_t* dst, int64_t dst_row, const uint8_t* src, int64_t src_row, int64_t rows, int64_t columns) {
  transpose_of(dst, dst_row, src, src_row, rows, columns);
}
void transpose(uint16_t* dst, int64_t dst_row, const uint16_t* src, int64_t src_row, int64_t rows, int64_t columns) {
  transpose_of(dst, dst_row, src, src_row, rows, columns);
}
void transpose(uint32_t* dst, int64_t dst_row, const uint32_t* src, int64_t src_row, int64_t rows, int64_t columns) {
  transpose_of(dst, dst_row, src, src_row, rows, columns);
}
void transpose(uint64_t* dst, int64_t dst_row, const uint64_t* src, int64_t src_row, int64_t rows, int64_t columns) {
  transpose_of(dst, dst_row, src, src_row, rows, columns);
}

}  // namespace npusim::cpu
HWY_AFTER_NAMESPACE();
