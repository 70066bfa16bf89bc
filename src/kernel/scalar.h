// What one scalar operation of kernel IR gives, in double and int64: the arithmetic of the interpreter.
#pragma once
#include "kernel/kernel.h"

namespace npusim {

struct Number {  // `i` holds boolean and i64 expressions, `f` the floats
  double f = 0;
  int64_t i = 0;
};

// A unary, binary, comparing or converting expression of operands of type `in`; nothing is rounded to f32. Throws
// bad_input for an integer divided by zero.
Number apply(const Expr& e, Scalar in, Number a, Number b);

Number identity(Reduction reduction);
Expr identity_of(Reduction reduction, Scalar type);  // the same as a constant
Number combine(Reduction reduction, Number a, Number b);
int64_t wrap_add(int64_t a, int64_t b);

}  // namespace npusim
