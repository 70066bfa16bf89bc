// Choosing between operands: where, masked_fill and clamp.
#include "base/error.h"
#include "ops/formula.h"

namespace npusim {
namespace {

// The shape of self; the mask must broadcast to it.
std::vector<TensorType> infer_masked_fill(const OpCall& call) {
  const TensorType& self = call.type("self");
  return {{self.dtype, broadcast_shapes(self.shape, call.type("mask").shape)}};
}

// What is not filled stays as it is, whatever the value's dtype.
void lower_masked_fill(const OpCall& call, Lowering& lowering) {
  OpKernel k(lowering, call.outputs[0].shape);
  const DType dtype = call.type("self").dtype;
  const Ex x = k.load_broadcast(k.read(lowering.input(0))), mask = k.load_broadcast(k.read(lowering.input(1)));
  const int tensor = call.tensor_or_number("value");
  const Ex value =
      tensor >= 0 ? k.load_broadcast(k.read(lowering.input(tensor))) : stored_attr(k, call, "value", dtype);
  k.store(k.write(lowering.output(0)), select(mask, k.cast(value, x.type()), x));
  k.done(kernel_name(call));
}

constexpr OpRecord masked_fill(std::string_view schema) {
  OpRecord record;
  record.schema = schema;
  record.family = OpFamily::formula;
  record.infer = infer_masked_fill;
  record.lower = lower_masked_fill;
  record.memory = Memory::row_major;
  record.tolerance = 0;
  return record;
}

// The condition takes no part in the result's dtype.
std::vector<TensorType> infer_where(const OpCall& call) {
  TensorType type = infer_pointwise(call)[0];
  std::vector<const TensorType*> values(call.inputs.begin() + 1, call.inputs.end());
  OpCall rest = call;
  rest.inputs = values;
  if (!values.empty() || call.op->schema.find("self") >= 0) type.dtype = common_dtype(rest);
  return {type};
}

template <auto meaning>
constexpr OpRecord choice(std::string_view schema) {
  OpRecord record = formula<meaning>(schema, 0);
  record.infer = infer_where;
  return record;
}

// A bound that is None leaves its side open; NaN anywhere gives NaN, and the upper bound wins.
void lower_clamp(const OpCall& call, Lowering& lowering) {
  Pointwise p(call, lowering);
  Ex x = p.arg(0);
  auto bound = [&](std::string_view name, auto apply) {
    if (call.op->schema.find(name) < 0) return;
    if (const int tensor = call.tensor_or_number(name); tensor >= 0)
      x = apply(x, p.kernel.load_broadcast(p.kernel.read(lowering.input(tensor))));
    else if (!call.is_none(name))
      x = apply(x, p.attr(name));
  };
  bound("min", [](Ex a, Ex b) { return max(a, b); });
  bound("max", [](Ex a, Ex b) { return min(a, b); });
  p.store(x);
}

constexpr OpRecord clamp(std::string_view schema) {
  OpRecord record;
  record.schema = schema;
  record.infer = infer_pointwise;
  record.lower = lower_clamp;
  record.memory = Memory::iterated;
  record.tolerance = 0;
  return record;
}

constexpr OpRecord records[] = {
    choice<[](Ex condition, Ex x, Ex y) { return select(condition, x, y); }>(
        "where.self(Tensor condition, Tensor self, Tensor other) -> Tensor"),
    choice<[](Ex condition, Ex x, const OpCall& c) { return select(condition, x, scalar_attr(x, c, "other")); }>(
        "where.ScalarOther(Tensor condition, Tensor self, Scalar other) -> Tensor"),
    choice<[](Ex condition, Ex y, const OpCall& c) { return select(condition, scalar_attr(y, c, "self"), y); }>(
        "where.ScalarSelf(Tensor condition, Scalar self, Tensor other) -> Tensor"),
    choice<[](Ex condition, const OpCall& c) {
      return select(condition, scalar_attr(condition, c, "self"), scalar_attr(condition, c, "other"));
    }>("where.Scalar(Tensor condition, Scalar self, Scalar other) -> Tensor"),
    masked_fill("masked_fill.Scalar(Tensor self, Tensor mask, Scalar value) -> Tensor"),
    masked_fill("masked_fill.Tensor(Tensor self, Tensor mask, Tensor value) -> Tensor"),
    clamp("clamp(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor"),
    clamp("clamp.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor"),
    clamp("clip(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor"),
    clamp("clip.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor"),
    clamp("clamp_min(Tensor self, Scalar min) -> Tensor"),
    clamp("clamp_min.Tensor(Tensor self, Tensor min) -> Tensor"),
    clamp("clamp_max(Tensor self, Scalar max) -> Tensor"),
    clamp("clamp_max.Tensor(Tensor self, Tensor max) -> Tensor"),
};

}  // namespace

std::span<const OpRecord> where_ops() { return records; }

}  // namespace npusim
