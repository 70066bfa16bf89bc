// Copies of blocks: runs, reversed and strided rows, transposition by squares; compiled once per instruction set.
#include "backends/cpu/loops/moves/copy.h"

#include "backends/cpu/vector_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/loops/moves/copy.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

HWY_BEFORE_NAMESPACE();
namespace npusim::cpu::loops::moves::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_HAVE_SCALABLE || HWY_MAX_BYTES < 32
inline constexpr size_t square_bytes = 16;
#else
inline constexpr size_t square_bytes = 32;
#endif

// to[r][c] = from[c][r] of a square whose rows are vectors.
template <class T>
struct Square {
  static constexpr int64_t side = 4;
  static void run(T* to, int64_t to_row, const T* from, int64_t from_row) {
    for (int64_t i = 0; i < side; ++i)
      for (int64_t j = 0; j < side; ++j) to[i * to_row + j] = from[j * from_row + i];
  }
};

// In each half of 128 bits a square of four: out[i] has lane i of a, b, c and e.
template <class D, class V>
HWY_INLINE void transpose_fours(D d, V a, V b, V c, V e, V* out) {
  const hn::Repartition<uint64_t, D> d2;
  const auto ab0 = hn::BitCast(d2, hn::InterleaveLower(d, a, b)), ab1 = hn::BitCast(d2, hn::InterleaveUpper(d, a, b));
  const auto ce0 = hn::BitCast(d2, hn::InterleaveLower(d, c, e)), ce1 = hn::BitCast(d2, hn::InterleaveUpper(d, c, e));
  out[0] = hn::BitCast(d, hn::InterleaveLower(d2, ab0, ce0));
  out[1] = hn::BitCast(d, hn::InterleaveUpper(d2, ab0, ce0));
  out[2] = hn::BitCast(d, hn::InterleaveLower(d2, ab1, ce1));
  out[3] = hn::BitCast(d, hn::InterleaveUpper(d2, ab1, ce1));
}

template <>
struct Square<uint32_t> {
  static constexpr int64_t side = square_bytes / 4;
  static HWY_INLINE void run(uint32_t* to, int64_t to_row, const uint32_t* from, int64_t from_row) {
    const hn::FixedTag<uint32_t, side> d;
    using V = hn::Vec<decltype(d)>;
    const auto row = [&](int64_t i) { return hn::LoadU(d, from + i * from_row); };
    V low[4];
    transpose_fours(d, row(0), row(1), row(2), row(3), low);
    if constexpr (side == 4) {
      for (int64_t i = 0; i < 4; ++i) hn::StoreU(low[i], d, to + i * to_row);
    } else {
      V high[4];
      transpose_fours(d, row(4), row(5), row(6), row(7), high);
      for (int64_t i = 0; i < 4; ++i) {
        hn::StoreU(hn::ConcatLowerLower(d, high[i], low[i]), d, to + i * to_row);
        hn::StoreU(hn::ConcatUpperUpper(d, high[i], low[i]), d, to + (i + 4) * to_row);
      }
    }
  }
};

template <>
struct Square<uint64_t> {
  static constexpr int64_t side = square_bytes / 8;
  static HWY_INLINE void run(uint64_t* to, int64_t to_row, const uint64_t* from, int64_t from_row) {
    const hn::FixedTag<uint64_t, side> d;
    const auto a = hn::LoadU(d, from), b = hn::LoadU(d, from + from_row);
    const auto ab0 = hn::InterleaveLower(d, a, b), ab1 = hn::InterleaveUpper(d, a, b);
    if constexpr (side == 2) {
      hn::StoreU(ab0, d, to);
      hn::StoreU(ab1, d, to + to_row);
    } else {
      const auto c = hn::LoadU(d, from + 2 * from_row), e = hn::LoadU(d, from + 3 * from_row);
      const auto ce0 = hn::InterleaveLower(d, c, e), ce1 = hn::InterleaveUpper(d, c, e);
      hn::StoreU(hn::ConcatLowerLower(d, ce0, ab0), d, to);
      hn::StoreU(hn::ConcatLowerLower(d, ce1, ab1), d, to + to_row);
      hn::StoreU(hn::ConcatUpperUpper(d, ce0, ab0), d, to + 2 * to_row);
      hn::StoreU(hn::ConcatUpperUpper(d, ce1, ab1), d, to + 3 * to_row);
    }
  }
};

