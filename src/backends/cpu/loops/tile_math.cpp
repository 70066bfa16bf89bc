// Tile functions that are loops over the C library: of double lanes, and of floats that have no others.
#include <cmath>

#include "backends/cpu/loops/tile.h"

namespace npusim::cpu {
namespace {

template <class T, T (*F)(T)>
void unary(const TileCall& c) {
  for (int64_t r = 0; r < c.rows; ++r) {
    const T* a = static_cast<const T*>(c.in[0]) + r * c.in_row[0];
    T* out = static_cast<T*>(c.dst) + r * c.dst_row;
    for (int64_t j = 0; j < c.columns; ++j) out[j] = F(a[j]);
  }
}

template <class T, T (*F)(T, T), unsigned scalars>
void binary(const TileCall& c) {
  for (int64_t r = 0; r < c.rows; ++r) {
    const T* a = static_cast<const T*>(c.in[0]) + r * c.in_row[0];
    const T* b = static_cast<const T*>(c.in[1]) + r * c.in_row[1];
    T* out = static_cast<T*>(c.dst) + r * c.dst_row;
    for (int64_t j = 0; j < c.columns; ++j) out[j] = F(a[scalars & 1 ? 0 : j], b[scalars & 2 ? 0 : j]);
  }
}
template <class T, T (*F)(T, T)>
TileFn by_scalars(unsigned scalars) {
  constexpr TileFn fns[] = {binary<T, F, 0>, binary<T, F, 1>, binary<T, F, 2>, binary<T, F, 3>};
  return fns[scalars];
}

TileFn power_fn(unsigned scalars) {
  const TileFn vector = double_power_fn(scalars);
  return vector ? vector : by_scalars<double, ::pow>(scalars);
}

TileFn double_fn(ExprOp op) {
  switch (op) {
    case ExprOp::exp2:
      return unary<double, ::exp2>;
    case ExprOp::expm1:
      return unary<double, ::expm1>;
    case ExprOp::log2:
      return unary<double, ::log2>;
    case ExprOp::log10:
      return unary<double, ::log10>;
    case ExprOp::log1p:
      return unary<double, ::log1p>;
    case ExprOp::sin:
      return unary<double, ::sin>;
    case ExprOp::cos:
      return unary<double, ::cos>;
    case ExprOp::tan:
      return unary<double, ::tan>;
    case ExprOp::asin:
      return unary<double, ::asin>;
    case ExprOp::acos:
      return unary<double, ::acos>;
    case ExprOp::atan:
      return unary<double, ::atan>;
    case ExprOp::sinh:
      return unary<double, ::sinh>;
    case ExprOp::cosh:
      return unary<double, ::cosh>;
    case ExprOp::tanh:
      return unary<double, ::tanh>;
    case ExprOp::asinh:
      return unary<double, ::asinh>;
    case ExprOp::acosh:
      return unary<double, ::acosh>;
    case ExprOp::atanh:
      return unary<double, ::atanh>;
    case ExprOp::erf:
      return unary<double, ::erf>;
    case ExprOp::erfc:
      return unary<double, ::erfc>;
    case ExprOp::floor:
      return unary<double, ::floor>;
    case ExprOp::ceil:
      return unary<double, ::ceil>;
    case ExprOp::round:
      return unary<double, ::nearbyint>;
    case ExprOp::trunc:
      return unary<double, ::trunc>;
    default:
      return nullptr;
  }
}

}  // namespace

TileFn scalar_math_fn(ExprOp op, Scalar type) {
  if (type == Scalar::f32) return rare_fn(op, 0);
  if (type != Scalar::f64) return nullptr;
  const TileFn vector = double_math_fn(op);
  return vector ? vector : double_fn(op);
}

TileFn scalar_math_binary_fn(ExprOp op, Scalar type, unsigned scalars) {
  const bool single = type == Scalar::f32;
  if (!single && type != Scalar::f64) return nullptr;
  switch (op) {
    case ExprOp::pow:
      return single ? rare_fn(op, scalars) : power_fn(scalars);
    case ExprOp::fmod:
      return single ? rare_fn(op, scalars) : by_scalars<double, ::fmod>(scalars);
    case ExprOp::atan2:
      return single ? rare_fn(op, scalars) : by_scalars<double, ::atan2>(scalars);
    default:
      return nullptr;
  }
}

}  // namespace npusim::cpu
