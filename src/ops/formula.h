// Pointwise ops: one scalar formula over broadcast operands is the whole meaning.
//
//   formula<[](Ex x) { return x / (1 + exp(-x)); }>("silu(Tensor self) -> Tensor")
//
// The lambda takes one Ex per Tensor argument of the schema, in order, and may take the call last for its attributes. A
// scalar in a Tensor's place is an Ex too. Results are stored in the declared dtype.
#pragma once
#include "ops/op.h"

namespace npusim {

// The pointwise kernel of a call: its space is the first result's shape.
class Pointwise {
 public:
  Pointwise(const OpCall& call, Lowering& lowering);
  Ex arg(int nth);                 // the nth Tensor argument: operand or scalar, in what the call computes in
  Ex attr(std::string_view name);  // a Scalar attribute with ATen's type: integer, real or boolean
  void store(Ex x);

  OpKernel kernel;

 private:
  Ex computed(Ex x);
  const OpCall& call_;
  Lowering& lowering_;
};

// The Scalar attribute `name` beside x: real when it or x is (ATen's wrapped numbers), else of the common dtype.
Ex scalar_attr(Ex x, const OpCall& call, std::string_view name);
inline bool is_real(Ex x) { return x.type() >= Scalar::f32; }
// The Scalar attribute `name` as ATen converts it to a dtype, to store it or to compute in it: an integer keeps all its
// digits, and a real number loses what is behind its point in a dtype of integers. Throws unsupported where it does not
// fit.
Ex stored_attr(KernelBuilder& kernel, const OpCall& call, std::string_view name, DType dtype);

// ATen's result type: of the tensors, then 0-d tensors, then scalars; a later class counts only when its category
// (bool < integer < real) is higher. Every Scalar argument but `alpha` takes part.
DType common_dtype(const OpCall& call);
// Of a number as ATen makes a tensor of it.
DType scalar_dtype(const Attr& number);
// A value of dtype `from` in ATen's common dtype, to which ATen converts all operands first: integers that do not fit
// wrap (beside a tensor of uint8, -2 is 254), and of a float64 scalar beside float32 a float32 is left.
Ex converted(Ex x, DType from, DType common);
int64_t converted(int64_t number, DType common);
// The file part of a kernel's name: "softmax" of "aten.softmax.int".
std::string kernel_name(const OpCall& call);

// Shape: broadcast of all operands. Dtype: ATen's promotion (informative: the declared one is used).
std::vector<TensorType> infer_pointwise(const OpCall& call);
std::vector<TensorType> infer_real(const OpCall& call);     // the same, but integers become f32
std::vector<TensorType> infer_boolean(const OpCall& call);  // the same, but bool
// Shape and dtype of the first operand.
std::vector<TensorType> infer_same(const OpCall& call);

template <auto meaning>
void lower_formula(const OpCall& call, Lowering& lowering) {
  Pointwise p(call, lowering);
  using F = decltype(meaning);
  if constexpr (std::is_invocable_v<F, Ex>)
    p.store(meaning(p.arg(0)));
  else if constexpr (std::is_invocable_v<F, Ex, const OpCall&>)
    p.store(meaning(p.arg(0), call));
  else if constexpr (std::is_invocable_v<F, Ex, Ex>)
    p.store(meaning(p.arg(0), p.arg(1)));
  else if constexpr (std::is_invocable_v<F, Ex, Ex, const OpCall&>)
    p.store(meaning(p.arg(0), p.arg(1), call));
  else if constexpr (std::is_invocable_v<F, Ex, Ex, Ex>)
    p.store(meaning(p.arg(0), p.arg(1), p.arg(2)));
  else
    p.store(meaning(p.arg(0), p.arg(1), p.arg(2), call));
}

template <auto meaning>
constexpr OpRecord formula(std::string_view schema, double tolerance = 4) {
  OpRecord record;
  record.schema = schema;
  record.family = OpFamily::formula;
  record.infer = infer_pointwise;
  record.lower = lower_formula<meaning>;
  record.memory = Memory::iterated;
  record.tolerance = tolerance;
  return record;
}
template <auto meaning>
constexpr OpRecord real_formula(std::string_view schema, double tolerance = 4) {
  OpRecord record = formula<meaning>(schema, tolerance);
  record.infer = infer_real;
  return record;
}
template <auto meaning>
constexpr OpRecord boolean_formula(std::string_view schema) {
  OpRecord record = formula<meaning>(schema, 0);
  record.infer = infer_boolean;
  return record;
}

}  // namespace npusim
