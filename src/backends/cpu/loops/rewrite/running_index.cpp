// Scans for the last index of a running extreme.
#include "backends/cpu/loops/rewrite/running_index.h"

namespace npusim::cpu::loops::rewrite {

bool is_running_index(const Expr& e) { return e.op == ExprOp::eq && e.type == Scalar::i64; }

void find_running_indices(Kernel& k) {
  const auto expr = [&](int32_t i) -> const Expr& { return k.exprs[static_cast<size_t>(i)]; };
  for (Expr& e : k.exprs) {
    if (e.op != ExprOp::scan || e.type != Scalar::i64 || e.reduction != Reduction::max) continue;
    const Expr& chosen = expr(e.in[0]);
    if (chosen.op != ExprOp::select) continue;
    const Expr &index = expr(chosen.in[1]), &none = expr(chosen.in[2]);
    if (index.op != ExprOp::index || index.integer != static_cast<int64_t>(k.space.size()) - 1 ||
        none.op != ExprOp::constant || none.integer >= 0)
      continue;
    const Expr& hit = expr(chosen.in[0]);
    const Expr& equal = hit.op == ExprOp::bit_or ? expr(hit.in[0]) : hit;
    if (equal.op != ExprOp::eq || equal.type != Scalar::boolean) continue;
    const int32_t x = equal.in[0], top = equal.in[1];
    const bool running = expr(top).op == ExprOp::scan && expr(top).in[0] == x && !expr(top).integer &&
                         (expr(top).reduction == Reduction::min || expr(top).reduction == Reduction::max);
    const bool sees_nan = hit.op == ExprOp::bit_or && expr(hit.in[1]).op == ExprOp::isnan && expr(hit.in[1]).in[0] == x;
    if (!running || (expr(x).type >= Scalar::f32 ? !sees_nan : hit.op == ExprOp::bit_or)) continue;
    e = {.op = ExprOp::eq, .type = Scalar::i64, .in = {x, top, -1}};
  }
}

}  // namespace npusim::cpu::loops::rewrite
