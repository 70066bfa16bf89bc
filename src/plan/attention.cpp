// From the accesses of an attention to operands in words.
#include "plan/attention.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernel/facts/depend.h"
#include "kernel/facts/key_count.h"
#include "kernel/facts/score_kernel.h"
#include "print/print.h"

namespace npusim::plan {
namespace {

// Whether rows of one batch have keys of their own number.
bool has_keys_by_row(const Kernel& kernel, const AttentionAxes& axes) {
  if (kernel.contraction->score->keys < 0) return false;
  const Kernel count = key_count(kernel);
  const DimSet varies = dependence_of(count).dims[static_cast<size_t>(count.stores[0].expr)];
  return std::any_of(axes.rows.dims.begin(), axes.rows.dims.end(),
                     [&](int dim) { return (varies & dim_bit(static_cast<size_t>(dim))) != 0; });
}

// Why its operands and what it stores are no such attention's; "" if they are.
std::string find_problem(const Kernel& kernel, const Access& q, const Access& k) {
  const Access& v = kernel.contraction->b;
  const auto dtype = [&](const Access& a) { return kernel.args[static_cast<size_t>(a.arg)].dtype; };
  if (dtype(q) != DType::f16 && dtype(q) != DType::bf16)
    return fmt::format("queries of {}, not of a 16-bit type", dtype_name(dtype(q)));
  for (const Access* access : {&k, &v})
    if (dtype(*access) != dtype(q))
      return fmt::format("operands of {} and {}", dtype_name(dtype(q)), dtype_name(dtype(*access)));
  for (const Access* access : {&q, &k, &v})
    if (!access->guards.empty() || !access->terms.empty()) return "an operand with bounds or computed indices";
  if (std::any_of(kernel.stores.begin(), kernel.stores.end(), [](const Store& s) { return s.accumulate; }))
    return "what it stores adds up";
  return {};
}

}  // namespace

std::optional<Attention> find_attention(const Kernel& kernel, const AttentionAxes& axes, std::string& why) {
  const auto none = [&](std::string reason) {
    why = std::move(reason);
    return std::nullopt;
  };
  const Contraction& c = *kernel.contraction;
  const Score& score = *c.score;
  const Access &q = axes.swapped ? score.b : score.a, &k = axes.swapped ? score.a : score.b;
  if (std::string problem = find_problem(kernel, q, k); !problem.empty()) return none(std::move(problem));
  Attention a{kernel.args[static_cast<size_t>(q.arg)].dtype, axes, c.reduce[0], kernel.space.back(), {}, {}, {}};
  std::vector<int64_t> score_extents = score.space, value_extents = kernel.space;
  score_extents.insert(score_extents.end(), score.reduce.begin(), score.reduce.end());
  value_extents.push_back(a.keys);
  for (const std::vector<int64_t>* extents : {&score_extents, &value_extents})
    if (std::find(extents->begin(), extents->end(), 0) != extents->end()) return none("a dimension is empty");
  a.q = operand_of(kernel, q), a.k = operand_of(kernel, k), a.v = operand_of(kernel, c.b);
  int deep = -1;
  for (int dim : axes.depth.dims)
    if (has_words(score_extents, a.q, dim) && has_words(score_extents, a.k, dim)) deep = dim;
  if (deep < 0) return none("queries and keys that do not lie in words along the depth");
  make_last(score_extents, a.axes.depth, deep);
  if (!has_words(value_extents, a.v, axes.columns.dims[0])) return none("values that do not lie in words along a row");
  if (takes_trap(stored_score(kernel)) || (score.keys >= 0 && takes_trap(stored_count(kernel))))
    return none("a score that may meet an index out of range");
  if (has_keys_by_row(kernel, axes)) return none("rows with keys of their own number");
  return a;
}

}  // namespace npusim::plan
