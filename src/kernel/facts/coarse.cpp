// One walk along the expressions for signs and bounds, one back for what becomes of each.
#include "kernel/facts/coarse.h"

namespace npusim {
namespace {

bool has_16_bits(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }

// Not negative, or NaN.
std::vector<bool> not_negative(const Kernel& k) {
  std::vector<bool> known(k.exprs.size());
  for (size_t i = 0; i < k.exprs.size(); ++i) {
    const Expr& e = k.exprs[i];
    const auto is = [&](size_t n) { return known[static_cast<size_t>(e.in[n])]; };
    switch (e.op) {
      case ExprOp::constant:
        known[i] = e.type == Scalar::f32 && e.number >= 0;
        break;
      case ExprOp::exp:
      case ExprOp::exp2:
      case ExprOp::abs:
        known[i] = e.type == Scalar::f32;
        break;
      case ExprOp::mul:
        known[i] = e.type == Scalar::f32 && (e.in[0] == e.in[1] || (is(0) && is(1)));
        break;
      case ExprOp::add:
      case ExprOp::div:
        known[i] = e.type == Scalar::f32 && is(0) && is(1);
        break;
      case ExprOp::round_to:
      case ExprOp::reduce:  // whichever: none of them leaves what is not negative
        known[i] = e.type == Scalar::f32 && is(0);
        break;
      default:
        break;
    }
  }
  return known;
}

// Whether `e` has the relative error of its n-th operand, times a small number at most.
bool keeps_errors(const Expr& e, size_t n, const std::vector<bool>& positive) {
  switch (e.op) {
    case ExprOp::mul:
    case ExprOp::div:
    case ExprOp::neg:
    case ExprOp::abs:
    case ExprOp::sqrt:
    case ExprOp::rsqrt:
    case ExprOp::min:
    case ExprOp::max:
      return true;
    case ExprOp::add:
      return positive[static_cast<size_t>(e.in[0])] && positive[static_cast<size_t>(e.in[1])];
    case ExprOp::reduce:
      return positive[static_cast<size_t>(e.in[0])] && e.reduction != Reduction::product;
    case ExprOp::select:
      return n != 0;
    default:
      return false;
  }
}

}  // namespace

Coarseness coarseness_of(const Kernel& k) {
  const std::vector<bool> positive = not_negative(k);
  const size_t count = k.exprs.size();
  Coarseness facts{std::vector<bool>(count), std::vector<bool>(count), std::vector<bool>(count)};
  for (size_t i = 0; i < count; ++i) {
    const Expr& e = k.exprs[i];
    if (e.type != Scalar::f32) continue;
    const auto is = [&](size_t n) { return facts.at_least_one[static_cast<size_t>(e.in[n])]; };
    const auto adds = [&](size_t n) { return positive[static_cast<size_t>(e.in[n])]; };
    facts.at_least_one[i] = (e.op == ExprOp::constant && e.number >= 1) ||
                            (e.op == ExprOp::add && ((is(0) && adds(1)) || (is(1) && adds(0))));
  }
  // Users come behind what they use: from the end on, all of them are known.
  std::vector<bool> read(count), exact(count), alone(count, true);
  for (const Store& s : k.stores) {
    const auto i = static_cast<size_t>(s.expr);
    read[i] = true, alone[i] = false;
    exact[i] = exact[i] || s.accumulate || !has_16_bits(k.args[static_cast<size_t>(s.access.arg)].dtype);
  }
  for (size_t i = count; i-- > 0;) {
    const Expr& e = k.exprs[i];
    facts.coarse[i] = e.type == Scalar::f32 && read[i] && !exact[i];
    facts.next_to_one[i] = facts.coarse[i] && alone[i];
    const bool rounds = e.op == ExprOp::round_to && has_16_bits(e.dtype);
    for (size_t n = 0; n < static_cast<size_t>(expr_arity(e.op)); ++n) {
      const auto o = static_cast<size_t>(e.in[n]);
      read[o] = true;
      exact[o] = exact[o] || !(rounds || (facts.coarse[i] && keeps_errors(e, n, positive)));
      alone[o] = alone[o] && e.op == ExprOp::add && facts.at_least_one[static_cast<size_t>(e.in[1 - n])];
    }
  }
  return facts;
}

}  // namespace npusim
