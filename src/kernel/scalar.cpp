// Scalar operations in double and int64.
#include "kernel/scalar.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/dtype.h"
#include "base/error.h"

namespace npusim {
namespace {

int64_t wrap_sub(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}
int64_t wrap_mul(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

double nan_min(double a, double b) { return std::isnan(a) || std::isnan(b) ? NAN : std::min(a, b); }
double nan_max(double a, double b) { return std::isnan(a) || std::isnan(b) ? NAN : std::max(a, b); }

double float_unary(ExprOp op, double x) {
  switch (op) {
    case ExprOp::neg:
      return -x;
    case ExprOp::abs:
      return std::fabs(x);
    case ExprOp::exp:
      return std::exp(x);
    case ExprOp::exp2:
      return std::exp2(x);
    case ExprOp::expm1:
      return std::expm1(x);
    case ExprOp::log:
      return std::log(x);
    case ExprOp::log2:
      return std::log2(x);
    case ExprOp::log10:
      return std::log10(x);
    case ExprOp::log1p:
      return std::log1p(x);
    case ExprOp::sqrt:
      return std::sqrt(x);
    case ExprOp::rsqrt:
      return 1 / std::sqrt(x);
    case ExprOp::sin:
      return std::sin(x);
    case ExprOp::cos:
      return std::cos(x);
    case ExprOp::tan:
      return std::tan(x);
    case ExprOp::asin:
      return std::asin(x);
    case ExprOp::acos:
      return std::acos(x);
    case ExprOp::atan:
      return std::atan(x);
    case ExprOp::sinh:
      return std::sinh(x);
    case ExprOp::cosh:
      return std::cosh(x);
    case ExprOp::tanh:
      return std::tanh(x);
    case ExprOp::asinh:
      return std::asinh(x);
    case ExprOp::acosh:
      return std::acosh(x);
    case ExprOp::atanh:
      return std::atanh(x);
    case ExprOp::erf:
      return std::erf(x);
    case ExprOp::erfc:
      return std::erfc(x);
    case ExprOp::floor:
      return std::floor(x);
    case ExprOp::ceil:
      return std::ceil(x);
    case ExprOp::round:
      return std::nearbyint(x);
    case ExprOp::trunc:
      return std::trunc(x);
    default:
      fail(ErrorKind::internal, "evaluate: {} of a float", expr_op_name(op));
  }
}

double float_binary(ExprOp op, double a, double b) {
  switch (op) {
    case ExprOp::add:
      return a + b;
    case ExprOp::sub:
      return a - b;
    case ExprOp::mul:
      return a * b;
    case ExprOp::div:
      return a / b;
    case ExprOp::min:
      return nan_min(a, b);
    case ExprOp::max:
      return nan_max(a, b);
    case ExprOp::pow:
      return std::pow(a, b);
    case ExprOp::fmod:
      return std::fmod(a, b);
    case ExprOp::atan2:
      return std::atan2(a, b);
    default:
      fail(ErrorKind::internal, "evaluate: {} of floats", expr_op_name(op));
  }
}

int64_t integer_pow(int64_t base, int64_t exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
  int64_t result = 1;
  for (; exponent; exponent >>= 1, base = wrap_mul(base, base))
    if (exponent & 1) result = wrap_mul(result, base);
  return result;
}

int64_t int_binary(ExprOp op, int64_t a, int64_t b) {
  switch (op) {
    case ExprOp::add:
      return wrap_add(a, b);
    case ExprOp::sub:
      return wrap_sub(a, b);
    case ExprOp::mul:
      return wrap_mul(a, b);
    case ExprOp::min:
      return std::min(a, b);
    case ExprOp::max:
      return std::max(a, b);
    case ExprOp::pow:
      return integer_pow(a, b);
    case ExprOp::idiv:
    case ExprOp::irem:
      if (b == 0) fail(ErrorKind::bad_input, "integer division by zero");
      if (b == -1) return op == ExprOp::idiv ? wrap_sub(0, a) : 0;
      return op == ExprOp::idiv ? a / b : a % b;
    case ExprOp::bit_and:
      return a & b;
    case ExprOp::bit_or:
      return a | b;
    case ExprOp::bit_xor:
      return a ^ b;
    case ExprOp::shl:
      return b < 0 || b > 63 ? 0 : static_cast<int64_t>(static_cast<uint64_t>(a) << b);
    case ExprOp::shr:
      return a >> (b < 0 || b > 63 ? 63 : b);
    default:
      fail(ErrorKind::internal, "evaluate: {} of integers", expr_op_name(op));
  }
}

template <typename T>
bool compare(ExprOp op, T a, T b) {
  switch (op) {
    case ExprOp::eq:
      return a == b;
    case ExprOp::ne:
      return a != b;
    case ExprOp::lt:
      return a < b;
    default:
      return a <= b;
  }
}

Number cast(Scalar from, Scalar to, Number a) {
  const bool floats = from >= Scalar::f32;
  if (to >= Scalar::f32) return {floats ? a.f : static_cast<double>(a.i), 0};
  if (to == Scalar::boolean) return {0, floats ? a.f != 0 : a.i != 0};
  return {0, floats ? to_integer(a.f) : a.i};
}

Number unary(ExprOp op, bool floats, Number a) {
  if (op == ExprOp::logical_not) return {0, a.i == 0};
  if (op == ExprOp::isnan) return {0, std::isnan(a.f)};
  if (floats) return {float_unary(op, a.f), 0};
  if (op != ExprOp::neg && op != ExprOp::abs) fail(ErrorKind::internal, "evaluate: {} of integers", expr_op_name(op));
  return {0, op == ExprOp::neg || a.i < 0 ? wrap_sub(0, a.i) : a.i};
}

}  // namespace

int64_t wrap_add(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}

Number identity(Reduction reduction) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  switch (reduction) {
    case Reduction::sum:
      return {0, 0};
    case Reduction::product:
      return {1, 1};
    case Reduction::min:
      return {inf, std::numeric_limits<int64_t>::max()};
    case Reduction::max:
      return {-inf, std::numeric_limits<int64_t>::min()};
  }
  return {};
}

Expr identity_of(Reduction reduction, Scalar type) {
  const Number n = identity(reduction);
  Expr e{.op = ExprOp::constant, .type = type};
  if (type >= Scalar::f32)
    e.number = n.f;
  else
    e.integer = type == Scalar::boolean ? std::clamp<int64_t>(n.i, 0, 1) : n.i;
  return e;
}

Number combine(Reduction reduction, Number a, Number b) {
  switch (reduction) {
    case Reduction::sum:
      return {a.f + b.f, wrap_add(a.i, b.i)};
    case Reduction::product:
      return {a.f * b.f, wrap_mul(a.i, b.i)};
    case Reduction::min:
      return {nan_min(a.f, b.f), std::min(a.i, b.i)};
    case Reduction::max:
      return {nan_max(a.f, b.f), std::max(a.i, b.i)};
  }
  return {};
}

Number apply(const Expr& e, Scalar in, Number a, Number b) {
  const bool floats = in >= Scalar::f32;
  switch (e.op) {
    case ExprOp::eq:
    case ExprOp::ne:
    case ExprOp::lt:
    case ExprOp::le:
      return {0, floats ? compare(e.op, a.f, b.f) : compare(e.op, a.i, b.i)};
    case ExprOp::cast:
      return cast(in, e.type, a);
    case ExprOp::round_to:
      return floats ? Number{round_through(e.dtype, a.f), 0} : Number{0, wrap_through(e.dtype, a.i)};
    default:
      break;
  }
  if (e.op == ExprOp::require) {
    if (a.i == 0) fail(ErrorKind::bad_input, "{}", requirement_message(e.integer));
    return a;
  }
  if (expr_arity(e.op) == 1) return unary(e.op, floats, a);
  return floats ? Number{float_binary(e.op, a.f, b.f), 0} : Number{0, int_binary(e.op, a.i, b.i)};
}

}  // namespace npusim
