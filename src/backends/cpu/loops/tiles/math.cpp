// Tile functions that are loops over the C library, of double lanes that have no others, and which the others are.
#include <cmath>

#include "backends/cpu/loops/tiles/tile.h"

namespace npusim::cpu::loops::tiles {
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

TileFn vector_fn(ExprOp op) {
  if (const TileFn fn = double_math_fn(op)) return fn;
  if (const TileFn fn = double_exp_fn(op)) return fn;
  if (const TileFn fn = double_log_fn(op)) return fn;
  if (const TileFn fn = double_angle_fn(op, 0)) return fn;
  return double_erf_fn(op);
}

TileFn double_fn(ExprOp op) {
  if (const TileFn vector = vector_fn(op)) return vector;
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
    default:
      return nullptr;
  }
}

// Of a power, a rest or an angle.
TileFn double_binary_fn(ExprOp op, unsigned scalars) {
  const TileFn vector = op == ExprOp::pow    ? double_power_fn(scalars)
                        : op == ExprOp::fmod ? double_fmod_fn(scalars)
                                             : double_angle_fn(op, scalars);
  if (vector) return vector;
  return op == ExprOp::pow    ? by_scalars<double, ::pow>(scalars)
         : op == ExprOp::fmod ? by_scalars<double, ::fmod>(scalars)
                              : by_scalars<double, ::atan2>(scalars);
}

TileFn float_fn(ExprOp op, unsigned scalars) {
  const TileFn single = single_fn(op, scalars);
  return single ? single : rare_fn(op, scalars);
}

}  // namespace

TileFn scalar_math_fn(ExprOp op, Scalar type) {
  if (type == Scalar::f32) return float_fn(op, 0);
  return type == Scalar::f64 ? double_fn(op) : nullptr;
}

TileFn scalar_math_binary_fn(ExprOp op, Scalar type, unsigned scalars) {
  const bool known = op == ExprOp::pow || op == ExprOp::fmod || op == ExprOp::atan2;
  if (!known || (type != Scalar::f32 && type != Scalar::f64)) return nullptr;
  return type == Scalar::f32 ? float_fn(op, scalars) : double_binary_fn(op, scalars);
}

}  // namespace npusim::cpu::loops::tiles
