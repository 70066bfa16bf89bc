// What contractions share: one kernel that sums products of one or two operands whose indices carry labels.
#pragma once
#include <functional>

#include "ops/op.h"

namespace npusim {

constexpr OpRecord contraction(std::string_view schema, std::vector<TensorType> (*infer)(const OpCall&),
                               void (*lower)(const OpCall&, Lowering&)) {
  OpRecord record;
  record.schema = schema;
  record.family = OpFamily::contract;
  record.infer = infer;
  record.lower = lower;
  record.tolerance = 16;
  return record;
}

// An operand (as the lowering's id) with a label for each of its dimensions: equal labels are the same index. A
// dimension of extent 1 broadcasts.
struct Labelled {
  int operand = -1;
  std::vector<int> labels;
};

// What is stored of the sum at each point of the kernel's space: the result's dimensions, then `rows` summed ones.
using Epilogue = std::function<Ex(OpKernel& kernel, Ex sum, int rows)>;

// result[its labels] = Σ over all other labels of a · b (of a alone where b.operand < 0). Floats become a matmul
// contraction; integers and float64 a reduction in their own arithmetic; what sums nothing a plain product (rotary
// angles are one).
void lower_product(Lowering& lowering, std::string name, Labelled a, Labelled b, const Labelled& result,
                   const Epilogue& epilogue = {});

// What a product is multiplied by: of integers the integer, with all its digits.
struct Factor {
  double real = 1;
  int64_t whole = 1;
};
Factor factor_attr(const OpCall& call, std::string_view name);

// result = alpha · a@b + beta · bias, operands as the lowering's ids.
struct MatmulSpec {
  int a = -1;  // […, m, k], or [k]
  int b = -1;  // […, k, n] ([…, n, k] when transposed), or [k]
  bool b_transposed = false;
  int bias = -1;  // broadcasts to the result
  Factor alpha = {};
  Factor beta = {};
  int result = -1;
};
void lower_matmul(Lowering& lowering, std::string name, const MatmulSpec& spec);

// alpha · sum + beta · bias; beta 0 ignores the bias altogether.
Ex add_bias(OpKernel& kernel, Ex sum, int rows, Factor alpha, int bias, Factor beta);

// Whether products of these are summed in f32.
inline bool is_narrow_float(DType d) { return is_float(d) && d != DType::f64; }
// What to keep a partial result in: f32 for narrow floats, else the type itself.
inline DType compute_dtype(DType d) { return is_narrow_float(d) ? DType::f32 : d; }

}  // namespace npusim
