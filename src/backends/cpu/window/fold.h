// SIMD loops of windows: rows of memory folded into one, and windows along that one.
#pragma once
#include <cstdint>

#include "base/dtype.h"

namespace npusim::cpu::window {

inline constexpr int64_t window_slack = 64;  // elements behind `sums` that may be read

enum class WindowFold : uint8_t { sum, max, argmax };  // argmax: the maximum, and its index

// What the windows of one line of the output see along the line: window o the positions from[o] + i·step for
// 0 <= i < count[o]. Those in [inner, inner_end) have `taps` each and begin `stride` apart.
struct WindowLine {
  int64_t windows = 0, taps = 1, step = 1, stride = 1;
  const int32_t *from = nullptr, *count = nullptr;
  int64_t inner = 0, inner_end = 0, inner_from = 0;  // from where on the first of them sees
  // Of a sum or a maximum windows in there may see `before` positions in front of the row and `after` ones behind it,
  // which change nothing.
  int64_t before = 0, after = 0;
  const int64_t* index = nullptr;  // argmax: of each window's first position, added to that of the row
  int32_t tap_index = 0;           // argmax: from position to position
};

// Rows of `width` elements that are folded position by position, then window by window. T: double of rows of doubles,
// int64_t of integers, float of others.
template <typename T>
struct WindowRows {
  DType dtype = DType::f32;
  int64_t rows = 0, width = 0;
  const std::byte* const* row = nullptr;
  const int32_t* row_index = nullptr;  // argmax: of each row, growing
  // Room for a row each, and in `sums` for what a line sees there and for a vector more; argmax: for one of indices,
  // and for the indices of a line's windows.
  T *sums = nullptr, *wide = nullptr;
  int32_t *indices = nullptr, *found = nullptr;
  T* out = nullptr;  // of the line's windows: the sum or the maximum, NaN where one is met
  // argmax: `base`, and the indices of row and position, of the first of equal maxima or the last NaN; `none` of a
  // window of no elements.
  int64_t* out_index = nullptr;
  int64_t base = 0, none = 0;
};

void fold_windows(WindowFold fold, const WindowRows<float>& rows, const WindowLine& line);
void fold_windows(WindowFold fold, const WindowRows<double>& rows, const WindowLine& line);
void fold_windows(WindowFold fold, const WindowRows<int64_t>& rows, const WindowLine& line);

}  // namespace npusim::cpu::window
