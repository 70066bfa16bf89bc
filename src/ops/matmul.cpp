// Products of matrices: matmul, mm, bmm, linear and their kind.
#include "base/error.h"
#include "ops/contract.h"

namespace npusim {
namespace {

// a[…, m, k] · b[…, k, n] with ATen's rules for vectors and broadcast batches.
std::vector<TensorType> infer_matmul(const OpCall& call) {
  Shape a = call.inputs[0]->shape, b = call.inputs[1]->shape;
  if (a.empty() || b.empty()) fail(ErrorKind::bad_input, "{}: operands need at least one dimension", call.op->name());
  const bool row = a.size() == 1, column = b.size() == 1;
  if (row) a.insert(a.begin(), 1);
  if (column) b.push_back(1);
  if (a.back() != b[b.size() - 2])
    fail(ErrorKind::bad_input, "{}: inner dimensions differ: {} and {}", call.op->name(), to_string(call.inputs[0]->shape),
         to_string(call.inputs[1]->shape));
  Shape shape = broadcast_shapes({a.begin(), a.end() - 2}, {b.begin(), b.end() - 2});
  if (!row) shape.push_back(a[a.size() - 2]);
  if (!column) shape.push_back(b.back());
  return {{promote_types(call.inputs[0]->dtype, call.inputs[1]->dtype), shape}};
}

void lower_matmul(const OpCall&, Lowering& lowering) {
  MatmulSpec spec;
  spec.a = lowering.input(0);
  spec.b = lowering.input(1);
  spec.result = lowering.output(0);
  lower_matmul(lowering, "matmul", spec);
}

std::vector<TensorType> infer_linear(const OpCall& call) {
  Shape shape = call.type("input").shape;
  const Shape& weight = call.type("weight").shape;
  if (shape.empty() || weight.empty() || weight.back() != shape.back())
    fail(ErrorKind::bad_input, "{}: input {} and weight {} do not fit", call.op->name(), to_string(shape), to_string(weight));
  shape.pop_back();
  if (weight.size() == 2) shape.push_back(weight[0]);
  return {{call.inputs[0]->dtype, shape}};
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

constexpr OpRecord records[] = {
    contraction("matmul(Tensor self, Tensor other) -> Tensor", infer_matmul, lower_matmul),
    contraction("mm(Tensor self, Tensor mat2) -> Tensor", infer_matmul, lower_matmul),
    contraction("bmm(Tensor self, Tensor mat2) -> Tensor", infer_matmul, lower_matmul),
    contraction("linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor", infer_linear, lower_linear),
};

}  // namespace

std::span<const OpRecord> matmul_ops() { return records; }

}  // namespace npusim
