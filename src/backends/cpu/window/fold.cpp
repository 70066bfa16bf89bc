// Folding rows and windows, compiled once per instruction set. Plain loops: the compiler vectorises them.
#include "backends/cpu/window/fold.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "backends/cpu/product/simd.h"
#include "backends/cpu/vector_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/window/fold.cpp"
#include <hwy/foreach_target.h>

#include "backends/cpu/loops/tiles/tile-inl.h"
#include "backends/cpu/part_vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace npusim::cpu::window::HWY_NAMESPACE {
using namespace loops::tiles::HWY_NAMESPACE;
using namespace cpu::HWY_NAMESPACE;

template <typename T>
constexpr T lowest = std::is_integral_v<T> ? std::numeric_limits<T>::min() : -std::numeric_limits<T>::infinity();
template <typename T>
using Lanes = hn::ScalableTag<T>;
template <typename T>
using Vector = hn::Vec<Lanes<T>>;

template <typename T>
struct Sum {
  static constexpr T none = 0;
  static T of(T so_far, T x) {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<uint64_t>(so_far) + static_cast<uint64_t>(x));
    else
      return so_far + x;
  }
  static HWY_INLINE Vector<T> of(Vector<T> so_far, Vector<T> x) { return hn::Add(so_far, x); }
};
// Propagates NaN.
template <typename T>
struct Max {
  static constexpr T none = lowest<T>;
  static T of(T so_far, T x) { return ((x > so_far) | (x != x)) ? x : so_far; }
  static HWY_INLINE Vector<T> of(Vector<T> so_far, Vector<T> x) {
    if constexpr (std::is_integral_v<T>)
      return hn::Max(x, so_far);
    else
      return hn::IfThenElse(hn::Or(hn::Gt(x, so_far), hn::IsNaN(x)), x, so_far);
  }
};

// Whether rows are read where they are.
template <typename T>
bool is_own(const WindowRows<T>& r) {
  return std::is_same_v<T, double> || r.dtype == (std::is_integral_v<T> ? DType::i64 : DType::f32);
}
template <typename From>
void widen_from(const std::byte* row, int64_t n, int64_t* to) {
  const From* from = reinterpret_cast<const From*>(row);
  NPUSIM_IVDEP
  for (int64_t i = 0; i < n; ++i) to[i] = from[i];
}
void widen_integers(DType dtype, const std::byte* row, int64_t n, int64_t* to) {
  switch (dtype) {
    case DType::u8:
      return widen_from<uint8_t>(row, n, to);
    case DType::i8:
      return widen_from<int8_t>(row, n, to);
    case DType::i16:
      return widen_from<int16_t>(row, n, to);
    default:
      return widen_from<int32_t>(row, n, to);
  }
}
template <typename T>
const T* row_at(const WindowRows<T>& r, int64_t i) {
  if (is_own(r)) return reinterpret_cast<const T*>(r.row[i]);
  if constexpr (std::is_same_v<T, float>) product::widen(r.dtype, r.row[i], r.width, r.wide);
  if constexpr (std::is_integral_v<T>) widen_integers(r.dtype, r.row[i], r.width, r.wide);
  return r.wide;
}

// Rows as they are, at `count` vectors of their positions from n on: what is folded stays in registers.
template <class Fold, int count, typename T>
HWY_INLINE void fold_vectors(const WindowRows<T>& r, int64_t n) {
  using F = Lanes<T>;
  constexpr int64_t lanes = static_cast<int64_t>(hn::MaxLanes(F()));
  const auto from = [&](int64_t i) { return reinterpret_cast<const T*>(r.row[i]) + n; };
  Vector<T> fold[count];
#pragma GCC unroll 8
  for (int v = 0; v < count; ++v) fold[v] = hn::LoadU(F(), from(0) + v * lanes);
  for (int64_t i = 1; i < r.rows; ++i) {
    const T* x = from(i);
#pragma GCC unroll 8
    for (int v = 0; v < count; ++v) fold[v] = Fold::of(fold[v], hn::LoadU(F(), x + v * lanes));
  }
#pragma GCC unroll 8
  for (int v = 0; v < count; ++v) hn::StoreU(fold[v], F(), r.sums + n + v * lanes);
}