template <>
struct Square<uint16_t> {
  static constexpr int64_t side = 8;
  static HWY_INLINE void run(uint16_t* to, int64_t to_row, const uint16_t* from, int64_t from_row) {
    const hn::FixedTag<uint16_t, 8> d;
    const hn::FixedTag<uint32_t, 4> d4;
    using V = hn::Vec<decltype(d4)>;
    V pairs[8];  // [lower, upper half][from rows 2k, 2k + 1]
    for (int k = 0; k < 4; ++k) {
      const auto a = hn::LoadU(d, from + 2 * k * from_row), b = hn::LoadU(d, from + (2 * k + 1) * from_row);
      pairs[k] = hn::BitCast(d4, hn::InterleaveLower(d, a, b));
      pairs[4 + k] = hn::BitCast(d4, hn::InterleaveUpper(d, a, b));
    }
    for (int half = 0; half < 2; ++half) {
      V out[4];
      const V* p = pairs + 4 * half;
      transpose_fours(d4, p[0], p[1], p[2], p[3], out);
      for (int i = 0; i < 4; ++i) hn::StoreU(hn::BitCast(d, out[i]), d, to + (4 * half + i) * to_row);
    }
  }
};

// The same of a square of whole lines: each is read at once and written at once, as those of rows a page apart, which
// share one set of L1, must be.
template <class T>
HWY_INLINE void transpose_lines(T* to, int64_t to_row, const T* from, int64_t from_row) {
  constexpr int64_t side = Square<T>::side, line = 64 / static_cast<int64_t>(sizeof(T));
  HWY_ALIGN T lines[line * line];
  for (int64_t c = 0; c < line; c += side)
    for (int64_t r = 0; r < line; r += side)
      Square<T>::run(lines + r * line + c, line, from + c * from_row + r, from_row);
  // No wider than squares were written: a vector of two of their lines would wait for both.
  const hn::CappedTag<T, side> d;
  constexpr auto lanes = static_cast<int64_t>(hn::MaxLanes(d));
  for (int64_t r = 0; r < line; ++r)
    for (int64_t c = 0; c < line; c += lanes) hn::StoreU(hn::Load(d, lines + r * line + c), d, to + r * to_row + c);
}

// to[r · to_row + c] = from[c · from_row + r], in blocks whose lines stay in L1 until they are used up.
template <class T>
void transpose(T* to, int64_t to_row, const T* from, int64_t from_row, int64_t rows, int64_t columns) {
  constexpr int64_t side = Square<T>::side, block = 64, line = 64 / static_cast<int64_t>(sizeof(T));
  for (int64_t c0 = 0; c0 < columns; c0 += block) {
    const int64_t end = std::min(c0 + block, columns), whole = c0 + (end - c0) / side * side;
    int64_t r = 0;
    if constexpr (sizeof(T) >= 4)
      for (; r + line <= rows && end - c0 == block; r += line)
        for (int64_t c = c0; c < end; c += line)
          transpose_lines(to + r * to_row + c, to_row, from + c * from_row + r, from_row);
    for (; r + side <= rows; r += side) {
      for (int64_t c = c0; c < whole; c += side)
        Square<T>::run(to + r * to_row + c, to_row, from + c * from_row + r, from_row);
      for (int64_t c = whole; c < end; ++c)
        for (int64_t i = 0; i < side; ++i) to[(r + i) * to_row + c] = from[c * from_row + r + i];
    }
    for (; r < rows; ++r)
      for (int64_t c = c0; c < end; ++c) to[r * to_row + c] = from[c * from_row + r];
  }
}

// A few vectors, the last one where the run ends: it may have elements of the one before it.
template <size_t most, class T>
HWY_INLINE void copy_vectors(T* to, const T* from, int64_t n) {
  const hn::CappedTag<T, most> d;
  constexpr auto lanes = static_cast<int64_t>(hn::MaxLanes(d));
  if (n < lanes) {
    if constexpr (most > 1) copy_vectors<most / 2>(to, from, n);
    return;
  }
  const auto last = hn::LoadU(d, from + n - lanes);
  for (int64_t i = 0; i + lanes < n; i += lanes) hn::StoreU(hn::LoadU(d, from + i), d, to + i);
  hn::StoreU(last, d, to + n - lanes);
}

