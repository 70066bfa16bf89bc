// Builds a kernel: operands with coordinates, expressions with operators; equal expressions are shared.
#pragma once
#include <algorithm>
#include <initializer_list>
#include <optional>
#include <span>
#include <type_traits>
#include <unordered_map>

#include "base/tensor.h"
#include "kernel/kernel.h"

namespace npusim {

class KernelBuilder;

// An expression of the kernel being built. Arithmetic on two of them promotes to the wider type
// (boolean < i64 < f32 < f64); a C++ number takes the type of its partner, but f32 at least when it is a double.
struct Ex {
  KernelBuilder* builder = nullptr;
  int32_t id = -1;
  Scalar type() const;
};

// offset + Σ coeffs[d]·index[d]: a coordinate known at compile time.
struct Affine {
  std::vector<int64_t> coeffs;  // by dimension of the space; missing ones are 0
  int64_t offset = 0;
};
Affine operator+(Affine a, const Affine& b);
Affine operator+(Affine a, int64_t b);
Affine operator*(Affine a, int64_t b);

// One coordinate of an access: affine, or computed (an i64 expression that traps outside the dimension's extent), or
// their sum, where the affine part is not negative and the computed one traps outside of what that leaves.
struct Coord {
  Coord(Affine affine) : affine(std::move(affine)) {}
  Coord(Ex computed) : computed(computed) {}
  Coord(Ex computed, Affine affine) : affine(std::move(affine)), computed(computed) {}
  Coord(int64_t fixed) : affine{{}, fixed} {}
  Affine affine;
  Ex computed;
};

// Operands whose shapes do not fit are a program's that is read: bad input, not a fault of npusim.
class KernelBuilder {
 public:
  // The row is the last `row_dims` of `space`.
  explicit KernelBuilder(Shape space, int row_dims = 0);

  // Arguments, in the order of the operands they stand for. All reads come before all writes.
  int input(const TensorType& type);
  int output(const TensorType& type, int updates = -1);
  const Shape& shape(int arg) const { return shapes_[static_cast<size_t>(arg)]; }
  DType dtype(int arg) const { return kernel_.args[static_cast<size_t>(arg)].dtype; }
  const Shape& space() const { return kernel_.space; }
  bool has_one_in_row() const {
    return std::all_of(kernel_.space.end() - kernel_.row_dims, kernel_.space.end(), [](int64_t n) { return n == 1; });
  }

  Affine dim(int d) const;    // the index along dimension d
  Ex index(int d);            // the same as an expression, i64
  Ex value(const Affine& a);  // an affine coordinate as an expression, i64
  Ex number(double value, Scalar type = Scalar::f32);
  Ex integer(int64_t value, Scalar type = Scalar::i64);

  // The element at one coordinate per dimension of the argument's shape; a scalar may have one, of the vector of one
  // element that it is: an index of it traps as others do. Affine coordinates that can leave the shape
  // become guards; select the value away where in_bounds() is false.
  Ex load(int arg, std::span<const Coord> at);
  // The element at the index of the space without its last `row` dimensions, broadcast to them from the right.
  Ex load_broadcast(int arg, int row = 0);
  Ex in_bounds(const Affine& at, int64_t extent);
  // In a space of one dimension: the elements in row-major order, whatever the argument's shape.
  Ex load_flat(int arg);
  void store_flat(int arg, Ex x);

  Ex unary(ExprOp op, Ex x);
  Ex require(Ex condition, Requirement what);
  Ex binary(ExprOp op, Ex a, Ex b);
  Ex select(Ex condition, Ex a, Ex b);
  Ex cast(Ex x, Scalar type);
  Ex round_to(Ex x, DType dtype);
  Ex single(Ex x);  // an f32 that is a float32 in the reference's double precision too
  Ex reduce(Reduction reduction, Ex x);
  Ex scan(Reduction reduction, Ex x);
  Ex fourier(ExprOp part, Ex re, Ex im);  // of what was loaded, to be stored (kernel/facts/fourier.h)
  Ex order(Ex x, bool descending);  // of what was loaded, to be stored, in a kernel of its own (kernel/facts/order.h)

  // The contraction's leaf. Coordinates run over space ++ reduce (dim(d) for d >= rank of the space names a reduced
  // dimension).
  Ex contract(ContractionKind kind, Shape reduce, int a, std::span<const Coord> a_at, int b,
              std::span<const Coord> b_at);

  void store(int arg, std::span<const Coord> at, Ex x, std::optional<Reduction> accumulate = {});
  // Stores at the index of the space (its first rank(arg) dimensions, or all of a space of the same size).
  void store(int arg, Ex x);

  Kernel finish(std::string name);

