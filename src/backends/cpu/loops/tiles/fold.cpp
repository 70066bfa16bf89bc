// Tile functions along rows: reductions and scans.
#include "backends/cpu/loops/tiles/tile.h"
#include "backends/cpu/vector_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/loops/tiles/fold.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include "backends/cpu/loops/tiles/fold-inl.h"

HWY_BEFORE_NAMESPACE();
namespace npusim::cpu::loops::tiles::HWY_NAMESPACE {
namespace {

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

const float* floats(const TileCall& c, int64_t row) { return row_of<float>(c, 0, row); }

HWY_INLINE V min_nan(V a, V b) { return hn::IfThenElse(hn::IsNaN(a), a, hn::Min(a, b)); }
HWY_INLINE V max_nan(V a, V b) { return hn::IfThenElse(hn::IsNaN(a), a, hn::Max(a, b)); }

struct Sum {
  static constexpr float identity = 0;
  static HWY_INLINE V combine(V a, V b) { return hn::Add(a, b); }
  static HWY_INLINE double combine(double a, double b) { return a + b; }
  static HWY_INLINE float combine(float a, float b) { return a + b; }
  static HWY_INLINE float lanes(D d, V v) { return hn::GetLane(hn::SumOfLanes(d, v)); }
};
struct Product {
  static constexpr float identity = 1;
  static HWY_INLINE V combine(V a, V b) { return hn::Mul(a, b); }
  static HWY_INLINE float combine(float a, float b) { return a * b; }
  static HWY_INLINE float lanes(D d, V v) {
    HWY_ALIGN float buffer[HWY_MAX_BYTES / sizeof(float)];
    hn::StoreU(v, d, buffer);
    float product = 1;
    for (float f : buffer) product *= f;
    return product;
  }
};
struct Least {
  static constexpr float identity = std::numeric_limits<float>::infinity();
  static HWY_INLINE V combine(V a, V b) { return min_nan(a, b); }
  static HWY_INLINE float combine(float a, float b) { return a != a ? a : b != b ? b : a < b ? a : b; }
  static HWY_INLINE float lanes(D d, V v) {
    if (!hn::AllFalse(d, hn::IsNaN(v))) return std::numeric_limits<float>::quiet_NaN();
    return hn::GetLane(hn::MinOfLanes(d, v));
  }
};
struct Greatest {
  static constexpr float identity = -std::numeric_limits<float>::infinity();
  static HWY_INLINE V combine(V a, V b) { return max_nan(a, b); }
  static HWY_INLINE float combine(float a, float b) { return a != a ? a : b != b ? b : a > b ? a : b; }
  static HWY_INLINE float lanes(D d, V v) {
    if (!hn::AllFalse(d, hn::IsNaN(v))) return std::numeric_limits<float>::quiet_NaN();
    return hn::GetLane(hn::MaxOfLanes(d, v));
  }
};

// One row's fold: four accumulators, the rest of the row masked to the identity.
template <class R>
HWY_INLINE float fold_row(D d, const float* a, int64_t columns) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const V identity = hn::Set(d, R::identity);
  V s0 = identity, s1 = identity, s2 = identity, s3 = identity;
  int64_t j = 0;
  for (; j + 4 * lanes <= columns; j += 4 * lanes) {
    s0 = R::combine(s0, hn::LoadU(d, a + j));
    s1 = R::combine(s1, hn::LoadU(d, a + j + lanes));
    s2 = R::combine(s2, hn::LoadU(d, a + j + 2 * lanes));
    s3 = R::combine(s3, hn::LoadU(d, a + j + 3 * lanes));
  }
  for (; j + lanes <= columns; j += lanes) s0 = R::combine(s0, hn::LoadU(d, a + j));
  if (j < columns) {
    const auto valid = hn::FirstN(d, static_cast<size_t>(columns - j));
    s1 = R::combine(s1, hn::IfThenElse(valid, hn::LoadU(d, a + j), identity));
  }
  return R::lanes(d, R::combine(R::combine(s0, s1), R::combine(s2, s3)));
}

// Of squares of the distances from one number.
HWY_INLINE float sum_row_of_squares(D d, const float* a, V from, int64_t columns) {
  constexpr int64_t sums = 8;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  V s[sums];
  for (V& one : s) one = hn::Zero(d);
  int64_t j = 0;
  for (; j + sums * lanes <= columns; j += sums * lanes)
    for (int64_t k = 0; k < sums; ++k) {
      const V x = hn::Sub(hn::LoadU(d, a + j + k * lanes), from);
      s[k] = hn::MulAdd(x, x, s[k]);
    }
  for (; j < columns; j += lanes) {
    const auto valid = hn::FirstN(d, static_cast<size_t>(columns - j));
    const V x = hn::IfThenElseZero(valid, hn::Sub(hn::LoadU(d, a + j), from));
    s[0] = hn::MulAdd(x, x, s[0]);
  }
  const V low = hn::Add(hn::Add(s[0], s[1]), hn::Add(s[2], s[3])),
          high = hn::Add(hn::Add(s[4], s[5]), hn::Add(s[6], s[7]));
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(low, high)));
}

