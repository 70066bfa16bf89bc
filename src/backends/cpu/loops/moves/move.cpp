// Moves between memory and scratch.
#include "backends/cpu/loops/moves/move.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <utility>

#include "backends/cpu/loops/moves/copy.h"
#include "backends/cpu/loops/moves/gather.h"
#include "kernel/facts/index_form.h"

namespace npusim::cpu::loops::moves {
namespace {

int64_t floor_div(int64_t a, int64_t b) { return a / b - ((a % b != 0) && ((a < 0) != (b < 0))); }

// A guard over a tile: 0 <= value + row·r + column·c < limit.
struct Bound {
  int64_t value = 0, row = 0, column = 0, limit = 0;
};

Bound bound_of(const MoveCall& m, const Guard& g) {
  Bound b{.value = g.offset, .limit = g.limit};
  for (size_t d = 0; d < g.coeffs.size(); ++d) b.value += g.coeffs[d] * m.index[d];
  if (m.row_dim >= 0) b.row = g.coeffs[static_cast<size_t>(m.row_dim)];
  if (m.column_dim >= 0) b.column = g.coeffs[static_cast<size_t>(m.column_dim)];
  return b;
}

struct Run {
  int64_t begin = 0, end = 0;
};

// Narrows a run to the columns of row r where the bound holds.
void narrow(const Bound& b, int64_t r, Run& run) {
  const int64_t value = b.value + b.row * r, step = b.column;
  int64_t low = run.begin, high = run.end - 1;
  if (step == 0) {
    if (value < 0 || value >= b.limit) high = low - 1;
  } else if (step == 1 || step == -1) {
    low = step > 0 ? -value : value - b.limit + 1;
    high = step > 0 ? b.limit - 1 - value : value;
  } else if (step > 0) {
    low = floor_div(-value + step - 1, step);
    high = floor_div(b.limit - 1 - value, step);
  } else {
    low = -floor_div(b.limit - 1 - value, -step);  // ceil((limit − 1 − value) / step)
    high = floor_div(value, -step);
  }
  run.begin = std::max(run.begin, low);
  run.end = std::max(run.begin, std::min(run.end, high + 1));
}

// The columns of each row of a tile where all guards of its move hold. Guards that hold in all of it, as most do in
// most tiles, or nowhere are found once.
class Runs {
 public:
  explicit Runs(const MoveCall& m) : m_(m) {
    for (const Guard& g : m.move->guards) {
      const Bound b = bound_of(m, g);
      const int64_t over_rows = b.row * (m.rows - 1), over_columns = b.column * (m.columns - 1);
      const int64_t low = b.value + std::min<int64_t>(over_rows, 0) + std::min<int64_t>(over_columns, 0);
      const int64_t high = b.value + std::max<int64_t>(over_rows, 0) + std::max<int64_t>(over_columns, 0);
      if (low >= 0 && high < b.limit) continue;
      never_ = never_ || high < 0 || low >= b.limit;
      if (count_ == bounds_.size()) many_ = true;
      if (!many_) bounds_[count_++] = b;
    }
  }
  bool all() const { return count_ == 0 && !never_; }
  Run of(int64_t r) const {
    Run run{0, never_ ? 0 : m_.columns};
    if (many_)
      for (const Guard& g : m_.move->guards) narrow(bound_of(m_, g), r, run);
    else
      for (size_t i = 0; i < count_; ++i) narrow(bounds_[i], r, run);
    return run;
  }

