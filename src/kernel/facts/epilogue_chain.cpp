// Recognising epilogues: the chain of values every path from the leaf passes, each step by its form.
#include "kernel/facts/epilogue_chain.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "kernel/facts/match_expr.h"

namespace npusim {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

// The leaf, and after it each value through which alone later ones depend on the leaf (immediate dominators). Empty
// when one of them is not f32, but for conditions.
std::vector<int32_t> chain_to(const Kernel& k, int32_t expr) {
  const auto count = static_cast<size_t>(expr) + 1;
  std::vector<int32_t> dominator(count, -1), level(count, -1);  // level -1: independent of the leaf
  for (size_t i = 0; i < count; ++i) {
    const Expr& e = k.exprs[i];
    if (e.op == ExprOp::contraction) level[i] = 0;
    for (int n = 0; n < expr_arity(e.op); ++n) {
      int32_t other = e.in[static_cast<size_t>(n)];
      if (level[static_cast<size_t>(other)] < 0) continue;
      int32_t& mine = dominator[i];
      if (mine < 0) mine = other;
      while (mine != other) {
        int32_t& deeper = level[static_cast<size_t>(mine)] > level[static_cast<size_t>(other)] ? mine : other;
        deeper = dominator[static_cast<size_t>(deeper)];
      }
      level[i] = level[static_cast<size_t>(mine)] + 1;
    }
    if (level[i] >= 0 && e.type != Scalar::f32 && e.type != Scalar::boolean) return {};
  }
  std::vector<int32_t> chain;
  if (level[static_cast<size_t>(expr)] < 0) return chain;
  for (int32_t at = expr; at >= 0; at = dominator[static_cast<size_t>(at)]) chain.insert(chain.begin(), at);
  return chain;
}

// Forms of one value `x`. What is accepted gives the same as the expression for every x, infinities and NaN included,
// to a few rounding steps.
struct ActivationMatcher : ExprMatcher {
  int32_t x;

  std::optional<EpilogueOp> match(int32_t to) const {
    if (const auto op = linear(to)) return op;
    if (const auto op = bound(to)) return op;
    if (const auto op = leaky_relu(to)) return op;
    const auto only = [](Activation activation) { return EpilogueOp{-1, activation, 0, 0}; };
    if (is(to, ExprOp::tanh) && at(to).in[0] == x) return only(Activation::tanh);
    if (sigmoid(to) == x) return only(Activation::logistic);
    if (silu(to) == x) return only(Activation::swish);
    if (hardswish(to)) return only(Activation::hardswish);
    return gelu(to);
  }

  // One operation with a constant. Chains are not multiplied out: that would move overflows and zeros.
  std::optional<EpilogueOp> linear(int32_t to) const {
    const Expr& e = at(to);
    const auto line = [](double alpha, double beta) {
      return EpilogueOp{-1, Activation::linear, static_cast<float>(alpha), static_cast<float>(beta)};
    };
    if (e.op == ExprOp::neg && e.in[0] == x) return line(-1, -0.0);  // -0 changes no sum
    if (expr_arity(e.op) != 2) return std::nullopt;
    const bool first = e.in[0] == x;
    if (!first && e.in[1] != x) return std::nullopt;
    const auto c = constant(e.in[first ? 1 : 0]);
    if (!c) return std::nullopt;
    if (e.op == ExprOp::add) return line(1, *c);
    if (e.op == ExprOp::sub) return first ? line(1, -*c) : line(-1, *c);
    if (e.op == ExprOp::mul) return line(*c, -0.0);
    // The reciprocal is as precise as the divisor where neither leaves the normal floats.
    if (e.op == ExprOp::div && first && std::fabs(*c) >= 0x1p-126 && std::fabs(*c) <= 0x1p126)
      return line(1 / *c, -0.0);
    return std::nullopt;
  }

