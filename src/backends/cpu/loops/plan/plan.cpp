// How a piece becomes a plan, step by step.
#include "backends/cpu/loops/plan/plan.h"

#include <cstdlib>

#include "backends/cpu/loops/plan/analyse.h"
#include "backends/cpu/loops/plan/choose.h"
#include "backends/cpu/loops/plan/lower.h"
#include "backends/cpu/loops/plan/registers.h"
#include "backends/cpu/loops/rewrite/condition.h"
#include "backends/cpu/loops/rewrite/extreme_index.h"
#include "base/shape.h"
#include "kernel/facts/memory.h"

namespace npusim::cpu::loops::plan {

namespace {

// The longest of those along which no two points reach one element of any store; of the columns, blocks of lanes
// count. -1: none.
int dimension_to_share(const Plan& plan) {
  const Kernel& k = plan.piece.kernel;
  std::vector<bool> meets(k.space.size());
  for (const Store& s : k.stores) {
    const std::vector<bool> of_store = colliding_dims(k, s.access);
    for (size_t d = 0; d < meets.size(); ++d) meets[d] = meets[d] || of_store[d];
  }
  int best = -1;
  int64_t most = 1;
  for (size_t d = 0; d + static_cast<size_t>(k.row_dims) < meets.size(); ++d) {
    const int64_t parts = k.space[d] / (static_cast<int>(d) == plan.column_dim ? tiles::lane_block : 1);
    if (!meets[d] && parts > most) best = static_cast<int>(d), most = parts;
  }
  return best;
}

// The next tile's memory in parts, one before each of a section's instructions, for the loads that read it in place;
// `others` are such loads of sections before it, which share the parts of the same memory.
void fetch_in(Plan& plan, Section& s, std::vector<moves::Move*>& others) {
  const bool by_row = s.in_row && !plan.inner.empty();
  const std::vector<Loop>& loops = by_row ? plan.inner : plan.outer;
  const auto insts = static_cast<int64_t>(s.insts.size());
  if (loops.empty() || (insts < 2 && (by_row || !s.in_row))) return;
  const Loop& next = loops.back();
  for (int m = 0; m < s.stores; ++m) {
    moves::Move& move = s.moves[static_cast<size_t>(m)];
    const bool dense = plan.tile_rows == 1 || move.row_stride == plan.tile_columns;
    const int64_t step = move.strides[static_cast<size_t>(next.dim)] * next.step;
    if (!move.in_place || !dense || std::abs(step) < plan.tile_columns * plan.tile_rows) continue;
    move.ahead = step * static_cast<int64_t>(move.bytes);
    move.parts = insts;
    if (by_row) continue;
    for (moves::Move* other : others)
      if (other->arg == move.arg && other->offset == move.offset && other->ahead == move.ahead)
        move.first_part = other->parts, other->parts += insts, move.parts = other->parts;
    others.push_back(&move);
  }
}

// Tiles of large tensors are fetched while the one before them is computed: what waits for memory in the first
// instruction of each would wait between tiles only, and memory for the others. A row that is one tile is read by
// several sections: while those behind the first run, the next row is fetched.
void fetch_ahead(Plan& plan) {
  if (!is_large(plan.piece.kernel)) return;
  std::vector<moves::Move*> found;
  Section* first = nullptr;
  for (Section& s : plan.sections)
    if (s.in_row && plan.inner.empty() && !first)
      first = &s;
    else
      fetch_in(plan, s, found);
  if (first && found.empty() && first->insts.size() > 1) fetch_in(plan, *first, found);
}

// Of copies in rounds: a border of all images at once would be written when their lines are no longer near.
int64_t copied_per_round(const Kernel& k, int64_t rounds) {
  constexpr int64_t least = 256;  // a tile has its price
  const int64_t points = element_count(k.space);
  return rounds == 1 ? points : std::max(points / rounds, least);
}

}  // namespace

Plan make_plan(rewrite::Piece piece, bool serial, int64_t rounds) {
  Plan plan;
  plan.piece = std::move(piece);
  plan.serial = serial;
  choose_tile(plan, copied_per_round(plan.piece.kernel, rounds));
  rewrite::find_conditions(plan.piece.kernel);
  rewrite::find_extreme_indices(plan.piece.kernel, plan.column_dim);
  if (serial) plan.shared_dim = dimension_to_share(plan);
  lower_expressions(plan);
  allocate_registers(plan);
  fetch_ahead(plan);
  plan.tiles = 1;
  for (const Loop& l : plan.outer)
    plan.tiles *= (plan.piece.kernel.space[static_cast<size_t>(l.dim)] + l.step - 1) / l.step;
  return plan;
}

}  // namespace npusim::cpu::loops::plan