HWY_INLINE float sum_row_of_products(D d, const float* a, const float* b, int64_t columns) {
  if (a == b) return sum_row_of_squares(d, a, hn::Zero(d), columns);
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  V s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  const auto next = [&](int64_t j, V sum) { return hn::MulAdd(hn::LoadU(d, a + j), hn::LoadU(d, b + j), sum); };
  int64_t j = 0;
  for (; j + 4 * lanes <= columns; j += 4 * lanes) {
    s0 = next(j, s0);
    s1 = next(j + lanes, s1);
    s2 = next(j + 2 * lanes, s2);
    s3 = next(j + 3 * lanes, s3);
  }
  for (; j + lanes <= columns; j += lanes) s0 = next(j, s0);
  if (j < columns) {
    const auto valid = hn::FirstN(d, static_cast<size_t>(columns - j));
    s1 = hn::IfThenElse(valid, next(j, s1), s1);
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
}

template <class Accumulator>
void sum_products_columns(const TileCall& c) {
  const D d;
  for (int64_t r = 0; r < c.rows; ++r)
    static_cast<Accumulator*>(c.dst)[r * c.dst_row] +=
        static_cast<Accumulator>(sum_row_of_products(d, floats(c, r), row_of<float>(c, 1, r), c.columns));
}

template <class Accumulator>
void sum_deviations(const TileCall& c) {
  const D d;
  for (int64_t r = 0; r < c.rows; ++r)
    static_cast<Accumulator*>(c.dst)[r * c.dst_row] +=
        static_cast<Accumulator>(sum_row_of_squares(d, floats(c, r), hn::Set(d, *row_of<float>(c, 1, r)), c.columns));
}

template <class R, class Accumulator>
void fold_columns(const TileCall& c) {
  const D d;
  for (int64_t r = 0; r < c.rows; ++r) {
    Accumulator& sum = static_cast<Accumulator*>(c.dst)[r * c.dst_row];
    sum = R::combine(sum, static_cast<Accumulator>(fold_row<R>(d, floats(c, r), c.columns)));
  }
}

HWY_INLINE void add_wide(D d, V v, double* out) {
  HWY_ALIGN float buffer[HWY_MAX_BYTES / sizeof(float)];
  hn::StoreU(v, d, buffer);
  for (size_t i = 0; i < hn::Lanes(d); ++i) out[i] += static_cast<double>(buffer[i]);
}

// `along`: the row is along the tile's rows. Else each of those has one point of it.
template <bool wide, bool along>
void sum_products_rows(const TileCall& c) {
  const D d;
  for (int64_t group = 0; group < (along ? 1 : c.rows); ++group)
    for (int64_t j = 0; j < c.n; j += static_cast<int64_t>(hn::Lanes(d))) {
      V sum = hn::Zero(d);
      for (int64_t r = group; r < (along ? c.rows : group + 1); ++r)
        sum = hn::MulAdd(hn::LoadU(d, floats(c, r) + j), hn::LoadU(d, row_of<float>(c, 1, r) + j), sum);
      if constexpr (wide) {
        add_wide(d, sum, static_cast<double*>(c.dst) + group * c.dst_row + j);
      } else {
        float* out = dst_row_of<float>(c, group) + j;
        hn::StoreU(hn::Add(hn::LoadU(d, out), sum), d, out);
      }
    }
}

// How many booleans hold: bytes are added up as such as long as they fit.
template <class T>
void count_columns(const TileCall& c) {
  for (int64_t r = 0; r < c.rows; ++r) {
    const uint8_t* a = row_of<uint8_t>(c, 0, r);
    int64_t count = 0;
    constexpr int64_t lanes = 32, most = 255 * lanes;
    int64_t j = 0;
    while (j + lanes <= c.columns) {
      uint8_t sums[lanes] = {};
      const int64_t end = j + std::min(most, (c.columns - j) / lanes * lanes);
      for (; j < end; j += lanes)
        for (int64_t k = 0; k < lanes; ++k) sums[k] = static_cast<uint8_t>(sums[k] + a[j + k]);
      for (const uint8_t sum : sums) count += sum;
    }
    for (; j < c.columns; ++j) count += a[j];
    T& all = static_cast<T*>(c.dst)[r * c.dst_row];
    all = static_cast<T>(all + count);
  }
}
template <class T, bool along>
void count_rows(const TileCall& c) {
  for (int64_t r = 0; r < c.rows; ++r) {
    const uint8_t* a = row_of<uint8_t>(c, 0, r);
    T* out = static_cast<T*>(c.dst) + (along ? 0 : r * c.dst_row);
    NPUSIM_IVDEP
    for (int64_t j = 0; j < c.n; ++j) out[j] = static_cast<T>(out[j] + a[j]);
  }
}

template <class R, bool wide>
void fold_rows(const TileCall& c) {
  const D d;
  for (int64_t j = 0; j < c.n; j += static_cast<int64_t>(hn::Lanes(d))) {
    const V identity = hn::Set(d, R::identity);
    V s0 = identity, s1 = identity;
    const float* a = floats(c, 0) + j;
    int64_t r = 0;
    for (; r + 2 <= c.rows; r += 2, a += 2 * c.in_row[0]) {
      s0 = R::combine(s0, hn::LoadU(d, a));
      s1 = R::combine(s1, hn::LoadU(d, a + c.in_row[0]));
    }
    if (r < c.rows) s0 = R::combine(s0, hn::LoadU(d, a));
    const V sum = R::combine(s0, s1);
    if constexpr (wide) {
      add_wide(d, sum, static_cast<double*>(c.dst) + j);
    } else {
      float* out = static_cast<float*>(c.dst) + j;
      hn::StoreU(R::combine(hn::LoadU(d, out), sum), d, out);
    }
  }
}

template <class R, bool wide>
void fold_none(const TileCall& c) {
  const D d;
  for (int64_t r = 0; r < c.rows; ++r) {
    const float* a = floats(c, r);
    for (int64_t j = 0; j < c.n; j += static_cast<int64_t>(hn::Lanes(d))) {
      if constexpr (wide) {
        add_wide(d, hn::LoadU(d, a + j), static_cast<double*>(c.dst) + r * c.dst_row + j);
      } else {
        float* out = dst_row_of<float>(c, r) + j;
        hn::StoreU(R::combine(hn::LoadU(d, out), hn::LoadU(d, a + j)), d, out);
      }
    }
  }
}

template <class R>
TileFn choose_float_fold(Fold fold) {
  if (fold == Fold::columns) return fold_columns<R, float>;
  return fold == Fold::rows ? fold_rows<R, false> : fold_none<R, false>;
}

// Of several rows at once: each waits for its own last sum.
template <class T, class Carry, class F, int rows>
void scan_rows(const TileCall& c, int64_t first) {
  Carry* kept = const_cast<Carry*>(static_cast<const Carry*>(c.in[1])) + first;
  const T* a = row_of<T>(c, 0, first);
  T* out = dst_row_of<T>(c, first);
  const int64_t in_row = c.in_row[0], out_row = c.dst_row;
  Carry carry[rows];
  for (int r = 0; r < rows; ++r) carry[r] = kept[r];
  for (int64_t j = 0; j < c.columns; ++j)
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r)
      out[r * out_row + j] = static_cast<T>(carry[r] = F::of(carry[r], static_cast<Carry>(a[r * in_row + j])));
  for (int r = 0; r < rows; ++r) kept[r] = carry[r];
}
template <class T, class Carry, class F>
void scan(const TileCall& c) {
  int64_t r = 0;
  for (; r + 4 <= c.rows; r += 4) scan_rows<T, Carry, F, 4>(c, r);
  for (; r < c.rows; ++r) scan_rows<T, Carry, F, 1>(c, r);
}

