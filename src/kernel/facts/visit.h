// Visits of every access of a kernel and of every operand of an expression.
#pragma once
#include <memory>

#include "kernel/kernel.h"

namespace npusim {

// f(access, wide) for each access of the kernel: over its space or, `wide`, over space ++ reduce. Those of an
// attention's score, which has a space of its own, are left out.
template <class F>
void for_each_access(const Kernel& kernel, F&& f) {
  for (const Access& a : kernel.accesses) f(a, false);
  for (const Store& s : kernel.stores) f(s.access, false);
  if (!kernel.contraction) return;
  if (kernel.contraction->kind != ContractionKind::attention) f(kernel.contraction->a, true);
  f(kernel.contraction->b, true);
}

// The same, to change them: the kernel gets a contraction of its own.
template <class F>
void edit_each_access(Kernel& kernel, F&& f) {
  for (Access& a : kernel.accesses) f(a, false);
  for (Store& s : kernel.stores) f(s.access, false);
  if (!kernel.contraction) return;
  auto contraction = std::make_shared<Contraction>(*kernel.contraction);
  if (contraction->kind != ContractionKind::attention) f(contraction->a, true);
  f(contraction->b, true);
  kernel.contraction = std::move(contraction);
}

// f(id) for each expression that `e` is computed from: its operands and, of a load, its index terms.
template <class F>
void for_each_operand(const Kernel& kernel, const Expr& e, F&& f) {
  for (int n = 0; n < expr_arity(e.op); ++n) f(e.in[static_cast<size_t>(n)]);
  if (e.op != ExprOp::load) return;
  for (const IndexTerm& t : kernel.accesses[static_cast<size_t>(e.integer)].terms) f(t.expr);
}

}  // namespace npusim
