// Building kernels: coordinates, operators with promotion, sharing of equal expressions.
#include "kernel/builder.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/dtype.h"
#include "base/error.h"
#include "kernel/facts/visit.h"

namespace npusim {
namespace {

void resize_to(std::vector<int64_t>& coeffs, size_t rank) { coeffs.resize(rank, 0); }

KernelBuilder& builder_of(Ex a) { return *a.builder; }

// Whether a requirement is among what an expression is computed of.
bool requires_something(const Kernel& k, int32_t id) {
  std::vector<bool> needed(static_cast<size_t>(id) + 1, false);
  needed.back() = true;
  for (size_t i = needed.size(); i-- > 0;) {
    if (!needed[i]) continue;
    if (k.exprs[i].op == ExprOp::require) return true;
    for_each_operand(k, k.exprs[i], [&](int32_t operand) { needed[static_cast<size_t>(operand)] = true; });
  }
  return false;
}

}  // namespace

Affine operator+(Affine a, const Affine& b) {
  if (a.coeffs.size() < b.coeffs.size()) a.coeffs.resize(b.coeffs.size(), 0);
  for (size_t d = 0; d < b.coeffs.size(); ++d) a.coeffs[d] += b.coeffs[d];
  a.offset += b.offset;
  return a;
}
Affine operator+(Affine a, int64_t b) {
  a.offset += b;
  return a;
}
Affine operator*(Affine a, int64_t b) {
  for (int64_t& c : a.coeffs) c *= b;
  a.offset *= b;
  return a;
}

size_t KernelBuilder::Key::operator()(const Expr& e) const {
  size_t h = static_cast<size_t>(e.op) * 31 + static_cast<size_t>(e.type);
  for (int32_t in : e.in) h = h * 1000003 + static_cast<size_t>(static_cast<uint32_t>(in));
  return (h * 1000003 + static_cast<size_t>(e.integer)) * 1000003 + std::bit_cast<uint64_t>(e.number) +
         static_cast<size_t>(e.dtype) * 7 + static_cast<size_t>(e.reduction);
}

KernelBuilder::KernelBuilder(Shape space, int row_dims) {
  kernel_.space = std::move(space);
  kernel_.row_dims = row_dims;
}

int KernelBuilder::input(const TensorType& type) {
  kernel_.args.push_back({type.dtype, element_count(type.shape), false, -1});
  shapes_.push_back(type.shape);
  return static_cast<int>(kernel_.args.size()) - 1;
}

int KernelBuilder::output(const TensorType& type, int updates) {
  kernel_.args.push_back({type.dtype, element_count(type.shape), true, updates});
  shapes_.push_back(type.shape);
  return static_cast<int>(kernel_.args.size()) - 1;
}

Affine KernelBuilder::dim(int d) const {
  Affine a;
  a.coeffs.assign(static_cast<size_t>(d) + 1, 0);
  a.coeffs.back() = 1;
  return a;
}

Ex KernelBuilder::add(Expr e) {
  // Not shared: NaN, which never equals itself, and −0, which equals 0.
  if (std::isnan(e.number) || (e.number == 0 && std::signbit(e.number))) {
    kernel_.exprs.push_back(e);
    return {this, static_cast<int32_t>(kernel_.exprs.size()) - 1};
  }
  auto [it, fresh] = known_.try_emplace(e, static_cast<int32_t>(kernel_.exprs.size()));
  if (fresh) kernel_.exprs.push_back(e);
  return {this, it->second};
}

Scalar Ex::type() const { return builder->kernel_.exprs[static_cast<size_t>(id)].type; }

Ex KernelBuilder::index(int d) {
  Expr e{.op = ExprOp::index, .type = Scalar::i64};
  e.integer = d;
  return add(e);
}

Ex KernelBuilder::value(const Affine& a) {
  Ex sum = integer(a.offset);
  bool started = a.offset != 0;
  for (size_t d = 0; d < a.coeffs.size(); ++d) {
    if (a.coeffs[d] == 0) continue;
    Ex term = a.coeffs[d] == 1 ? index(static_cast<int>(d)) : index(static_cast<int>(d)) * a.coeffs[d];
    sum = started ? sum + term : term;
    started = true;
  }
  return sum;
}

Ex KernelBuilder::number(double value, Scalar type) {
  if (type == Scalar::boolean) return integer(value != 0, type);
  if (type == Scalar::i64) return integer(to_integer(value), type);
  Expr e{.op = ExprOp::constant, .type = type};
  e.number = type == Scalar::f32 ? static_cast<double>(static_cast<float>(value)) : value;
  return add(e);
}

Ex KernelBuilder::integer(int64_t value, Scalar type) {
  if (type >= Scalar::f32) return number(static_cast<double>(value), type);
  Expr e{.op = ExprOp::constant, .type = type};
  e.integer = type == Scalar::boolean ? value != 0 : value;
  return add(e);
}

Access KernelBuilder::access(int arg, std::span<const Coord> at) {
  const Shape extents = shape(arg).empty() && at.size() == 1 ? Shape{1} : shape(arg);
  if (at.size() != extents.size())
    fail(ErrorKind::bad_input, "an operand of shape {}: expected one of {} dimensions", to_string(extents), at.size());
  const Shape strides = row_major_strides(extents);
  std::vector<int64_t> dims = kernel_.space;
  if (kernel_.contraction)
    dims.insert(dims.end(), kernel_.contraction->reduce.begin(), kernel_.contraction->reduce.end());
  Access access;
  access.arg = arg;
  access.strides.assign(kernel_.space.size(), 0);
  for (size_t d = 0; d < at.size(); ++d) {
    Affine a = at[d].affine;
    if (a.coeffs.size() > access.strides.size()) resize_to(access.strides, a.coeffs.size());
    int64_t low = a.offset, high = a.offset;
    for (size_t i = 0; i < a.coeffs.size(); ++i) {
      if (a.coeffs[i] == 0) continue;
      const int64_t extent = i < dims.size() ? dims[i] : 1;
      const int64_t far = a.coeffs[i] * (extent - 1);
      (far < 0 ? low : high) += far;
    }
    const Ex computed = at[d].computed;
    if (computed.builder) {
      if (low < 0) fail(ErrorKind::internal, "kernel access with a negative coordinate beside a computed one");
      access.terms.push_back({cast(computed, Scalar::i64).id, strides[d], extents[d] - high});
    }
    if (!computed.builder && (low < 0 || high >= extents[d])) {
      access.guards.push_back({a.coeffs, a.offset, extents[d], strides[d]});
    } else {
      access.offset += a.offset * strides[d];
      for (size_t i = 0; i < a.coeffs.size(); ++i) access.strides[i] += a.coeffs[i] * strides[d];
    }
  }
  for (Guard& g : access.guards) resize_to(g.coeffs, access.strides.size());
  return access;
}

Ex KernelBuilder::load(int arg, std::span<const Coord> at) {
  Access a = access(arg, at);
  auto& list = kernel_.accesses;
  const auto same = std::find(list.begin(), list.end(), a);
  Expr e{.op = ExprOp::load, .type = scalar_of(dtype(arg))};
  e.integer = same - list.begin();
  if (same == list.end()) list.push_back(std::move(a));
  return add(e);
}

Ex KernelBuilder::load_broadcast(int arg, int row) {
  const Shape& extents = shape(arg);
  const size_t rank = kernel_.space.size() - static_cast<size_t>(row);
  if (extents.size() > rank)
    fail(ErrorKind::bad_input, "operand {} does not broadcast to the space {}", to_string(extents),
         to_string(kernel_.space));
  std::vector<Coord> at;
  for (size_t d = 0; d < extents.size(); ++d) {
    if (extents[d] == 1)
      at.emplace_back(int64_t{0});
    else
      at.emplace_back(dim(static_cast<int>(rank - extents.size() + d)));
  }
  return load(arg, at);
}

Ex KernelBuilder::load_flat(int arg) {
  Expr e{.op = ExprOp::load, .type = scalar_of(dtype(arg))};
  e.integer = static_cast<int64_t>(kernel_.accesses.size());
  kernel_.accesses.push_back({arg, 0, {1}, {}, {}});
  return add(e);
}

void KernelBuilder::store_flat(int arg, Ex x) {
  kernel_.stores.push_back({{arg, 0, {1}, {}, {}}, cast(x, scalar_of(dtype(arg))).id, false});
}

Ex KernelBuilder::in_bounds(const Affine& at, int64_t extent) {
  Ex v = value(at);
  return (v >= 0) && (v < extent);
}

Ex KernelBuilder::unary(ExprOp op, Ex x) {
  if (op == ExprOp::logical_not)
    x = cast(x, Scalar::boolean);
  else if (op == ExprOp::isnan) {
    if (x.type() < Scalar::f32) return integer(0, Scalar::boolean);
  } else if (op == ExprOp::neg || op == ExprOp::abs) {
    if (x.type() == Scalar::boolean) x = cast(x, Scalar::i64);
  } else if (op == ExprOp::floor || op == ExprOp::ceil || op == ExprOp::round || op == ExprOp::trunc) {
    if (x.type() < Scalar::f32) return x;
  } else if (x.type() < Scalar::f32) {
    x = cast(x, Scalar::f32);
  }
  Expr e{.op = op, .type = result_type(op, x.type(), x.type())};
  e.in[0] = x.id;
  return add(e);
}

Ex KernelBuilder::require(Ex condition, Requirement what) {
  Expr e{.op = ExprOp::require, .type = Scalar::boolean, .integer = static_cast<int64_t>(what)};
  e.in[0] = cast(condition, Scalar::boolean).id;
  return add(e);
}

Ex KernelBuilder::binary(ExprOp op, Ex a, Ex b) {
  Scalar type = std::max(a.type(), b.type());
  if (op == ExprOp::div || op == ExprOp::atan2 || op == ExprOp::fmod) type = std::max(type, Scalar::f32);
  const bool bits = op == ExprOp::bit_and || op == ExprOp::bit_or || op == ExprOp::bit_xor;
  const bool comparison = op == ExprOp::eq || op == ExprOp::ne || op == ExprOp::lt || op == ExprOp::le;
  if (!bits && !comparison) type = std::max(type, Scalar::i64);
  a = cast(a, type);
  b = cast(b, type);
  Expr e{.op = op, .type = result_type(op, type, type)};
  e.in = {a.id, b.id, -1};
  return add(e);
}

Ex KernelBuilder::select(Ex condition, Ex a, Ex b) {
  const Scalar type = std::max(a.type(), b.type());
  condition = cast(condition, Scalar::boolean);
  a = cast(a, type);
  b = cast(b, type);
  if (a.id == b.id && !requires_something(kernel_, condition.id)) return a;
  Expr e{.op = ExprOp::select, .type = type};
  e.in = {condition.id, a.id, b.id};
  return add(e);
}

Ex KernelBuilder::cast(Ex x, Scalar type) {
  if (x.type() == type) return x;
  const Expr& source = kernel_.exprs[static_cast<size_t>(x.id)];
  if (source.op == ExprOp::constant && !std::isnan(source.number)) {
    return x.type() < Scalar::f32 ? integer(source.integer, type) : number(source.number, type);
  }
  Expr e{.op = ExprOp::cast, .type = type};
  e.in[0] = x.id;
  return add(e);
}

Ex KernelBuilder::round_to(Ex x, DType dtype) {
  const Scalar type = scalar_of(dtype);
  x = cast(x, type);
  if (dtype == DType::f32 || dtype == DType::f64 || dtype == DType::i64 || dtype == DType::boolean) return x;
  Expr e{.op = ExprOp::round_to, .type = type, .dtype = dtype};
  e.in[0] = x.id;
  return add(e);
}

Ex KernelBuilder::single(Ex x) {
  Expr e{.op = ExprOp::round_to, .type = Scalar::f32, .dtype = DType::f32};
  e.in[0] = cast(x, Scalar::f32).id;
  return add(e);
}

Ex KernelBuilder::reduce(Reduction reduction, Ex x) {
  if (x.type() == Scalar::boolean) x = cast(x, Scalar::i64);
  Expr e{.op = ExprOp::reduce, .type = x.type(), .reduction = reduction};
  e.in[0] = x.id;
  return add(e);
}

Ex KernelBuilder::scan(Reduction reduction, Ex x) {
  if (x.type() == Scalar::boolean) x = cast(x, Scalar::i64);
  Expr e{.op = ExprOp::scan, .type = x.type(), .reduction = reduction};
  e.in[0] = x.id;
  return add(e);
}

Ex KernelBuilder::fourier(ExprOp part, Ex re, Ex im) {
  return add({.op = part, .type = re.type(), .in = {re.id, im.id, -1}});
}

Ex KernelBuilder::order(Ex x, bool descending) {
  Expr e{.op = ExprOp::order, .type = Scalar::i64, .reduction = descending ? Reduction::max : Reduction::min};
  e.in[0] = x.id;
  return add(e);
}

Ex KernelBuilder::contract(ContractionKind kind, Shape reduce, int a, std::span<const Coord> a_at, int b,
                           std::span<const Coord> b_at) {
  auto c = std::make_shared<Contraction>();
  c->kind = kind;
  c->reduce = std::move(reduce);
  kernel_.contraction = c;
  if (kind != ContractionKind::attention) c->a = access(a, a_at);  // an attention's is in its score
  c->b = access(b, b_at);
  const size_t rank = kernel_.space.size() + c->reduce.size();
  for (Access* operand : {&c->a, &c->b}) {
    if (operand->arg < 0) continue;
    resize_to(operand->strides, rank);
    for (Guard& g : operand->guards) resize_to(g.coeffs, rank);
  }
  return add({.op = ExprOp::contraction, .type = Scalar::f32});
}

void KernelBuilder::store(int arg, std::span<const Coord> at, Ex x, std::optional<Reduction> accumulate) {
  x = cast(x, scalar_of(dtype(arg)));
  kernel_.stores.push_back({access(arg, at), x.id, accumulate.has_value(), accumulate.value_or(Reduction::sum)});
}

void KernelBuilder::store(int arg, Ex x) {
  std::vector<Coord> at;
  const Shape& extents = shape(arg);
  if (extents.size() > kernel_.space.size() || !std::equal(extents.begin(), extents.end(), kernel_.space.begin()))
    fail(ErrorKind::internal, "store of {} over the space {}", to_string(extents), to_string(kernel_.space));
  for (size_t d = 0; d < extents.size(); ++d) at.emplace_back(dim(static_cast<int>(d)));
  store(arg, at, x);
}

Kernel KernelBuilder::finish(std::string name) {
  kernel_.name = std::move(name);
  known_.clear();
  return std::move(kernel_);
}

Ex operator+(Ex a, Ex b) { return builder_of(a).binary(ExprOp::add, a, b); }
Ex operator-(Ex a, Ex b) { return builder_of(a).binary(ExprOp::sub, a, b); }
Ex operator*(Ex a, Ex b) { return builder_of(a).binary(ExprOp::mul, a, b); }
Ex operator/(Ex a, Ex b) { return builder_of(a).binary(ExprOp::div, a, b); }
Ex operator-(Ex a) { return builder_of(a).unary(ExprOp::neg, a); }
Ex operator<(Ex a, Ex b) { return builder_of(a).binary(ExprOp::lt, a, b); }
Ex operator<=(Ex a, Ex b) { return builder_of(a).binary(ExprOp::le, a, b); }
Ex operator>(Ex a, Ex b) { return b < a; }
Ex operator>=(Ex a, Ex b) { return b <= a; }
Ex operator==(Ex a, Ex b) { return builder_of(a).binary(ExprOp::eq, a, b); }
Ex operator!=(Ex a, Ex b) { return builder_of(a).binary(ExprOp::ne, a, b); }
Ex operator&&(Ex a, Ex b) {
  KernelBuilder& k = builder_of(a);
  return k.binary(ExprOp::bit_and, k.cast(a, Scalar::boolean), k.cast(b, Scalar::boolean));
}
Ex operator||(Ex a, Ex b) {
  KernelBuilder& k = builder_of(a);
  return k.binary(ExprOp::bit_or, k.cast(a, Scalar::boolean), k.cast(b, Scalar::boolean));
}
Ex operator!(Ex a) { return builder_of(a).unary(ExprOp::logical_not, a); }
Ex require(Ex condition, Requirement what) { return builder_of(condition).require(condition, what); }

Ex literal(Ex partner, double value) {
  return builder_of(partner).number(value, std::max(partner.type(), Scalar::f32));
}
Ex literal(Ex partner, int64_t value) {
  return builder_of(partner).integer(value, std::max(partner.type(), Scalar::i64));
}
Ex select(Ex condition, Ex a, Ex b) { return builder_of(a).select(condition, a, b); }

Ex neg(Ex x) { return builder_of(x).unary(ExprOp::neg, x); }
Ex abs(Ex x) { return builder_of(x).unary(ExprOp::abs, x); }
Ex exp(Ex x) { return builder_of(x).unary(ExprOp::exp, x); }
Ex exp2(Ex x) { return builder_of(x).unary(ExprOp::exp2, x); }
Ex expm1(Ex x) { return builder_of(x).unary(ExprOp::expm1, x); }
Ex log(Ex x) { return builder_of(x).unary(ExprOp::log, x); }
Ex log2(Ex x) { return builder_of(x).unary(ExprOp::log2, x); }
Ex log10(Ex x) { return builder_of(x).unary(ExprOp::log10, x); }
Ex log1p(Ex x) { return builder_of(x).unary(ExprOp::log1p, x); }
Ex sqrt(Ex x) { return builder_of(x).unary(ExprOp::sqrt, x); }
Ex rsqrt(Ex x) { return builder_of(x).unary(ExprOp::rsqrt, x); }
Ex sin(Ex x) { return builder_of(x).unary(ExprOp::sin, x); }
Ex cos(Ex x) { return builder_of(x).unary(ExprOp::cos, x); }
Ex tan(Ex x) { return builder_of(x).unary(ExprOp::tan, x); }
Ex asin(Ex x) { return builder_of(x).unary(ExprOp::asin, x); }
Ex acos(Ex x) { return builder_of(x).unary(ExprOp::acos, x); }
Ex atan(Ex x) { return builder_of(x).unary(ExprOp::atan, x); }
Ex sinh(Ex x) { return builder_of(x).unary(ExprOp::sinh, x); }
Ex cosh(Ex x) { return builder_of(x).unary(ExprOp::cosh, x); }
Ex tanh(Ex x) { return builder_of(x).unary(ExprOp::tanh, x); }
Ex asinh(Ex x) { return builder_of(x).unary(ExprOp::asinh, x); }
Ex acosh(Ex x) { return builder_of(x).unary(ExprOp::acosh, x); }
Ex atanh(Ex x) { return builder_of(x).unary(ExprOp::atanh, x); }
Ex erf(Ex x) { return builder_of(x).unary(ExprOp::erf, x); }
Ex erfc(Ex x) { return builder_of(x).unary(ExprOp::erfc, x); }
Ex floor(Ex x) { return builder_of(x).unary(ExprOp::floor, x); }
Ex ceil(Ex x) { return builder_of(x).unary(ExprOp::ceil, x); }
Ex round(Ex x) { return builder_of(x).unary(ExprOp::round, x); }
Ex trunc(Ex x) { return builder_of(x).unary(ExprOp::trunc, x); }
Ex isnan(Ex x) { return builder_of(x).unary(ExprOp::isnan, x); }

Ex min(Ex a, Ex b) { return builder_of(a).binary(ExprOp::min, a, b); }
Ex max(Ex a, Ex b) { return builder_of(a).binary(ExprOp::max, a, b); }
Ex pow(Ex a, Ex b) { return builder_of(a).binary(ExprOp::pow, a, b); }
Ex fmod(Ex a, Ex b) { return builder_of(a).binary(ExprOp::fmod, a, b); }
Ex atan2(Ex a, Ex b) { return builder_of(a).binary(ExprOp::atan2, a, b); }
Ex idiv(Ex a, Ex b) { return builder_of(a).binary(ExprOp::idiv, a, b); }
Ex irem(Ex a, Ex b) { return builder_of(a).binary(ExprOp::irem, a, b); }
Ex bit_and(Ex a, Ex b) { return builder_of(a).binary(ExprOp::bit_and, a, b); }
Ex bit_or(Ex a, Ex b) { return builder_of(a).binary(ExprOp::bit_or, a, b); }
Ex bit_xor(Ex a, Ex b) { return builder_of(a).binary(ExprOp::bit_xor, a, b); }
Ex shl(Ex a, Ex b) { return builder_of(a).binary(ExprOp::shl, a, b); }
Ex shr(Ex a, Ex b) { return builder_of(a).binary(ExprOp::shr, a, b); }

}  // namespace npusim
