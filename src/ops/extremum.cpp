// Positions of extremes: argmax and argmin, max and min along a dimension, running extremes. NaN is the extreme.
#include <limits>

#include "base/error.h"
#include "ops/reduce.h"

namespace npusim {
namespace {

constexpr int64_t nowhere = std::numeric_limits<int64_t>::max();

// The first position in the row that holds the extreme `top`.
Ex first_at(RowKernel& k, Ex x, Ex top) {
  if (k.size() > int64_t{1} << 24) {
    const Ex hit = is_real(x) ? x == top || isnan(x) : x == top;
    return k.reduce(Reduction::min, select(hit, k.row_index(), nowhere));
  }
  // As float32, which holds these numbers and is the narrowest of them.
  const Ex at = k.cast(k.row_index(), Scalar::f32), none = k.number(std::numeric_limits<double>::infinity());
  return k.cast(k.reduce(Reduction::min, select(x == top, at, is_real(x) ? select(isnan(x), at, none) : none)),
                Scalar::i64);
}

DimSet searched_dims(const OpCall& call) {
  const size_t rank = call.inputs[0]->shape.size();
  return call.is_none("dim") ? all_dims(rank) : one_dim(call.integer("dim"), rank);
}

std::vector<TensorType> infer_position(const OpCall& call) {
  const DimSet dims = searched_dims(call);
  require_rows(call, dims);
  const bool keepdim = call.boolean("keepdim");
  return {{DType::i64, reduced_shape(call.inputs[0]->shape, dims, keepdim)}};
}

// Of all elements, whose rows are short: they are one row.
template <Reduction extreme>
void lower_position_of_all(const OpCall& call, Lowering& lowering) {
  const Shape all{element_count(call.inputs[0]->shape)};
  RowKernel k(lowering, all, all_dims(1));
  const Ex x = k.load_flat(k.read(lowering.input(0)));
  const int to = k.write(lowering.output(0));
  k.store(to, std::vector<Coord>(call.outputs[0].shape.size(), Coord(int64_t{0})),
          first_at(k, x, k.reduce(extreme, x)));
  k.done(kernel_name(call));
}

template <Reduction extreme>
void lower_position(const OpCall& call, Lowering& lowering) {
  constexpr int64_t short_row = 64;
  if (const Shape& shape = call.inputs[0]->shape; call.is_none("dim") && shape.size() > 1 && shape.back() < short_row)
    return lower_position_of_all<extreme>(call, lowering);
  RowKernel k(lowering, call.inputs[0]->shape, searched_dims(call));
  const Ex x = k.load_element(lowering.input(0));
  k.store_row(lowering.output(0), first_at(k, x, k.reduce(extreme, x)));
  k.done(kernel_name(call));
}

std::vector<TensorType> infer_value_and_position(const OpCall& call) {
  const TensorType position = infer_position(call)[0];
  return {{call.inputs[0]->dtype, position.shape}, position};
}

template <Reduction extreme>
void lower_value_and_position(const OpCall& call, Lowering& lowering) {
  RowKernel k(lowering, call.inputs[0]->shape, searched_dims(call));
  const Ex x = k.load_element(lowering.input(0));
  const Ex top = k.reduce(extreme, x);
  const Ex at = first_at(k, x, top);
  k.store_row(lowering.output(0), top);
  k.store_row(lowering.output(1), at);
  k.done(kernel_name(call));
}

std::vector<TensorType> infer_running(const OpCall& call) {
  const TensorType& self = *call.inputs[0];
  normalize_dim(call.integer("dim"), self.shape.size());
  return {self, {DType::i64, self.shape}};
}

// The extreme of everything up to each position, and the last position that holds it.
template <Reduction extreme>
void lower_running(const OpCall& call, Lowering& lowering) {
  const Shape& shape = call.inputs[0]->shape;
  RowKernel k(lowering, shape, one_dim(call.integer("dim"), shape.size()));
  const Ex x = k.load_element(lowering.input(0));
  const Ex top = k.scan(extreme, x);
  const Ex hit = is_real(x) ? x == top || isnan(x) : x == top;
  k.store_element(lowering.output(0), top);
  k.store_element(lowering.output(1), k.scan(Reduction::max, select(hit, k.row_index(), int64_t{-1})));
  k.done(kernel_name(call));
}

constexpr OpRecord records[] = {
    row_op("argmax(Tensor self, int? dim=None, bool keepdim=False) -> Tensor", infer_position,
           lower_position<Reduction::max>, 0),
    row_op("argmin(Tensor self, int? dim=None, bool keepdim=False) -> Tensor", infer_position,
           lower_position<Reduction::min>, 0),
    row_op("max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
           infer_value_and_position, lower_value_and_position<Reduction::max>, 0),
    row_op("min.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
           infer_value_and_position, lower_value_and_position<Reduction::min>, 0),
    row_op("cummax(Tensor self, int dim) -> (Tensor values, Tensor indices)", infer_running,
           lower_running<Reduction::max>, 0),
    row_op("cummin(Tensor self, int dim) -> (Tensor values, Tensor indices)", infer_running,
           lower_running<Reduction::min>, 0),
};

}  // namespace

std::span<const OpRecord> extremum_ops() { return records; }

}  // namespace npusim
