// Moves between memory and scratch.
#include "backends/cpu/loops/move.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <utility>

#include "backends/cpu/loops/gather.h"
#include "backends/cpu/loops/transpose.h"
#include "base/dtype.h"
#include "kernel/facts/index_form.h"
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

// Runs of elements that stores combine with, all as long: where each begins in memory, and where its lanes do.
struct Runs {
  static constexpr int64_t most = 64;
  char* memory = nullptr;
  const char* lanes = nullptr;
  int64_t step = 0;  // from element to element
  int64_t length = 0, count = 0;
  int64_t starts[most], first_lanes[most];
};

// T is the element type, in which the value is rounded or cut first.
template <class T, class Lane, class F>
void combine_each(const Runs& runs, F f) {
  for (int64_t run = 0; run < runs.count; ++run) {
    T* memory = reinterpret_cast<T*>(runs.memory) + runs.starts[run];
    const Lane* lanes = reinterpret_cast<const Lane*>(runs.lanes) + runs.first_lanes[run];
    for (int64_t i = 0; i < runs.length; ++i)
      memory[i * runs.step] = static_cast<T>(f(memory[i * runs.step], static_cast<T>(lanes[i])));
  }
}

template <class T, class Lane>
void combine_as(Reduction reduction, const Runs& runs) {
  using Wide = std::conditional_t<std::is_integral_v<T>, uint64_t, T>;  // wraps
  switch (reduction) {
    case Reduction::sum:
      return combine_each<T, Lane>(runs, [](T a, T b) { return static_cast<Wide>(a) + static_cast<Wide>(b); });
    case Reduction::product:
      return combine_each<T, Lane>(runs, [](T a, T b) { return static_cast<Wide>(a) * static_cast<Wide>(b); });
    case Reduction::min:  // NaN stays
      return combine_each<T, Lane>(runs, [](T a, T b) { return a < b || a != a ? a : b; });
    case Reduction::max:
      return combine_each<T, Lane>(runs, [](T a, T b) { return a > b || a != a ? a : b; });
  }
}

void combine_booleans(Reduction reduction, const Runs& runs) {
  if (reduction == Reduction::sum || reduction == Reduction::max)
    return combine_each<char, char>(runs, [](char a, char b) { return a || b; });
  combine_each<char, char>(runs, [](char a, char b) { return a && b; });
}

void combine_halves(DType dtype, Reduction reduction, const Runs& runs) {
  for (int64_t run = 0; run < runs.count; ++run)
    for (int64_t i = 0; i < runs.length; ++i) {
      const int64_t at = runs.starts[run] + i * runs.step;
      const float lane = reinterpret_cast<const float*>(runs.lanes)[runs.first_lanes[run] + i];
      const Number there{load_double(runs.memory, dtype, at), 0}, value{static_cast<double>(lane), 0};
      store_double(runs.memory, dtype, at, combine(reduction, there, value).f);
    }
}

// Combines elements with lanes of scalar_of(dtype); every result is rounded to the element type.
void combine_runs(const Move& move, Runs& runs) {
  switch (move.dtype) {
    case DType::f32:
      combine_as<float, float>(move.reduction, runs);
      break;
    case DType::f64:
      combine_as<double, double>(move.reduction, runs);
      break;
    case DType::i64:
      combine_as<int64_t, int64_t>(move.reduction, runs);
      break;
    case DType::i32:
      combine_as<int32_t, int64_t>(move.reduction, runs);
      break;
    case DType::i16:
      combine_as<int16_t, int64_t>(move.reduction, runs);
      break;
    case DType::i8:
      combine_as<int8_t, int64_t>(move.reduction, runs);
      break;
    case DType::u8:
      combine_as<uint8_t, int64_t>(move.reduction, runs);
      break;
    case DType::boolean:
      combine_booleans(move.reduction, runs);
      break;
    default:
      combine_halves(move.dtype, move.reduction, runs);
  }
  runs.count = 0;
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
      m.trap->index(index_as_given(value, term.added), term.extent);
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

bool is_same_along_row(const MoveCall& m) {
  return std::all_of(m.terms.begin(), m.terms.end(), [](const MoveCall::Term& t) { return t.column == 0; });
}

// A store that combines, in the order of the points. Elements whose terms are the same along a row are one run.
void accumulate(const MoveCall& m) {
  const Move& move = *m.move;
  const bool per_row = is_same_along_row(m);
  Runs runs;
  runs.memory = m.memory, runs.lanes = m.scratch, runs.step = move.column_stride;
  for (int64_t r = 0; r < m.rows; ++r) {
    int64_t begin = 0, end = m.columns;
    for (const Guard& g : move.guards) narrow(m, g, r, begin, end);
    const int64_t length = per_row ? end - begin : 1;
    for (int64_t c = begin; c < end; c += length) {
      int64_t offset = 0;
      if (!term_offset(m, r, c, offset)) continue;
      if (runs.count == Runs::most || (runs.count > 0 && runs.length != length)) combine_runs(move, runs);
      runs.length = length;
      runs.starts[runs.count] = offset + r * move.row_stride + c * move.column_stride;
      runs.first_lanes[runs.count++] = r * m.scratch_row + c;
    }
  }
  if (runs.count > 0) combine_runs(move, runs);
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
      m.trap->index(index_as_given(value, term.added), term.extent);
      if (!move.store) scratch[c] = T{};
      continue;
    }
    T& element = memory[value * term.stride + c * move.column_stride];
    (move.store ? element : scratch[c]) = move.store ? scratch[c] : element;
  }
}

// One row of a guarded, gathered or scattered move.
template <class T>
void move_row(const MoveCall& m, int64_t r) {
  const Move& move = *m.move;
  T* memory = reinterpret_cast<T*>(m.memory) + r * move.row_stride;
  T* scratch = reinterpret_cast<T*>(m.scratch) + r * m.scratch_row;
  int64_t begin = 0, end = m.columns;
  for (const Guard& g : move.guards) narrow(m, g, r, begin, end);
  if (!move.store && (begin > 0 || end < m.columns)) std::fill(scratch, scratch + m.columns, T{});
  const bool per_row = is_same_along_row(m);
  if (!per_row && m.terms.size() == 1) return move_by_term(m, r, memory, scratch, begin, end);
  const int64_t run = per_row ? end - begin : 1;
  for (int64_t c = begin; c < end; c += run) {
    int64_t offset = 0;
    if (!term_offset(m, r, c, offset)) {
      if (!move.store) std::fill(scratch + c, scratch + c + run, T{});
      continue;
    }
    T* at = memory + offset + c * move.column_stride;
    if (run > 1) {
      move_run(m, at, scratch + c, run);
    } else if (move.store) {
      *at = scratch[c];
    } else {
      scratch[c] = *at;
    }
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
      terms[t] = {at.values + r * at.row, at.column != 0, term.stride, term.extent, term.added};
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
  if (move.guards.empty() && move.terms.empty()) {
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
  if (m.move->accumulate) return accumulate(m);
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
