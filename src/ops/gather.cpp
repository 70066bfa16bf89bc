// Reads at computed indices: embedding, gather, index_select, take, and index.Tensor with its rules.
#include <algorithm>

#include "base/error.h"
#include "ops/advanced_index.h"
#include "ops/formula.h"

namespace npusim {
namespace {

std::vector<TensorType> infer_embedding(const OpCall& call) {
  const TensorType& weight = call.type("weight");
  need_index(call, call.type("indices"));
  if (weight.shape.size() != 2)
    fail(ErrorKind::bad_input, "{}: weight must be a matrix, found {}", call.op->name(), to_string(weight));
  Shape shape = call.type("indices").shape;
  shape.push_back(weight.shape[1]);
  return {{weight.dtype, shape}};
}

void lower_embedding(const OpCall& call, Lowering& lowering) {
  const size_t rank = call.outputs[0].shape.size();
  OpKernel k(lowering, call.outputs[0].shape);
  const int weight = k.read(lowering.input(call.tensor("weight")));
  const auto at = coordinates(identity_coordinates(rank - 1));
  const Ex row = k.load(k.read(lowering.input(call.tensor("indices"))), at);
  const Coord from[] = {row, k.dim(static_cast<int>(rank) - 1)};
  const Ex x = k.load(weight, from);
  k.store(k.write(lowering.output(0)), x);
  k.done("embedding");
}

// self[…, index[i…], …]: the index replaces one coordinate of its own position. around: it is taken modulo the extent,
// so that none is outside, as PyTorch has it for take_along_dim along a dimension.
void lower_gather_along(Lowering& lowering, std::string name, size_t dim, int self, int index, bool broadcast,
                        bool around) {
  const Shape shape = lowering.type(lowering.output(0)).shape;
  OpKernel k(lowering, shape);
  if (element_count(shape) == 0) {  // of an index without elements, which may have any rank
    k.store(k.write(lowering.output(0)), k.integer(0));
    return k.done(std::move(name));
  }
  const int from = k.read(self), index_arg = k.read(index);
  const Shape extents = at_least_vector(k.shape(from)), &index_shape = k.shape(index_arg);
  std::vector<Coord> index_at, at;
  for (size_t d = 0; d < index_shape.size(); ++d)
    index_at.emplace_back(broadcast && index_shape[d] == 1 ? Affine{} : k.dim(static_cast<int>(d)));
  const Ex i = k.load(index_arg, index_at);
  for (size_t d = 0; d < extents.size(); ++d) {
    if (d == dim)
      at.emplace_back(around ? wrapped(irem(i, k.integer(std::max<int64_t>(extents[d], 1))), extents[d]) : i);
    else
      at.emplace_back(broadcast && extents[d] == 1 ? Affine{} : k.dim(static_cast<int>(d)));
  }
  const Ex x = k.load(from, at);
  k.store(k.write(lowering.output(0)), x);
  k.done(std::move(name));
}

std::vector<TensorType> infer_gather(const OpCall& call) {
  const TensorType &self = call.type("self"), &index = call.type("index");
  need_index(call, index);
  const Shape a = at_least_vector(self.shape), b = at_least_vector(index.shape);
  const size_t dim = dim_argument(call, "dim", self.shape.size());
  bool fits = a.size() == b.size() || element_count(b) == 0;
  for (size_t d = 0; fits && element_count(b) > 0 && d < a.size(); ++d) fits = d == dim || b[d] <= a[d];
  if (!fits)
    fail(ErrorKind::bad_input, "{}: index {} does not fit self {}", call.op->name(), to_string(index), to_string(self));
  return {{self.dtype, index.shape}};
}

void lower_gather(const OpCall& call, Lowering& lowering) {
  const int index = call.tensor("index");
  lower_gather_along(lowering, "gather", dim_argument(call, "dim", call.type("self").shape.size()), lowering.input(0),
                     lowering.input(index), false, false);
}

// gather with both operands broadcast to each other but along dim; without dim both are flat. Indices may be negative.
std::vector<TensorType> infer_take_along(const OpCall& call) {
  const TensorType &self = call.type("self"), &indices = call.type("indices");
  need_index(call, indices);
  if (call.is_none("dim")) return {{self.dtype, {element_count(indices.shape)}}};
  if (self.shape.size() != indices.shape.size())
    fail(ErrorKind::bad_input, "{}: indices {} and self {} differ in rank", call.op->name(), to_string(indices),
         to_string(self));
  Shape a = self.shape;
  const size_t dim = dim_argument(call, "dim", a.size());
  if (a.empty()) return {{self.dtype, {}}};
  a[dim] = 1;
  Shape b = indices.shape;
  b[dim] = 1;
  Shape shape = broadcast_shapes(a, b);
  shape[dim] = indices.shape[dim];
  return {{self.dtype, shape}};
}

void lower_take_along(const OpCall& call, Lowering& lowering) {
  int self = lowering.input(0), index = lowering.input(call.tensor("indices"));
  size_t dim = 0;
  if (call.is_none("dim")) {
    for (int* operand : {&self, &index}) {
      const TensorType type = lowering.type(*operand);
      const int flat = lowering.temporary({type.dtype, {element_count(type.shape)}});
      lower_flat(lowering, "view", *operand, flat);
      *operand = flat;
    }
  } else {
    dim = dim_argument(call, "dim", call.type("self").shape.size());
  }
  const bool along = !call.is_none("dim");  // of all elements PyTorch takes none around
  lower_gather_along(lowering, "take_along_dim", dim, self, index, along, along);
}

std::vector<TensorType> infer_index_select(const OpCall& call) {
  TensorType type = call.type("self");
  const TensorType& index = call.type("index");
  need_index(call, index);
  if (index.shape.size() > 1)
    fail(ErrorKind::bad_input, "{}: index must be a vector, found {}", call.op->name(), to_string(index));
  const size_t dim = dim_argument(call, "dim", type.shape.size());
  if (!type.shape.empty()) type.shape[dim] = element_count(index.shape);
  return {type};
}

void lower_index_select(const OpCall& call, Lowering& lowering) {
  const Shape& self = call.type("self").shape;
  const size_t dim = dim_argument(call, "dim", self.size());
  OpKernel k(lowering, call.outputs[0].shape);
  const int from = k.read(lowering.input(0)), index = k.read(lowering.input(call.tensor("index")));
  std::vector<Coord> at = coordinates(identity_coordinates(at_least_vector(self).size())), index_at;
  if (!k.shape(index).empty()) index_at.emplace_back(self.empty() ? Affine{} : k.dim(static_cast<int>(dim)));
  at[dim] = Coord(k.load(index, index_at));
  const Ex x = k.load(from, at);
  k.store(k.write(lowering.output(0)), x);
  k.done("index_select");
}

// self as a flat vector.
std::vector<TensorType> infer_take(const OpCall& call) {
  need_index(call, call.type("index"));
  return {{call.type("self").dtype, call.type("index").shape}};
}

void lower_take(const OpCall& call, Lowering& lowering) {
  const TensorType& self = call.type("self");
  const int64_t count = element_count(self.shape);
  const int flat = lowering.temporary({self.dtype, {count}});
  lower_flat(lowering, "view", lowering.input(0), flat);
  OpKernel k(lowering, call.outputs[0].shape);
  const int from = k.read(flat);
  const Ex i = k.load_broadcast(k.read(lowering.input(call.tensor("index"))));
  const Coord at[] = {wrapped(i, count)};
  const Ex x = k.load(from, at);
  k.store(k.write(lowering.output(0)), x);
  k.done("take");
}

std::vector<TensorType> infer_index(const OpCall& call) {
  return {{call.type("self").dtype, AdvancedIndex(call).shape}};
}

void lower_index(const OpCall& call, Lowering& lowering) {
  const AdvancedIndex index(call);
  OpKernel k(lowering, index.shape);
  const int from = k.read(lowering.input(0));
  const Ex x = k.load(from, index.coordinates(k));
  k.store(k.write(lowering.output(0)), x);
  k.done("index");
}

// `fill` where the mask is false; there the index may be anything.
std::vector<TensorType> infer_masked_index(const OpCall& call) {
  TensorType type = infer_index(call)[0];
  if (broadcast_shapes(type.shape, call.type("mask").shape) != type.shape)
    fail(ErrorKind::bad_input, "{}: mask {} does not fit {}", call.op->name(), to_string(call.type("mask")),
         to_string(type));
  return {type};
}

void lower_masked_index(const OpCall& call, Lowering& lowering) {
  const AdvancedIndex index(call);
  OpKernel k(lowering, index.shape);
  const int from = k.read(lowering.input(0));
  const Ex mask = k.load_broadcast(k.read(lowering.input(call.tensor("mask"))));
  std::vector<Coord> at = index.coordinates(k);
  for (Coord& c : at)
    if (c.computed.builder) c.computed = select(mask, c.computed, 0);
  const Ex x = k.load(from, at);
  k.store(k.write(lowering.output(0)), select(mask, x, k.number(call.number("fill"), x.type())));
  k.done("masked_index");
}

constexpr OpRecord masked_index(std::string_view schema) {
  OpRecord record = indexed(schema, infer_masked_index, lower_masked_index);
  record.refuse = AdvancedIndex::refuse;
  return record;
}
constexpr OpRecord advanced(std::string_view schema) {
  OpRecord record = indexed(schema, infer_index, lower_index);
  record.refuse = AdvancedIndex::refuse;
  return record;
}

constexpr OpRecord records[] = {
    in_memory(indexed("embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool scale_grad_by_freq=False, "
                      "bool sparse=False) -> Tensor",
                      infer_embedding, lower_embedding),
              Memory::row_major),
    in_memory(indexed("gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor", infer_gather,
                      lower_gather),
              Memory::row_major),
    in_memory(indexed("take_along_dim(Tensor self, Tensor indices, int? dim=None) -> Tensor", infer_take_along,
                      lower_take_along),
              Memory::row_major),
    in_memory(
        indexed("index_select(Tensor self, int dim, Tensor index) -> Tensor", infer_index_select, lower_index_select),
        Memory::row_major),
    indexed("take(Tensor self, Tensor index) -> Tensor", infer_take, lower_take),
    advanced("index.Tensor(Tensor self, Tensor?[] indices) -> Tensor"),
    advanced("index.Tensor_hacked_twin(Tensor self, Tensor[] indices) -> Tensor"),
    advanced("_unsafe_index.Tensor(Tensor self, Tensor?[] indices) -> Tensor"),
    advanced("_unsafe_index.Tensor_hacked_twin(Tensor self, Tensor[] indices) -> Tensor"),
    masked_index("_unsafe_masked_index(Tensor self, Tensor mask, Tensor?[] indices, Scalar fill) -> Tensor"),
};

}  // namespace

std::span<const OpRecord> gather_ops() { return records; }

}  // namespace npusim
