// Masks that are added, and masks that select −∞.
#include "kernel/facts/masked_score.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>

#include "kernel/facts/score_kernel.h"
#include "kernel/facts/visit.h"

namespace npusim {
namespace {

class Splitter {
 public:
  explicit Splitter(const Kernel& outer) : k_(score_kernel(outer)), dims_(dependence_of(k_).dims) {
    for (const Expr& e : k_.exprs) {
      bool depends = e.op == ExprOp::contraction;
      for_each_operand(k_, e, [&](int32_t operand) { depends = depends || of_product_[static_cast<size_t>(operand)]; });
      of_product_.push_back(depends);
    }
  }

  std::optional<MaskedScore> run(int32_t result) {
    const Parts parts = split(result);
    if (parts.hidden < 0) return std::nullopt;
    const int32_t lowest = number(-infinity);
    MaskedScore masked;
    masked.hidden = parts.hidden, masked.open = parts.open, masked.plain = parts.plain;
    masked.lowest = parts.selected ? lowest : binary(ExprOp::add, parts.plain, lowest, Scalar::f32);
    masked.most = parts.selected ? infinity : finite_up_to(parts.plain);
    masked.kernel = std::move(k_);
    const Dependence all = dependence_of(masked.kernel);
    masked.dims = all.dims[static_cast<size_t>(parts.hidden)] | all.dims[static_cast<size_t>(parts.open)];
    return masked;
  }

 private:
  static constexpr double infinity = std::numeric_limits<double>::infinity();

  struct Parts {
    int32_t plain = -1, hidden = -1, open = -1;
    bool selected = false;  // what is hidden is −∞ whatever the product is
  };

  const Expr& at(int32_t expr) const { return k_.exprs[static_cast<size_t>(expr)]; }
  bool depends(int32_t expr) const { return of_product_[static_cast<size_t>(expr)]; }
  bool is_lowest(int32_t expr) const {
    const Expr& e = at(expr);
    return e.op == ExprOp::constant && e.type == Scalar::f32 && std::isinf(e.number) && e.number < 0;
  }

  int32_t add(const Expr& e) {
    k_.exprs.push_back(e);
    return static_cast<int32_t>(k_.exprs.size()) - 1;
  }
  int32_t number(double value) { return add({.op = ExprOp::constant, .type = Scalar::f32, .number = value}); }
  int32_t binary(ExprOp op, int32_t a, int32_t b, Scalar type = Scalar::boolean) {
    return add({.op = op, .type = type, .in = {a, b, -1}});
  }
  int32_t negation(int32_t a) { return add({.op = ExprOp::logical_not, .type = Scalar::boolean, .in = {a, -1, -1}}); }
  int32_t both(int32_t a, int32_t b) { return b < 0 ? a : binary(ExprOp::bit_and, a, b); }

  // |expression| <= by · |product| + plus, in which no rounding needs more than 1 % of either.
  struct Bound {
    double by = 0, plus = 0;
  };
  using Bounds = std::map<int32_t, std::optional<Bound>>;

  // The largest absolute value of the product for which an expression is known to be finite; 0: none is.
  double finite_up_to(int32_t expr) const {
    double most = infinity;
    Bounds known;
    const auto bound = bound_of(expr, most, known);
    return bound && most < infinity ? std::max(most, 0.0) : 0;
  }

  // Of each expression once, however many use it.
  std::optional<Bound> bound_of(int32_t expr, double& most, Bounds& known) const {
    const auto [entry, fresh] = known.try_emplace(expr);
    if (fresh) {
      const std::optional<Bound> bound = find_bound(expr, most, known);
      known[expr] = bound;
      return bound;
    }
    return entry->second;
  }
  std::optional<Bound> find_bound(int32_t expr, double& most, Bounds& known) const {
    const Expr& e = at(expr);
    if (e.type != Scalar::f32) return std::nullopt;
    const auto within = [&](Bound bound, double limit = 1e38) -> std::optional<Bound> {
      if (!(bound.plus < limit)) return std::nullopt;
      if (bound.by > 0) most = std::min(most, 0.99 * (limit - bound.plus) / bound.by);
      return bound;
    };
    if (e.op == ExprOp::contraction) return within({1, 0});
    if (e.op == ExprOp::constant) return within({0, std::fabs(e.number)});
    std::array<Bound, 3> of{};
    for (size_t n = 0; n < static_cast<size_t>(expr_arity(e.op)); ++n) {
      const auto operand = bound_of(e.in[n], most, known);
      if (!operand) return std::nullopt;
      of[n] = *operand;
    }
    const auto& [a, b, unused] = of;
    switch (e.op) {
      case ExprOp::neg:
        return a;
      case ExprOp::tanh:
        return Bound{0, 1};
      case ExprOp::round_to:
        return within({1.01 * a.by, 1.01 * a.plus}, e.dtype == DType::f16 ? 65504 : 1e38);
      case ExprOp::add:
      case ExprOp::sub:
        return within({a.by + b.by, a.plus + b.plus});
      case ExprOp::mul:
        if (at(e.in[0]).op == ExprOp::constant) return within({a.plus * b.by, a.plus * b.plus});
        if (at(e.in[1]).op == ExprOp::constant) return within({b.plus * a.by, b.plus * a.plus});
        return std::nullopt;
      case ExprOp::div:
        if (at(e.in[1]).op != ExprOp::constant || b.plus == 0) return std::nullopt;
        return within({a.by / b.plus, a.plus / b.plus});
      default:
        return std::nullopt;
    }
  }

  // Of an expression that depends on the product.
  Parts split(int32_t expr) {
    const Expr e = at(expr);
    Parts none;
    none.plain = expr;
    if (e.type != Scalar::f32) return none;
    if (e.op == ExprOp::round_to) {
      Parts p = split(e.in[0]);
      if (p.hidden < 0) return none;
      Expr rounded = e;
      rounded.in[0] = p.plain;
      p.plain = add(rounded);
      return p;
    }
    if (e.op == ExprOp::add) {
      if (depends(e.in[0]) == depends(e.in[1])) return none;
      const int32_t x = e.in[depends(e.in[0]) ? 0 : 1], mask = e.in[depends(e.in[0]) ? 1 : 0];
      Parts p = split(x);
      if (dims_[static_cast<size_t>(mask)] == 0) return none;
      p.hidden = p.hidden < 0 ? binary(ExprOp::eq, mask, number(-infinity))
                              : both(p.hidden, binary(ExprOp::lt, mask, number(infinity)));
      p.open = both(binary(ExprOp::eq, mask, number(0)), p.open);
      return p;
    }
    if (e.op == ExprOp::select && !depends(e.in[0]) && (is_lowest(e.in[1]) || is_lowest(e.in[2]))) {
      const bool kept = is_lowest(e.in[2]);
      const int32_t x = e.in[kept ? 1 : 2];
      if (!depends(x)) return none;
      Parts p = split(x);
      const int32_t negated = negation(e.in[0]);
      p.hidden = kept ? negated : e.in[0];
      p.open = both(kept ? e.in[0] : negated, p.open);
      p.selected = true;
      return p;
    }
    return none;
  }

  Kernel k_;
  const std::vector<DimSet> dims_;  // of the score's own expressions
  std::vector<bool> of_product_;
};

}  // namespace

std::optional<MaskedScore> masked_score(const Kernel& outer) {
  return Splitter(outer).run(outer.contraction->score->result);
}

}  // namespace npusim