template <class Fold, typename T>
const T* fold_in_place(const WindowRows<T>& r) {
  constexpr int64_t lanes = static_cast<int64_t>(hn::MaxLanes(Lanes<T>())), together = 4;
  int64_t n = 0;
  for (; n + together * lanes <= r.width; n += together * lanes) fold_vectors<Fold, together>(r, n);
  for (; n + lanes <= r.width; n += lanes) fold_vectors<Fold, 1>(r, n);
  if (n == r.width) return r.sums;
  const Lanes<T> d;
  const auto from = [&](int64_t i) { return part::load(reinterpret_cast<const T*>(r.row[i]) + n, r.width - n); };
  Vector<T> fold = from(0);
  for (int64_t i = 1; i < r.rows; ++i) fold = Fold::of(fold, from(i));
  hn::StoreU(fold, d, r.sums + n);
  return r.sums;
}

// Where the folded row is: in `sums`, or, if it `stays` where it is, the row itself.
template <class Fold, typename T>
const T* fold_rows(const WindowRows<T>& r, bool stays) {
  T* sums = r.sums;
  const int64_t width = r.width;
  if (r.rows == 0) {
    std::fill_n(sums, width, Fold::none);
    return sums;
  }
  const T* first = row_at(r, 0);
  if (r.rows == 1 && stays) return first;
  if (r.rows > 1 && is_own(r)) return fold_in_place<Fold>(r);
  first = std::copy_n(first, width, sums) - width;
  for (int64_t i = 1; i < r.rows; ++i) {
    const T* x = row_at(r, i);
    NPUSIM_IVDEP
    for (int64_t n = 0; n < width; ++n) sums[n] = Fold::of(first[n], x[n]);
    first = sums;
  }
  return sums;
}

template <typename T>
const T* fold_indices(const WindowRows<T>& r) {
  T* sums = r.sums;
  int32_t* indices = r.indices;
  const int64_t width = r.width;
  if (r.rows == 1) {  // all indices along it are its own
    std::fill_n(indices, width, r.row_index[0]);
    return row_at(r, 0);
  }
  std::fill_n(sums, width, lowest<T>);
  std::fill_n(indices, width, r.rows > 0 ? r.row_index[0] : 0);
  for (int64_t i = 0; i < r.rows; ++i) {
    const T* x = row_at(r, i);
    const int32_t index = r.row_index[i];
    NPUSIM_IVDEP
    for (int64_t n = 0; n < width; ++n) {
      const bool takes = (x[n] > sums[n]) | (x[n] != x[n]);
      indices[n] = takes ? index : indices[n];
      sums[n] = takes ? x[n] : sums[n];
    }
  }
  return sums;
}

// Every stride-th position from x on; what is behind the last of them may be read.
template <int64_t stride, typename T>
HWY_INLINE Vector<T> positions(const T* x) {
  const Lanes<T> d;
  if constexpr (stride == 1) return hn::LoadU(d, x);
  Vector<T> even, odd;
  hn::LoadInterleaved2(d, x, even, odd);
  return even;
}

// Windows that all have `taps` positions.
template <class Fold, int64_t stride, typename T>
void fold_inner(const T* from, const WindowLine& line, int64_t count, T* out) {
  constexpr auto lanes = static_cast<int64_t>(hn::MaxLanes(Lanes<T>()));
  static_assert(2 * lanes <= window_slack);
  for (int64_t o = 0; o < count; o += lanes) {
    Vector<T> fold = positions<stride>(from + o * stride);
    for (int64_t t = 1; t < line.taps; ++t) fold = Fold::of(fold, positions<stride>(from + t * line.step + o * stride));
    if (o + lanes <= count)
      hn::StoreU(fold, Lanes<T>(), out + o);
    else
      part::store(fold, out + o, count - o);
  }
}
template <class Fold, typename T>
void fold_inner_apart(const T* from, const WindowLine& line, int64_t count, T* out) {
  NPUSIM_IVDEP
  for (int64_t o = 0; o < count; ++o) out[o] = from[o * line.stride];
  for (int64_t t = 1; t < line.taps; ++t) {
    const T* x = from + t * line.step;
    NPUSIM_IVDEP
    for (int64_t o = 0; o < count; ++o) out[o] = Fold::of(out[o], x[o * line.stride]);
  }
}

