// Moves between memory and scratch.
#include "backends/cpu/loops/move.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "backends/cpu/loops/gather.h"
#include "backends/cpu/loops/transpose.h"
#include "base/dtype.h"

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
  // Along the rows where their distance in memory is the smaller one: one of the two is scratch, dense in columns.
  const bool rows_are_nearer = dst_column == 1   ? src_column != 1 && std::abs(src_row) < std::abs(src_column)
                               : src_column == 1 ? std::abs(dst_row) < std::abs(dst_column)
                                                 : false;
  if (rows_are_nearer && rows > 1) {
    for (int64_t c = 0; c < columns; ++c) copy_run(dst + c * dst_column, dst_row, src + c * src_column, src_row, rows);
    return;
  }
  for (int64_t r = 0; r < rows; ++r) copy_run(dst + r * dst_row, dst_column, src + r * src_row, src_column, columns);
}

template <class T, class Lane>
void add_run(T* memory, int64_t step, const Lane* values, int64_t n) {
  for (int64_t i = 0; i < n; ++i) memory[i * step] = static_cast<T>(memory[i * step] + static_cast<T>(values[i]));
}

// Adds lanes of scalar_of(dtype) to elements; every addition is rounded to the element type.
void accumulate_run(DType dtype, char* memory, int64_t step, const char* lanes, int64_t n) {
  const auto* wide = reinterpret_cast<const int64_t*>(lanes);
  switch (dtype) {
    case DType::f32:
      return add_run(reinterpret_cast<float*>(memory), step, reinterpret_cast<const float*>(lanes), n);
    case DType::f64:
      return add_run(reinterpret_cast<double*>(memory), step, reinterpret_cast<const double*>(lanes), n);
    case DType::i64:
      return add_run(reinterpret_cast<uint64_t*>(memory), step, wide, n);
    case DType::i32:
      return add_run(reinterpret_cast<uint32_t*>(memory), step, wide, n);
    case DType::i16:
      return add_run(reinterpret_cast<uint16_t*>(memory), step, wide, n);
    case DType::i8:
    case DType::u8:
      return add_run(reinterpret_cast<uint8_t*>(memory), step, wide, n);
    case DType::boolean:
      for (int64_t i = 0; i < n; ++i) memory[i * step] = memory[i * step] || lanes[i];
      return;
    default:
      for (int64_t i = 0; i < n; ++i)
        store_double(
            memory, dtype, i * step,
            load_double(memory, dtype, i * step) + static_cast<double>(reinterpret_cast<const float*>(lanes)[i]));
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

// One row of a guarded, gathered, scattered or accumulating move.
template <class T>
void move_row(const MoveCall& m, int64_t r) {
  const Move& move = *m.move;
  T* memory = reinterpret_cast<T*>(m.memory) + r * move.row_stride;
  T* scratch = reinterpret_cast<T*>(m.scratch) + r * m.scratch_row;
  int64_t begin = 0, end = m.columns;
  for (const Guard& g : move.guards) narrow(m, g, r, begin, end);
  if (!move.store && (begin > 0 || end < m.columns)) std::fill(scratch, scratch + m.columns, T{});
  const size_t lane = move.accumulate ? lane_size(move.dtype) : sizeof(T);
  const char* lanes = m.scratch + static_cast<size_t>(r * m.scratch_row) * lane;
  const bool per_row =
      std::all_of(m.terms.begin(), m.terms.end(), [](const MoveCall::Term& t) { return t.column == 0; });
  const int64_t run = per_row ? end - begin : 1;
  for (int64_t c = begin; c < end; c += run) {
    int64_t offset = 0;
    if (!term_offset(m, r, c, offset)) {
      if (!move.store) std::fill(scratch + c, scratch + c + run, T{});
      continue;
    }
    T* at = memory + offset + c * move.column_stride;
    if (move.accumulate)
      accumulate_run(move.dtype, reinterpret_cast<char*>(at), move.column_stride, lanes + static_cast<size_t>(c) * lane,
                     run);
    else if (run > 1)
      move_run(m, at, scratch + c, run);
    else if (move.store)
      *at = scratch[c];
    else
      scratch[c] = *at;
  }
}

// The addresses that gathers with the same terms read from.
void find_addresses(const MoveCall& m) {
  constexpr size_t most = max_dims;
  std::array<AddressTerm, most> terms;
  for (int64_t r = 0; r < m.rows; ++r) {
    for (size_t t = 0; t < m.terms.size(); ++t) {
      const MoveCall::Term& at = m.terms[t];
      const Move::Term& term = m.move->terms[t];
      terms[t] = {at.values + r * at.row, at.column != 0, term.stride, term.extent};
    }
    find_addresses({terms.data(), m.terms.size()}, m.columns, reinterpret_cast<int32_t*>(m.scratch) + r * m.scratch_row,
                   *m.trap);
  }
}

// A load from addresses that are known.
template <class T>
void gather_rows(const MoveCall& m) {
  const Move& move = *m.move;
  const MoveCall::Term& term = m.terms[0];
  for (int64_t r = 0; r < m.rows; ++r) {
    const T* memory = reinterpret_cast<const T*>(m.memory) + r * move.row_stride;
    T* scratch = reinterpret_cast<T*>(m.scratch) + r * m.scratch_row;
    const int32_t* at = reinterpret_cast<const int32_t*>(term.values) + r * term.row;
    if (term.column == 0)
      copy_run(scratch, 1, memory + *at, move.column_stride, m.columns);
    else
      gather(memory, at, move.column_stride, m.columns, scratch);
  }
}

template <class T>
void move_of(const MoveCall& m) {
  const Move& move = *m.move;
  if (move.kind == MoveKind::gather) return gather_rows<T>(m);
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
  if (m.move->kind == MoveKind::addresses) return find_addresses(m);
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
