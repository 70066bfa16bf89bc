// Casts, and copies and aliases that keep every element: to.*, clone, contiguous, detach, fill.
#include "base/error.h"
#include "ops/formula.h"

namespace npusim {
namespace {

constexpr auto same = [](Ex x) { return x; };

// The dtype attribute when there is one, else that of `other`, else self's.
std::vector<TensorType> infer_cast(const OpCall& call) {
  TensorType type = call.type("self");
  if (call.op->schema.find("dtype") >= 0)
    type.dtype = call.dtype("dtype").value_or(type.dtype);
  else if (call.op->schema.find("other") >= 0)
    type.dtype = call.type("other").dtype;
  return {type};
}

// A narrower dtype that the model asks for is a rounding, whatever dtype its value is stored in.
Ex rounded(Ex x, const OpCall& call) {
  const DType to = call.outputs[0].dtype;
  const bool narrow = to == DType::f16 || to == DType::bf16;
  return narrow && call.inputs[0]->dtype != to ? x.builder->round_to(x.builder->cast(x, Scalar::f32), to) : x;
}

constexpr OpRecord cast(std::string_view schema, Memory memory = Memory::converted) {
  OpRecord record = formula<rounded>(schema, 1);
  record.infer = infer_cast;
  record.memory = memory;
  return record;
}

template <DType dtype>
std::vector<TensorType> infer_fixed(const OpCall& call) {
  return {{dtype, call.inputs[0]->shape}};
}

template <DType dtype>
constexpr OpRecord cast_to(std::string_view schema) {
  OpRecord record = formula<rounded>(schema, 1);
  record.infer = infer_fixed<dtype>;
  record.memory = Memory::converted;
  return record;
}

constexpr OpRecord copy(std::string_view schema, Memory memory) {
  OpRecord record = formula<same>(schema, 0);
  record.infer = infer_same;
  record.memory = memory;
  return record;
}

// The result is self's shape and dtype whatever is written into it, which must broadcast to that.
std::vector<TensorType> infer_overwritten(const OpCall& call) {
  const TensorType& self = *call.inputs[0];
  for (const TensorType* input : call.inputs)
    if (input && broadcast_shapes(self.shape, input->shape) != self.shape)
      fail(ErrorKind::bad_input, "{}: {} does not broadcast to {}", call.op->name(), to_string(input->shape),
           to_string(self.shape));
  return {self};
}

template <auto meaning>
constexpr OpRecord overwrite(std::string_view schema) {
  OpRecord record = formula<meaning>(schema, 1);
  record.infer = infer_overwritten;
  return record;
}

constexpr OpRecord records[] = {
    cast("to.dtype(Tensor(a) self, ScalarType dtype, bool non_blocking=False, bool copy=False, "
         "MemoryFormat? memory_format=None) -> Tensor(a)"),
    cast("to.device(Tensor(a) self, Device device, ScalarType dtype, bool non_blocking=False, bool copy=False, "
         "MemoryFormat? memory_format=None) -> Tensor(a)"),
    cast("to.dtype_layout(Tensor(a) self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
         "bool? pin_memory=None, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) "
         "-> Tensor(a)"),
    cast("to.other(Tensor(a) self, Tensor other, bool non_blocking=False, bool copy=False, "
         "MemoryFormat? memory_format=None) -> Tensor(a)"),
    cast("_to_copy(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
         "bool? pin_memory=None, bool non_blocking=False, MemoryFormat? memory_format=None) -> Tensor",
         Memory::preserved),
    cast("type_as(Tensor self, Tensor other) -> Tensor"),
    cast_to<DType::f32>("_cast_Float(Tensor self, bool non_blocking=False) -> Tensor"),
    cast_to<DType::f16>("_cast_Half(Tensor self, bool non_blocking=False) -> Tensor"),
    cast_to<DType::i64>("_cast_Long(Tensor self, bool non_blocking=False) -> Tensor"),
    copy("contiguous(Tensor(a) self, *, MemoryFormat memory_format=0) -> Tensor(a)", Memory::contiguous),
    copy("clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor", Memory::preserved),
    copy("lift_fresh_copy(Tensor self) -> Tensor", Memory::row_major),
    copy("lift_fresh(Tensor(a) self) -> Tensor(a)", Memory::itself),
    copy("lift(Tensor self) -> Tensor", Memory::itself),
    copy("detach(Tensor(a) self) -> Tensor(a)", Memory::same),
    copy("detach_copy(Tensor self) -> Tensor", Memory::row_major),
    copy("alias(Tensor(a) self) -> Tensor(a)", Memory::same),
    copy("resolve_conj(Tensor(a) self) -> Tensor(a)", Memory::same),
    copy("alias_copy(Tensor self) -> Tensor", Memory::row_major),
    overwrite<[](Ex, Ex source) { return source; }>("copy(Tensor self, Tensor src, bool non_blocking=False) -> Tensor"),
    overwrite<[](Ex x, const OpCall& c) { return stored_attr(*x.builder, c, "value", c.outputs[0].dtype); }>(
        "fill.Scalar(Tensor self, Scalar value) -> Tensor"),
    overwrite<[](Ex, Ex value) { return value; }>("fill.Tensor(Tensor self, Tensor value) -> Tensor"),
    overwrite<[](Ex x) { return literal(x, int64_t{0}); }>("zero(Tensor self) -> Tensor"),
};

}  // namespace

std::span<const OpRecord> cast_ops() { return records; }

}  // namespace npusim