template <int64_t known, typename T>
void index_inner(const T* from, const int32_t* indices, const WindowLine& line, int64_t count, T* out, int32_t* found) {
  const int64_t stride = known > 0 ? known : line.stride;
  NPUSIM_IVDEP
  for (int64_t o = 0; o < count; ++o) out[o] = from[o * stride], found[o] = indices[o * stride];
  for (int64_t t = 1; t < line.taps; ++t) {
    const T* x = from + t * line.step;
    const int32_t *at = indices + t * line.step, moved = static_cast<int32_t>(t) * line.tap_index;
    NPUSIM_IVDEP
    for (int64_t o = 0; o < count; ++o) {
      const T value = x[o * stride], best = out[o];
      const int32_t index = at[o * stride] + moved, before = found[o];
      const bool nan = value != value, number = best == best;
      const bool takes = (value > best) | ((value == best) & (index < before)) | (nan & (number | (index > before)));
      out[o] = takes ? value : best;
      found[o] = takes ? index : before;
    }
  }
}

constexpr int64_t lanes = 32, long_window = 4 * lanes;  // from where on the positions of one window fill lanes

// Positions side by side, folded in lanes and then lane by lane.
template <class Fold, typename T>
T fold_long(const T* x, int64_t count) {
  T lane[lanes];
  std::copy_n(x, lanes, lane);
  int64_t i = lanes;
  for (; i + lanes <= count; i += lanes) NPUSIM_IVDEP
  for (int64_t n = 0; n < lanes; ++n) lane[n] = Fold::of(lane[n], x[i + n]);
  for (int64_t n = 0; i + n < count; ++n) lane[n] = Fold::of(lane[n], x[i + n]);
  for (int64_t half = lanes / 2; half > 0; half /= 2)
    for (int64_t n = 0; n < half; ++n) lane[n] = Fold::of(lane[n], lane[n + half]);
  return lane[0];
}

// Of positions side by side the first that is `best`, or, where that is NaN, the last NaN.
template <typename T>
int64_t find_best(const T* x, int64_t count, T best) {
  constexpr int64_t block = 64;
  const bool nan = best != best;
  const int64_t blocks = (count + block - 1) / block;
  for (int64_t b = 0; b < blocks; ++b) {
    const int64_t begin = (nan ? blocks - 1 - b : b) * block, end = std::min(count, begin + block);
    int32_t hits = 0;
    if (nan)
      for (int64_t i = begin; i < end; ++i) hits += x[i] != x[i];
    else
      for (int64_t i = begin; i < end; ++i) hits += x[i] == best;
    if (hits == 0) continue;
    int64_t found = nan ? end - 1 : begin;
    while (nan ? x[found] == x[found] : x[found] != best) nan ? --found : ++found;
    return found;
  }
  return -1;
}

template <class Fold, typename T>
void fold_line(const WindowRows<T>& r, const WindowLine& line) {
  const bool one_by_one = line.inner == line.inner_end;
  const T* sums = fold_rows<Fold>(r, one_by_one);
  if (!one_by_one) {
    std::fill_n(r.sums - line.before, line.before, Fold::none);
    std::fill_n(r.sums + r.width, line.after, Fold::none);
  }
  const auto window = [&](int64_t o) {
    T sum = Fold::none;
    const T* x = sums + line.from[o];
    const int64_t count = line.count[o];
    if (line.step == 1 && count >= long_window) return r.out[o] = fold_long<Fold>(x, count), void();
    for (int64_t i = 0; i < count; ++i) sum = Fold::of(sum, x[i * line.step]);
    r.out[o] = sum;
  };
  for (int64_t o = 0; o < line.inner; ++o) window(o);
  if (const int64_t count = line.inner_end - line.inner; count > 0) {
    const T* from = sums + line.inner_from;
    T* out = r.out + line.inner;
    line.stride == 1   ? fold_inner<Fold, 1>(from, line, count, out)
    : line.stride == 2 ? fold_inner<Fold, 2>(from, line, count, out)
                       : fold_inner_apart<Fold>(from, line, count, out);
  }
  for (int64_t o = line.inner_end; o < line.windows; ++o) window(o);
}