// Whether no element is beyond the extreme so far; there is no beyond NaN, and NaN is.
template <bool highest, class D, class Vector>
HWY_INLINE bool none_beyond(D d, Vector x, Vector top) {
  if constexpr (std::is_integral_v<hn::TFromD<D>>)
    return hn::AllFalse(d, highest ? hn::Gt(x, top) : hn::Lt(x, top));
  else
    return hn::AllTrue(d, highest ? hn::Le(x, top) : hn::Ge(x, top));
}

// The extreme of what it was and one more; NaN stays. Without a branch, which short rows would take every other time.
template <bool highest>
struct Further {
  template <class T>
  static HWY_INLINE T of(T top, T x) {
    using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
    const bool beyond = !(highest ? x <= top : x >= top) & (top == top);
    const Bits mask = -static_cast<Bits>(beyond), before = std::bit_cast<Bits>(top);
    return std::bit_cast<T>(static_cast<Bits>(before ^ ((before ^ std::bit_cast<Bits>(x)) & mask)));
  }
};

constexpr int64_t short_row = 128;  // where a new extreme is not rare

// The extreme so far, of long rows rarely a new one: NaN from the first one on.
template <class T, class Carry, bool highest>
void scan_extreme(const TileCall& c) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t begin = 0;
  for (; c.columns < short_row && begin + 4 <= c.rows; begin += 4) scan_rows<T, Carry, Further<highest>, 4>(c, begin);
  for (int64_t r = begin; r < c.rows; ++r) {
    Carry& kept = const_cast<Carry*>(static_cast<const Carry*>(c.in[1]))[r];
    const T* a = row_of<T>(c, 0, r);
    T* out = dst_row_of<T>(c, r);
    T top = static_cast<T>(kept);
    const auto walk = [&](int64_t begin, int64_t end) {
      for (int64_t j = begin; j < end; ++j) {
        out[j] = top = Further<highest>::of(top, a[j]);
      }
    };
    int64_t j = 0;
    for (; j + lanes <= c.columns; j += lanes) {
      const auto x = hn::LoadU(d, a + j), tops = hn::Set(d, top);
      if (none_beyond<highest>(d, x, tops))
        hn::StoreU(tops, d, out + j);
      else
        walk(j, j + lanes);
    }
    walk(j, c.columns);
    kept = static_cast<Carry>(top);
  }
}

