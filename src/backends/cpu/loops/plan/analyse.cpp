// Dependences, costs, and the products that sums absorb.
#include "backends/cpu/loops/plan/analyse.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "backends/cpu/loops/plan/integer_lanes.h"
#include "backends/cpu/loops/rewrite/extreme_index.h"
#include "kernel/facts/visit.h"

namespace npusim::cpu::loops::plan {
namespace {

bool together(const Analysis& a, size_t i, size_t j) {
  return a.depends.dims[i] == a.depends.dims[j] && a.depends.stage[i] == a.depends.stage[j];
}

bool is_join(ExprOp op) {
  return op == ExprOp::add || op == ExprOp::sub || op == ExprOp::mul || op == ExprOp::div || op == ExprOp::min ||
         op == ExprOp::max;
}

// Whether an instruction of the expression is better one with that of its operand `n`: a product rounds once with a
// sum, a comparison needs no bytes where it decides.
bool absorbs(const Kernel& k, const Expr& e, size_t n) {
  const Expr& operand = k.exprs[static_cast<size_t>(e.in[n])];
  if (e.op == ExprOp::select)
    return n == 0 && (tiles::is_comparison(operand.op) || operand.op == ExprOp::isnan) &&
           k.exprs[static_cast<size_t>(operand.in[0])].type == e.type;
  return e.type == Scalar::f32 && (e.op == ExprOp::add || e.op == ExprOp::sub) && operand.op == ExprOp::mul;
}
bool pairs(const Kernel& k, const Expr& e, size_t n) {
  return e.type == Scalar::f32 && is_join(e.op) && is_join(k.exprs[static_cast<size_t>(e.in[n])].op);
}

// Of expressions that run over the same lanes, the first with one use, two become one instruction.
void mark_fused(const Kernel& k, Analysis& a, bool (*one)(const Kernel&, const Expr&, size_t)) {
  const auto alone = [&](size_t i) {
    return a.fused[i] < 0 && !a.absorbed[i] && a.signs[i] < 0 && a.leaks[i] < 0 && a.gelus[i].x < 0 &&
           a.shares[i] < 0 && a.between[i].weight < 0 && a.normed[i].x < 0 && a.polynomials[i].terms.empty();
  };
  for (size_t i = 0; i < k.exprs.size(); ++i) {
    const Expr& e = k.exprs[i];
    if (e.type < Scalar::f32 || !alone(i)) continue;
    for (size_t n = 0; n < static_cast<size_t>(expr_arity(e.op)); ++n) {
      const auto inner = static_cast<size_t>(e.in[n]);
      const bool same_lanes = a.depends.dims[inner] == a.depends.dims[i];  // used once, it waits for the other's stage
      if (!one(k, e, n) || a.uses[inner] != 1 || !alone(inner) || !same_lanes) continue;
      a.fused[i] = static_cast<int>(n);
      a.absorbed[inner] = 1;
      break;
    }
  }
}

// Products, and integers of conditions, with one use, by a sum along the row, become one instruction with it.
void mark_summed(const Kernel& k, Analysis& a) {
  for (const Expr& e : k.exprs) {
    if (e.op != ExprOp::reduce || e.reduction != Reduction::sum) continue;
    const auto summed = static_cast<size_t>(e.in[0]);
    const Expr& x = k.exprs[summed];
    const bool product = x.op == ExprOp::mul && x.type == Scalar::f32;
    const bool condition =
        x.op == ExprOp::cast && x.type == Scalar::i64 && k.exprs[static_cast<size_t>(x.in[0])].type == Scalar::boolean;
    if (a.uses[summed] == 1 && !a.absorbed[summed] && (product || condition) && (a.depends.dims[summed] & a.row) != 0)
      a.absorbed[summed] = 1;
  }
}

// Σ (x − m)² along a tile's columns, of one m for a row, is one instruction; it does not count as a use of x − m, which
// others are cheaper with by themselves than by what would be kept.
void mark_deviations(const Plan& plan, Analysis& a) {
  const Kernel& k = plan.piece.kernel;
  a.deviations.assign(k.exprs.size(), -1);
  if ((bit(plan.column_dim) & a.row) == 0) return;
  for (size_t i = 0; i < k.exprs.size(); ++i) {
    const Expr& e = k.exprs[i];
    if (e.op != ExprOp::reduce || e.reduction != Reduction::sum || e.type != Scalar::f32) continue;
    const auto square = static_cast<size_t>(e.in[0]);
    const int32_t from = k.exprs[square].in[0];
    if (k.exprs[square].op != ExprOp::mul || k.exprs[square].in[1] != from || a.uses[square] != 1 || a.absorbed[square])
      continue;
    const Expr& d = k.exprs[static_cast<size_t>(from)];
    if (d.op != ExprOp::sub || (a.depends.dims[static_cast<size_t>(d.in[0])] & a.row) == 0 ||
        (a.depends.dims[static_cast<size_t>(d.in[1])] & a.row) != 0)
      continue;
    a.deviations[i] = from;
    a.absorbed[square] = 1;
    a.uses[static_cast<size_t>(from)] -= 2;
    for (size_t n = 0; n < 2; ++n) ++a.uses[static_cast<size_t>(d.in[n])];
  }
}

// A step of Horner's rule: the expression is a product, which nothing else uses, and a constant.
struct Step {
  int32_t product = -1;
  double term = 0;
};
std::optional<Step> step_of(const Kernel& k, const Analysis& a, int32_t i) {
  const Expr& e = k.exprs[static_cast<size_t>(i)];
  if (e.op != ExprOp::add || e.type < Scalar::f32) return std::nullopt;
  for (size_t n = 0; n < 2; ++n) {
    const auto product = static_cast<size_t>(e.in[n]);
    const Expr& other = k.exprs[static_cast<size_t>(e.in[1 - n])];
    if (k.exprs[product].op == ExprOp::mul && a.uses[product] == 1 && other.op == ExprOp::constant &&
        together(a, product, static_cast<size_t>(i)))
      return Step{e.in[n], other.number};
  }
  return std::nullopt;
}

// Polynomials of two steps and more, from the last step down.
void mark_polynomials(const Kernel& k, Analysis& a) {
  a.polynomials.resize(k.exprs.size());
  for (size_t i = k.exprs.size(); i-- > 0;) {
    if (a.absorbed[i]) continue;
    Polynomial p;
    std::vector<int32_t> inner;
    for (auto at = static_cast<int32_t>(i); const auto step = step_of(k, a, at);) {
      const auto& factors = k.exprs[static_cast<size_t>(step->product)].in;
      const auto goes_on = [&](int32_t f) {
        return step_of(k, a, f) && a.uses[static_cast<size_t>(f)] == 1 && together(a, static_cast<size_t>(f), i);
      };
      if (p.x < 0) p.x = goes_on(factors[0]) ? factors[1] : factors[0];
      if (factors[0] != p.x && factors[1] != p.x) break;
      p.start = factors[0] == p.x ? factors[1] : factors[0];
      p.terms.push_back(step->term);
      inner.push_back(step->product);
      if (!goes_on(p.start)) break;
      inner.push_back(at = p.start);
    }
    if (p.terms.size() < 2) continue;
    if (inner.back() == p.start) inner.pop_back();  // a step of another variable: it is where this one starts
    std::reverse(p.terms.begin(), p.terms.end());
    for (const int32_t e : inner) a.absorbed[static_cast<size_t>(e)] = 1;
    a.polynomials[i] = std::move(p);
  }
}

// A choice, by a bound, of a value or its product.
void mark_leaks(const Kernel& k, Analysis& a) {
  a.leaks.assign(k.exprs.size(), -1);
  for (size_t i = 0; i < k.exprs.size(); ++i) {
    const Expr& e = k.exprs[i];
    if (e.op != ExprOp::select || e.type != Scalar::f32) continue;
    const Expr& less = k.exprs[static_cast<size_t>(e.in[0])];
    const auto relation = static_cast<size_t>(e.in[0]), product = static_cast<size_t>(e.in[2]);
    const auto& factors = k.exprs[product].in;
    if (less.op != ExprOp::lt || less.in[1] != e.in[1] || k.exprs[product].op != ExprOp::mul ||
        k.exprs[static_cast<size_t>(less.in[0])].op != ExprOp::constant ||
        (factors[0] != e.in[1] && factors[1] != e.in[1]))
      continue;
    if (a.uses[relation] != 1 || a.uses[product] != 1 || a.absorbed[product] || a.absorbed[relation] ||
        !together(a, relation, i) || !together(a, product, i) || !together(a, static_cast<size_t>(e.in[1]), i))
      continue;
    a.leaks[i] = factors[0] == e.in[1] ? factors[1] : factors[0];
    a.absorbed[relation] = a.absorbed[product] = 1;
  }
}

// y + 1/y < 0 ? −x : x, as |x| with the sign of y is written.
void mark_signs(const Kernel& k, Analysis& a) {
  a.signs.assign(k.exprs.size(), -1);
  const auto at = [&](int32_t i) -> const Expr& { return k.exprs[static_cast<size_t>(i)]; };
  const auto is = [&](int32_t i, double number) { return at(i).op == ExprOp::constant && at(i).number == number; };
  for (size_t i = 0; i < k.exprs.size(); ++i) {
    const Expr& e = k.exprs[i];
    if (e.op != ExprOp::select || e.type < Scalar::f32) continue;
    const Expr &less = at(e.in[0]), &negative = at(e.in[1]);
    if (less.op != ExprOp::lt || at(less.in[0]).op != ExprOp::add || !is(less.in[1], 0) || negative.op != ExprOp::neg ||
        negative.in[0] != e.in[2])
      continue;
    const Expr& sum = at(less.in[0]);
    const Expr& inverse = at(sum.in[1]);
    if (inverse.op != ExprOp::div || !is(inverse.in[0], 1) || inverse.in[1] != sum.in[0] || sum.type != e.type)
      continue;
    const int32_t parts[] = {e.in[0], e.in[1], less.in[0], sum.in[1]};
    const auto apart = [&](int32_t p) {
      const auto j = static_cast<size_t>(p);
      return a.uses[j] != 1 || a.absorbed[j] || !together(a, j, i);
    };
    if (std::any_of(std::begin(parts), std::end(parts), apart)) continue;
    for (const int32_t p : parts) a.absorbed[static_cast<size_t>(p)] = 1;
    a.signs[i] = sum.in[0];
  }
}

// The operand of an operation with a constant, which is the other one, in any order; -1: it has none.
int32_t other_than_constant(const Kernel& k, int32_t i, ExprOp op, double& number) {
  const Expr& e = k.exprs[static_cast<size_t>(i)];
  for (size_t n = 0; e.op == op && n < 2; ++n) {
    const Expr& other = k.exprs[static_cast<size_t>(e.in[1 - n])];
    number = other.number;
    if (other.op == ExprOp::constant) return e.in[n];
  }
  return -1;
}

void mark_gelus(const Kernel& k, Analysis& a) {
  a.gelus.resize(k.exprs.size());
  for (size_t i = 0; i < k.exprs.size(); ++i) {
    const Expr& e = k.exprs[i];
    if (e.op != ExprOp::mul || e.type != Scalar::f32 || a.absorbed[i]) continue;  // the product of a sum of products
    for (size_t n = 0; n < 2 && a.gelus[i].x < 0; ++n) {
      Gelu g;
      double one = 0;
      const int32_t product = e.in[n], share = e.in[1 - n], x = other_than_constant(k, product, ExprOp::mul, g.half);
      const int32_t erf = other_than_constant(k, share, ExprOp::add, one);
      if (x < 0 || erf < 0 || one != 1 || k.exprs[static_cast<size_t>(erf)].op != ExprOp::erf) continue;
      const int32_t scaled = k.exprs[static_cast<size_t>(erf)].in[0];
      if (other_than_constant(k, scaled, ExprOp::mul, g.inner) != x) continue;
      const int32_t parts[] = {product, share, erf, scaled};
      const auto apart = [&](int32_t p) {
        const auto j = static_cast<size_t>(p);
        return a.uses[j] != 1 || a.absorbed[j] || !together(a, j, i);
      };
      if (std::any_of(std::begin(parts), std::end(parts), apart)) continue;
      for (const int32_t p : parts) a.absorbed[static_cast<size_t>(p)] = 1;
      g.x = x;
      a.gelus[i] = g;
    }
  }
}

// The distance is one expression, of which all parts are the choice's alone.
void mark_between(const Kernel& k, Analysis& a) {
  a.between.resize(k.exprs.size());
  const auto at = [&](int32_t i) -> const Expr& { return k.exprs[static_cast<size_t>(i)]; };
  const auto is = [&](int32_t i, ExprOp op) { return at(i).op == op; };
  const auto number = [&](int32_t i, double n) { return is(i, ExprOp::constant) && at(i).number == n; };
  for (size_t i = 0; i < k.exprs.size(); ++i) {
    const Expr& e = k.exprs[i];
    if (e.op != ExprOp::select || e.type != Scalar::f32 || !is(e.in[0], ExprOp::lt) || !is(e.in[1], ExprOp::add) ||
        !is(e.in[2], ExprOp::sub))
      continue;
    const Expr &less = at(e.in[0]), &near = at(e.in[1]), &far = at(e.in[2]);
    const int32_t size = less.in[0], go = near.in[1], back = far.in[1];
    if (!is(size, ExprOp::abs) || !number(less.in[1], 0.5) || !is(go, ExprOp::mul) || !is(back, ExprOp::mul)) continue;
    const Between b{near.in[0], far.in[0], at(size).in[0]};
    const int32_t distance = at(go).in[1], rest = at(back).in[1];
    if (at(go).in[0] != b.weight || at(back).in[0] != distance || !is(distance, ExprOp::sub) ||
        at(distance).in[0] != b.to || at(distance).in[1] != b.from || !is(rest, ExprOp::sub) ||
        !number(at(rest).in[0], 1) || at(rest).in[1] != b.weight)
      continue;
    const int32_t parts[] = {e.in[0], e.in[1], e.in[2], size, go, back, distance, rest};
    const auto apart = [&](int32_t p) {
      const auto j = static_cast<size_t>(p);
      return a.uses[j] != (p == distance ? 2 : 1) || a.absorbed[j] || !together(a, j, i);
    };
    if (std::any_of(std::begin(parts), std::end(parts), apart)) continue;
    for (const int32_t p : parts) a.absorbed[static_cast<size_t>(p)] = 1;
    a.between[i] = b;
  }
}

// The ends of norms.
void mark_normed(const Plan& plan, Analysis& a) {
  const Kernel& k = plan.piece.kernel;
  a.normed.resize(k.exprs.size());
  const auto at = [&](int32_t i) -> const Expr& { return k.exprs[static_cast<size_t>(i)]; };
  const auto one_for_row = [&](int32_t i) {
    return (a.depends.dims[static_cast<size_t>(i)] & bit(plan.column_dim)) == 0;
  };
  for (size_t i = 0; i < k.exprs.size(); ++i) {
    const Expr& e = k.exprs[i];
    if (e.op != ExprOp::add || e.type != Scalar::f32 || plan.column_dim < 0 || a.absorbed[i]) continue;
    const int32_t weighted = e.in[0], scaled = at(weighted).in[0];
    if (at(weighted).op != ExprOp::mul || at(scaled).op != ExprOp::mul) continue;
    const int32_t apart = at(scaled).in[0];
    if (at(apart).op != ExprOp::sub) continue;
    const Normed n{at(apart).in[0], at(apart).in[1], at(scaled).in[1], at(weighted).in[1], e.in[1]};
    if (one_for_row(n.x) || !one_for_row(n.mean) || !one_for_row(n.scale)) continue;
    const int32_t parts[] = {weighted, scaled, apart};
    const auto elsewhere = [&](int32_t p) {
      const auto j = static_cast<size_t>(p);
      return a.uses[j] != 1 || a.absorbed[j] || a.depends.dims[j] != a.depends.dims[i];  // of any stage
    };
    if (std::any_of(std::begin(parts), std::end(parts), elsewhere)) continue;
    for (const int32_t p : parts) a.absorbed[static_cast<size_t>(p)] = 1;
    a.normed[i] = n;
  }
}

// 1 + erf(y), in any order.
void mark_shares(const Kernel& k, Analysis& a) {
  a.shares.assign(k.exprs.size(), -1);
  for (size_t i = 0; i < k.exprs.size(); ++i) {
    double one = 0;
    const int32_t erf = other_than_constant(k, static_cast<int32_t>(i), ExprOp::add, one);
    if (erf < 0 || one != 1 || k.exprs[i].type != Scalar::f32 || a.absorbed[i]) continue;
    const auto j = static_cast<size_t>(erf);
    if (k.exprs[j].op != ExprOp::erf || a.uses[j] != 1 || a.absorbed[j] || !together(a, j, i)) continue;
    a.absorbed[j] = 1;
    a.shares[i] = k.exprs[j].in[0];
  }
}

// What only leads to words of draws is not computed by itself, nor are words that are only wanted as floats.
void mark_draws(const Kernel& k, Analysis& a) {
  a.drawn.resize(k.exprs.size());
  if (std::none_of(k.exprs.begin(), k.exprs.end(), [](const Expr& e) { return e.op == ExprOp::bit_xor; })) return;
  std::vector<char> live(k.exprs.size(), 0);
  std::vector<int> floats(k.exprs.size(), 0);
  const auto need = [&](int32_t i) { live[static_cast<size_t>(i)] = 1; };
  for (const Store& s : k.stores) {
    need(s.expr);
    for (const IndexTerm& t : s.access.terms) need(t.expr);
  }
  for (size_t i = k.exprs.size(); i-- > 0;) {
    if (!live[i]) continue;
    a.drawn[i] = drawn_word(k, static_cast<int32_t>(i));
    if (a.drawn[i]) {
      for (const int32_t id : a.drawn[i]->draw.counter) need(id);
      for (const int32_t id : a.drawn[i]->draw.key) need(id);
    } else {
      for_each_operand(k, k.exprs[i], need);
      if (k.exprs[i].op == ExprOp::cast && k.exprs[i].type == Scalar::f32)
        ++floats[static_cast<size_t>(k.exprs[i].in[0])];
    }
  }
  for (size_t i = 0; i < k.exprs.size(); ++i)
    if (!live[i] || (a.drawn[i] && floats[i] == a.uses[i])) a.absorbed[i] = 1;
}

void use_tiles(const Kernel& k, Analysis& a) {
  std::vector<bool> tiled(k.exprs.size());
  for (size_t i = 0; i < k.exprs.size(); ++i) {
    tiled[i] = k.exprs[i].op == ExprOp::reduce || k.exprs[i].op == ExprOp::scan;
    for_each_operand(k, k.exprs[i], [&](int32_t operand) {
      tiled[i] = tiled[i] || tiled[static_cast<size_t>(operand)];
      ++a.uses[static_cast<size_t>(operand)];
    });
    if (tiled[i]) a.depends.dims[i] |= a.tile & ~a.row;
  }
}

}  // namespace

std::optional<tiles::Link> link_of(const Kernel& k, const Expr& e, size_t n, bool fixed) {
  const Expr& other = k.exprs[static_cast<size_t>(e.in[1 - n])];
  const auto bound = static_cast<float>(other.number);
  const bool known = fixed && other.op == ExprOp::constant && bound == bound;
  switch (e.op) {
    case ExprOp::add:
      return tiles::Link::add;
    case ExprOp::sub:
      return n == 0 ? tiles::Link::sub : tiles::Link::from;
    case ExprOp::mul:
      return tiles::Link::mul;
    case ExprOp::div:
      return n == 0 ? tiles::Link::div : tiles::Link::over;
    default:
      break;
  }
  const bool least = e.op == ExprOp::min;
  if (known && bound != 0) return least ? tiles::Link::at_most : tiles::Link::at_least;
  if (n != 0) return std::nullopt;
  if (!fixed) return least ? tiles::Link::min : tiles::Link::max;
  return known && !least && !std::signbit(bound) ? std::optional(tiles::Link::positive) : std::nullopt;
}

bool is_large(const Kernel& kernel) {
  int64_t bytes = 0;
  for (const KernelArg& a : kernel.args) bytes += a.elements * static_cast<int64_t>(dtype_size(a.dtype));
  return bytes >= int64_t{1} << 20;
}

double cost_of(ExprOp op) {  // ns per element, roughly; from 0.5 on worth keeping along a row
  switch (op) {
    case ExprOp::constant:
      return 0;
    case ExprOp::exp:
    case ExprOp::exp2:
    case ExprOp::log:
    case ExprOp::log2:
    case ExprOp::log10:
    case ExprOp::tanh:
    case ExprOp::erf:
    case ExprOp::sin:
    case ExprOp::cos:
      return 0.5;
    case ExprOp::expm1:
    case ExprOp::log1p:
      return 1;
    case ExprOp::idiv:
    case ExprOp::irem:
    case ExprOp::erfc:
    case ExprOp::tan:
    case ExprOp::atan:
    case ExprOp::sinh:
    case ExprOp::cosh:
      return 2;
    case ExprOp::scan:
      return 1.5;
    case ExprOp::asin:
    case ExprOp::acos:
    case ExprOp::asinh:
    case ExprOp::acosh:
    case ExprOp::atanh:
    case ExprOp::pow:
    case ExprOp::fmod:
    case ExprOp::atan2:
      return 10;
    default:
      return 0.1;
  }
}

Analysis analyse(const Plan& plan) {
  const Kernel& k = plan.piece.kernel;
  Analysis a;
  const size_t count = k.exprs.size();
  a.integers = integer_lanes(k);
  a.depends = dependence_of(k);
  for (int stage : a.depends.stage) a.last_stage = std::max(a.last_stage, stage);
  a.uses.resize(count);
  a.fused.assign(count, -1);
  a.absorbed.resize(count);
  a.row = row_of(k);
  a.tile = bit(plan.row_dim) | bit(plan.column_dim);
  use_tiles(k, a);
  a.copies.resize(count);
  for (const Store& s : k.stores) {
    ++a.uses[static_cast<size_t>(s.expr)];
    for (const IndexTerm& t : s.access.terms) ++a.uses[static_cast<size_t>(t.expr)];
    const Expr& e = k.exprs[static_cast<size_t>(s.expr)];
    if (e.op != ExprOp::load || s.accumulate) continue;
    const int from = k.accesses[static_cast<size_t>(e.integer)].arg;
    a.copies[static_cast<size_t>(s.expr)] +=
        k.args[static_cast<size_t>(s.access.arg)].dtype == k.args[static_cast<size_t>(from)].dtype;
  }
  for (size_t i = 0; i < count; ++i)
    if (rewrite::is_candidate(k.exprs[i])) a.absorbed[i] = 1;
  mark_deviations(plan, a);
  mark_summed(k, a);
  mark_polynomials(k, a);
  mark_gelus(k, a);
  mark_between(k, a);
  mark_normed(plan, a);
  mark_shares(k, a);
  mark_signs(k, a);
  mark_leaks(k, a);
  mark_fused(k, a, absorbs);
  mark_fused(k, a, pairs);
  mark_draws(k, a);
  return a;
}

}  // namespace npusim::cpu::loops::plan
