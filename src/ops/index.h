// What ops with computed indices share: gathers read at them, scatters write at them into a copy of their first
// operand.
#pragma once
#include "ops/contract.h"
#include "ops/view.h"

namespace npusim {

constexpr OpRecord indexed(std::string_view schema, std::vector<TensorType> (*infer)(const OpCall&),
                           void (*lower)(const OpCall&, Lowering&)) {
  OpRecord record;
  record.schema = schema;
  record.family = OpFamily::index;
  record.infer = infer;
  record.lower = lower;
  record.tolerance = 0;
  return record;
}

// Negative indices count from the end; what is still outside traps.
inline Ex wrapped(Ex index, int64_t extent) { return select(index < 0, index + extent, index); }

// The operand itself, or a copy of it in the result's dtype: an update needs both to be the same.
int in_result_dtype(Lowering& lowering, int operand, int result = 0);

// What a kernel updates: the operand to start from and the one to write. Where it adds 16-bit numbers both are float32,
// and round_update() rounds the sums, once, to result 0; else the second one is that.
struct Updated {
  int from, to;
};
Updated updated_result(Lowering& lowering, bool adds);
void round_update(Lowering& lowering, Updated updated);
// What numbers of a dtype are updated in.
inline DType updated_dtype(DType dtype, bool adds) { return adds ? compute_dtype(dtype) : dtype; }

// Refuses dtypes that are no index.
void need_index(const OpCall& call, const TensorType& type);

// `shape` with rank at least 1: a scalar is one element along dimension 0.
inline Shape at_least_vector(Shape shape) { return shape.empty() ? Shape{1} : shape; }

}  // namespace npusim