// in[0] elements, in[2] their running extreme, in[1] the last index of it so far, by row.
template <class T, int rows>
void running_index_rows(const TileCall& c, int64_t begin) {
  int64_t* kept = const_cast<int64_t*>(static_cast<const int64_t*>(c.in[1])) + begin;
  const T *a = row_of<T>(c, 0, begin), *tops = row_of<T>(c, 2, begin);
  int64_t* out = dst_row_of<int64_t>(c, begin);
  const int64_t first = *static_cast<const int64_t*>(c.extra), in_row = c.in_row[0], tops_row = c.in_row[2];
  int64_t index[rows];
  for (int r = 0; r < rows; ++r) index[r] = kept[r];
  for (int64_t j = 0; j < c.columns; ++j)
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r) {
      const T x = a[r * in_row + j];
      const bool hit = (x == tops[r * tops_row + j]) | (x != x);
      index[r] ^= (index[r] ^ (first + j)) & -static_cast<int64_t>(hit);
      out[r * c.dst_row + j] = index[r];
    }
  for (int r = 0; r < rows; ++r) kept[r] = index[r];
}

template <class T>
void running_index(const TileCall& c) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t first = *static_cast<const int64_t*>(c.extra);
  int64_t begin = 0;
  for (; c.columns < short_row && begin + 4 <= c.rows; begin += 4) running_index_rows<T, 4>(c, begin);
  for (int64_t r = begin; r < c.rows; ++r) {
    int64_t& kept = const_cast<int64_t*>(static_cast<const int64_t*>(c.in[1]))[r];
    const T *a = row_of<T>(c, 0, r), *tops = row_of<T>(c, 2, r);
    int64_t* out = dst_row_of<int64_t>(c, r);
    int64_t index = kept;
    const auto walk = [&](int64_t from, int64_t to) {
      for (int64_t j = from; j < to; ++j) {
        if (a[j] == tops[j] || a[j] != a[j]) index = first + j;
        out[j] = index;
      }
    };
    int64_t j = 0;
    for (; j + lanes <= c.columns; j += lanes) {
      const auto x = hn::LoadU(d, a + j);
      auto hit = hn::Eq(x, hn::LoadU(d, tops + j));
      if constexpr (!std::is_integral_v<T>) hit = hn::Or(hit, hn::IsNaN(x));
      if (hn::AllFalse(d, hit))
        for (int64_t i = 0; i < lanes; ++i) out[j + i] = index;
      else
        walk(j, j + lanes);
    }
    walk(j, c.columns);
    kept = index;
  }
}

