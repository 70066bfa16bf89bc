// One walk along the expressions for what each depends on, one back for what is needed.
#include "kernel/facts/depend.h"

#include <algorithm>

#include "kernel/facts/visit.h"

namespace npusim {
namespace {

// The first n dimensions.
DimSet first_dims(size_t n) { return n >= max_dims ? ~DimSet{0} : dim_bit(n) - 1; }

}  // namespace

DimSet row_of(const Kernel& k) {
  return first_dims(k.space.size()) & ~first_dims(k.space.size() - static_cast<size_t>(k.row_dims));
}

DimSet dims_of(const Access& a, const Dependence& dependence) {
  DimSet dims = 0;
  for (size_t d = 0; d < a.strides.size(); ++d) {
    bool varies = a.strides[d] != 0;
    for (const Guard& g : a.guards) varies = varies || g.coeffs[d] != 0;
    if (varies) dims |= dim_bit(d);
  }
  for (const IndexTerm& t : a.terms) dims |= dependence.dims[static_cast<size_t>(t.expr)];
  return dims;
}

Dependence dependence_of(const Kernel& k) {
  Dependence all{std::vector<DimSet>(k.exprs.size()), std::vector<int>(k.exprs.size())};
  const DimSet row = row_of(k);
  for (size_t i = 0; i < k.exprs.size(); ++i) {
    const Expr& e = k.exprs[i];
    DimSet& dims = all.dims[i];
    for_each_operand(k, e, [&](int32_t operand) {
      dims |= all.dims[static_cast<size_t>(operand)];
      all.stage[i] = std::max(all.stage[i], all.stage[static_cast<size_t>(operand)]);
    });
    switch (e.op) {
      case ExprOp::index:
        dims = dim_bit(static_cast<size_t>(e.integer));
        break;
      case ExprOp::load:
        dims |= dims_of(k.accesses[static_cast<size_t>(e.integer)], all);
        break;
      case ExprOp::contraction:
        dims = first_dims(k.space.size());
        break;
      case ExprOp::scan:
        dims |= row;
        break;
      case ExprOp::order:
      case ExprOp::fourier_re:
      case ExprOp::fourier_im:
      case ExprOp::fourier_signal:
        dims |= row;
        ++all.stage[i];
        break;
      case ExprOp::reduce:
        dims &= ~row;
        ++all.stage[i];
        break;
      default:
        break;
    }
  }
  return all;
}

bool can_trap(const Kernel& k, const Expr& e) {
  if (e.op == ExprOp::load) return !k.accesses[static_cast<size_t>(e.integer)].terms.empty();
  if (e.op == ExprOp::require) return true;
  if (e.op != ExprOp::idiv && e.op != ExprOp::irem) return false;
  const Expr& divisor = k.exprs[static_cast<size_t>(e.in[1])];
  return divisor.op != ExprOp::constant || divisor.integer == 0;
}

std::vector<bool> live_expressions(const Kernel& k, bool traps) {
  std::vector<bool> live(k.exprs.size(), false);
  for (const Store& s : k.stores) {
    live[static_cast<size_t>(s.expr)] = true;
    for (const IndexTerm& t : s.access.terms) live[static_cast<size_t>(t.expr)] = true;
  }
  for (size_t i = k.exprs.size(); i-- > 0;) {
    if (traps && can_trap(k, k.exprs[i])) live[i] = true;
    if (live[i]) for_each_operand(k, k.exprs[i], [&](int32_t operand) { live[static_cast<size_t>(operand)] = true; });
  }
  return live;
}

}  // namespace npusim