 private:
  friend struct Ex;
  Access access(int arg, std::span<const Coord> at);
  Ex add(Expr e);
  struct Key {
    size_t operator()(const Expr& e) const;
  };
  Kernel kernel_;
  std::vector<Shape> shapes_;
  std::unordered_map<Expr, int32_t, Key> known_;
};

Ex operator+(Ex a, Ex b);
Ex operator-(Ex a, Ex b);
Ex operator*(Ex a, Ex b);
Ex operator/(Ex a, Ex b);  // true division: of floats
Ex operator-(Ex a);
Ex operator<(Ex a, Ex b);
Ex operator<=(Ex a, Ex b);
Ex operator>(Ex a, Ex b);
Ex operator>=(Ex a, Ex b);
Ex operator==(Ex a, Ex b);
Ex operator!=(Ex a, Ex b);
Ex operator&&(Ex a, Ex b);
Ex operator||(Ex a, Ex b);
Ex operator!(Ex a);
Ex require(Ex condition, Requirement what);  // the condition; traps where it does not hold

// A C++ number with an expression.
template <typename T>
concept Number = std::is_arithmetic_v<T>;
Ex literal(Ex partner, double value);
Ex literal(Ex partner, int64_t value);
template <Number T>
Ex literal_of(Ex partner, T value) {
  if constexpr (std::is_floating_point_v<T>)
    return literal(partner, static_cast<double>(value));
  else
    return literal(partner, static_cast<int64_t>(value));
}
template <Number T>
Ex operator+(Ex a, T b) {
  return a + literal_of(a, b);
}
template <Number T>
Ex operator+(T a, Ex b) {
  return literal_of(b, a) + b;
}
template <Number T>
Ex operator-(Ex a, T b) {
  return a - literal_of(a, b);
}
template <Number T>
Ex operator-(T a, Ex b) {
  return literal_of(b, a) - b;
}
template <Number T>
Ex operator*(Ex a, T b) {
  return a * literal_of(a, b);
}
template <Number T>
Ex operator*(T a, Ex b) {
  return literal_of(b, a) * b;
}
template <Number T>
Ex operator/(Ex a, T b) {
  return a / literal_of(a, b);
}
template <Number T>
Ex operator/(T a, Ex b) {
  return literal_of(b, a) / b;
}
template <Number T>
Ex operator<(Ex a, T b) {
  return a < literal_of(a, b);
}
template <Number T>
Ex operator<(T a, Ex b) {
  return literal_of(b, a) < b;
}
template <Number T>
Ex operator<=(Ex a, T b) {
  return a <= literal_of(a, b);
}
template <Number T>
Ex operator<=(T a, Ex b) {
  return literal_of(b, a) <= b;
}
template <Number T>
Ex operator>(Ex a, T b) {
  return a > literal_of(a, b);
}
template <Number T>
Ex operator>(T a, Ex b) {
  return literal_of(b, a) > b;
}
template <Number T>
Ex operator>=(Ex a, T b) {
  return a >= literal_of(a, b);
}
template <Number T>
Ex operator>=(T a, Ex b) {
  return literal_of(b, a) >= b;
}
template <Number T>
Ex operator==(Ex a, T b) {
  return a == literal_of(a, b);
}
template <Number T>
Ex operator==(T a, Ex b) {
  return literal_of(b, a) == b;
}
template <Number T>
Ex operator!=(Ex a, T b) {
  return a != literal_of(a, b);
}
template <Number T>
Ex operator!=(T a, Ex b) {
  return literal_of(b, a) != b;
}

Ex select(Ex condition, Ex a, Ex b);
template <Number T>
Ex select(Ex condition, Ex a, T b) {
  return select(condition, a, literal_of(a, b));
}
template <Number T>
Ex select(Ex condition, T a, Ex b) {
  return select(condition, literal_of(b, a), b);
}

Ex neg(Ex x);
Ex abs(Ex x);
Ex exp(Ex x);
Ex exp2(Ex x);
Ex expm1(Ex x);
Ex log(Ex x);
Ex log2(Ex x);
Ex log10(Ex x);
Ex log1p(Ex x);
Ex sqrt(Ex x);
Ex rsqrt(Ex x);
Ex sin(Ex x);
Ex cos(Ex x);
Ex tan(Ex x);
Ex asin(Ex x);
Ex acos(Ex x);
Ex atan(Ex x);
Ex sinh(Ex x);
Ex cosh(Ex x);
Ex tanh(Ex x);
Ex asinh(Ex x);
Ex acosh(Ex x);
Ex atanh(Ex x);
Ex erf(Ex x);
Ex erfc(Ex x);
Ex floor(Ex x);
Ex ceil(Ex x);
Ex round(Ex x);
Ex trunc(Ex x);
Ex isnan(Ex x);
Ex min(Ex a, Ex b);
Ex max(Ex a, Ex b);
Ex pow(Ex a, Ex b);
Ex fmod(Ex a, Ex b);
Ex atan2(Ex a, Ex b);
Ex idiv(Ex a, Ex b);
Ex irem(Ex a, Ex b);
Ex bit_and(Ex a, Ex b);
Ex bit_or(Ex a, Ex b);
Ex bit_xor(Ex a, Ex b);
Ex shl(Ex a, Ex b);
Ex shr(Ex a, Ex b);
template <Number T>
Ex min(Ex a, T b) {
  return min(a, literal_of(a, b));
}
template <Number T>
Ex max(Ex a, T b) {
  return max(a, literal_of(a, b));
}
template <Number T>
Ex pow(Ex a, T b) {
  return pow(a, literal_of(a, b));
}

}  // namespace npusim
