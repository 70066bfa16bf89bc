// What contractions share: one kernel with a matmul or convolution leaf and its first epilogue.
#pragma once
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

// result = alpha · a@b + beta · bias, operands as Lowering's ids.
struct MatmulSpec {
  int a = -1;  // […, m, k], or [k]
  int b = -1;  // […, k, n] ([…, n, k] when transposed), or [k]
  bool b_transposed = false;
  int bias = -1;  // broadcasts to the result
  double alpha = 1;
  double beta = 1;
  int result = -1;
};

// Floats become a matmul contraction. Integers and float64 become a reduction over k in their own arithmetic. A single
// reduced element becomes a product without a contraction (rotary angles are one).
void lower_matmul(Lowering& lowering, std::string name, const MatmulSpec& spec);

}  // namespace npusim
