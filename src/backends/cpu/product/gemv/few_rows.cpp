// Dot products with the rows of a matrix and sums of its rows, compiled once per instruction set.
#include "backends/cpu/product/gemv/few_rows.h"

#include <algorithm>
#include <array>
#include <utility>

#include "backends/cpu/vector_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/product/gemv/few_rows.cpp"
#include <hwy/foreach_target.h>

#include "backends/cpu/product/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace npusim::cpu::product::gemv {
namespace HWY_NAMESPACE {
using namespace product::HWY_NAMESPACE;

constexpr int64_t lanes = static_cast<int64_t>(hn::MaxLanes(F()));
constexpr bool has_many = HWY_TARGET == HWY_AVX3;
constexpr int64_t prefetch_bytes = 2048;  // ahead in the weight: the hardware does not cross pages

// How many rows at once: sums, and next to them a step's operands, fill the registers. 16-bit elements are mostly those
// of long sums, which wait for memory: half as many keep the code small.
template <class Type>
constexpr int64_t most_rows = has_many && sizeof(typename Type::T) == 4 ? 8 : 4;
constexpr int64_t most_dot_rows = 4;

template <class Type>
struct Product {
  const typename Type::T* w;
  int64_t stride, columns, depth;
  const float* x;
  int64_t ld_x;
  float* out;
  int64_t ld_out;
};

// One column of w against `rows` vectors: 4 independent sums per vector. The depth is at least a vector.
template <class Type, int rows>
HWY_INLINE void dot_column(const Product<Type>& p, int64_t column) {
  const F f;
  constexpr int unroll = 4;
  constexpr int64_t step = unroll * lanes;
  const auto* w = p.w + column * p.stride;
  VF sum[rows][unroll];
#pragma GCC unroll 16
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 16
    for (int u = 0; u < unroll; ++u) sum[r][u] = hn::Zero(f);
  int64_t k = 0;
  for (; k + step <= p.depth; k += step) {
    const auto* ahead = reinterpret_cast<const char*>(w + k) + prefetch_bytes;
    for (size_t line = 0; line < step * sizeof(typename Type::T); line += 64) __builtin_prefetch(ahead + line, 0, 3);
#pragma GCC unroll 16
    for (int u = 0; u < unroll; ++u) {
      const VF weight = Type::load(w + k + u * lanes);
#pragma GCC unroll 16
      for (int r = 0; r < rows; ++r)
        sum[r][u] = hn::MulAdd(weight, hn::LoadU(f, p.x + r * p.ld_x + k + u * lanes), sum[r][u]);
    }
  }
  for (; k + lanes <= p.depth; k += lanes) {
    const VF weight = Type::load(w + k);
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r) sum[r][0] = hn::MulAdd(weight, hn::LoadU(f, p.x + r * p.ld_x + k), sum[r][0]);
  }
  if (k < p.depth) {  // the last vector, without what was counted
    const auto counted = hn::FirstN(f, static_cast<size_t>(lanes - (p.depth - k)));
    const VF weight = hn::IfThenZeroElse(counted, Type::load(w + p.depth - lanes));
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r) {
      const VF x = hn::IfThenZeroElse(counted, hn::LoadU(f, p.x + r * p.ld_x + p.depth - lanes));
      sum[r][1] = hn::MulAdd(weight, x, sum[r][1]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < rows; ++r)
    p.out[r * p.ld_out + column] =
        hn::GetLane(hn::SumOfLanes(f, hn::Add(hn::Add(sum[r][0], sum[r][1]), hn::Add(sum[r][2], sum[r][3]))));
}

// Sums of each row, of every second element or every fourth: exacter than one, and none waits for the last addition.
template <int rows>
constexpr int transposed_sums = rows <= (has_many ? 4 : 1) ? 4 : 2;

// Adds four elements from k on of as many columns of w as a vector has lanes, which row() gives; those in [first, end)
// count.
template <class Type, int rows, class Row>
HWY_INLINE void add_four(const Product<Type>& p, Row&& row, int64_t k, int first, int end,
                         VF (&sum)[rows][transposed_sums<rows>]) {
  VF column[4];
  load_columns<Type>(row, column);
#pragma GCC unroll 4
  for (int c = 0; c < 4; ++c) {
    if (c < first || c >= end) continue;
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
      VF& to = sum[r][c % transposed_sums<rows>];
      to = hn::MulAdd(hn::Set(F(), p.x[r * p.ld_x + k + c]), column[c], to);
    }
  }
}
template <class Type, int rows, bool whole>
HWY_INLINE void dot_side_by_side(const Product<Type>& p, int64_t n, int64_t there) {
  using T = typename Type::T;
  constexpr int sums = transposed_sums<rows>;
  const T* w = p.w + n * p.stride;
  const int64_t stride = p.stride, depth = p.depth;
  const int rest = static_cast<int>(depth % 4);
  VF sum[rows][sums];
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 4
    for (int i = 0; i < sums; ++i) sum[r][i] = hn::Zero(F());
  const auto row_at = [&](int64_t k) {
    return [=](int64_t i) HWY_ATTR { return w + (whole ? i : std::min(i, there - 1)) * stride + k; };
  };
  for (int64_t k = 0; k + 4 <= depth; k += 4) add_four<Type, rows>(p, row_at(k), k, 0, 4, sum);
  // The last few: with some before them, or with what is behind a column where others lie there.
  const bool behind = stride > 0 && n + lanes + 3 <= p.columns;
  if (rest > 0 && depth >= 4) {
    add_four<Type, rows>(p, row_at(depth - 4), depth - 4, 4 - rest, 4, sum);
  } else if (rest > 0 && behind) {
    add_four<Type, rows>(p, row_at(0), 0, 0, rest, sum);
  } else if (rest > 0) {
    T some[lanes][4] = {};
    for (int64_t i = 0; i < lanes; ++i)
      for (int64_t k = 0; k < rest; ++k) some[i][k] = w[std::min(i, there - 1) * stride + k];
    const auto row = [&](int64_t i) HWY_ATTR { return some[i]; };
    add_four<Type, rows>(p, row, 0, 0, rest, sum);
  }
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r) {
    VF total = hn::Add(sum[r][0], sum[r][1]);
    if constexpr (sums == 4) total = hn::Add(total, hn::Add(sum[r][2], sum[r][3]));
    store_first(total, p.out + r * p.ld_out + n, there);
  }
}