template <class T>
inline constexpr size_t most_lanes = hn::MaxLanes(hn::ScalableTag<T>());
inline constexpr int64_t few_bytes = 512;  // of a run that is not worth a call
template <class T>
HWY_INLINE bool is_few(int64_t n) {
  return n * static_cast<int64_t>(sizeof(T)) <= few_bytes;
}

// memcpy may come to a string instruction, which is ten times as slow where the target is a few bytes ahead in its
// page.
template <class T>
HWY_INLINE void copy_dense(T* to, const T* from, int64_t n) {
  constexpr uintptr_t page = 4096, ahead = 64;
  constexpr int64_t least = 1024;  // bytes
  if (is_few<T>(n)) return copy_vectors<most_lanes<T>>(to, from, n);
  const uintptr_t between = (reinterpret_cast<uintptr_t>(to) - reinterpret_cast<uintptr_t>(from)) % page;
  int64_t i = 0;
  if (between > 0 && between < ahead && n * static_cast<int64_t>(sizeof(T)) >= least) {
    const hn::ScalableTag<T> d;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    for (; i + lanes <= n; i += lanes) hn::StoreU(hn::LoadU(d, from + i), d, to + i);
  }
  std::memcpy(to + i, from + i, static_cast<size_t>(n - i) * sizeof(T));
}

// By vectors of this instruction set; std::fill() is of the program's.
template <class T>
void fill(T* to, T value, int64_t n) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto all = hn::Set(d, value);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(all, d, to + i);
  for (; i < n; ++i) to[i] = value;
}

template <class T>
void reverse(T* to, const T* last, int64_t n) {
  int64_t i = 0;
  if constexpr (sizeof(T) > 1) {
    const hn::ScalableTag<T> d;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    for (; i + lanes <= n; i += lanes) hn::StoreU(hn::Reverse(d, hn::LoadU(d, last - i - lanes + 1)), d, to + i);
  }
  for (; i < n; ++i) to[i] = last[-i];
}

// Every second, third or fourth element. What lies behind the last of them is not read.
template <class T, int step>
void take_every(T* to, const T* from, int64_t n) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes < n; i += lanes) {
    V first, second, third, fourth;
    if constexpr (step == 2)
      hn::LoadInterleaved2(d, from + i * step, first, second);
    else if constexpr (step == 3)
      hn::LoadInterleaved3(d, from + i * step, first, second, third);
    else
      hn::LoadInterleaved4(d, from + i * step, first, second, third, fourth);
    hn::StoreU(first, d, to + i);
  }
  for (; i < n; ++i) to[i] = from[i * step];
}

template <class T>
HWY_INLINE void copy_run(T* to, int64_t to_step, const T* from, int64_t from_step, int64_t n) {
  if (to_step == 1 && n >= 8) {
    switch (from_step) {
      case 0:
        return fill(to, *from, n);
      case 1:
        return copy_dense(to, from, n);
      case -1:
        return reverse(to, from, n);
      case 2:
        return take_every<T, 2>(to, from, n);
      case 3:
        return take_every<T, 3>(to, from, n);
      case 4:
        return take_every<T, 4>(to, from, n);
      default:
        break;
    }
  }
  for (int64_t i = 0; i < n; ++i) to[i * to_step] = from[i * from_step];
}

// Rows of so few columns that a call for each would cost more than they do.
template <class T, int columns>
void copy_few(T* to, const T* from, const BlockCopy& b) {
  for (int64_t r = 0; r < b.rows; ++r)
    for (int c = 0; c < columns; ++c) to[r * b.to_row + c * b.to_column] = from[r * b.from_row + c * b.from_column];
}

// Dense rows of a few vectors. A store of a whole line's length that is not one line is two: half as long ones where
// rows begin anywhere.
template <class T>
void copy_rows(T* to, const T* from, const BlockCopy& b) {
  constexpr size_t line = 64, most = most_lanes<T>;
  const size_t pitch = static_cast<size_t>(b.to_row) * sizeof(T);
  const bool whole = (reinterpret_cast<uintptr_t>(to) | pitch) % line == 0;
  const auto each_row = [&](auto lanes) HWY_ATTR {
    for (int64_t r = 0; r < b.rows; ++r)
      copy_vectors<decltype(lanes)::value>(to + r * b.to_row, from + r * b.from_row, b.columns);
  };
  if (most * sizeof(T) == line && !whole) return each_row(std::integral_constant<size_t, most / 2>());
  each_row(std::integral_constant<size_t, most>());
}

