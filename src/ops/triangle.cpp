// Triangles and diagonals of matrices: tril, triu, diag, diag_embed, trace.
#include <algorithm>

#include "base/error.h"
#include "ops/formula.h"
#include "ops/view.h"

namespace npusim {
namespace {

std::vector<TensorType> infer_triangle(const OpCall& call) {
  if (call.type("self").shape.size() < 2)
    fail(ErrorKind::bad_input, "{}: expected matrices, found {}", call.op->name(), to_string(call.type("self")));
  return {call.type("self")};
}

// Column − row at most (tril) or at least (triu) the diagonal's number.
template <bool lower>
void lower_triangle(const OpCall& call, Lowering& lowering) {
  const int rank = static_cast<int>(call.outputs[0].shape.size());
  const int64_t diagonal = call.integer("diagonal");
  OpKernel k(lowering, call.outputs[0].shape);
  const Ex x = k.load_broadcast(k.read(lowering.input(0)));
  const Ex offset = k.index(rank - 1) - k.index(rank - 2);
  k.store(k.write(lowering.output(0)),
          select(lower ? offset <= diagonal : offset >= diagonal, x, k.integer(0, x.type())));
  k.done(kernel_name(call));
}

// Square matrices with the operand's last dimension on the diagonal `offset`.
struct Embedding {
  Shape shape;
  int64_t offset;
  size_t row, column;  // dimensions of the result
};

Embedding embedding(const OpCall& call, const Shape& self, int64_t offset, size_t row, size_t column) {
  if (row == column) fail(ErrorKind::bad_input, "{}: dimension {} is named twice", call.op->name(), row);
  const int64_t extent = self.back() + std::abs(offset);
  Embedding e{{}, offset, row, column};
  for (size_t d = 0, from = 0; d < self.size() + 1; ++d)
    e.shape.push_back(d == row || d == column ? extent : self[from++]);
  return e;
}

// The diagonal is stored into zeros.
void lower_embedding(Lowering& lowering, const Embedding& e, int source, int to) {
  const int zeros = lowering.temporary(lowering.type(to));
  OpKernel zero(lowering, e.shape);
  zero.store(zero.write(zeros), zero.integer(0, scalar_of(lowering.type(to).dtype)));
  zero.done("zeros");
  const Shape& shape = lowering.type(source).shape;
  OpKernel k(lowering, shape);
  const int from = k.read(zeros);
  const Ex x = k.load_broadcast(k.read(source));
  const Affine along = k.dim(static_cast<int>(shape.size()) - 1);
  std::vector<Coord> at;
  for (size_t d = 0, lead = 0; d < e.shape.size(); ++d) {
    if (d == e.row)
      at.emplace_back(along + std::max<int64_t>(-e.offset, 0));
    else if (d == e.column)
      at.emplace_back(along + std::max<int64_t>(e.offset, 0));
    else
      at.emplace_back(k.dim(static_cast<int>(lead++)));
  }
  k.store(k.write(to, from), at, x);
  k.done("diag_embed");
}

Embedding diag_embed(const OpCall& call) {
  const Shape& self = call.type("self").shape;
  if (self.empty()) fail(ErrorKind::bad_input, "{}: a scalar has no diagonal", call.op->name());
  return embedding(call, self, call.integer("offset"), dim_argument(call, "dim1", self.size() + 1),
                   dim_argument(call, "dim2", self.size() + 1));
}

std::vector<TensorType> infer_diag_embed(const OpCall& call) {
  return {{call.type("self").dtype, diag_embed(call).shape}};
}
void lower_diag_embed(const OpCall& call, Lowering& lowering) {
  lower_embedding(lowering, diag_embed(call), lowering.input(0), lowering.output(0));
}

// A vector becomes a matrix with it on the diagonal, a matrix gives its diagonal.
ViewMap matrix_diagonal(const OpCall& call, const Shape& self, int64_t offset) {
  if (self.size() != 2)
    fail(ErrorKind::bad_input, "{}: expected a vector or a matrix, found {}", call.op->name(), to_string(self));
  const int64_t down = std::max<int64_t>(-offset, 0), right = std::max<int64_t>(offset, 0);
  return {{std::max<int64_t>(std::min(self[0] - down, self[1] - right), 0)}, {along(0) + down, along(0) + right}};
}

std::vector<TensorType> infer_diag(const OpCall& call) {
  const TensorType& self = call.type("self");
  const int64_t offset = call.integer("diagonal");
  if (self.shape.size() == 1) return {{self.dtype, embedding(call, self.shape, offset, 0, 1).shape}};
  return {{self.dtype, matrix_diagonal(call, self.shape, offset).shape}};
}

void lower_diag(const OpCall& call, Lowering& lowering) {
  const Shape& self = call.type("self").shape;
  const int64_t offset = call.integer("diagonal");
  if (self.size() == 1)
    return lower_embedding(lowering, embedding(call, self, offset, 0, 1), lowering.input(0), lowering.output(0));
  lower_map(lowering, "diag", matrix_diagonal(call, self, offset), lowering.input(0), lowering.output(0));
}

std::vector<TensorType> infer_diagflat(const OpCall& call) {
  const TensorType& self = call.type("self");
  return {{self.dtype, embedding(call, {element_count(self.shape)}, call.integer("offset"), 0, 1).shape}};
}

void lower_diagflat(const OpCall& call, Lowering& lowering) {
  const TensorType& self = call.type("self");
  const Shape flat{element_count(self.shape)};
  const int vector = lowering.temporary({self.dtype, flat});
  lower_flat(lowering, "view", lowering.input(0), vector);
  lower_embedding(lowering, embedding(call, flat, call.integer("offset"), 0, 1), vector, lowering.output(0));
}

std::vector<TensorType> infer_trace(const OpCall& call) {
  matrix_diagonal(call, call.type("self").shape, 0);
  return {{is_float(call.type("self").dtype) ? call.type("self").dtype : DType::i64, {}}};
}

void lower_trace(const OpCall& call, Lowering& lowering) {
  const ViewMap map = matrix_diagonal(call, call.type("self").shape, 0);
  OpKernel k(lowering, map.shape, 1);
  const Ex x = k.reduce(Reduction::sum, k.load(k.read(lowering.input(0)), coordinates(map.from)));
  k.store(k.write(lowering.output(0)), x);
  k.done("trace");
}

constexpr OpRecord summed(OpRecord record) {
  record.tolerance = 8;
  return record;
}

constexpr OpRecord records[] = {
    fresh(view("tril(Tensor self, SymInt diagonal=0) -> Tensor", infer_triangle, lower_triangle<true>)),
    fresh(view("triu(Tensor self, SymInt diagonal=0) -> Tensor", infer_triangle, lower_triangle<false>)),
    fresh(view("diag_embed(Tensor self, int offset=0, int dim1=-2, int dim2=-1) -> Tensor", infer_diag_embed,
               lower_diag_embed)),
    fresh(view("diag(Tensor self, int diagonal=0) -> Tensor", infer_diag, lower_diag)),
    fresh(view("diagflat(Tensor self, int offset=0) -> Tensor", infer_diagflat, lower_diagflat)),
    summed(fresh(view("trace(Tensor self) -> Tensor", infer_trace, lower_trace))),
};

}  // namespace

std::span<const OpRecord> triangle_ops() { return records; }

}  // namespace npusim
