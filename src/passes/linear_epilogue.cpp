// Reading epilogues as linear functions.
#include "passes/linear_epilogue.h"

#include <algorithm>

#include "kernel/fuse/simplify.h"

namespace npusim {
namespace {

class EpilogueReader {
 public:
  EpilogueReader(Kernel& kernel, const std::vector<bool>& early_args) : k_(kernel), early_(early_args) {}

  int32_t top(Linear& found) {
    const std::vector<bool> early = early_exprs();
    std::vector<Linear> forms(k_.exprs.size());
    const size_t count = k_.exprs.size();
    int32_t best = -1;
    for (size_t i = 0; i < count; ++i) {
      const Expr e = k_.exprs[i];
      if (e.op == ExprOp::contraction) forms[i].depends = true;
      if (expr_arity(e.op) == 0) continue;
      combine(i, e, forms, early);
      if (forms[i].depends && forms[i].linear && forms[i].scale >= 0 && dominates(static_cast<int32_t>(i))) {
        best = static_cast<int32_t>(i);
        found = forms[i];
      }
    }
    return best;
  }

 private:
  // Expressions that are known at load.
  std::vector<bool> early_exprs() const {
    std::vector<bool> early(k_.exprs.size(), true);
    for (size_t i = 0; i < early.size(); ++i) {
      const Expr& e = k_.exprs[i];
      if (e.op == ExprOp::contraction || e.op == ExprOp::index) early[i] = false;
      if (e.op == ExprOp::load) {
        const Access& a = k_.accesses[static_cast<size_t>(e.integer)];
        early[i] = early_[static_cast<size_t>(a.arg)] && a.terms.empty() && a.guards.empty();
      }
      for (int n = 0; n < expr_arity(e.op); ++n)
        early[i] = early[i] && early[static_cast<size_t>(e.in[static_cast<size_t>(n)])];
    }
    return early;
  }

  void combine(size_t i, const Expr& e, std::vector<Linear>& forms, const std::vector<bool>& early) {
    Linear out;
    for (int n = 0; n < expr_arity(e.op); ++n)
      out.depends = out.depends || forms[static_cast<size_t>(e.in[static_cast<size_t>(n)])].depends;
    if (!out.depends) return;
    out.linear = false;
    if (e.type == Scalar::f32 && expr_arity(e.op) == 2) {
      const Linear& a = forms[static_cast<size_t>(e.in[0])];
      const Linear& b = forms[static_cast<size_t>(e.in[1])];
      if (a.depends && a.linear && !b.depends && early[static_cast<size_t>(e.in[1])])
        out = apply(e.op, a, e.in[1], false);
      else if (b.depends && b.linear && !a.depends && early[static_cast<size_t>(e.in[0])])
        out = apply(e.op, b, e.in[0], true);
    }
    forms[i] = out;
  }

  Linear apply(ExprOp op, Linear x, int32_t w, bool w_first) {
    x.depends = true;
    switch (op) {
      case ExprOp::add:
        x.shift = x.shift < 0 ? w : binary(ExprOp::add, x.shift, w);
        break;
      case ExprOp::sub:
        if (w_first)
          x.linear = false;
        else
          x.shift = x.shift < 0 ? unary(ExprOp::neg, w) : binary(ExprOp::sub, x.shift, w);
        break;
      case ExprOp::mul:
        x.scale = x.scale < 0 ? w : binary(ExprOp::mul, x.scale, w);
        if (x.shift >= 0) x.shift = binary(ExprOp::mul, x.shift, w);
        break;
      case ExprOp::div:
        if (w_first) {
          x.linear = false;
          break;
        }
        x.scale = x.scale < 0 ? binary(ExprOp::div, constant(1), w) : binary(ExprOp::div, x.scale, w);
        if (x.shift >= 0) x.shift = binary(ExprOp::div, x.shift, w);
        break;
      default:
        x.linear = false;
    }
    return x;
  }

  // Whether every use of the leaf goes through `top`.
  bool dominates(int32_t top) const {
    std::vector<bool> reaches(k_.exprs.size(), false);
    for (size_t i = 0; i < k_.exprs.size(); ++i) {
      if (static_cast<int32_t>(i) == top) continue;
      if (k_.exprs[i].op == ExprOp::contraction) reaches[i] = true;
      for (int n = 0; n < expr_arity(k_.exprs[i].op); ++n)
        reaches[i] = reaches[i] || reaches[static_cast<size_t>(k_.exprs[i].in[static_cast<size_t>(n)])];
    }
    return std::none_of(k_.stores.begin(), k_.stores.end(),
                        [&](const Store& s) { return reaches[static_cast<size_t>(s.expr)]; });
  }

  int32_t unary(ExprOp op, int32_t a) {
    Expr e{.op = op, .type = Scalar::f32};
    e.in[0] = a;
    return add_expr(k_, e);
  }
  int32_t binary(ExprOp op, int32_t a, int32_t b) {
    Expr e{.op = op, .type = Scalar::f32};
    e.in = {a, b, -1};
    return add_expr(k_, e);
  }
  int32_t constant(double value) {
    Expr e{.op = ExprOp::constant, .type = Scalar::f32};
    e.number = value;
    return add_expr(k_, e);
  }

  Kernel& k_;
  const std::vector<bool>& early_;
};

}  // namespace

int32_t find_linear_epilogue(Kernel& kernel, const std::vector<bool>& early_args, Linear& found) {
  return EpilogueReader(kernel, early_args).top(found);
}

}  // namespace npusim
