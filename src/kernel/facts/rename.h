// Expressions under other numbers: `to` has the new one of each old one.
#pragma once
#include <vector>

#include "kernel/kernel.h"

namespace npusim {

inline void rename_operands(Expr& e, const std::vector<int32_t>& to) {
  for (int n = 0; n < expr_arity(e.op); ++n) {
    int32_t& operand = e.in[static_cast<size_t>(n)];
    operand = to[static_cast<size_t>(operand)];
  }
}

inline void rename_terms(Access& a, const std::vector<int32_t>& to) {
  for (IndexTerm& t : a.terms) t.expr = to[static_cast<size_t>(t.expr)];
}

inline void rename_stores(Kernel& k, const std::vector<int32_t>& to) {
  for (Store& s : k.stores) {
    s.expr = to[static_cast<size_t>(s.expr)];
    rename_terms(s.access, to);
  }
}

}  // namespace npusim
