// What view ops share: a view is a copy kernel, which lowering turns into strides of its readers.
#pragma once
#include <functional>

#include "ops/op.h"

namespace npusim {

constexpr OpRecord view(std::string_view schema, std::vector<TensorType> (*infer)(const OpCall&),
                        void (*lower)(const OpCall&, Lowering&)) {
  OpRecord record;
  record.schema = schema;
  record.family = OpFamily::view;
  record.infer = infer;
  record.lower = lower;
  record.is_view = true;
  record.tolerance = 0;
  return record;
}

// result[i…] = operand[coordinates(i…)] over the shape of `result`; coordinates must stay in bounds.
void lower_copy(Lowering& lowering, std::string name,
                const std::function<std::vector<Coord>(const KernelBuilder&)>& coordinates, int operand = 0, int result = 0);
// The same elements in the same order under another shape.
void lower_reshape(Lowering& lowering, std::string name, int operand = 0, int result = 0);

}  // namespace npusim
