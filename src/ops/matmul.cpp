// Products of matrices and vectors: matmul, linear, the add… forms, outer and inner products.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "ops/contract.h"
#include "ops/formula.h"
#include "ops/view.h"

namespace npusim {
namespace {

[[noreturn]] void misfit(const OpCall& call, size_t a, size_t b) {
  fail(ErrorKind::bad_input, "{}: operands {} and {} do not fit", call.op->name(), to_string(*call.inputs[a]),
       to_string(*call.inputs[b]));
}

void need_rank(const OpCall& call, size_t operand, size_t rank) {
  if (call.inputs[operand]->shape.size() != rank)
    fail(ErrorKind::bad_input, "{}: operand {} must have {} dimensions, found {}", call.op->name(), operand, rank,
         to_string(*call.inputs[operand]));
}

// Shape of a[…, m, k] · b[…, k, n] with ATen's rules for vectors and broadcast batches.
Shape product_shape(const OpCall& call, size_t first = 0) {
  Shape a = call.inputs[first]->shape, b = call.inputs[first + 1]->shape;
  if (a.empty() || b.empty()) fail(ErrorKind::bad_input, "{}: operands need at least one dimension", call.op->name());
  const bool row = a.size() == 1, column = b.size() == 1;
  if (row) a.insert(a.begin(), 1);
  if (column) b.push_back(1);
  if (a.back() != b[b.size() - 2]) misfit(call, first, first + 1);
  Shape shape = broadcast_shapes({a.begin(), a.end() - 2}, {b.begin(), b.end() - 2});
  if (!row) shape.push_back(a[a.size() - 2]);
  if (!column) shape.push_back(b.back());
  return shape;
}

DType product_dtype(const OpCall& call) {
  if (call.op->schema.find("out_dtype") >= 0) return call.dtype("out_dtype").value_or(call.inputs[0]->dtype);
  DType dtype = call.inputs[0]->dtype;
  for (const TensorType* input : call.inputs)
    if (input) dtype = promote_types(dtype, input->dtype);
  return dtype;
}

// Batches of matrices are as many on either side.
void need_batches(const OpCall& call, size_t a, size_t b) {
  if (call.inputs[a]->shape[0] != call.inputs[b]->shape[0]) misfit(call, a, b);
}

// Ranks the operands must have; 0: any.
template <size_t a_rank, size_t b_rank>
std::vector<TensorType> infer_matmul(const OpCall& call) {
  if (a_rank) need_rank(call, 0, a_rank);
  if (b_rank) need_rank(call, 1, b_rank);
  if (a_rank == 3) need_batches(call, 0, 1);
  return {{product_dtype(call), product_shape(call)}};
}

void lower_matmul(const OpCall& call, Lowering& lowering) {
  MatmulSpec spec;
  spec.a = lowering.input(0);
  spec.b = lowering.input(1);
  spec.result = lowering.output(0);
  lower_matmul(lowering, kernel_name(call), spec);
}

std::vector<TensorType> infer_linear(const OpCall& call) {
  Shape shape = call.type("input").shape;
  const Shape& weight = call.type("weight").shape;
  if (shape.empty() || weight.empty() || weight.size() > 2 || weight.back() != shape.back()) misfit(call, 0, 1);
  shape.pop_back();
  if (weight.size() == 2) shape.push_back(weight[0]);
  if (call.tensor("bias") >= 0 && broadcast_shapes(shape, call.type("bias").shape) != shape)
    fail(ErrorKind::bad_input, "{}: bias {} does not fit {}", call.op->name(), to_string(call.type("bias")),
         to_string(shape));
  return {{product_dtype(call), shape}};
}

void lower_linear(const OpCall& call, Lowering& lowering) {
  MatmulSpec spec;
  spec.a = lowering.input(0);
  spec.b = lowering.input(1);
  spec.b_transposed = true;
  spec.bias = call.tensor("bias");
  spec.result = lowering.output(0);
  lower_matmul(lowering, "linear", spec);
}

// The sum of no products is nothing, whatever it is multiplied by.
Factor alpha_of(const OpCall& call) {
  return element_count(call.inputs[1]->shape) == 0 ? Factor{} : factor_attr(call, "alpha");
}

// beta · self + alpha · (operand 1 @ operand 2)
template <size_t a_rank, size_t b_rank>
std::vector<TensorType> infer_add_matmul(const OpCall& call) {
  need_rank(call, 1, a_rank);
  need_rank(call, 2, b_rank);
  if (a_rank == 3) need_batches(call, 1, 2);
  const Shape shape = product_shape(call, 1);
  if (broadcast_shapes(call.inputs[0]->shape, shape) != shape)
    fail(ErrorKind::bad_input, "{}: self {} does not broadcast to {}", call.op->name(), to_string(*call.inputs[0]),
         to_string(shape));
  return {{product_dtype(call), shape}};
}

void lower_add_matmul(const OpCall& call, Lowering& lowering) {
  MatmulSpec spec;
  spec.a = lowering.input(1);
  spec.b = lowering.input(2);
  spec.bias = lowering.input(0);
  spec.alpha = alpha_of(call);
  spec.beta = factor_attr(call, "beta");
  spec.result = lowering.output(0);
  lower_matmul(lowering, kernel_name(call), spec);
}

void lower_addmm_activation(const OpCall& call, Lowering& lowering) {
  const Labelled a{lowering.input(1), {0, 1}}, b{lowering.input(2), {1, 2}}, result{lowering.output(0), {0, 2}};
  lower_product(lowering, "addmm_activation", a, b, result, [&](OpKernel& k, Ex x, int rows) {
    x = add_bias(k, x, rows, alpha_of(call), lowering.input(0), factor_attr(call, "beta"));
    if (x.type() == Scalar::i64) x = k.round_to(x, call.outputs[0].dtype);
    if (!call.boolean("use_gelu")) return max(x, 0);
    return 0.5 * x * (1 + erf(x * std::sqrt(0.5)));
  });
}

// The batches are summed too.
std::vector<TensorType> infer_addbmm(const OpCall& call) {
  need_rank(call, 1, 3);
  need_rank(call, 2, 3);
  const Shape &a = call.inputs[1]->shape, &b = call.inputs[2]->shape;
  if (a[0] != b[0] || a[2] != b[1]) misfit(call, 1, 2);
  return {{product_dtype(call), {a[1], b[2]}}};
}

void lower_addbmm(const OpCall& call, Lowering& lowering) {
  const Labelled a{lowering.input(1), {0, 1, 2}}, b{lowering.input(2), {0, 2, 3}}, result{lowering.output(0), {1, 3}};
  lower_product(lowering, "addbmm", a, b, result, [&](OpKernel& k, Ex x, int rows) {
    return add_bias(k, x, rows, alpha_of(call), lowering.input(0), factor_attr(call, "beta"));
  });
}

template <size_t first>
std::vector<TensorType> infer_outer(const OpCall& call) {
  need_rank(call, first, 1);
  need_rank(call, first + 1, 1);
  return {{product_dtype(call), {call.inputs[first]->shape[0], call.inputs[first + 1]->shape[0]}}};
}

template <size_t first>
void lower_outer(const OpCall& call, Lowering& lowering) {
  const Labelled a{lowering.input(first), {0}}, b{lowering.input(first + 1), {1}}, result{lowering.output(0), {0, 1}};
  lower_product(lowering, kernel_name(call), a, b, result, [&](OpKernel& k, Ex x, int rows) {
    if (first == 0) return x;
    return add_bias(k, x, rows, factor_attr(call, "alpha"), lowering.input(0), factor_attr(call, "beta"));
  });
}

// The last dimensions are summed; a scalar multiplies.
std::vector<TensorType> infer_inner(const OpCall& call) {
  Shape a = call.inputs[0]->shape, b = call.inputs[1]->shape;
  if (a.empty() || b.empty()) return {{product_dtype(call), a.empty() ? b : a}};
  if (a.back() != b.back()) misfit(call, 0, 1);
  a.pop_back();
  a.insert(a.end(), b.begin(), b.end() - 1);
  return {{product_dtype(call), a}};
}

// Dimensions dims_self[i] of self and dims_other[i] of other are summed; the others follow in order.
struct TensordotLabels {
  std::vector<int> a, b, result;
};
TensordotLabels tensordot_labels(size_t a_rank, size_t b_rank, const std::vector<size_t>& a_dims,
                                 const std::vector<size_t>& b_dims) {
  TensordotLabels labels;
  labels.a.resize(a_rank);
  labels.b.assign(b_rank, -1);
  for (size_t d = 0; d < a_rank; ++d) {
    labels.a[d] = static_cast<int>(d);
    if (std::find(a_dims.begin(), a_dims.end(), d) == a_dims.end()) labels.result.push_back(static_cast<int>(d));
  }
  for (size_t i = 0; i < a_dims.size(); ++i) labels.b[b_dims[i]] = static_cast<int>(a_dims[i]);
  for (size_t d = 0; d < b_rank; ++d) {
    if (labels.b[d] >= 0) continue;
    labels.b[d] = static_cast<int>(a_rank + d);
    labels.result.push_back(labels.b[d]);
  }
  return labels;
}

void lower_labels(Lowering& lowering, std::string name, const TensordotLabels& labels) {
  lower_product(lowering, std::move(name), {lowering.input(0), labels.a}, {lowering.input(1), labels.b},
                {lowering.output(0), labels.result});
}

void lower_inner(const OpCall& call, Lowering& lowering) {
  const size_t a = call.inputs[0]->shape.size(), b = call.inputs[1]->shape.size();
  if (a == 0 || b == 0) return lower_labels(lowering, "inner", tensordot_labels(a, b, {}, {}));
  lower_labels(lowering, "inner", tensordot_labels(a, b, {a - 1}, {b - 1}));
}

std::vector<TensorType> infer_tensordot(const OpCall& call) {
  const Shape &a = call.inputs[0]->shape, &b = call.inputs[1]->shape;
  const auto a_dims = dim_list(call, "dims_self", a.size()), b_dims = dim_list(call, "dims_other", b.size());
  if (a_dims.size() != b_dims.size()) misfit(call, 0, 1);
  for (size_t i = 0; i < a_dims.size(); ++i)
    if (a[a_dims[i]] != b[b_dims[i]] && a[a_dims[i]] != 1 && b[b_dims[i]] != 1) misfit(call, 0, 1);
  Shape shape;
  for (int label : tensordot_labels(a.size(), b.size(), a_dims, b_dims).result) {
    const auto d = static_cast<size_t>(label);
    shape.push_back(d < a.size() ? a[d] : b[d - a.size()]);
  }
  return {{product_dtype(call), shape}};
}

void lower_tensordot(const OpCall& call, Lowering& lowering) {
  const size_t a = call.inputs[0]->shape.size(), b = call.inputs[1]->shape.size();
  lower_labels(lowering, "tensordot",
               tensordot_labels(a, b, dim_list(call, "dims_self", a), dim_list(call, "dims_other", b)));
}

// A product of several matrices, from left to right; vectors only at the ends.
std::vector<TensorType> infer_chain(const OpCall& call) {
  TensorType type = *call.inputs[0];
  for (size_t i = 1; i < call.inputs.size(); ++i) {
    const Shape& next = call.inputs[i]->shape;
    if (type.shape.empty() || next.empty() || type.shape.size() > 2 || next.size() > 2 || type.shape.back() != next[0])
      misfit(call, i - 1, i);
    type.dtype = promote_types(type.dtype, call.inputs[i]->dtype);
    type.shape.pop_back();
    type.shape.insert(type.shape.end(), next.begin() + 1, next.end());
  }
  return {type};
}

void lower_chain(const OpCall& call, Lowering& lowering) {
  if (call.inputs.size() == 1) return lower_reshape(lowering, "copy");
  TensorType partial{compute_dtype(call.outputs[0].dtype), call.inputs[0]->shape};
  MatmulSpec spec;
  spec.a = lowering.input(0);
  for (size_t i = 1; i < call.inputs.size(); ++i) {
    const Shape& next = call.inputs[i]->shape;
    partial.shape.pop_back();
    partial.shape.insert(partial.shape.end(), next.begin() + 1, next.end());
    spec.b = lowering.input(static_cast<int>(i));
    spec.result = i + 1 < call.inputs.size() ? lowering.temporary(partial) : lowering.output(0);
    lower_matmul(lowering, "matmul", spec);
    spec.a = spec.result;
  }
}

constexpr OpRecord records[] = {
    contraction("matmul(Tensor self, Tensor other) -> Tensor", infer_matmul<0, 0>, lower_matmul),
    contraction("linalg_matmul(Tensor self, Tensor other) -> Tensor", infer_matmul<0, 0>, lower_matmul),
    in_memory(contraction("mm(Tensor self, Tensor mat2) -> Tensor", infer_matmul<2, 2>, lower_matmul),
              Memory::row_major),
    contraction("mm.dtype(Tensor self, Tensor mat2, ScalarType out_dtype) -> Tensor", infer_matmul<2, 2>, lower_matmul),
    in_memory(contraction("bmm(Tensor self, Tensor mat2) -> Tensor", infer_matmul<3, 3>, lower_matmul),
              Memory::row_major),
    contraction("bmm.dtype(Tensor self, Tensor mat2, ScalarType out_dtype) -> Tensor", infer_matmul<3, 3>,
                lower_matmul),
    contraction("mv(Tensor self, Tensor vec) -> Tensor", infer_matmul<2, 1>, lower_matmul),
    contraction("dot(Tensor self, Tensor tensor) -> Tensor", infer_matmul<1, 1>, lower_matmul),
    contraction("vdot(Tensor self, Tensor other) -> Tensor", infer_matmul<1, 1>, lower_matmul),
    in_memory(
        contraction("linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor", infer_linear, lower_linear),
        Memory::row_major),
    contraction("addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
                infer_add_matmul<2, 2>, lower_add_matmul),
    contraction("addmm.dtype(Tensor self, Tensor mat1, Tensor mat2, ScalarType out_dtype, *, Scalar beta=1, "
                "Scalar alpha=1) -> Tensor",
                infer_add_matmul<2, 2>, lower_add_matmul),
    contraction("_addmm_activation(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1, "
                "bool use_gelu=False) -> Tensor",
                infer_add_matmul<2, 2>, lower_addmm_activation),
    contraction("addmv(Tensor self, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
                infer_add_matmul<2, 1>, lower_add_matmul),
    contraction("baddbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
                infer_add_matmul<3, 3>, lower_add_matmul),
    contraction("baddbmm.dtype(Tensor self, Tensor batch1, Tensor batch2, ScalarType out_dtype, *, Scalar beta=1, "
                "Scalar alpha=1) -> Tensor",
                infer_add_matmul<3, 3>, lower_add_matmul),
    contraction("addbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
                infer_addbmm, lower_addbmm),
    contraction("outer(Tensor self, Tensor vec2) -> Tensor", infer_outer<0>, lower_outer<0>),
    contraction("ger(Tensor self, Tensor vec2) -> Tensor", infer_outer<0>, lower_outer<0>),
    contraction("addr(Tensor self, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
                infer_outer<1>, lower_outer<1>),
    contraction("inner(Tensor self, Tensor other) -> Tensor", infer_inner, lower_inner),
    contraction("tensordot(Tensor self, Tensor other, int[] dims_self, int[] dims_other) -> Tensor", infer_tensordot,
                lower_tensordot),
    contraction("chain_matmul(Tensor[] matrices) -> Tensor", infer_chain, lower_chain),
    contraction("linalg_multi_dot(Tensor[] tensors) -> Tensor", infer_chain, lower_chain),
};

}  // namespace

std::span<const OpRecord> matmul_ops() { return records; }

}  // namespace npusim
