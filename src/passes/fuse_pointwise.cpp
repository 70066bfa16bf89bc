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
    if (!f.alive(n) || !is_pointwise(f.kernel(n)) || f.widens_for_readers(n)) continue;
    // What others read another result of would be computed twice: a cell beside its hidden state, at every step again.
    const auto has_it_all = [&](size_t producer) {
      const std::vector<int> results = f.writes(producer);
      return std::all_of(results.begin(), results.end(), [&](int value) {
        return f.only_reader(value, n) || (!f.is_output(value) && f.readers(value).empty());
      });
    };
    f.inline_producers(n, false, [&](size_t producer, int) {
      const Kernel& source = f.kernel(producer);
      return is_pointwise(source) && (has_it_all(producer) || is_cheap(source));
    });
  }
  f.finish();
}

}  // namespace npusim
