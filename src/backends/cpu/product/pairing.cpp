// Reductions whose terms are squared or absolute differences.
#include "backends/cpu/product/pairing.h"

#include "kernel/kernel.h"

namespace npusim::cpu::product {

std::optional<Pair> pair_of_distances(const Kernel& kernel, const Expr& reduction) {
  const auto expr = [&](int32_t i) -> const Expr& { return kernel.exprs[static_cast<size_t>(i)]; };
  const Expr& x = expr(reduction.in[0]);
  const bool square = x.op == ExprOp::mul && x.in[0] == x.in[1];
  if (!square && x.op != ExprOp::abs) return std::nullopt;
  const bool farthest = reduction.reduction == Reduction::max;
  if (reduction.reduction != Reduction::sum && (square || !farthest)) return std::nullopt;
  const Expr& apart = expr(x.in[0]);
  if (apart.op != ExprOp::sub) return std::nullopt;
  return Pair{square ? Pairing::squares : farthest ? Pairing::farthest : Pairing::distances, apart.in[0], apart.in[1]};
}

}  // namespace npusim::cpu::product
