// Assertions: those that give nothing do nothing at inference (checked here as far as they are static), those that give
// a token are checked where it is computed.
#include "base/error.h"
#include "ops/formula.h"

namespace npusim {
namespace {

std::vector<TensorType> infer_nothing(const OpCall&) { return {}; }
void lower_nothing(const OpCall&, Lowering&) {}

std::vector<TensorType> infer_metadata(const OpCall& call) {
  const TensorType& type = call.type("a");
  if (const auto dtype = call.dtype("dtype"); dtype && *dtype != type.dtype)
    fail(ErrorKind::bad_input, "{}: expected {}, found {}", call.op->name(), dtype_name(*dtype), to_string(type));
  if (!call.is_none("size") && call.ints("size") != type.shape)
    fail(ErrorKind::bad_input, "{}: expected shape {}, found {}", call.op->name(), to_string(call.ints("size")),
         to_string(type.shape));
  return {};
}

constexpr OpRecord check(std::string_view schema) {
  OpRecord record;
  record.schema = schema;
  record.infer = infer_nothing;
  record.lower = lower_nothing;
  record.tolerance = 0;
  record.is_check = true;
  return record;
}

constexpr OpRecord metadata_check(std::string_view schema) {
  OpRecord record = check(schema);
  record.infer = infer_metadata;
  return record;
}

std::vector<TensorType> infer_token(const OpCall& call) {
  if (call.op->schema.find("self") >= 0 && element_count(call.type("self").shape) != 1)
    fail(ErrorKind::bad_input, "{}: expected one condition, found {}", call.op->name(), to_string(call.type("self")));
  return {call.type("dep_token")};
}

// The token, of any shape, is there after the condition was found to hold: what needs the condition depends on it.
void lower_token(const OpCall& call, Lowering& lowering) {
  OpKernel k(lowering, call.outputs[0].shape);
  Ex x = k.load_broadcast(k.read(lowering.input(call.tensor("dep_token"))));
  if (call.op->schema.find("self") >= 0) {
    const int condition = k.read(lowering.input(call.tensor("self")));
    const std::vector<Coord> only(k.shape(condition).size(), Coord(Affine{}));
    const Ex holds = require(k.load(condition, only) != 0, Requirement::assertion);
    x = select(holds, x, k.number(0, x.type()));
  }
  k.store(k.write(lowering.output(0)), x);
  k.done("token");
}

constexpr OpRecord token_check(std::string_view schema) {
  OpRecord record;
  record.schema = schema;
  record.infer = infer_token;
  record.lower = lower_token;
  record.tolerance = 0;
  return record;
}

// Symbolic scalars leave no trace in the IR: the arguments that hold them are optional here.
constexpr OpRecord records[] = {
    metadata_check("_assert_tensor_metadata(Tensor a, SymInt[]? size=None, SymInt[]? stride=None, "
                   "ScalarType? dtype=None, *, Device? device=None, Layout? layout=None) -> ()"),
    check("_assert_async(Tensor self) -> ()"),
    check("_assert_async.msg(Tensor self, str assert_msg) -> ()"),
    check("_assert_scalar(Scalar? self=None, str assert_msg='') -> ()"),
    check("sym_constrain_range(Scalar? size=None, *, int? min=None, int? max=None) -> ()"),
    check("sym_constrain_range_for_size(Scalar? size=None, *, int? min=None, int? max=None) -> ()"),
    token_check("_functional_assert_async.msg(Tensor self, str assert_msg, Tensor dep_token) -> Tensor"),
    token_check("_functional_sym_constrain_range(Scalar size, int? min, int? max, Tensor dep_token) -> Tensor"),
};

}  // namespace

std::span<const OpRecord> check_ops() { return records; }

}  // namespace npusim