template <class Type, int rows>
void dot_rows_side_by_side(const Product<Type>& p) {
  int64_t n = 0;
  for (; n + lanes <= p.columns; n += lanes) dot_side_by_side<Type, rows, true>(p, n, lanes);
  if (n < p.columns) dot_side_by_side<Type, rows, false>(p, n, p.columns - n);
}
template <class Type, int rows>
void dot_rows_one_by_one(const Product<Type>& p) {
  for (int64_t n = 0; n < p.columns; ++n) dot_column<Type, rows>(p, n);
}

template <class Type>
using Function = void (*)(const Product<Type>&);
template <class Type, int... i>
constexpr std::array<Function<Type>, sizeof...(i)> side_by_side_of(std::integer_sequence<int, i...>) {
  return {dot_rows_side_by_side<Type, i + 1>...};
}
template <class Type, int... i>
constexpr std::array<Function<Type>, sizeof...(i)> one_by_one_of(std::integer_sequence<int, i...>) {
  return {dot_rows_one_by_one<Type, i + 1>...};
}

// Transposing columns costs what it does for any number of rows; one by one, each row has sums of vectors of its own.
// The choice does not depend on the number of columns, which threads share.
constexpr int64_t transposed_depth(int64_t rows) { return rows <= most_dot_rows ? 64 : 288; }

void dot_columns(DType dtype, const void* w, int64_t stride, int64_t columns, int64_t depth, const float* x,
                 int64_t ld_x, int64_t rows, float* out, int64_t ld_out) {
  with_type(dtype, [&](auto type) {
    using Type = decltype(type);
    Product<Type> p{static_cast<const typename Type::T*>(w), stride, columns, depth, x, ld_x, out, ld_out};
    static constexpr auto transposed = side_by_side_of<Type>(std::make_integer_sequence<int, most_rows<Type>>());
    static constexpr auto single = one_by_one_of<Type>(std::make_integer_sequence<int, most_dot_rows>());
    const bool transposes = depth < lanes || (stride != 0 && depth < transposed_depth(rows));
    const int64_t most = transposes ? most_rows<Type> : most_dot_rows;
    for (int64_t r = 0, now = 0; r < rows; r += now) {
      now = std::min(most, rows - r);
      p.x = x + r * ld_x, p.out = out + r * ld_out;
      const auto which = static_cast<size_t>(now - 1);
      transposes ? transposed[which](p) : single[which](p);
    }
  });
}

