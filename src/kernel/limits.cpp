// Counts over the expressions, each access once for every load that names it.
#include "kernel/limits.h"

#include <fmt/format.h>

namespace npusim {

std::string beyond_limits(const Kernel& k) {
  constexpr size_t max_folds = 128, max_coordinates = size_t{1} << 20;
  size_t folds = 0, coordinates = 0;
  for (const Expr& e : k.exprs) {
    folds += e.op == ExprOp::reduce || e.op == ExprOp::scan;
    if (e.op != ExprOp::load) continue;
    const Access& a = k.accesses[static_cast<size_t>(e.integer)];
    coordinates += a.guards.size() * k.space.size() + a.terms.size();
  }
  if (folds > max_folds) return fmt::format("{} reductions and scans, at most {}", folds, max_folds);
  if (coordinates > max_coordinates)
    return fmt::format("guards and index terms of {} coordinates in all loads, at most {}", coordinates,
                       max_coordinates);
  for (const Store& s : k.stores) coordinates += s.access.guards.size() * k.space.size() + s.access.terms.size();
  return coordinates > max_coordinates
             ? fmt::format("guards and index terms of {} coordinates in all, at most {}", coordinates, max_coordinates)
             : "";
}

}  // namespace npusim