// As copy_vectors(), of one element.
template <size_t most, class T>
HWY_INLINE void fill_vectors(T* to, T value, int64_t n) {
  const hn::CappedTag<T, most> d;
  constexpr auto lanes = static_cast<int64_t>(hn::MaxLanes(d));
  if (n < lanes) {
    if constexpr (most > 1) fill_vectors<most / 2>(to, value, n);
    return;
  }
  const auto all = hn::Set(d, value);
  for (int64_t i = 0; i + lanes < n; i += lanes) hn::StoreU(all, d, to + i);
  hn::StoreU(all, d, to + n - lanes);
}

template <class T>
void copy_of(BlockCopy b) {
  T* to = static_cast<T*>(b.to);
  const T* from = static_cast<const T*>(b.from);
  if (b.columns == 1) return copy_run(to, b.to_row, from, b.from_row, b.rows);
  if (b.from_row == -1 && b.to_column == 1 && b.rows > 1) {  // the rows from the last to the first
    from += (b.rows - 1) * b.from_row, to += (b.rows - 1) * b.to_row;
    b.from_row = 1, b.to_row = -b.to_row;
  }
  if (b.from_row == 0 && b.from_column == 0 && b.to_column == 1) {
    for (int64_t r = 0; r < b.rows; ++r) fill_vectors<most_lanes<T>>(to + r * b.to_row, *from, b.columns);
    return;
  }
  const bool dense = b.to_column == 1 && b.from_column == 1;
  if (dense && b.to_row == b.columns && b.from_row == b.columns) return copy_run(to, 1, from, 1, b.rows * b.columns);
  if (b.rows >= 4 && b.columns == 2) return copy_few<T, 2>(to, from, b);
  if (b.rows >= 4 && b.columns == 3) return copy_few<T, 3>(to, from, b);
  if (b.rows >= 4 && b.columns == 4) return copy_few<T, 4>(to, from, b);
  if (dense && is_few<T>(b.columns)) return copy_rows(to, from, b);
  if (b.to_column == 1 && b.from_column != 1 && b.from_column != 0 && b.from_row == 1 && b.rows > 1)
    return transpose(to, b.to_row, from, b.from_column, b.rows, b.columns);
  if (b.from_column == 1 && b.to_column != 1 && b.to_row == 1 && b.rows > 1)
    return transpose(to, b.to_column, from, b.from_row, b.columns, b.rows);
  // Along the rows where their distance in memory is the smaller one: one of the two is scratch, dense in columns.
  const bool rows_are_nearer = b.to_column == 1 ? b.from_column != 1 && std::abs(b.from_row) < std::abs(b.from_column)
                               : b.from_column == 1 ? std::abs(b.to_row) < std::abs(b.to_column)
                                                    : false;
  if (rows_are_nearer && b.from_row != 0 && b.rows > 1) {
    std::swap(b.rows, b.columns);
    std::swap(b.to_row, b.to_column);
    std::swap(b.from_row, b.from_column);
  }
  for (int64_t r = 0; r < b.rows; ++r)
    copy_run(to + r * b.to_row, b.to_column, from + r * b.from_row, b.from_column, b.columns);
}

void copy_by_size(const BlockCopy& block, size_t element_bytes) {
  switch (element_bytes) {
    case 1:
      return copy_of<uint8_t>(block);
    case 2:
      return copy_of<uint16_t>(block);
    case 4:
      return copy_of<uint32_t>(block);
    default:
      return copy_of<uint64_t>(block);
  }
}

}  // namespace
}  // namespace npusim::cpu::loops::moves::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npusim::cpu::loops::moves {
HWY_EXPORT(copy_by_size);

void copy_block(const BlockCopy& block, size_t element_bytes) {
  HWY_DYNAMIC_DISPATCH(copy_by_size)(block, element_bytes);
}

}  // namespace npusim::cpu::loops::moves
#endif
