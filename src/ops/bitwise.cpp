// Bitwise and logical operators, with the names Python's operators give them.
#include "base/error.h"
#include "ops/formula.h"

namespace npusim {
namespace {

Ex other(Ex x, const OpCall& call) { return scalar_attr(x, call, "other"); }
Ex self(Ex y, const OpCall& call) { return scalar_attr(y, call, "self"); }

// Shifts by negative counts or by the width and beyond give 0 or, for negative numbers shifted right, -1: as those of
// i64 do, also where fewer bits are stored.

template <ExprOp op>
constexpr auto tensors = [](Ex x, Ex y) { return x.builder->binary(op, x, y); };
template <ExprOp op>
constexpr auto with_other = [](Ex x, const OpCall& c) { return x.builder->binary(op, x, other(x, c)); };
template <ExprOp op>
constexpr auto with_self = [](Ex y, const OpCall& c) { return y.builder->binary(op, self(y, c), y); };

constexpr auto left = [](Ex x, Ex y) { return shl(x, y); };
constexpr auto left_other = [](Ex x, const OpCall& c) { return shl(x, other(x, c)); };
constexpr auto right = [](Ex x, Ex y) { return shr(x, y); };
constexpr auto right_other = [](Ex x, const OpCall& c) { return shr(x, other(x, c)); };

std::vector<TensorType> infer_bits(const OpCall& call) {
  std::vector<TensorType> types = infer_pointwise(call);
  if (is_float(types[0].dtype))
    fail(ErrorKind::unsupported, "{}: operands of {}: expected integers or truths", call.op->name(),
         dtype_name(types[0].dtype));
  return types;
}

template <auto meaning>
constexpr OpRecord bits(std::string_view schema) {
  OpRecord record = formula<meaning>(schema, 0);
  record.infer = infer_bits;
  return record;
}

constexpr OpRecord records[] = {
    bits<tensors<ExprOp::bit_and>>("bitwise_and.Tensor(Tensor self, Tensor other) -> Tensor"),
    bits<with_other<ExprOp::bit_and>>("bitwise_and.Scalar(Tensor self, Scalar other) -> Tensor"),
    bits<with_self<ExprOp::bit_and>>("bitwise_and.Scalar_Tensor(Scalar self, Tensor other) -> Tensor"),
    bits<tensors<ExprOp::bit_and>>("__and__.Tensor(Tensor self, Tensor other) -> Tensor"),
    bits<with_other<ExprOp::bit_and>>("__and__.Scalar(Tensor self, Scalar other) -> Tensor"),
    bits<tensors<ExprOp::bit_or>>("bitwise_or.Tensor(Tensor self, Tensor other) -> Tensor"),
    bits<with_other<ExprOp::bit_or>>("bitwise_or.Scalar(Tensor self, Scalar other) -> Tensor"),
    bits<with_self<ExprOp::bit_or>>("bitwise_or.Scalar_Tensor(Scalar self, Tensor other) -> Tensor"),
    bits<tensors<ExprOp::bit_or>>("__or__.Tensor(Tensor self, Tensor other) -> Tensor"),
    bits<with_other<ExprOp::bit_or>>("__or__.Scalar(Tensor self, Scalar other) -> Tensor"),
    bits<tensors<ExprOp::bit_xor>>("bitwise_xor.Tensor(Tensor self, Tensor other) -> Tensor"),
    bits<with_other<ExprOp::bit_xor>>("bitwise_xor.Scalar(Tensor self, Scalar other) -> Tensor"),
    bits<with_self<ExprOp::bit_xor>>("bitwise_xor.Scalar_Tensor(Scalar self, Tensor other) -> Tensor"),
    bits<tensors<ExprOp::bit_xor>>("__xor__.Tensor(Tensor self, Tensor other) -> Tensor"),
    bits<with_other<ExprOp::bit_xor>>("__xor__.Scalar(Tensor self, Scalar other) -> Tensor"),
    bits<left>("bitwise_left_shift.Tensor(Tensor self, Tensor other) -> Tensor"),
    bits<left_other>("bitwise_left_shift.Tensor_Scalar(Tensor self, Scalar other) -> Tensor"),
    bits<[](Ex y, const OpCall& c) { return shl(self(y, c), y); }>(
        "bitwise_left_shift.Scalar_Tensor(Scalar self, Tensor other) -> Tensor"),
    bits<left>("__lshift__.Tensor(Tensor self, Tensor other) -> Tensor"),
    bits<left_other>("__lshift__.Scalar(Tensor self, Scalar other) -> Tensor"),
    bits<right>("bitwise_right_shift.Tensor(Tensor self, Tensor other) -> Tensor"),
    bits<right_other>("bitwise_right_shift.Tensor_Scalar(Tensor self, Scalar other) -> Tensor"),
    bits<[](Ex y, const OpCall& c) { return shr(self(y, c), y); }>(
        "bitwise_right_shift.Scalar_Tensor(Scalar self, Tensor other) -> Tensor"),
    bits<right>("__rshift__.Tensor(Tensor self, Tensor other) -> Tensor"),
    bits<right_other>("__rshift__.Scalar(Tensor self, Scalar other) -> Tensor"),
    boolean_formula<[](Ex x, Ex y) { return x && y; }>("logical_and(Tensor self, Tensor other) -> Tensor"),
    boolean_formula<[](Ex x, Ex y) { return x || y; }>("logical_or(Tensor self, Tensor other) -> Tensor"),
    boolean_formula<[](Ex x, Ex y) { return (!x) != (!y); }>("logical_xor(Tensor self, Tensor other) -> Tensor"),
};

}  // namespace

std::span<const OpRecord> bitwise_ops() { return records; }

}  // namespace npusim
