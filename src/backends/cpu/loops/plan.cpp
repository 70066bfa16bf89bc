// How a piece becomes a plan, step by step.
#include "backends/cpu/loops/plan.h"

#include "backends/cpu/loops/choose.h"
#include "backends/cpu/loops/lower.h"
#include "backends/cpu/loops/place.h"

namespace npusim::cpu {

Plan make_plan(Piece piece, bool serial) {
  Plan plan;
  plan.piece = std::move(piece);
  plan.serial = serial;
  choose_tile(plan);
  lower_expressions(plan);
  place_registers(plan);
  plan.tiles = 1;
  for (const Loop& l : plan.outer)
    plan.tiles *= (plan.piece.kernel.space[static_cast<size_t>(l.dim)] + l.step - 1) / l.step;
  return plan;
}

}  // namespace npusim::cpu
