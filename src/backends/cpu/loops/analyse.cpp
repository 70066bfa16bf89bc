// Dependences, costs, and the products that sums absorb.
#include "backends/cpu/loops/analyse.h"

#include <algorithm>

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
  mark_fused(k, a);
  return a;
}

}  // namespace npusim::cpu
