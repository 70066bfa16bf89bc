// Chains and DAGs of pointwise kernels become one kernel each.
#include <algorithm>

#include "passes/fuser.h"

namespace npusim {
namespace {

bool is_pointwise(const Kernel& k) { return !k.contraction && k.row_dims == 0; }

// Computing it again costs less than storing and loading it: a few plain operations on one operand. An index is there
// anyway.
bool is_cheap(const Kernel& k) {
  int work = 0, loads = 0;
  for (const Expr& e : k.exprs) {
    if (e.op == ExprOp::load)
      ++loads;
    else if (e.op >= ExprOp::exp && e.op <= ExprOp::erfc)
      return false;
    else if (e.op == ExprOp::pow || e.op == ExprOp::reduce || e.op == ExprOp::scan)
      return false;
    else if (e.op != ExprOp::constant && e.op != ExprOp::index && e.op != ExprOp::cast)
      ++work;
  }
  return loads <= 1 && work <= 2;
}

}  // namespace

void fuse_pointwise(Graph& graph, PassContext& context) {
  Fuser f(graph, context);
  for (size_t n = 0; n < f.size(); ++n) {
    if (!f.alive(n) || !is_pointwise(f.kernel(n))) continue;
    bool changed = true;
    while (changed) {
      changed = false;
      for (int value : f.reads(n)) {
        const int p = f.producer(value);
        if (p < 0) continue;
        const auto producer = static_cast<size_t>(p);
        if (!is_pointwise(f.kernel(producer))) continue;
        if (!f.only_reader(value, n) && !is_cheap(f.kernel(producer))) continue;
        if (f.inline_into(producer, n, value, false)) {
          changed = true;
          break;
        }
      }
    }
  }
  f.finish();
}

}  // namespace npusim
