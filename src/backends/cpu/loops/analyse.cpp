// Dependences, costs, and the products that sums absorb.
#include "backends/cpu/loops/analyse.h"

#include <algorithm>

namespace npusim::cpu {
namespace {

// Products with one use, by a sum that runs over the same lanes, become one instruction with it.
void mark_fused(const Kernel& k, Analysis& a) {
  for (size_t i = 0; i < k.exprs.size(); ++i) {
    const Expr& e = k.exprs[i];
    if (e.type != Scalar::f32 || (e.op != ExprOp::add && e.op != ExprOp::sub)) continue;
    for (size_t n = 0; n < 2; ++n) {
      const auto product = static_cast<size_t>(e.in[n]);
      if (k.exprs[product].op != ExprOp::mul || a.uses[product] != 1 || a.mask[product] != a.mask[i] ||
          a.stage[product] != a.stage[i])
        continue;
      a.fused[i] = static_cast<int>(n);
      a.absorbed[product] = 1;
      break;
    }
  }
}

void analyse_expression(const Kernel& k, size_t i, Analysis& a) {
  const Expr& e = k.exprs[i];
  const auto use = [&](int32_t in) {
    a.mask[i] |= a.mask[static_cast<size_t>(in)];
    a.stage[i] = std::max(a.stage[i], a.stage[static_cast<size_t>(in)]);
    ++a.uses[static_cast<size_t>(in)];
  };
  for (int n = 0; n < expr_arity(e.op); ++n) use(e.in[static_cast<size_t>(n)]);
  if (e.op == ExprOp::index) a.mask[i] = bit(static_cast<int>(e.integer));
  if (e.op == ExprOp::load) {
    const Access& access = k.accesses[static_cast<size_t>(e.integer)];
    for (const IndexTerm& t : access.terms) use(t.expr);
    a.mask[i] |= access_mask(a, access);
  }
  if (e.op == ExprOp::scan) a.mask[i] |= a.row | a.tile;
  if (e.op == ExprOp::reduce && k.row_dims > 0) {
    ++a.stage[i];
    a.mask[i] = (a.mask[i] | a.tile) & ~a.row;
  }
  a.last_stage = std::max(a.last_stage, a.stage[i]);
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
    case ExprOp::erfc:
    case ExprOp::pow:
    case ExprOp::fmod:
    case ExprOp::atan2:
    case ExprOp::idiv:
    case ExprOp::irem:
      return 10;
    default:
      return 0.1;
  }
}

Mask access_mask(const Analysis& analysis, const Access& access) {
  Mask m = 0;
  for (size_t d = 0; d < access.strides.size(); ++d) {
    bool varies = access.strides[d] != 0;
    for (const Guard& g : access.guards) varies = varies || g.coeffs[d] != 0;
    if (varies) m |= Mask{1} << d;
  }
  for (const IndexTerm& t : access.terms) m |= analysis.mask[static_cast<size_t>(t.expr)];
  return m;
}

Analysis analyse(const Plan& plan) {
  const Kernel& k = plan.piece.kernel;
  Analysis a;
  const size_t count = k.exprs.size();
  a.mask.resize(count);
  a.stage.resize(count);
  a.uses.resize(count);
  a.fused.assign(count, -1);
  a.absorbed.resize(count);
  for (size_t d = k.space.size() - static_cast<size_t>(k.row_dims); d < k.space.size(); ++d) a.row |= Mask{1} << d;
  a.tile = bit(plan.row_dim) | bit(plan.column_dim);
  for (size_t i = 0; i < count; ++i) analyse_expression(k, i, a);
  for (const Store& s : k.stores) {
    ++a.uses[static_cast<size_t>(s.expr)];
    for (const IndexTerm& t : s.access.terms) ++a.uses[static_cast<size_t>(t.expr)];
  }
  mark_fused(k, a);
  return a;
}

}  // namespace npusim::cpu
