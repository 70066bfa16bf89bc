// Dependences, costs, and the products that sums absorb.
#include "backends/cpu/loops/analyse.h"

#include <algorithm>

#include "backends/cpu/loops/place_of_extreme.h"
#include "kernel/facts/visit.h"

namespace npusim::cpu {
namespace {

// Products with one use, by a sum that runs over the same lanes, become one instruction with it.
void mark_fused(const Kernel& k, Analysis& a) {
  for (size_t i = 0; i < k.exprs.size(); ++i) {
    const Expr& e = k.exprs[i];
    if (e.type != Scalar::f32 || (e.op != ExprOp::add && e.op != ExprOp::sub)) continue;
    for (size_t n = 0; n < 2; ++n) {
      const auto product = static_cast<size_t>(e.in[n]);
      if (k.exprs[product].op != ExprOp::mul || a.uses[product] != 1 || a.depends.dims[product] != a.depends.dims[i] ||
          a.depends.stage[product] != a.depends.stage[i])
        continue;
      a.fused[i] = static_cast<int>(n);
      a.absorbed[product] = 1;
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
    if (a.uses[summed] == 1 && (product || condition) && (a.depends.dims[summed] & a.row) != 0) a.absorbed[summed] = 1;
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
      return 0.5;
    case ExprOp::expm1:
    case ExprOp::log1p:
    case ExprOp::sin:
    case ExprOp::cos:
      return 1;
    case ExprOp::idiv:
    case ExprOp::irem:
    case ExprOp::erfc:
      return 2;
    case ExprOp::scan:
      return 1.5;
    case ExprOp::tan:
    case ExprOp::asin:
    case ExprOp::acos:
    case ExprOp::atan:
    case ExprOp::sinh:
    case ExprOp::cosh:
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
  a.depends = dependence_of(k);
  for (int stage : a.depends.stage) a.last_stage = std::max(a.last_stage, stage);
  a.uses.resize(count);
  a.fused.assign(count, -1);
  a.absorbed.resize(count);
  a.row = row_of(k);
  a.tile = bit(plan.row_dim) | bit(plan.column_dim);
  use_tiles(k, a);
  for (const Store& s : k.stores) {
    ++a.uses[static_cast<size_t>(s.expr)];
    for (const IndexTerm& t : s.access.terms) ++a.uses[static_cast<size_t>(t.expr)];
  }
  for (size_t i = 0; i < count; ++i)
    if (is_candidate(k.exprs[i])) a.absorbed[i] = 1;
  mark_fused(k, a);
  mark_summed(k, a);
  mark_draws(k, a);
  return a;
}

}  // namespace npusim::cpu
