// How often each number occurs, or what its weights add up to: as many bins as minlength says.
#include "base/error.h"
#include "ops/index.h"

namespace npusim {
namespace {

// ATen's result has more elements where a number is beyond minlength: such a call declares another shape, or ends the
// run at that number.
std::vector<TensorType> infer_bincount(const OpCall& call) {
  const TensorType& self = call.type("self");
  const bool empty = self.shape == Shape{0};
  if (self.shape.size() != 1 || (!is_integer(self.dtype) && !empty))
    fail(ErrorKind::bad_input, "{}: expected a vector of integers, found {}", call.op->name(), to_string(self));
  if (call.integer("minlength") < 0)
    fail(ErrorKind::bad_input, "{}: minlength must not be negative, found {}", call.op->name(),
         call.integer("minlength"));
  const Shape shape{call.integer("minlength")};
  if (call.tensor("weights") < 0 || empty) return {{DType::i64, shape}};
  const TensorType& weights = call.type("weights");
  if (weights.shape != self.shape)
    fail(ErrorKind::bad_input, "{}: weights {} are not one of each of {}", call.op->name(), to_string(weights),
         to_string(self));
  return {{weights.dtype == DType::f32 ? DType::f32 : DType::f64, shape}};
}

void lower_bincount(const OpCall& call, Lowering& lowering) {
  const TensorType& result = call.outputs[0];
  const Scalar type = scalar_of(result.dtype);
  const int zeros = lowering.temporary(result);
  OpKernel zero(lowering, result.shape);
  zero.store(zero.write(zeros), zero.integer(0, type));
  zero.done("zeros");
  OpKernel k(lowering, call.type("self").shape);
  const int from = k.read(zeros);
  const Coord at[] = {k.load_broadcast(k.read(lowering.input(0)))};
  const int weights = call.tensor("weights");
  const Ex x = weights < 0 ? k.integer(1, type) : k.cast(k.load_broadcast(k.read(lowering.input(weights))), type);
  k.store(k.write(lowering.output(0), from), at, x, Reduction::sum);
  k.done("bincount");
}

constexpr OpRecord bins(std::string_view schema) {
  OpRecord record = indexed(schema, infer_bincount, lower_bincount);
  record.tolerance = 8;
  return record;
}

constexpr OpRecord records[] = {
    bins("bincount(Tensor self, Tensor? weights=None, SymInt minlength=0) -> Tensor"),
};

}  // namespace

std::span<const OpRecord> bincount_ops() { return records; }

}  // namespace npusim
