// Moves between memory and scratch.
#include "backends/cpu/loops/move.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "backends/cpu/loops/transpose.h"
#include "base/dtype.h"
#include "kernel/scalar.h"

namespace npusim::cpu {
namespace {

template <class T>
void copy_run(T* dst, int64_t dst_step, const T* src, int64_t src_step, int64_t n) {
  if (dst_step == 1 && src_step == 1)
    std::memcpy(dst, src, static_cast<size_t>(n) * sizeof(T));
  else
    for (int64_t i = 0; i < n; ++i) dst[i * dst_step] = src[i * src_step];
}

template <class T>
void copy_block_of(T* dst, int64_t dst_row, int64_t dst_column, const T* src, int64_t src_row, int64_t src_column,
                   int64_t rows, int64_t columns) {
  if (dst_column == 1 && src_column != 1 && src_row == 1 && rows > 1)
    return transpose(dst, dst_row, src, src_column, rows, columns);
  if (src_column == 1 && dst_column != 1 && dst_row == 1 && rows > 1)
    return transpose(dst, dst_column, src, src_row, columns, rows);
  for (int64_t r = 0; r < rows; ++r) copy_run(dst + r * dst_row, dst_column, src + r * src_row, src_column, columns);
}

// Where a run of elements lies: in steps, or at offsets of their own.
struct Places {
  char* memory;
  int64_t step;
  const int64_t* offsets;
  template <class T>
  T& at(int64_t i) const {
    return reinterpret_cast<T*>(memory)[offsets ? offsets[i] : i * step];
  }
};

// T is the element type, in which the value is rounded or cut first.
template <class T, class Lane, class F>
void combine_each(const Places& places, const Lane* values, int64_t n, F f) {
  for (int64_t i = 0; i < n; ++i) {
    T& memory = places.at<T>(i);
    memory = static_cast<T>(f(memory, static_cast<T>(values[i])));
  }
}

template <class T, class Lane>
void combine_run(Reduction reduction, const Places& places, const Lane* values, int64_t n) {
  using Wide = std::conditional_t<std::is_integral_v<T>, uint64_t, T>;  // wraps
  switch (reduction) {
    case Reduction::sum:
      return combine_each<T>(places, values, n, [](T a, T b) { return static_cast<Wide>(a) + static_cast<Wide>(b); });
    case Reduction::product:
      return combine_each<T>(places, values, n, [](T a, T b) { return static_cast<Wide>(a) * static_cast<Wide>(b); });
    case Reduction::min:  // NaN stays
      return combine_each<T>(places, values, n, [](T a, T b) { return a < b || a != a ? a : b; });
    case Reduction::max:
      return combine_each<T>(places, values, n, [](T a, T b) { return a > b || a != a ? a : b; });
  }
}

void combine_booleans(Reduction reduction, const Places& places, const char* values, int64_t n) {
  const bool either = reduction == Reduction::sum || reduction == Reduction::max;
  for (int64_t i = 0; i < n; ++i) {
    char& memory = places.at<char>(i);
    memory = either ? memory || values[i] : memory && values[i];
  }
}

void combine_halves(DType dtype, Reduction reduction, const Places& places, const float* values, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    uint16_t& memory = places.at<uint16_t>(i);
    const Number x{load_double(&memory, dtype, 0), 0}, y{static_cast<double>(values[i]), 0};
    store_double(&memory, dtype, 0, combine(reduction, x, y).f);
  }
}

// Combines elements with lanes of scalar_of(dtype); every result is rounded to the element type.
void accumulate_run(const Move& move, const Places& places, const char* lanes, int64_t n) {
  const auto* wide = reinterpret_cast<const int64_t*>(lanes);
  switch (move.dtype) {
    case DType::f32:
      return combine_run<float>(move.reduction, places, reinterpret_cast<const float*>(lanes), n);
    case DType::f64:
      return combine_run<double>(move.reduction, places, reinterpret_cast<const double*>(lanes), n);
    case DType::i64:
      return combine_run<int64_t>(move.reduction, places, wide, n);
    case DType::i32:
      return combine_run<int32_t>(move.reduction, places, wide, n);
    case DType::i16:
      return combine_run<int16_t>(move.reduction, places, wide, n);
    case DType::i8:
      return combine_run<int8_t>(move.reduction, places, wide, n);
    case DType::u8:
      return combine_run<uint8_t>(move.reduction, places, wide, n);
    case DType::boolean:
      return combine_booleans(move.reduction, places, lanes, n);
    default:
      return combine_halves(move.dtype, move.reduction, places, reinterpret_cast<const float*>(lanes), n);
  }
}

int64_t floor_div(int64_t a, int64_t b) { return a / b - ((a % b != 0) && ((a < 0) != (b < 0))); }

// Narrows [begin, end) to the columns of row r where the guard holds.
void narrow(const MoveCall& m, const Guard& g, int64_t r, int64_t& begin, int64_t& end) {
  int64_t value = g.offset;
  for (size_t d = 0; d < g.coeffs.size(); ++d) value += g.coeffs[d] * m.index[d];
  if (m.row_dim >= 0) value += g.coeffs[static_cast<size_t>(m.row_dim)] * r;
  const int64_t step = m.column_dim >= 0 ? g.coeffs[static_cast<size_t>(m.column_dim)] : 0;
  if (step == 0) {
    if (value < 0 || value >= g.limit) end = begin;
    return;
  }
  // 0 <= value + step·c <= limit − 1
  int64_t low = floor_div(-value + (step > 0 ? step - 1 : 0), step), high = floor_div(g.limit - 1 - value, step);
  if (step < 0) {
    low = -floor_div(g.limit - 1 - value, -step);  // ceil((limit − 1 − value) / step)
    high = floor_div(value, -step);
  }
  begin = std::max(begin, low);
  end = std::max(begin, std::min(end, high + 1));
}

// Σ stride·value of the terms at (row, column); false, with a trap, when one leaves its extent.
bool term_offset(const MoveCall& m, int64_t r, int64_t c, int64_t& offset) {
  offset = 0;
  for (size_t t = 0; t < m.terms.size(); ++t) {
    const MoveCall::Term& at = m.terms[t];
    const Move::Term& term = m.move->terms[t];
    const int64_t value = at.values[r * at.row + c * at.column];
    if (value < 0 || value >= term.extent) {
      m.trap->index(value, term.extent);
      return false;
    }
    offset += value * term.stride;
  }
  return true;
}

template <class T>
void move_run(const MoveCall& m, T* memory, T* scratch, int64_t n) {
  if (!m.move->store)
    copy_run(scratch, 1, memory, m.move->column_stride, n);
  else
    copy_run(memory, m.move->column_stride, static_cast<const T*>(scratch), 1, n);
}

size_t lane_size(DType dtype) {
  const Scalar s = scalar_of(dtype);
  return s == Scalar::boolean ? 1 : s == Scalar::f32 ? 4 : 8;
}

bool is_same_along_row(const MoveCall& m) {
  return std::all_of(m.terms.begin(), m.terms.end(), [](const MoveCall::Term& t) { return t.column == 0; });
}

// Columns [begin, end) of row r of an accumulating store, each where its own terms say.
template <class T>
void accumulate_scattered(const MoveCall& m, int64_t r, int64_t begin, int64_t end) {
  constexpr int64_t most = 64;
  const size_t lane = lane_size(m.move->dtype);
  const char* lanes = m.scratch + static_cast<size_t>(r * m.scratch_row) * lane;
  char* memory = reinterpret_cast<char*>(reinterpret_cast<T*>(m.memory) + r * m.move->row_stride);
  int64_t offsets[most];
  for (int64_t c = begin, n = 0; c < end; c += std::max<int64_t>(n, 1), n = 0) {
    while (n < most && c + n < end && term_offset(m, r, c + n, offsets[n])) {
      offsets[n] += (c + n) * m.move->column_stride;
      ++n;
    }
    accumulate_run(*m.move, {memory, 0, offsets}, lanes + static_cast<size_t>(c) * lane, n);
  }
}

// Columns [begin, end) of a row that is gathered or scattered by one term, which differs along them.
template <class T>
void move_by_term(const MoveCall& m, int64_t r, T* memory, T* scratch, int64_t begin, int64_t end) {
  const Move& move = *m.move;
  const Move::Term& term = move.terms[0];
  const int64_t* values = m.terms[0].values + r * m.terms[0].row;
  const auto extent = static_cast<uint64_t>(std::max<int64_t>(term.extent, 0));
  for (int64_t c = begin; c < end; ++c) {
    const int64_t value = values[c * m.terms[0].column];
    if (static_cast<uint64_t>(value) >= extent) {
      m.trap->index(value, term.extent);
      if (!move.store) scratch[c] = T{};
      continue;
    }
    T& element = memory[value * term.stride + c * move.column_stride];
    (move.store ? element : scratch[c]) = move.store ? scratch[c] : element;
  }
}

// One row of a guarded, gathered, scattered or accumulating move.
template <class T>
void move_row(const MoveCall& m, int64_t r) {
  const Move& move = *m.move;
  T* memory = reinterpret_cast<T*>(m.memory) + r * move.row_stride;
  T* scratch = reinterpret_cast<T*>(m.scratch) + r * m.scratch_row;
  int64_t begin = 0, end = m.columns;
  for (const Guard& g : move.guards) narrow(m, g, r, begin, end);
  if (!move.store && (begin > 0 || end < m.columns)) std::fill(scratch, scratch + m.columns, T{});
  const bool per_row = is_same_along_row(m);
  if (move.accumulate && !per_row) return accumulate_scattered<T>(m, r, begin, end);
  if (!per_row && m.terms.size() == 1) return move_by_term(m, r, memory, scratch, begin, end);
  const int64_t run = per_row ? end - begin : 1;
  for (int64_t c = begin; c < end; c += run) {
    int64_t offset = 0;
    if (!term_offset(m, r, c, offset)) {
      if (!move.store) std::fill(scratch + c, scratch + c + run, T{});
      continue;
    }
    T* at = memory + offset + c * move.column_stride;
    if (move.accumulate) {
      const size_t lane = lane_size(move.dtype), first = static_cast<size_t>(r * m.scratch_row + c);
      accumulate_run(move, {reinterpret_cast<char*>(at), move.column_stride, nullptr}, m.scratch + first * lane, run);
    } else if (run > 1) {
      move_run(m, at, scratch + c, run);
    } else if (move.store) {
      *at = scratch[c];
    } else {
      scratch[c] = *at;
    }
  }
}

template <class T>
void move_of(const MoveCall& m) {
  const Move& move = *m.move;
  if (move.guards.empty() && move.terms.empty() && !move.accumulate) {
    T* memory = reinterpret_cast<T*>(m.memory);
    T* scratch = reinterpret_cast<T*>(m.scratch);
    if (move.store)
      copy_block_of<T>(memory, move.row_stride, move.column_stride, scratch, m.scratch_row, 1, m.rows, m.columns);
    else
      copy_block_of<T>(scratch, m.scratch_row, 1, memory, move.row_stride, move.column_stride, m.rows, m.columns);
    return;
  }
  for (int64_t r = 0; r < m.rows; ++r) move_row<T>(m, r);
}

}  // namespace

void run_move(const MoveCall& m) {
  switch (m.move->bytes) {
    case 1:
      return move_of<uint8_t>(m);
    case 2:
      return move_of<uint16_t>(m);
    case 4:
      return move_of<uint32_t>(m);
    default:
      return move_of<uint64_t>(m);
  }
}

}  // namespace npusim::cpu
