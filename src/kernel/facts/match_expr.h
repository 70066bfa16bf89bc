// Recognising what expressions compute by the shape of their DAG, whatever the order of operands that commute.
#pragma once
#include <optional>

#include "kernel/kernel.h"

namespace npusim {

// Positions of expressions; -1 stands for "not of this form".
struct ExprMatcher {
  const Kernel& kernel;

  const Expr& at(int32_t id) const { return kernel.exprs[static_cast<size_t>(id)]; }
  bool is(int32_t id, ExprOp op) const { return id >= 0 && at(id).op == op; }
  bool is_float(int32_t id) const { return at(id).type >= Scalar::f32; }
  // What is behind conversions between floats.
  int32_t uncast(int32_t id) const;
  // The value of a constant, converted or not.
  std::optional<double> constant(int32_t id) const;
  // Whether it is this constant, rounded to its type, which is a float's.
  bool is_constant(int32_t id, double value) const;
  // The other operand of op(x, ·) or op(·, x), and of op with a constant.
  int32_t other_operand(int32_t id, ExprOp op, int32_t x) const;
  int32_t other_than_constant(int32_t id, ExprOp op, double value) const;
  int32_t sigmoid_denominator(int32_t id) const;  // x of 1 + exp(−x)
  int32_t sigmoid(int32_t id) const;              // x of 1 / (1 + exp(−x))
  int32_t silu(int32_t id) const;                 // x of x / (1 + exp(−x)) or x · 1/(1 + exp(−x))
};

}  // namespace npusim