template <typename T>
void fold_line_indices(const WindowRows<T>& r, const WindowLine& line) {
  const T* sums = fold_indices(r);
  const auto window = [&](int64_t o) {
    T best = lowest<T>;
    int32_t found = -1;
    if (const int64_t count = line.count[o]; r.rows == 1 && line.step == 1 && count >= long_window) {
      const T* x = sums + line.from[o];
      r.out[o] = best = fold_long<Max<T>>(x, count);
      r.found[o] = r.row_index[0] + static_cast<int32_t>(find_best(x, count, best)) * line.tap_index;
      return;
    }
    for (int64_t i = 0; i < line.count[o]; ++i) {
      const int64_t n = line.from[o] + i * line.step;
      const T x = sums[n];
      const int32_t index = r.indices[n] + static_cast<int32_t>(i) * line.tap_index;
      const bool nan = x != x, number = best == best;
      if (found < 0 || (nan ? number || index > found : x > best || (x == best && index < found)))
        best = x, found = index;
    }
    r.out[o] = best, r.found[o] = found;
  };
  for (int64_t o = 0; o < line.inner; ++o) window(o);
  if (const int64_t count = line.inner_end - line.inner; count > 0) {
    const int64_t at = line.inner_from, o = line.inner;
    line.stride == 1   ? index_inner<1>(sums + at, r.indices + at, line, count, r.out + o, r.found + o)
    : line.stride == 2 ? index_inner<2>(sums + at, r.indices + at, line, count, r.out + o, r.found + o)
                       : index_inner<0>(sums + at, r.indices + at, line, count, r.out + o, r.found + o);
  }
  for (int64_t o = line.inner_end; o < line.windows; ++o) window(o);
  if (r.rows == 0) return std::fill_n(r.out_index, line.windows, r.none), void();
  for (int64_t o = 0; o < line.windows; ++o)
    r.out_index[o] = line.count[o] == 0 ? r.none : r.base + line.index[o] + r.found[o];
}

template <typename T>
void fold_windows_of(WindowFold fold, const WindowRows<T>& rows, const WindowLine& line) {
  switch (fold) {
    case WindowFold::sum:
      return fold_line<Sum<T>>(rows, line);
    case WindowFold::max:
      return fold_line<Max<T>>(rows, line);
    case WindowFold::argmax:
      return fold_line_indices(rows, line);
  }
}
void fold_windows_of_floats(WindowFold fold, const WindowRows<float>& rows, const WindowLine& line) {
  fold_windows_of(fold, rows, line);
}
void fold_windows_of_doubles(WindowFold fold, const WindowRows<double>& rows, const WindowLine& line) {
  fold_windows_of(fold, rows, line);
}

void fold_windows_of_integers(WindowFold fold, const WindowRows<int64_t>& rows, const WindowLine& line) {
  fold_windows_of(fold, rows, line);
}

}  // namespace npusim::cpu::window::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npusim::cpu::window {
HWY_EXPORT(fold_windows_of_floats);
HWY_EXPORT(fold_windows_of_doubles);
HWY_EXPORT(fold_windows_of_integers);

void fold_windows(WindowFold fold, const WindowRows<float>& rows, const WindowLine& line) {
  HWY_DYNAMIC_DISPATCH(fold_windows_of_floats)(fold, rows, line);
}
void fold_windows(WindowFold fold, const WindowRows<double>& rows, const WindowLine& line) {
  HWY_DYNAMIC_DISPATCH(fold_windows_of_doubles)(fold, rows, line);
}
void fold_windows(WindowFold fold, const WindowRows<int64_t>& rows, const WindowLine& line) {
  HWY_DYNAMIC_DISPATCH(fold_windows_of_integers)(fold, rows, line);
}

}  // namespace npusim::cpu::window
#endif
