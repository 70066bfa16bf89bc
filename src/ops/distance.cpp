// Norms of differences and products along a dimension: cosine_similarity, pairwise_distance, cdist; weight norm,
// bilinear forms and cross products.
#include <algorithm>
#include <limits>

#include "base/error.h"
#include "ops/contract.h"
#include "ops/formula.h"
#include "ops/reduce.h"
#include "ops/view.h"

namespace npusim {
namespace {

// The operand broadcast to `shape`, whose dimension `row` is the kernel's last and the others its first.
Ex load_row(OpKernel& k, int operand, const Shape& shape, size_t row) {
  const int arg = k.read(operand);
  const Shape& own = k.shape(arg);
  std::vector<Coord> at;
  for (size_t i = 0; i < own.size(); ++i) {
    const size_t d = shape.size() - own.size() + i;
    if (own[i] == 1)
      at.emplace_back(int64_t{0});
    else
      at.emplace_back(k.dim(static_cast<int>(d == row ? shape.size() - 1 : d - (d > row))));
  }
  return k.load(arg, at);
}

TensorType real_result(const OpCall& call, Shape shape) {
  const DType dtype = promote_types(call.inputs[0]->dtype, call.inputs[1]->dtype);
  return {is_float(dtype) ? dtype : DType::f32, std::move(shape)};
}

Shape without(Shape shape, size_t dim) {
  shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(dim));
  return shape;
}

Shape common_shape(const OpCall& call) { return broadcast_shapes(call.inputs[0]->shape, call.inputs[1]->shape); }

std::vector<TensorType> infer_cosine(const OpCall& call) {
  const Shape shape = common_shape(call);
  if (shape.empty()) return {real_result(call, {})};
  return {real_result(call, without(shape, dim_argument(call, "dim", shape.size())))};
}

void lower_cosine(const OpCall& call, Lowering& lowering) {
  Shape shape = common_shape(call);
  if (shape.empty()) shape = {1};
  const size_t dim = dim_argument(call, "dim", shape.size());
  Shape space = without(shape, dim);
  space.push_back(shape[dim]);
  OpKernel k(lowering, space, 1);
  const double eps = call.number("eps");
  const Scalar type = scalar_of(call.outputs[0].dtype);  // integers beside float64 too
  const Ex x = k.cast(load_row(k, lowering.input(0), shape, dim), type),
           y = k.cast(load_row(k, lowering.input(1), shape, dim), type);
  // Each by its own norm, as in ATen: the product of both may be no float.
  const Ex along = x / max(vector_norm(k, x, 2), eps), other = y / max(vector_norm(k, y, 2), eps);
  k.store(k.write(lowering.output(0)), k.reduce(Reduction::sum, along * other));
  k.done("cosine_similarity");
}

std::vector<TensorType> infer_pairwise(const OpCall& call) {
  Shape shape = common_shape(call);
  if (shape.empty()) fail(ErrorKind::bad_input, "{}: operands need at least one dimension", call.op->name());
  shape.pop_back();
  if (call.boolean("keepdim")) shape.push_back(1);
  return {real_result(call, shape)};
}

void lower_pairwise(const OpCall& call, Lowering& lowering) {
  const Shape shape = common_shape(call);
  OpKernel k(lowering, shape, 1);
  const DType common = common_dtype(call);  // in which integers are subtracted, and wrap
  const auto operand = [&](size_t n) {
    return converted(k.load_broadcast(k.read(lowering.input(n))), call.inputs[n]->dtype, common);
  };
  const Ex difference = operand(0) - operand(1);
  const DType of_difference = difference.type() == Scalar::i64 ? DType::i64 : common;
  const Ex norm = vector_norm(k, converted(difference, of_difference, common) + call.number("eps"), call.number("p"));
  std::vector<Coord> at = coordinates(identity_coordinates(shape.size() - 1));
  if (call.boolean("keepdim")) at.emplace_back(int64_t{0});
  k.store(k.write(lowering.output(0)), at, norm);
  k.done("pairwise_distance");
}

// Distances of the rows of x1 [..., p, m] from those of x2 [..., r, m].
std::vector<TensorType> infer_cdist(const OpCall& call) {
  const Shape &a = call.inputs[0]->shape, &b = call.inputs[1]->shape;
  if (a.size() < 2 || b.size() < 2 || a.back() != b.back())
    fail(ErrorKind::bad_input, "{}: operands {} and {} do not fit", call.op->name(), to_string(a), to_string(b));
  if (call.op->schema.find("p") >= 0 && !(call.number("p") >= 0))
    fail(ErrorKind::bad_input, "{}: expected p of 0 or more, found {}", call.op->name(), call.number("p"));
  if (call.op->schema.find("compute_mode") >= 0 && !call.is_none("compute_mode"))
    if (const int64_t mode = call.integer("compute_mode"); mode < 0 || mode > 2)
      fail(ErrorKind::bad_input, "{}: expected compute_mode 0, 1 or 2, found {}", call.op->name(), mode);
  Shape shape = broadcast_shapes({a.begin(), a.end() - 2}, {b.begin(), b.end() - 2});
  shape.insert(shape.end(), {a[a.size() - 2], b[b.size() - 2]});
  return {real_result(call, shape)};
}

void lower_cdist(const OpCall& call, Lowering& lowering) {
  Shape space = call.outputs[0].shape;
  const int rank = static_cast<int>(space.size());
  const bool nothing = call.inputs[0]->shape.back() == 0;
  if (!nothing) space.push_back(call.inputs[0]->shape.back());
  OpKernel k(lowering, space, !nothing);
  auto rows = [&](int operand, int row) {
    const int arg = k.read(lowering.input(operand));
    const Shape& own = k.shape(arg);
    std::vector<Coord> at;
    for (size_t d = 0; d + 2 < own.size(); ++d) {
      const int from = rank - static_cast<int>(own.size()) + static_cast<int>(d);
      at.emplace_back(own[d] == 1 ? Affine{} : k.dim(from));
    }
    at.emplace_back(k.dim(row));
    at.emplace_back(k.dim(rank));
    return k.load(arg, at);
  };
  const double p = call.op->schema.find("p") >= 0 ? call.number("p") : 2;
  const auto distance = [&] {
    const Ex apart = rows(0, rank - 2) - rows(1, rank - 1);
    // As ATen's, in which an order that is no float is none that ends.
    const bool endless = apart.type() != Scalar::f64 && p > std::numeric_limits<float>::max();
    if (p != 0) return vector_norm(k, apart, endless ? std::numeric_limits<double>::infinity() : p);
    return k.reduce(Reduction::sum,
                    min(ceil(abs(k.cast(apart, std::max(apart.type(), Scalar::f32)))), 1.0));  // NaN stays
  };
  const Ex x = nothing ? k.number(0) : distance();
  k.store(k.write(lowering.output(0)), x);
  k.done("cdist");
}

// v · g / |v|, with the norm over all dimensions but dim (over all of them when dim is -1).
std::vector<TensorType> infer_weight_norm(const OpCall& call) {
  const TensorType& v = call.type("v");
  const Shape& g = call.type("g").shape;
  Shape norms(v.shape.size(), 1);  // of each index along dim
  if (v.shape.empty()) fail(ErrorKind::bad_input, "{}: v is a scalar", call.op->name());
  if (call.integer("dim") != -1) {
    const size_t dim = dim_argument(call, "dim", v.shape.size());
    norms[dim] = v.shape[dim];
  }
  const bool one = element_count(norms) == 1 && element_count(g) == 1 && g.size() <= v.shape.size();
  if (g != norms && !one)
    fail(ErrorKind::bad_input, "{}: g of shape {} for v of {}: expected {}", call.op->name(), to_string(g),
         to_string(v.shape), to_string(norms));
  std::vector<TensorType> types{v};
  if (call.op->schema.results == 2) types.push_back({compute_dtype(v.dtype), call.type("g").shape});
  return types;
}

void lower_weight_norm(const OpCall& call, Lowering& lowering) {
  const Shape& v = call.type("v").shape;
  std::vector<size_t> order;  // the kernel's dimensions as the operand's
  const bool all = call.integer("dim") == -1;
  if (!all) order.push_back(dim_argument(call, "dim", v.size()));
  for (size_t d = 0; d < v.size(); ++d)
    if (all || d != order[0]) order.push_back(d);
  Shape space;
  for (size_t d : order) space.push_back(v[d]);
  const int rows = static_cast<int>(v.size()) - !all;
  OpKernel k(lowering, space, rows);
  std::vector<Coord> at(v.size(), Coord(int64_t{0}));
  for (size_t i = 0; i < order.size(); ++i) at[order[i]] = Coord(k.dim(static_cast<int>(i)));
  const Ex x = k.load(k.read(lowering.input(0)), at);
  const int g = k.read(lowering.input(1));
  std::vector<Coord> g_at;
  const Shape& g_shape = k.shape(g);
  for (size_t d = 0; d < g_shape.size(); ++d) {
    if (g_shape[d] == 1)
      g_at.emplace_back(int64_t{0});
    else
      g_at.push_back(at[v.size() - g_shape.size() + d]);
  }
  const Ex norm = rows == 0 ? abs(x) : vector_norm(k, x, 2);
  const Ex scale = k.load(g, g_at) / norm;
  k.store(k.write(lowering.output(0)), at, x * scale);
  if (call.outputs.size() > 1) k.store(k.write(lowering.output(1)), g_at, norm);
  k.done("weight_norm");
}

// result[…, o] = Σ input1[…, i] · weight[o, i, j] · input2[…, j] + bias[o]
std::vector<TensorType> infer_bilinear(const OpCall& call) {
  const Shape &a = call.inputs[0]->shape, &b = call.inputs[1]->shape, &w = call.type("weight").shape;
  const bool fits = w.size() == 3 && !a.empty() && a.size() == b.size() &&
                    std::equal(a.begin(), a.end() - 1, b.begin()) && a.back() == w[1] && b.back() == w[2];
  if (!fits)
    fail(ErrorKind::bad_input, "{}: operands {}, {} and weight {} do not fit", call.op->name(), to_string(a),
         to_string(b), to_string(w));
  Shape shape(a.begin(), a.end() - 1);
  shape.push_back(w[0]);
  return {real_result(call, shape)};
}

void lower_bilinear(const OpCall& call, Lowering& lowering) {
  const Shape &a = call.inputs[0]->shape, &w = call.type("weight").shape;
  enum : int { out = -1, left = -2, right = -3 };
  std::vector<int> lead;
  for (size_t d = 0; d + 1 < a.size(); ++d) lead.push_back(static_cast<int>(d));
  auto with = [&](std::initializer_list<int> more) {
    std::vector<int> labels = lead;
    labels.insert(labels.end(), more);
    return labels;
  };
  Shape partial(a.begin(), a.end() - 1);
  partial.insert(partial.end(), {w[0], w[2]});
  const Labelled half{lowering.temporary({compute_dtype(call.outputs[0].dtype), partial}), with({out, right})};
  lower_product(lowering, "bilinear", {lowering.input(0), with({left})},
                {lowering.input(call.tensor("weight")), {out, left, right}}, half);
  const int bias = call.tensor("bias");
  lower_product(lowering, "bilinear", half, {lowering.input(1), with({right})}, {lowering.output(0), with({out})},
                [&](OpKernel& k, Ex x, int rows) { return add_bias(k, x, rows, {}, bias, {}); });
}

// The dimension of 3 that is crossed: the first one where none is named.
size_t cross_dim(const OpCall& call) {
  const Shape shape = common_shape(call);
  size_t dim = 0;
  if (!call.is_none("dim"))
    dim = dim_argument(call, "dim", shape.size());
  else
    dim = static_cast<size_t>(std::find(shape.begin(), shape.end(), 3) - shape.begin());
  if (dim >= shape.size() || shape[dim] != 3)
    fail(ErrorKind::bad_input, "{}: no dimension of 3 to cross in {}", call.op->name(), to_string(shape));
  return dim;
}

std::vector<TensorType> infer_cross(const OpCall& call) {
  cross_dim(call);
  return {{promote_types(call.inputs[0]->dtype, call.inputs[1]->dtype), common_shape(call)}};
}

void lower_cross(const OpCall& call, Lowering& lowering) {
  const Shape& shape = call.outputs[0].shape;
  const size_t dim = cross_dim(call);
  OpKernel k(lowering, shape);
  auto element = [&](int operand, int ahead) {
    const int arg = k.read(lowering.input(operand));
    const Shape& own = k.shape(arg);
    std::vector<Coord> at;
    for (size_t i = 0; i < own.size(); ++i) {
      const size_t d = shape.size() - own.size() + i;
      if (d == dim)
        at.emplace_back(irem(k.index(static_cast<int>(d)) + ahead, k.integer(3)));
      else
        at.emplace_back(own[i] == 1 ? Affine{} : k.dim(static_cast<int>(d)));
    }
    return k.load(arg, at);
  };
  const Ex x = element(0, 1) * element(1, 2) - element(0, 2) * element(1, 1);
  k.store(k.write(lowering.output(0)), x);
  k.done("cross");
}

constexpr OpRecord records[] = {
    contraction("cosine_similarity(Tensor x1, Tensor x2, int dim=1, float eps=1e-08) -> Tensor", infer_cosine,
                lower_cosine),
    contraction("pairwise_distance(Tensor x1, Tensor x2, float p=2., float eps=9.9999999999999995e-07, bool "
                "keepdim=False) -> Tensor",
                infer_pairwise, lower_pairwise),
    contraction("cdist(Tensor x1, Tensor x2, float p=2., int? compute_mode=None) -> Tensor", infer_cdist, lower_cdist),
    contraction("_cdist_forward(Tensor x1, Tensor x2, float p, int? compute_mode) -> Tensor", infer_cdist, lower_cdist),
    contraction("_euclidean_dist(Tensor x1, Tensor x2) -> Tensor", infer_cdist, lower_cdist),
    contraction("_weight_norm(Tensor v, Tensor g, int dim=0) -> Tensor", infer_weight_norm, lower_weight_norm),
    contraction("_weight_norm_interface(Tensor v, Tensor g, int dim=0) -> (Tensor, Tensor)", infer_weight_norm,
                lower_weight_norm),
    contraction("bilinear(Tensor input1, Tensor input2, Tensor weight, Tensor? bias=None) -> Tensor", infer_bilinear,
                lower_bilinear),
    contraction("cross(Tensor self, Tensor other, int? dim=None) -> Tensor", infer_cross, lower_cross),
    contraction("linalg_cross(Tensor self, Tensor other, *, int dim=-1) -> Tensor", infer_cross, lower_cross),
};

}  // namespace

std::span<const OpRecord> distance_ops() { return records; }

}  // namespace npusim
