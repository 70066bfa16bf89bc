// Rows that are looked up, scaled to a norm of at most max_norm in the table itself.
#include "base/error.h"
#include "ops/index.h"
#include "ops/reduce.h"

namespace npusim {
namespace {

std::vector<TensorType> infer_renorm(const OpCall& call) {
  const TensorType& self = call.type("self");
  if (self.shape.size() != 2 || !is_float(self.dtype))
    fail(ErrorKind::bad_input, "{}: expected a matrix of floats, found {}", call.op->name(), to_string(self));
  need_index(call, call.type("indices"));
  return {self};
}

// The rows, scaled; then all of them stored. A row that is looked up twice is stored twice, the same.
void lower_renorm(const OpCall& call, Lowering& lowering) {
  const TensorType& self = call.type("self");
  if (call.outputs[0].dtype != self.dtype)  // rows are stored into it
    fail(ErrorKind::bad_input, "{}: {} as the result for a table of {}", call.op->name(),
         dtype_name(call.outputs[0].dtype), dtype_name(self.dtype));
  const int64_t count = element_count(call.type("indices").shape);
  const int indices = lowering.temporary({DType::i64, {count}});
  lower_flat(lowering, "view", lowering.input(call.tensor("indices")), indices);
  const int rows = lowering.temporary({self.dtype, {count, self.shape[1]}});
  const auto row_of = [&](OpKernel& k) {
    const Coord at[] = {k.dim(0)};
    return std::vector<Coord>{wrapped(k.load(k.read(indices), at), self.shape[0]), k.dim(1)};
  };
  OpKernel scaled(lowering, {count, self.shape[1]}, 1);
  const int from = scaled.read(lowering.input(0));
  const Ex x = scaled.load(from, row_of(scaled));
  const Ex norm = vector_norm(scaled, x, call.number("norm_type"));
  const double most = call.number("max_norm");
  scaled.store(scaled.write(rows), select(norm > most, x * (most / (norm + 1e-7)), x));
  scaled.done("scaled_rows");
  OpKernel k(lowering, {count, self.shape[1]});
  const int table = k.read(lowering.input(0));
  const std::vector<Coord> at = row_of(k);
  const Ex row = k.load_broadcast(k.read(rows));
  k.store(k.write(lowering.output(0), table), at, row);
  k.done("embedding_renorm");
}

constexpr OpRecord renorm(std::string_view schema) {
  OpRecord record = indexed(schema, infer_renorm, lower_renorm);
  record.tolerance = 16;
  return record;
}

constexpr OpRecord records[] = {
    renorm("embedding_renorm(Tensor self, Tensor indices, float max_norm, float norm_type) -> Tensor"),
};

}  // namespace

std::span<const OpRecord> embedding_renorm_ops() { return records; }

}  // namespace npusim
