// The kernel of a labelled product, and the matrix product as one.
#include "ops/contract.h"

#include <algorithm>
#include <map>

#include "base/dtype.h"
#include "base/error.h"

namespace npusim {
namespace {

using Extents = std::map<int, int64_t>;  // by label

void add_extents(Extents& extents, const Shape& shape, const std::vector<int>& labels) {
  for (size_t d = 0; d < labels.size(); ++d) {
    int64_t& known = extents.try_emplace(labels[d], 1).first->second;
    if (shape[d] == 1) continue;
    if (known != 1 && known != shape[d])
      fail(ErrorKind::bad_input, "dimensions of {} and {} do not match in {}", known, shape[d], to_string(shape));
    known = shape[d];
  }
}

bool contains(const std::vector<int>& labels, int label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

// Labels along which the operand really extends.
std::vector<int> varying(const Lowering& lowering, const Labelled& x) {
  std::vector<int> labels;
  const Shape& shape = lowering.type(x.operand).shape;
  for (size_t d = 0; d < x.labels.size(); ++d)
    if (shape[d] != 1 && !contains(labels, x.labels[d])) labels.push_back(x.labels[d]);
  return labels;
}

std::vector<Coord> coordinates_of(const KernelBuilder& k, const Shape& shape, const std::vector<int>& labels,
                                  const std::vector<int>& order) {
  std::vector<Coord> at;
  for (size_t d = 0; d < labels.size(); ++d) {
    if (shape[d] == 1)
      at.emplace_back(int64_t{0});
    else
      at.emplace_back(k.dim(static_cast<int>(std::find(order.begin(), order.end(), labels[d]) - order.begin())));
  }
  return at;
}

// `x` summed over the labels `dropped`, in a temporary.
Labelled sum_out(Lowering& lowering, const Labelled& x, const std::vector<int>& dropped, const Extents& extents) {
  Labelled sum;
  TensorType type{compute_dtype(lowering.type(x.operand).dtype), {}};
  for (int label : varying(lowering, x)) {
    if (contains(dropped, label)) continue;
    sum.labels.push_back(label);
    type.shape.push_back(extents.at(label));
  }
  sum.operand = lowering.temporary(std::move(type));
  lower_product(lowering, "sum", x, {}, sum);
  return sum;
}

}  // namespace

void lower_product(Lowering& lowering, std::string name, Labelled a, Labelled b, const Labelled& result,
                   const Epilogue& epilogue) {
  const bool two = b.operand >= 0;
  Extents extents;
  add_extents(extents, lowering.type(a.operand).shape, a.labels);
  if (two) add_extents(extents, lowering.type(b.operand).shape, b.labels);
  if (two) {  // a label that only one operand sums is summed before the product
    const std::vector<int> in_a = varying(lowering, a), in_b = varying(lowering, b);
    auto alone = [&](const std::vector<int>& mine, const std::vector<int>& other) {
      std::vector<int> labels;
      for (int label : mine)
        if (!contains(result.labels, label) && !contains(other, label)) labels.push_back(label);
      return labels;
    };
    if (const auto labels = alone(in_a, in_b); !labels.empty()) a = sum_out(lowering, a, labels, extents);
    if (const auto labels = alone(in_b, in_a); !labels.empty()) b = sum_out(lowering, b, labels, extents);
  }
  const TensorType a_type = lowering.type(a.operand), b_type = two ? lowering.type(b.operand) : a_type;
  Shape space = lowering.type(result.operand).shape, summed_extents;
  std::vector<int> order = result.labels;
  for (int label : varying(lowering, a))
    if (!contains(order, label)) {
      order.push_back(label);
      summed_extents.push_back(extents.at(label));
    }
  const bool nothing = element_count(summed_extents) == 0;  // the sum of no elements
  const bool contract =
      two && !summed_extents.empty() && is_narrow_float(a_type.dtype) && is_narrow_float(b_type.dtype);
  const int rows = contract || nothing ? 0 : static_cast<int>(summed_extents.size());
  if (rows) space.insert(space.end(), summed_extents.begin(), summed_extents.end());

  OpKernel k(lowering, std::move(space), rows);
  const int a_arg = k.read(a.operand), b_arg = two ? k.read(b.operand) : -1;
  const auto a_at = coordinates_of(k, a_type.shape, a.labels, order);
  const auto b_at = two ? coordinates_of(k, b_type.shape, b.labels, order) : std::vector<Coord>{};
  Ex x;
  if (nothing) {
    x = k.integer(0, scalar_of(promote_types(a_type.dtype, b_type.dtype)));
  } else if (contract) {
    x = k.contract(ContractionKind::matmul, summed_extents, a_arg, a_at, b_arg, b_at);
  } else {
    x = two ? k.load(a_arg, a_at) * k.load(b_arg, b_at) : k.load(a_arg, a_at);
    if (rows) x = k.reduce(Reduction::sum, x);
  }
  if (epilogue) x = epilogue(k, x, rows);
  k.store(k.write(result.operand), x);
  k.done(std::move(name));
}

Factor factor_attr(const OpCall& call, std::string_view name) {
  const double real = call.number(name);
  return {real, call.is_real(name) ? to_integer(real) : call.integer(name)};
}

Ex add_bias(OpKernel& kernel, Ex sum, int rows, Factor alpha, int bias, Factor beta) {
  auto scaled = [](Ex x, Factor by) {
    if (by.real == 1) return x;
    return x.type() < Scalar::f32 ? x * by.whole : x * by.real;
  };
  if (bias < 0) return scaled(sum, alpha);
  Ex added = kernel.load_broadcast(kernel.read(bias), rows);
  // Whole numbers beside others are those before they are scaled (addr takes both).
  if (sum.type() < Scalar::f32 && added.type() >= Scalar::f32) sum = kernel.cast(sum, added.type());
  if (added.type() < Scalar::f32 && sum.type() >= Scalar::f32) added = kernel.cast(added, sum.type());
  return beta.real == 0 ? scaled(sum, alpha) : scaled(sum, alpha) + scaled(added, beta);
}

void lower_matmul(Lowering& lowering, std::string name, const MatmulSpec& spec) {
  const size_t a_rank = lowering.type(spec.a).shape.size(), b_rank = lowering.type(spec.b).shape.size();
  const size_t result_rank = lowering.type(spec.result).shape.size();
  enum : int { row = -1, inner = -2, column = -3 };  // batch dimensions are numbered from the right
  auto batch = [](size_t count) {
    std::vector<int> labels;
    for (size_t d = count; d-- > 0;) labels.push_back(static_cast<int>(d));
    return labels;
  };
  Labelled a{spec.a, batch(a_rank < 2 ? 0 : a_rank - 2)}, b{spec.b, batch(b_rank < 2 ? 0 : b_rank - 2)};
  Labelled result{spec.result, batch(result_rank - (a_rank > 1) - (b_rank > 1))};
  if (a_rank > 1) {
    a.labels.push_back(row);
    result.labels.push_back(row);
  }
  a.labels.push_back(inner);
  if (b_rank > 1) result.labels.push_back(column);
  if (b_rank > 1 && spec.b_transposed) b.labels.push_back(column);
  b.labels.push_back(inner);
  if (b_rank > 1 && !spec.b_transposed) b.labels.push_back(column);
  lower_product(lowering, std::move(name), a, b, result,
                [&](OpKernel& k, Ex x, int rows) { return add_bias(k, x, rows, spec.alpha, spec.bias, spec.beta); });
}

}  // namespace npusim
