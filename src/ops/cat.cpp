// Operands joined into one tensor by one kernel of nested choices: cat, stack and their kind, block_diag.
#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "ops/formula.h"
#include "ops/view.h"

namespace npusim {
namespace {

// An operand as it takes part: its shape there, and where each of its own dimensions stands in it.
struct Piece {
  int operand;
  Shape shape;
  std::vector<size_t> dims;
};
using Pieces = std::vector<Piece>;

Piece whole(int operand, const Shape& shape) {
  std::vector<size_t> dims(shape.size());
  std::iota(dims.begin(), dims.end(), size_t{0});
  return {operand, shape, dims};
}

// Seen with extra dimensions of extent 1 before dimension `at`.
Piece widened(Piece piece, size_t at, size_t count = 1) {
  piece.shape.insert(piece.shape.begin() + static_cast<std::ptrdiff_t>(at), count, 1);
  for (size_t& d : piece.dims)
    if (d >= at) d += count;
  return piece;
}

struct Join {
  Pieces pieces;
  size_t dim;
};

// ATen's old rule: a [0] operand is skipped whatever the others' rank.
Join cat(const OpCall& call) {
  Join join{{}, 0};
  size_t rank = 1;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const Shape& shape = call.inputs[i]->shape;
    if (shape.empty()) fail(ErrorKind::bad_input, "{}: operand {} is a scalar", call.op->name(), i);
    if (shape == Shape{0}) continue;
    rank = shape.size();
    join.pieces.push_back(whole(static_cast<int>(i), shape));
  }
  if (!join.pieces.empty()) join.dim = dim_argument(call, "dim", rank);
  return join;
}

Join stack(const OpCall& call) {
  Join join{{}, dim_argument(call, "dim", call.inputs.at(0)->shape.size() + 1)};
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    if (call.inputs[i]->shape != call.inputs[0]->shape)
      fail(ErrorKind::bad_input, "{}: operand {} is {}, operand 0 is {}", call.op->name(), i,
           to_string(*call.inputs[i]), to_string(*call.inputs[0]));
    join.pieces.push_back(widened(whole(static_cast<int>(i), call.inputs[i]->shape), join.dim));
  }
  return join;
}

// hstack joins columns (elements of vectors), vstack rows, dstack along a third dimension, column_stack vectors as
// columns.
enum class Stacking { horizontal, vertical, deep, columns };

template <Stacking how>
Join stack_along(const OpCall& call) {
  Join join{{}, how == Stacking::vertical ? 0u : how == Stacking::deep ? 2u : 1u};
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    Piece piece = whole(static_cast<int>(i), call.inputs[i]->shape);
    size_t rank = piece.shape.size();
    if (rank == 0) piece = widened(piece, 0), rank = 1;
    if (how == Stacking::horizontal && rank == 1 && i == 0) join.dim = 0;
    if (how == Stacking::horizontal && piece.shape == Shape{0}) continue;  // as cat
    if (how != Stacking::horizontal && rank == 1) piece = widened(piece, how == Stacking::columns ? 1 : 0), rank = 2;
    if (how == Stacking::deep && rank == 2) piece = widened(piece, 2);
    join.pieces.push_back(std::move(piece));
  }
  return join;
}

Shape joined_shape(const OpCall& call, const Join& join) {
  if (join.pieces.empty()) return {0};
  Shape shape = join.pieces[0].shape;
  if (join.dim >= shape.size())
    fail(ErrorKind::bad_input, "{}: operand {} of shape {} has no dimension {}", call.op->name(),
         join.pieces[0].operand, to_string(call.inputs[static_cast<size_t>(join.pieces[0].operand)]->shape), join.dim);
  shape[join.dim] = 0;
  for (const Piece& piece : join.pieces) {
    Shape other = piece.shape;
    if (other.size() == shape.size()) other[join.dim] = shape[join.dim];
    if (other != shape)
      fail(ErrorKind::bad_input, "{}: operand {} of shape {} does not fit the others along dimension {}",
           call.op->name(), piece.operand, to_string(call.inputs[static_cast<size_t>(piece.operand)]->shape), join.dim);
    shape[join.dim] += piece.shape[join.dim];
  }
  return shape;
}

template <auto join>
std::vector<TensorType> infer_join(const OpCall& call) {
  if (call.inputs.empty()) fail(ErrorKind::bad_input, "{}: no operands", call.op->name());
  DType dtype = call.inputs[0]->dtype;
  for (const TensorType* input : call.inputs) dtype = promote_types(dtype, input->dtype);
  return {{dtype, joined_shape(call, join(call))}};
}

constexpr size_t max_pieces = 16;  // every piece is a load and a choice at every point of the kernel