  std::optional<EpilogueOp> bound(int32_t to) const {
    const Expr& e = at(to);
    if (e.op != ExprOp::min && e.op != ExprOp::max) return std::nullopt;
    const int32_t other = other_operand(to, e.op, x);
    const auto c = other >= 0 ? constant(other) : std::nullopt;
    if (!c || std::isnan(*c)) return std::nullopt;
    const auto value = static_cast<float>(*c);
    return e.op == ExprOp::max ? EpilogueOp{-1, Activation::clip, value, infinity}
                               : EpilogueOp{-1, Activation::clip, -infinity, value};
  }

  // x > 0 ? x : x·slope, in any of its four forms. A slope of 0 is no relu: it makes NaN of −∞.
  std::optional<EpilogueOp> leaky_relu(int32_t to) const {
    if (!is(to, ExprOp::select)) return std::nullopt;
    const Expr& condition = at(at(to).in[0]);
    if (condition.op != ExprOp::lt && condition.op != ExprOp::le) return std::nullopt;
    const bool positive = is_constant(condition.in[0], 0) && condition.in[1] == x,
               negative = is_constant(condition.in[1], 0) && condition.in[0] == x;
    if (!positive && !negative) return std::nullopt;
    const int32_t kept = at(to).in[positive ? 1 : 2],
                  scaled = other_operand(at(to).in[positive ? 2 : 1], ExprOp::mul, x);
    const auto slope = kept == x && scaled >= 0 ? constant(scaled) : std::nullopt;
    if (!slope || *slope == 0 || !std::isfinite(*slope)) return std::nullopt;
    return EpilogueOp{-1, Activation::leaky_relu, static_cast<float>(*slope), 0};
  }

  // x · min(max(x + 3, 0), 6) / 6
  bool hardswish(int32_t to) const {
    const int32_t product = is(to, ExprOp::div) && is_constant(at(to).in[1], 6)
                                ? at(to).in[0]
                                : other_than_constant(to, ExprOp::mul, 1.0 / 6);
    if (product < 0) return false;
    const int32_t capped = other_operand(product, ExprOp::mul, x);
    const int32_t raised = capped < 0 ? -1 : other_than_constant(capped, ExprOp::min, 6);
    const int32_t shifted = raised < 0 ? -1 : other_than_constant(raised, ExprOp::max, 0);
    return shifted >= 0 && other_than_constant(shifted, ExprOp::add, 3) == x;
  }

  // 0.5·x·(1 + gate), halved before the sum doubles it so that nothing overflows.
  std::optional<EpilogueOp> gelu(int32_t to) const {
    if (!is(to, ExprOp::mul)) return std::nullopt;
    for (size_t side : {0, 1}) {
      int32_t sum = at(to).in[1 - side];
      const int32_t factor = at(to).in[side];
      if (factor == x)
        sum = other_than_constant(sum, ExprOp::mul, 0.5);
      else if (other_than_constant(factor, ExprOp::mul, 0.5) != x)
        continue;
      const int32_t gate = sum < 0 ? -1 : other_than_constant(sum, ExprOp::add, 1);
      if (is(gate, ExprOp::erf) && over_root_two(at(gate).in[0])) return EpilogueOp{-1, Activation::gelu_erf, 0, 0};
      if (is(gate, ExprOp::tanh) && gelu_cubic(at(gate).in[0])) return EpilogueOp{-1, Activation::gelu_tanh, 0, 0};
    }
    return std::nullopt;
  }

  bool over_root_two(int32_t id) const {
    if (is(id, ExprOp::div)) return at(id).in[0] == x && is_constant(at(id).in[1], std::numbers::sqrt2);
    return other_than_constant(id, ExprOp::mul, 1 / std::numbers::sqrt2) == x;
  }