// The log of Σ exp: top + log(sum), of which infinities that are equal need no difference.
template <class T>
void scan_log(const TileCall& c) {
  for (int64_t r = 0; r < c.rows; ++r) {
    double& kept = const_cast<double*>(static_cast<const double*>(c.in[1]))[r];
    const T* a = row_of<T>(c, 0, r);
    T* out = dst_row_of<T>(c, r);
    double top = kept, sum = top == -std::numeric_limits<double>::infinity() ? 0 : 1;
    for (int64_t j = 0; j < c.columns; ++j) {
      const double x = static_cast<double>(a[j]);
      if (x > top)
        sum = sum * std::exp(top - x) + 1, top = x;
      else
        sum += x == top ? 1 : std::exp(x - top);
      kept = top + std::log(sum);
      out[j] = static_cast<T>(kept);
    }
  }
}

// Rows of doubles, of which the compiler makes no vectors: NaN stays.
template <bool highest, class F>
void extreme_of_doubles(const TileCall& c) {
  const hn::ScalableTag<double> d;
  using W = hn::Vec<decltype(d)>;
  if (fold_few<double, F>(c)) return;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const auto beyond = [](W a, W b)
                          HWY_ATTR { return hn::IfThenElse(hn::IsNaN(a), a, highest ? hn::Max(a, b) : hn::Min(a, b)); };
  for (int64_t r = 0; r < c.rows; ++r) {
    const double* a = row_of<double>(c, 0, r);
    W top[4];
    for (W& one : top) one = hn::Set(d, highest ? -infinity : infinity);
    int64_t j = 0;
    for (; j + 4 * lanes <= c.columns; j += 4 * lanes)
      for (int64_t k = 0; k < 4; ++k) top[k] = beyond(top[k], hn::LoadU(d, a + j + k * lanes));
    for (; j + lanes <= c.columns; j += lanes) top[0] = beyond(top[0], hn::LoadU(d, a + j));
    const W all = beyond(beyond(top[0], top[1]), beyond(top[2], top[3]));
    double& out = static_cast<double*>(c.dst)[r * c.dst_row];
    const bool none = hn::AllFalse(d, hn::IsNaN(all));
    out = F::of(out, none ? hn::GetLane(highest ? hn::MaxOfLanes(d, all) : hn::MinOfLanes(d, all))
                          : std::numeric_limits<double>::quiet_NaN());
    for (; j < c.columns; ++j) out = F::of(out, a[j]);
  }
}

// ---- tables

TileFn find_float_reduce(Reduction reduction, Fold fold, bool wide) {
  switch (reduction) {
    case Reduction::sum:
      if (!wide) return choose_float_fold<Sum>(fold);
      if (fold == Fold::columns) return fold_columns<Sum, double>;
      return fold == Fold::rows ? fold_rows<Sum, true> : fold_none<Sum, true>;
    case Reduction::product:
      return choose_float_fold<Product>(fold);
    case Reduction::min:
      return choose_float_fold<Least>(fold);
    default:
      return choose_float_fold<Greatest>(fold);
  }
}

