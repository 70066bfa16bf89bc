// Matchers of expression DAGs.
#include "kernel/facts/match_expr.h"

namespace npusim {

int32_t ExprMatcher::uncast(int32_t id) const {
  while (at(id).op == ExprOp::cast && is_float(id) && is_float(at(id).in[0])) id = at(id).in[0];
  return id;
}

std::optional<double> ExprMatcher::constant(int32_t id) const {
  if (at(id).op == ExprOp::cast && is_float(id)) return constant(at(id).in[0]);
  if (at(id).op != ExprOp::constant) return std::nullopt;
  return is_float(id) ? at(id).number : static_cast<double>(at(id).integer);
}

bool ExprMatcher::is_constant(int32_t id, double value) const {
  if (!is(id, ExprOp::constant) || !is_float(id)) return false;
  return at(id).number == (at(id).type == Scalar::f32 ? static_cast<double>(static_cast<float>(value)) : value);
}

int32_t ExprMatcher::other_operand(int32_t id, ExprOp op, int32_t x) const {
  if (!is(id, op)) return -1;
  for (size_t side : {0, 1})
    if (uncast(at(id).in[side]) == x) return uncast(at(id).in[1 - side]);
  return -1;
}

int32_t ExprMatcher::other_than_constant(int32_t id, ExprOp op, double value) const {
  if (!is(id, op)) return -1;
  for (size_t side : {0, 1})
    if (is_constant(at(id).in[side], value)) return uncast(at(id).in[1 - side]);
  return -1;
}

int32_t ExprMatcher::sigmoid_denominator(int32_t id) const {
  const int32_t power = other_than_constant(id, ExprOp::add, 1);
  if (!is(power, ExprOp::exp) || !is(at(power).in[0], ExprOp::neg)) return -1;
  return uncast(at(at(power).in[0]).in[0]);
}

int32_t ExprMatcher::sigmoid(int32_t id) const {
  return is(id, ExprOp::div) && is_constant(at(id).in[0], 1) ? sigmoid_denominator(at(id).in[1]) : -1;
}

int32_t ExprMatcher::silu(int32_t id) const {
  id = uncast(id);
  const Expr& e = at(id);
  if (e.op == ExprOp::div && sigmoid_denominator(e.in[1]) == uncast(e.in[0])) return uncast(e.in[0]);
  if (e.op != ExprOp::mul) return -1;
  for (size_t side : {0, 1})
    if (const int32_t x = uncast(e.in[side]); sigmoid(uncast(e.in[1 - side])) == x) return x;
  return -1;
}

}  // namespace npusim