// A few vectors of sums along the rows of w. Where they are few, several of each hide how long an addition takes.
template <class Type, int rows, int vectors, bool whole>
HWY_INLINE void weigh(const Product<Type>& p, int64_t n, int64_t last) {
  const F f;
  constexpr int sums = rows * vectors, sets = sums >= 8 ? 1 : sums >= 3 ? 2 : 4;
  VF sum[sets][rows][vectors];
#pragma GCC unroll 4
  for (int s = 0; s < sets; ++s)
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r)
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) sum[s][r][v] = hn::Zero(f);
  const typename Type::T* w = p.w + n;
  const auto add = [&](int64_t k, int s) HWY_ATTR __attribute__((always_inline)) {
    VF row[vectors];
#pragma GCC unroll 4
    for (int v = 0; v < vectors - 1; ++v) row[v] = Type::load(w + k * p.stride + v * lanes);
    const auto* end = w + k * p.stride + (vectors - 1) * lanes;
    row[vectors - 1] = whole ? Type::load(end) : load_first<Type>(end, last);
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
      const VF x = hn::Set(f, p.x[r * p.ld_x + k]);
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) sum[s][r][v] = hn::MulAdd(x, row[v], sum[s][r][v]);
    }
  };
  int64_t k = 0;
  for (; k + sets <= p.depth; k += sets)
#pragma GCC unroll 4
    for (int s = 0; s < sets; ++s) add(k + s, s);
  for (; k < p.depth; ++k) add(k, 0);
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      VF total = sum[0][r][v];
      if constexpr (sets == 2) total = hn::Add(total, sum[1][r][v]);
      if constexpr (sets == 4) total = hn::Add(hn::Add(total, sum[1][r][v]), hn::Add(sum[2][r][v], sum[3][r][v]));
      float* to = p.out + r * p.ld_out + n + v * lanes;
      const int64_t there = v < vectors - 1 ? lanes : last;
      if (there == lanes)
        hn::StoreU(hn::Add(hn::LoadU(f, to), total), f, to);
      else
        store_first(hn::Add(load_first<F32>(to, there), total), to, there);
    }
}

constexpr int64_t most_vectors = has_many ? 3 : 2;
template <class Type, int rows, bool whole>
HWY_INLINE void weigh_vectors(const Product<Type>& p, int64_t vectors, int64_t n, int64_t last) {
  if (vectors == 1) return weigh<Type, rows, 1, whole>(p, n, last);
  if (vectors == 2) return weigh<Type, rows, 2, whole>(p, n, last);
  if constexpr (most_vectors == 3) weigh<Type, rows, 3, whole>(p, n, last);
}
// Where loading a part of a vector is as fast as loading one.
template <class Type>
constexpr bool masks = has_many&& std::is_same_v<Type, F32>;
// Passes over as even numbers of vectors as can be; the last vector may be a part of one.
template <class Type, int rows>
void weigh_rows(const Product<Type>& p) {
  const int64_t vectors = (p.columns + lanes - 1) / lanes, passes = (vectors + most_vectors - 1) / most_vectors;
  for (int64_t pass = 0; pass < passes; ++pass) {
    const int64_t v0 = vectors * pass / passes, v1 = vectors * (pass + 1) / passes, n = v0 * lanes;
    const int64_t last = std::min(lanes, p.columns - (v1 - 1) * lanes);
    if (last == lanes && !masks<Type>)
      weigh_vectors<Type, rows, true>(p, v1 - v0, n, last);
    else
      weigh_vectors<Type, rows, false>(p, v1 - v0, n, last);
  }
}
template <class Type, int... i>
constexpr std::array<Function<Type>, sizeof...(i)> weigh_of(std::integer_sequence<int, i...>) {
  return {weigh_rows<Type, i + 1>...};
}

