// Roles of an attention's dimensions, from which of its operands depends on them.
#include "kernel/facts/attention_axes.h"

#include <algorithm>

namespace npusim {

std::optional<AttentionAxes> attention_axes(const Kernel& kernel) {
  const Contraction& outer = *kernel.contraction;
  const Score& score = *outer.score;
  const int rank = static_cast<int>(kernel.space.size()), last = rank - 1;  // the keys in score, the values' columns
  const bool swapped = depends_on(score.a, last);
  if (swapped && depends_on(score.b, last)) return std::nullopt;
  const Access& keys = swapped ? score.a : score.b;
  std::vector<int> batch, rows, depth;
  for (int d = 0; d < last; ++d) (depends_on(keys, d) || depends_on(outer.b, d) ? batch : rows).push_back(d);
  std::vector<int64_t> score_dims = score.space, value_dims = kernel.space;
  for (int64_t extent : score.reduce) {
    depth.push_back(static_cast<int>(score_dims.size()));
    score_dims.push_back(extent);
  }
  value_dims.push_back(outer.reduce[0]);
  return AttentionAxes{make_axis(score_dims, batch),
                       make_axis(score_dims, rows),
                       make_axis(score_dims, {last}),
                       make_axis(score_dims, depth),
                       make_axis(value_dims, {last}),
                       make_axis(value_dims, {rank}),
                       swapped};
}

bool is_log_of_sum(const Expr& expr) { return expr.op == ExprOp::contraction && expr.integer == 1; }

bool takes_log(const Kernel& kernel) { return std::any_of(kernel.exprs.begin(), kernel.exprs.end(), is_log_of_sum); }

}  // namespace npusim
