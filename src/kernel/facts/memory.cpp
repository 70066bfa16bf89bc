// Copies, identities, and kernels whose result may lie where an operand lay.
#include "kernel/facts/memory.h"

#include <algorithm>
#include <cstdlib>

namespace npusim {
namespace {

// Whether any part of the kernel reads the argument.
bool reads(const Kernel& k, int arg) {
  const auto is = [&](const Access& a) { return a.arg == arg; };
  if (std::any_of(k.accesses.begin(), k.accesses.end(), is)) return true;
  if (!k.contraction) return false;
  return is(k.contraction->a) || is(k.contraction->b) || (k.contraction->score && reads(*k.contraction->score, arg));
}

// Whether each point of the space has an element of its own. Along dimensions of one index a stride may be any number.
bool is_injective(const std::vector<int64_t>& strides, const std::vector<int64_t>& space) {
  std::vector<size_t> order;
  for (size_t d = 0; d < space.size(); ++d)
    if (space[d] > 1) order.push_back(d);
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return std::abs(strides[a]) < std::abs(strides[b]); });
  int64_t reach = 0;  // of all dimensions with smaller strides
  for (size_t d : order) {
    if (std::abs(strides[d]) <= reach) return false;
    reach += std::abs(strides[d]) * (space[d] - 1);
  }
  return true;
}

}  // namespace

bool is_copy(const Kernel& k) {
  if (k.contraction || k.stores.size() != 1 || k.row_dims != 0) return false;
  const Store& s = k.stores[0];
  const Expr& e = k.exprs[static_cast<size_t>(s.expr)];
  if (e.op != ExprOp::load || s.accumulate || k.args[static_cast<size_t>(s.access.arg)].updates >= 0) return false;
  const Access& a = k.accesses[static_cast<size_t>(e.integer)];
  return a.guards.empty() && a.terms.empty() && s.access.guards.empty() && s.access.terms.empty() &&
         k.args[static_cast<size_t>(a.arg)].dtype == k.args[static_cast<size_t>(s.access.arg)].dtype;
}

bool is_identity(const Kernel& k) {
  if (!is_copy(k)) return false;
  const Store& s = k.stores[0];
  const Access& a = k.accesses[static_cast<size_t>(k.exprs[static_cast<size_t>(s.expr)].integer)];
  if (k.args[static_cast<size_t>(a.arg)].elements != k.args[static_cast<size_t>(s.access.arg)].elements ||
      a.offset != s.access.offset)
    return false;
  for (size_t d = 0; d < k.space.size(); ++d)
    if (k.space[d] > 1 && a.strides[d] != s.access.strides[d]) return false;
  return true;
}

bool may_share(const Kernel& k, int read, int written) {
  // Where there are no points, nothing is read and no stride has been bounded.
  if (!reads(k, read) || std::find(k.space.begin(), k.space.end(), 0) != k.space.end()) return true;
  if (k.contraction || k.stores.size() != 1 || k.stores[0].accumulate) return false;
  const Access& to = k.stores[0].access;
  if (to.arg != written || !to.guards.empty() || !to.terms.empty() || !is_injective(to.strides, k.space)) return false;
  return std::all_of(k.accesses.begin(), k.accesses.end(), [&](const Access& a) {
    if (a.arg != read) return true;
    if (a.offset != to.offset || !a.guards.empty() || !a.terms.empty()) return false;
    for (size_t d = 0; d < k.space.size(); ++d)
      if (k.space[d] > 1 && a.strides[d] != to.strides[d]) return false;
    return true;
  });
}

bool updates_in_place(const Kernel& k) {
  for (size_t i = 0; i < k.args.size(); ++i)
    if (k.args[i].updates >= 0 && !may_share(k, k.args[i].updates, static_cast<int>(i))) return false;
  return true;
}

}  // namespace npusim