// Some rows of w, each from its first column to its last, into the sums: w is read as it lies.
template <class Type, int rows, int depth>
HWY_INLINE void add_rows(const Product<Type>& p, int64_t k) {
  const F f;
  VF x[rows][depth];
#pragma GCC unroll 4
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 4
    for (int i = 0; i < depth; ++i) x[r][i] = hn::Set(f, p.x[r * p.ld_x + k + i]);
  const typename Type::T* w = p.w + k * p.stride;
  for (int64_t n = 0; n < p.columns; n += lanes) {
    const int64_t there = std::min(lanes, p.columns - n);
    VF row[depth];
#pragma GCC unroll 4
    for (int i = 0; i < depth; ++i)
      row[i] = there == lanes ? Type::load(w + i * p.stride + n) : load_first<Type>(w + i * p.stride + n, there);
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r) {
      float* to = p.out + r * p.ld_out + n;
      VF sum = hn::Mul(x[r][0], row[0]);
#pragma GCC unroll 4
      for (int i = 1; i < depth; ++i) sum = hn::MulAdd(x[r][i], row[i], sum);
      sum = hn::Add(there == lanes ? hn::LoadU(f, to) : load_first<F32>(to, there), sum);
      if (there == lanes)
        hn::StoreU(sum, f, to);
      else
        store_first(sum, to, there);
    }
  }
}
template <class Type, int rows>
void add_all_rows(const Product<Type>& p) {
  constexpr int together = 4;
  int64_t k = 0;
  for (; k + together <= p.depth; k += together) add_rows<Type, rows, together>(p, k);
  for (; k < p.depth; ++k) add_rows<Type, rows, 1>(p, k);
}

void add_long_rows(DType dtype, const void* w, int64_t stride, int64_t columns, int64_t depth, const float* x,
                   int64_t ld_x, int64_t rows, float* out, int64_t ld_out) {
  with_type(dtype, [&](auto type) {
    using Type = decltype(type);
    Product<Type> p{static_cast<const typename Type::T*>(w), stride, columns, depth, x, ld_x, out, ld_out};
    for (int64_t r = 0; r < rows; r += 2) {
      p.x = x + r * ld_x, p.out = out + r * ld_out;
      rows - r > 1 ? add_all_rows<Type, 2>(p) : add_all_rows<Type, 1>(p);
    }
  });
}

void add_weighted(DType dtype, const void* w, int64_t stride, int64_t columns, int64_t depth, const float* x,
                  int64_t ld_x, int64_t rows, float* out, int64_t ld_out) {
  with_type(dtype, [&](auto type) {
    using Type = decltype(type);
    Product<Type> p{static_cast<const typename Type::T*>(w), stride, columns, depth, x, ld_x, out, ld_out};
    static constexpr auto functions = weigh_of<Type>(std::make_integer_sequence<int, most_rows<Type>>());
    for (int64_t r = 0, now = 0; r < rows; r += now) {
      now = std::min(most_rows<Type>, rows - r);
      p.x = x + r * ld_x, p.out = out + r * ld_out;
      functions[static_cast<size_t>(now - 1)](p);
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace npusim::cpu::product::gemv
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npusim::cpu::product::gemv {
HWY_EXPORT(dot_columns);
HWY_EXPORT(add_weighted);
HWY_EXPORT(add_long_rows);

void dot_columns(DType dtype, const void* w, int64_t stride, int64_t columns, int64_t depth, const float* x,
                 int64_t ld_x, int64_t rows, float* out, int64_t ld_out) {
  HWY_DYNAMIC_DISPATCH(dot_columns)(dtype, w, stride, columns, depth, x, ld_x, rows, out, ld_out);
}
void add_long_rows(DType dtype, const void* w, int64_t stride, int64_t columns, int64_t depth, const float* x,
                   int64_t ld_x, int64_t rows, float* out, int64_t ld_out) {
  HWY_DYNAMIC_DISPATCH(add_long_rows)(dtype, w, stride, columns, depth, x, ld_x, rows, out, ld_out);
}
void add_weighted(DType dtype, const void* w, int64_t stride, int64_t columns, int64_t depth, const float* x,
                  int64_t ld_x, int64_t rows, float* out, int64_t ld_out) {
  HWY_DYNAMIC_DISPATCH(add_weighted)(dtype, w, stride, columns, depth, x, ld_x, rows, out, ld_out);
}
}  // namespace npusim::cpu::product::gemv
#endif
