// How a piece becomes a plan, step by step.
#include "backends/cpu/loops/plan.h"

#include "backends/cpu/loops/choose.h"
#include "backends/cpu/loops/condition.h"
#include "backends/cpu/loops/lower.h"
#include "backends/cpu/loops/place.h"
#include "backends/cpu/loops/place_of_extreme.h"
#include "kernel/facts/memory.h"

namespace npusim::cpu {

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
    const int64_t parts = k.space[d] / (static_cast<int>(d) == plan.column_dim ? lane_block : 1);
    if (!meets[d] && parts > most) best = static_cast<int>(d), most = parts;
  }
  return best;
}

}  // namespace

Plan make_plan(Piece piece, bool serial) {
  Plan plan;
  plan.piece = std::move(piece);
  plan.serial = serial;
  choose_tile(plan);
  find_conditions(plan.piece.kernel);
  find_places_of_extremes(plan.piece.kernel, plan.column_dim);
  if (serial) plan.shared_dim = dimension_to_share(plan);
  lower_expressions(plan);
  place_registers(plan);
  plan.tiles = 1;
  for (const Loop& l : plan.outer)
    plan.tiles *= (plan.piece.kernel.space[static_cast<size_t>(l.dim)] + l.step - 1) / l.step;
  return plan;
}

}  // namespace npusim::cpu