 private:
  const MoveCall& m_;
  std::array<Bound, 16> bounds_;
  size_t count_ = 0;
  bool never_ = false, many_ = false;
};

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
    copy_block({.to = scratch, .from = memory, .from_column = m.move->column_stride, .columns = n}, sizeof(T));
  else
    copy_block({.to = memory, .from = scratch, .to_column = m.move->column_stride, .columns = n}, sizeof(T));
}

bool is_same_along_row(const MoveCall& m) {
  return std::all_of(m.terms.begin(), m.terms.end(), [](const MoveCall::Term& t) { return t.column == 0; });
}

// A store that combines, in the order of the points.
void accumulate(const MoveCall& m) {
  const Move& move = *m.move;
  CombineTile tile{.memory = m.memory, .lanes = m.scratch, .rows = m.rows, .columns = m.columns};
  tile.row_step = move.row_stride, tile.column_step = move.column_stride, tile.lanes_row = m.scratch_row;
  tile.trap = m.trap;
  if (move.guards.empty() && m.terms.size() <= 1) {
    if (!m.terms.empty()) {
      tile.values = m.terms[0].values, tile.values_row = m.terms[0].row, tile.values_column = m.terms[0].column;
      tile.stride = move.terms[0].stride, tile.extent = std::max<int64_t>(move.terms[0].extent, 0);
      tile.added = move.terms[0].added;
    }
    if (const MoveCall* from = m.gathered) {
      tile.source = from->memory, tile.source_step = from->move->row_stride;
      tile.addresses = reinterpret_cast<const int32_t*>(from->terms[0].values);
      tile.addresses_row = from->terms[0].row;
      tile.scales = m.scales, tile.scales_row = m.scales_row;
    }
    return move.combine(tile);
  }
  const bool per_row = is_same_along_row(m);
  const auto lane_bytes = static_cast<int64_t>(move.lane_bytes), bytes = static_cast<int64_t>(move.bytes);
  tile.rows = 1;
  const Runs runs(m);
  for (int64_t r = 0; r < m.rows; ++r) {
    const auto [begin, end] = runs.of(r);
    tile.columns = per_row ? end - begin : 1;
    for (int64_t c = begin; c < end; c += tile.columns) {
      int64_t offset = 0;
      if (!term_offset(m, r, c, offset)) continue;
      tile.memory = m.memory + (offset + r * move.row_stride + c * move.column_stride) * bytes;
      tile.lanes = m.scratch + (r * m.scratch_row + c) * lane_bytes;
      move.combine(tile);
    }
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
void move_row(const MoveCall& m, const Runs& runs, int64_t r) {
  const Move& move = *m.move;
  T* memory = reinterpret_cast<T*>(m.memory) + r * move.row_stride;
  T* scratch = reinterpret_cast<T*>(m.scratch) + r * m.scratch_row;
  const auto [begin, end] = runs.of(r);
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

void search(const MoveCall& m) {
  const Move& move = *m.move;
  rewrite::SearchTile t{.memory = m.memory, .rows = m.rows, .columns = m.columns};
  t.row_step = move.row_stride, t.column_step = move.column_stride;
  t.values = m.terms[0].values, t.values_row = m.terms[0].row, t.values_column = m.terms[0].column;
  t.stride = move.terms[0].stride, t.extent = move.terms[0].extent;
  t.out = reinterpret_cast<int64_t*>(m.scratch), t.out_row = m.scratch_row;
  move.search(t);
}

// Where all guards hold: by rows, a run of columns of each.
void fill_condition(const MoveCall& m) {
  auto* holds = reinterpret_cast<uint8_t*>(m.scratch);
  const Runs runs(m);
  for (int64_t r = 0; r < m.rows; ++r, holds += m.scratch_row) {
    const auto [begin, end] = runs.of(r);
    std::fill(holds, holds + m.columns, uint8_t{0});
    std::fill(holds + begin, holds + end, uint8_t{1});
  }
}

// The addresses that gathers with the same terms read from.
void sum_addresses(const MoveCall& m) {
  constexpr size_t most = max_dims;
  std::array<AddressTerm, most> terms;
  const bool flat = m.scratch_row == m.columns && std::all_of(m.terms.begin(), m.terms.end(), [&](const auto& t) {
                      return t.column == 1 && t.row == m.columns;
                    });
  const int64_t rows = flat ? 1 : m.rows, columns = flat ? m.rows * m.columns : m.columns;
  for (int64_t r = 0; r < rows; ++r) {
    for (size_t t = 0; t < m.terms.size(); ++t) {
      const MoveCall::Term& at = m.terms[t];
      const Move::Term& term = m.move->terms[t];
      terms[t] = {at.values + r * at.row, at.column != 0, term.stride, term.extent, term.added};
    }
    find_addresses({terms.data(), m.terms.size()}, columns, reinterpret_cast<int32_t*>(m.scratch) + r * m.scratch_row,
                   *m.trap);
  }
}

// A load from addresses that are known, to rows of `out`.
template <class T>
void gather_rows(const MoveCall& m, char* out, int64_t out_row) {
  const Move& move = *m.move;
  const MoveCall::Term& term = m.terms[0];
  for (int64_t r = 0; r < m.rows; ++r) {
    const T* memory = reinterpret_cast<const T*>(m.memory) + r * move.row_stride;
    T* scratch = reinterpret_cast<T*>(out) + r * out_row;
    const int32_t* at = reinterpret_cast<const int32_t*>(term.values) + r * term.row;
    if (term.column == 0)
      copy_block({.to = scratch, .from = memory + *at, .from_column = move.column_stride, .columns = m.columns},
                 sizeof(T));
    else if (m.columns < tiles::lane_block)  // a call would cost more than they do
      for (int64_t c = 0; c < m.columns; ++c) scratch[c] = memory[at[c] + c * move.column_stride];
    else
      gather(memory, at, move.column_stride, m.columns, scratch);
  }
}

// Between memory and scratch, or from memory to memory.
void copy(const MoveCall& m) {
  const Move& move = *m.move;
  BlockCopy block{.rows = m.rows, .columns = m.columns};
  if (!move.store) {
    block.to = m.scratch, block.to_row = m.scratch_row;
    block.from = m.memory, block.from_row = move.row_stride, block.from_column = move.column_stride;
  } else {
    block.to = m.memory, block.to_row = move.row_stride, block.to_column = move.column_stride;
    block.from = m.scratch, block.from_row = m.scratch_row;
    if (m.copied)
      block.from = m.copied->memory, block.from_row = move.copied_row, block.from_column = move.copied_column;
  }
  copy_block(block, move.bytes);
}

template <class T>
void move_of(const MoveCall& m) {
  const Move& move = *m.move;
  if (m.copied) return gather_rows<T>(*m.copied, m.memory, move.row_stride);
  if (move.kind == MoveKind::gather) return gather_rows<T>(m, m.scratch, m.scratch_row);
  const Runs runs(m);
  if (runs.all() && move.terms.empty()) return copy(m);
  for (int64_t r = 0; r < m.rows; ++r) move_row<T>(m, runs, r);
}

}  // namespace

void run_move(const MoveCall& m) {
  if (m.move->kind == MoveKind::addresses) return sum_addresses(m);
  if (m.move->kind == MoveKind::search) return search(m);
  if (m.move->kind == MoveKind::condition) return fill_condition(m);
  if (m.move->combine) return accumulate(m);
  const bool gathers = m.move->kind == MoveKind::gather || (m.copied && m.copied->move->kind == MoveKind::gather);
  if (!gathers && m.move->guards.empty() && m.move->terms.empty()) return copy(m);
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

}  // namespace npusim::cpu::loops::moves