  // sqrt(2/π)·(x + 0.044715·x³) or sqrt(2/π)·x·(1 + 0.044715·x²)
  bool gelu_cubic(int32_t id) const {
    constexpr double root = std::numbers::sqrt2 * std::numbers::inv_sqrtpi, cubic = 0.044715;
    const Product all = factors(id);
    if (!all.is(root) || all.others.size() != 1) return false;
    const int32_t sum = all.others[0];
    const int32_t rest = all.powers == 0   ? other_operand(sum, ExprOp::add, x)
                         : all.powers == 1 ? other_than_constant(sum, ExprOp::add, 1)
                                           : -1;
    if (rest < 0) return false;
    const Product term = factors(rest);
    return term.is(cubic) && term.others.empty() && term.powers == (all.powers == 0 ? 3 : 2);
  }

  // A product as constant · x^powers · others, the constant a single one; of more than 16 factors, nothing is one of
  // these forms.
  struct Product {
    double constant = 1;
    int constants = 0, powers = 0;
    std::vector<int32_t> others;
    bool is(double value) const { return constants == 1 && static_cast<float>(constant) == static_cast<float>(value); }
  };
  Product factors(int32_t id) const {
    Product all;
    std::vector<int32_t> pending{id};
    for (int followed = 0; !pending.empty(); ++followed) {
      if (followed == 32) return {};
      const int32_t factor = pending.back();
      const Expr& e = at(factor);
      pending.pop_back();
      if (factor == x)
        ++all.powers;
      else if (e.op == ExprOp::mul)
        pending.insert(pending.end(), {e.in[0], e.in[1]});
      else if (const auto c = this->constant(factor))
        all.constant = *c, ++all.constants;
      else if (e.op == ExprOp::pow && e.in[0] == x && (is_constant(e.in[1], 2) || is_constant(e.in[1], 3)))
        all.powers += is_constant(e.in[1], 2) ? 2 : 3;
      else
        all.others.push_back(factor);
    }
    return all;
  }
};

// `to` = `from` + a load.
std::optional<EpilogueOp> match_add(const Kernel& k, int32_t from, int32_t to) {
  const Expr& e = k.exprs[static_cast<size_t>(to)];
  if (e.op != ExprOp::add || e.type != Scalar::f32 || (e.in[0] != from && e.in[1] != from)) return std::nullopt;
  const Expr& other = k.exprs[static_cast<size_t>(e.in[0] == from ? e.in[1] : e.in[0])];
  if (other.op != ExprOp::load || other.type != Scalar::f32) return std::nullopt;
  return EpilogueOp{static_cast<int>(other.integer), Activation::linear, 0, 0};
}

// Bounds after bounds are bounds, as min(max(x, alpha), beta) with alpha <= beta.
void add_bounds(std::vector<EpilogueOp>& ops, EpilogueOp next) {
  if (ops.empty() || ops.back().add >= 0 || ops.back().activation != Activation::clip) {
    ops.push_back(next);
    return;
  }
  for (float* value : {&ops.back().alpha, &ops.back().beta}) *value = std::min(std::max(*value, next.alpha), next.beta);
}

}  // namespace

std::optional<std::vector<EpilogueOp>> epilogue_chain(const Kernel& kernel) {
  if (kernel.stores.size() != 1 || kernel.stores[0].accumulate) return std::nullopt;
  const std::vector<int32_t> chain = chain_to(kernel, kernel.stores[0].expr);
  if (chain.empty()) return std::nullopt;
  std::vector<EpilogueOp> ops;
  for (size_t i = 0; i + 1 < chain.size();) {
    if (const auto add = match_add(kernel, chain[i], chain[i + 1])) {
      ops.push_back(*add);
      ++i;
      continue;
    }
    std::optional<EpilogueOp> found;
    size_t end = chain.size();  // the longest stretch that is one known activation
    while (!found && --end > i) found = ActivationMatcher{{kernel}, chain[i]}.match(chain[end]);
    if (!found) return std::nullopt;
    if (found->activation == Activation::clip)
      add_bounds(ops, *found);
    else
      ops.push_back(*found);
    i = end;
  }
  return ops;
}

}  // namespace npusim