TileFn find_sum_of_products(Fold fold, bool wide) {
  if (fold == Fold::columns) return wide ? sum_products_columns<double> : sum_products_columns<float>;
  if (fold == Fold::rows) return wide ? sum_products_rows<true, true> : sum_products_rows<false, true>;
  return wide ? sum_products_rows<true, false> : sum_products_rows<false, false>;
}
TileFn find_sum_of_deviations(bool wide) { return wide ? sum_deviations<double> : sum_deviations<float>; }
template <class T>
TileFn find_count_in(Fold fold) {
  return fold == Fold::columns ? count_columns<T> : fold == Fold::rows ? count_rows<T, true> : count_rows<T, false>;
}
TileFn find_count(Fold fold, IntLane lane) {
  switch (lane_bytes(lane)) {
    case 1:
      return find_count_in<uint8_t>(fold);
    case 2:
      return find_count_in<uint16_t>(fold);
    case 4:
      return find_count_in<uint32_t>(fold);
    default:
      return find_count_in<int64_t>(fold);
  }
}

template <class T, class Add, class Multiply>
TileFn find_fold(Reduction reduction, Fold form) {
  switch (reduction) {
    case Reduction::sum:
      return choose_fold<T, Add>(form);
    case Reduction::product:
      return choose_fold<T, Multiply>(form);
    case Reduction::min:
      return choose_fold<T, Lesser>(form);
    default:
      return choose_fold<T, Greater>(form);
  }
}
TileFn find_plain_reduce(Reduction reduction, Scalar type, Fold form) {
  if (type == Scalar::i64) return find_fold<int64_t, WrapPlus, WrapTimes>(reduction, form);
  if (form == Fold::columns && reduction == Reduction::min) return extreme_of_doubles<false, Lesser>;
  if (form == Fold::columns && reduction == Reduction::max) return extreme_of_doubles<true, Greater>;
  return find_fold<double, Plus, Times>(reduction, form);
}
template <class T, class Carry, class Add, class Multiply>
TileFn choose_scan(Reduction reduction) {
  switch (reduction) {
    case Reduction::sum:
      return scan<T, Carry, Add>;
    case Reduction::product:
      return scan<T, Carry, Multiply>;
    case Reduction::min:
      return scan_extreme<T, Carry, false>;
    default:
      return scan_extreme<T, Carry, true>;
  }
}
TileFn find_scan(Reduction reduction, Scalar type) {
  if (type == Scalar::i64) return choose_scan<int64_t, int64_t, WrapPlus, WrapTimes>(reduction);
  if (type == Scalar::f32) return choose_scan<float, double, Plus, Times>(reduction);
  return choose_scan<double, double, Plus, Times>(reduction);
}
TileFn find_running_index(Scalar type) {
  if (type == Scalar::i64) return running_index<int64_t>;
  return type == Scalar::f32 ? running_index<float> : running_index<double>;
}
TileFn find_log_scan(Scalar type) { return type == Scalar::f32 ? scan_log<float> : scan_log<double>; }

}  // namespace
}  // namespace npusim::cpu::loops::tiles::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npusim::cpu::loops::tiles {
HWY_EXPORT(find_float_reduce);
HWY_EXPORT(find_plain_reduce);
HWY_EXPORT(find_sum_of_products);
HWY_EXPORT(find_sum_of_deviations);
HWY_EXPORT(find_count);
HWY_EXPORT(find_scan);
HWY_EXPORT(find_log_scan);
HWY_EXPORT(find_running_index);

TileFn reduce_fn(Reduction reduction, Scalar type, Fold fold, bool wide) {
  if (type == Scalar::f32) return HWY_DYNAMIC_DISPATCH(find_float_reduce)(reduction, fold, wide);
  return HWY_DYNAMIC_DISPATCH(find_plain_reduce)(reduction, type, fold);
}
TileFn sum_of_products_fn(Fold fold, bool wide) { return HWY_DYNAMIC_DISPATCH(find_sum_of_products)(fold, wide); }
TileFn sum_of_deviations_fn(bool wide) { return HWY_DYNAMIC_DISPATCH(find_sum_of_deviations)(wide); }
TileFn count_fn(Fold fold, IntLane lane) { return HWY_DYNAMIC_DISPATCH(find_count)(fold, lane); }
TileFn scan_fn(Reduction reduction, Scalar type) { return HWY_DYNAMIC_DISPATCH(find_scan)(reduction, type); }
TileFn running_index_fn(Scalar type) { return HWY_DYNAMIC_DISPATCH(find_running_index)(type); }
TileFn log_scan_fn(Scalar type) { return HWY_DYNAMIC_DISPATCH(find_log_scan)(type); }
}  // namespace npusim::cpu::loops::tiles
#endif
