// The one form of kernels that order rows.
#include "kernel/facts/order.h"

#include <algorithm>

namespace npusim {
namespace {

// The guard lets through neighbouring positions of the row, and depends on nothing else. A kernel that is not sound may
// have any number of coefficients and strides.
bool is_range(const Guard& guard, const Access& to) {
  if (guard.coeffs.empty() || to.strides.empty()) return false;
  return guard.offset <= 0 && guard.limit >= 0 && guard.coeffs.back() == 1 && to.strides.back() == 0 &&
         std::all_of(guard.coeffs.begin(), guard.coeffs.end() - 1, [](int64_t c) { return c == 0; });
}

}  // namespace

bool has_order(const Kernel& k) {
  return std::any_of(k.exprs.begin(), k.exprs.end(), [](const Expr& e) { return e.op == ExprOp::order; });
}

std::string order_problem(const Kernel& k) {
  if (k.row_dims != 1) return "an order is along one dimension";
  if (k.contraction || k.exprs.size() != 2 || k.exprs[0].op != ExprOp::load || k.exprs[1].op != ExprOp::order ||
      k.accesses.size() != 1 || k.stores.size() != 1 || k.stores[0].expr != 1)
    return "a kernel that orders does nothing but load, order and store";
  if (k.exprs[1].reduction != Reduction::min && k.exprs[1].reduction != Reduction::max)
    return "an order has the smallest or the largest first";
  if (!k.accesses[0].guards.empty() || !k.accesses[0].terms.empty())
    return "what is ordered is loaded without guards and index terms";
  const Store& store = k.stores[0];
  const Access& to = store.access;
  if (store.accumulate || !to.terms.empty() || to.guards.size() > 1 ||
      (to.guards.size() == 1 && !is_range(to.guards[0], to)))
    return "an order is stored as it is, all of it or neighbouring positions";
  return "";
}

OrderForm order_form(const Kernel& k) {
  const Access& to = k.stores[0].access;
  OrderForm form{&k.accesses[0], &to, k.space.back(), 0, k.space.back(), to.strides.back(), false};
  if (!to.guards.empty()) {
    const Guard& guard = to.guards[0];
    form.first = guard.offset < -form.length ? form.length : -guard.offset, form.step = guard.stride;
    form.count = std::min(form.length - form.first, guard.limit);
  }
  form.descending = k.exprs[1].reduction == Reduction::max;
  return form;
}

}  // namespace npusim