void lower_pieces(Lowering& lowering, const std::string& name, Join join, int result) {
  std::erase_if(join.pieces, [](const Piece& piece) { return element_count(piece.shape) == 0; });
  const TensorType type = lowering.type(result);
  while (join.pieces.size() > max_pieces) {  // neighbours are joined first
    Pieces parts;
    for (size_t begin = 0; begin < join.pieces.size(); begin += max_pieces) {
      const size_t end = std::min(begin + max_pieces, join.pieces.size());
      Join part{{join.pieces.begin() + static_cast<std::ptrdiff_t>(begin),
                 join.pieces.begin() + static_cast<std::ptrdiff_t>(end)},
                join.dim};
      TensorType part_type = type;
      part_type.shape[join.dim] = 0;
      for (const Piece& piece : part.pieces) part_type.shape[join.dim] += piece.shape[join.dim];
      const int temporary = lowering.temporary(part_type);
      lower_pieces(lowering, name, part, temporary);
      parts.push_back(whole(temporary, part_type.shape));
    }
    join.pieces = std::move(parts);
  }
  OpKernel k(lowering, type.shape);
  std::vector<Ex> values;
  std::vector<int64_t> ends;
  int64_t start = 0;
  for (const Piece& piece : join.pieces) {
    std::vector<Coord> at;
    for (size_t d : piece.dims) {
      const Affine index = k.dim(static_cast<int>(d));
      at.emplace_back(d == join.dim ? index + (-start) : index);
    }
    values.push_back(k.load(k.read(piece.operand), at));
    ends.push_back(start += piece.shape[join.dim]);
  }
  Ex x = values.empty() ? k.number(0) : values.back();
  for (size_t i = values.size(); i-- > 1;)
    x = select(k.index(static_cast<int>(join.dim)) < ends[i - 1], values[i - 1], x);
  k.store(k.write(result), x);
  k.done(name);
}

template <auto join>
void lower_join(const OpCall& call, Lowering& lowering) {
  lower_pieces(lowering, kernel_name(call), join(call), lowering.output(0));
}

template <auto join>
constexpr OpRecord joined(std::string_view schema) {
  return in_memory(view(schema, infer_join<join>, lower_join<join>), Memory::joined);
}

// Operands as matrices down the diagonal, zeros elsewhere.
Shape as_matrix(const OpCall& call, size_t operand) {
  Shape shape = call.inputs[operand]->shape;
  if (shape.size() > 2)
    fail(ErrorKind::bad_input, "{}: operand {} has more than 2 dimensions: {}", call.op->name(), operand,
         to_string(shape));
  while (shape.size() < 2) shape.insert(shape.begin(), 1);
  return shape;
}

std::vector<TensorType> infer_block_diag(const OpCall& call) {
  TensorType type{call.inputs.empty() ? DType::f32 : call.inputs[0]->dtype, {call.inputs.empty() ? 1 : 0, 0}};
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    type.dtype = promote_types(type.dtype, call.inputs[i]->dtype);
    for (size_t d : {0u, 1u}) type.shape[d] += as_matrix(call, i)[d];
  }
  return {type};
}

void lower_block_diag(const OpCall& call, Lowering& lowering) {
  OpKernel k(lowering, call.outputs[0].shape);
  Ex x = k.number(0, scalar_of(call.outputs[0].dtype));
  int64_t row = 0, column = 0;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const Shape matrix = as_matrix(call, i);
    const Affine at[] = {k.dim(0) + (-row), k.dim(1) + (-column)};
    std::vector<Coord> own(at + 2 - call.inputs[i]->shape.size(), at + 2);
    if (element_count(matrix) > 0) {
      const Ex element = k.load(k.read(lowering.input(static_cast<int>(i))), own);
      x = select(k.in_bounds(at[0], matrix[0]) && k.in_bounds(at[1], matrix[1]), element, x);
    }
    row += matrix[0];
    column += matrix[1];
  }
  k.store(k.write(lowering.output(0)), x);
  k.done("block_diag");
}

constexpr OpRecord records[] = {
    joined<cat>("cat(Tensor[] tensors, int dim=0) -> Tensor"),
    joined<cat>("concat(Tensor[] tensors, int dim=0) -> Tensor"),
    joined<cat>("concatenate(Tensor[] tensors, int dim=0) -> Tensor"),
    joined<stack>("stack(Tensor[] tensors, int dim=0) -> Tensor"),
    joined<stack>("_stack(Tensor[] tensors, int dim=0) -> Tensor"),
    joined<stack_along<Stacking::horizontal>>("hstack(Tensor[] tensors) -> Tensor"),
    joined<stack_along<Stacking::vertical>>("vstack(Tensor[] tensors) -> Tensor"),
    joined<stack_along<Stacking::vertical>>("row_stack(Tensor[] tensors) -> Tensor"),
    joined<stack_along<Stacking::deep>>("dstack(Tensor[] tensors) -> Tensor"),
    joined<stack_along<Stacking::columns>>("column_stack(Tensor[] tensors) -> Tensor"),
    fresh(view("block_diag(Tensor[] tensors) -> Tensor", infer_block_diag, lower_block_diag)),
};

}  // namespace

std::span<const OpRecord> cat_ops() { return records; }

}  // namespace npusim
