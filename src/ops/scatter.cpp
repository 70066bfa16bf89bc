// Writes at computed indices into a copy of self: index_copy, index_put, index_add, index_fill, scatter and
// scatter_add.
#include <algorithm>

#include "base/error.h"
#include "ops/advanced_index.h"
#include "ops/formula.h"

namespace npusim {
namespace {

[[noreturn]] void misfit(const OpCall& call, const TensorType& a, std::string_view what, const TensorType& self) {
  fail(ErrorKind::bad_input, "{}: {} {} does not fit self {}", call.op->name(), what, to_string(a), to_string(self));
}

std::optional<Reduction> accumulated(const OpCall& call) {
  return call.boolean("accumulate") ? std::optional(Reduction::sum) : std::nullopt;
}

// index[i] stands for dimension dim of self; source (when there is one) has self's shape but that extent.
std::vector<TensorType> infer_index_write(const OpCall& call) {
  const TensorType &self = call.type("self"), &index = call.type("index");
  need_index(call, index);
  const size_t dim = dim_argument(call, "dim", self.shape.size());
  if (index.shape.size() > 1) misfit(call, index, "index", self);
  if (call.op->schema.find("source") >= 0) {
    Shape expected = at_least_vector(self.shape);
    expected[dim] = element_count(index.shape);
    if (at_least_vector(call.type("source").shape) != expected) misfit(call, call.type("source"), "source", self);
  } else if (call.tensor_or_number("value") >= 0 && !call.type("value").shape.empty()) {
    misfit(call, call.type("value"), "value", self);
  }
  return {self};
}

// The write of index_copy and its kind: one kernel over the source, storing at self[…, index[i], …].
void lower_index_write(Lowering& lowering, std::string name, bool wrap, std::optional<Reduction> accumulate,
                       const std::function<Ex(OpKernel&)>& value) {
  const OpCall& call = lowering.call;
  const Shape self = call.type("self").shape;
  const size_t dim = dim_argument(call, "dim", self.size());
  const Updated updated = updated_result(lowering, accumulate.has_value());
  const int index = lowering.input(call.tensor("index"));
  Shape space = at_least_vector(self);  // a scalar is written as often as there are indices
  space[dim] = element_count(call.type("index").shape);
  OpKernel k(lowering, space);
  const int from = k.read(updated.from), index_arg = k.read(index);
  const Shape extents = at_least_vector(self);
  std::vector<Coord> index_at, at = coordinates(identity_coordinates(extents.size()));
  if (!k.shape(index_arg).empty()) index_at.emplace_back(k.dim(static_cast<int>(dim)));
  const Ex i = k.load(index_arg, index_at);
  at[dim] = Coord(wrap ? wrapped(i, extents[dim]) : i);
  const Ex x = value(k);
  k.store(k.write(updated.to, from), at, x, accumulate);
  k.done(std::move(name));
  round_update(lowering, updated);
}

// The source at the kernel's index; a scalar source is one element.
Ex source_at(OpKernel& k, int source) {
  const int arg = k.read(source);
  std::vector<Coord> at;
  for (size_t d = 0; d < k.shape(arg).size(); ++d)
    at.emplace_back(k.shape(arg)[d] == 1 ? Affine{} : k.dim(static_cast<int>(d)));
  return k.load(arg, at);
}

void lower_index_copy(const OpCall& call, Lowering& lowering) {
  lower_index_write(lowering, "index_copy", false, {},
                    [&](OpKernel& k) { return source_at(k, lowering.input(call.tensor("source"))); });
}

void lower_index_add(const OpCall& call, Lowering& lowering) {
  lower_index_write(lowering, "index_add", false, Reduction::sum, [&](OpKernel& k) {
    const Ex x = source_at(k, lowering.input(call.tensor("source")));
    return call.number("alpha") == 1 ? x : x * scalar_attr(x, call, "alpha");
  });
}

void lower_index_fill(const OpCall& call, Lowering& lowering) {
  lower_index_write(lowering, "index_fill", true, {}, [&](OpKernel& k) {
    const int value = call.tensor_or_number("value");
    if (value >= 0) return k.load_broadcast(k.read(lowering.input(value)));
    return stored_attr(k, call, "value", call.outputs[0].dtype);
  });
}

// self[…, index[i…], …] = src[i…] over the index's shape.
std::vector<TensorType> infer_scatter(const OpCall& call) {
  const TensorType &self = call.type("self"), &index = call.type("index");
  need_index(call, index);
  if (element_count(index.shape) == 0) return {self};
  const Shape a = at_least_vector(self.shape), b = at_least_vector(index.shape);
  const size_t dim = dim_argument(call, "dim", self.shape.size());
  bool fits = a.size() == b.size();
  for (size_t d = 0; fits && d < a.size(); ++d) fits = d == dim || b[d] <= a[d];
  if (!fits) misfit(call, index, "index", self);
  if (call.op->schema.find("src") >= 0) {
    const Shape c = at_least_vector(call.type("src").shape);
    fits = c.size() == b.size();
    for (size_t d = 0; fits && d < c.size(); ++d) fits = b[d] <= c[d];
    if (!fits)
      fail(ErrorKind::bad_input, "{}: index {} does not fit src {}", call.op->name(), to_string(index),
           to_string(call.type("src")));
  }
  return {self};
}

Ex scattered_value(OpKernel& k, const OpCall& call, Lowering& lowering) {
  if (call.op->schema.find("src") < 0) return stored_attr(k, call, "value", call.outputs[0].dtype);
  const int src = k.read(lowering.input(call.tensor("src")));
  return k.load(src, coordinates(identity_coordinates(k.shape(src).size())));
}

void lower_scatter_as(const OpCall& call, Lowering& lowering, std::optional<Reduction> accumulate) {
  const Shape self = call.type("self").shape, &index = call.type("index").shape;
  if (element_count(index) == 0) {
    return lower_flat(lowering, "copy", lowering.input(0), lowering.output(0));
  }
  const Updated updated = updated_result(lowering, accumulate.has_value());
  OpKernel k(lowering, at_least_vector(index));
  const int from = k.read(updated.from), index_arg = k.read(lowering.input(call.tensor("index")));
  const Ex i = k.load(index_arg, coordinates(identity_coordinates(index.size())));
  std::vector<Coord> at = coordinates(identity_coordinates(at_least_vector(self).size()));
  at[dim_argument(call, "dim", self.size())] = Coord(i);
  const Ex x = scattered_value(k, call, lowering);
  k.store(k.write(updated.to, from), at, x, accumulate);
  k.done(kernel_name(call));
  round_update(lowering, updated);
}
void lower_scatter(const OpCall& call, Lowering& lowering) { lower_scatter_as(call, lowering, {}); }
void lower_scatter_add(const OpCall& call, Lowering& lowering) { lower_scatter_as(call, lowering, Reduction::sum); }

// The only index is a mask over the first dimensions of self.
bool is_masked(const OpCall& call) {
  const std::vector<int> indices = call.list("indices");
  if (indices.size() != 1 || !call.inputs[static_cast<size_t>(indices[0])]) return false;
  const TensorType &mask = *call.inputs[static_cast<size_t>(indices[0])], &self = call.type("self");
  return mask.dtype == DType::boolean && mask.shape.size() <= self.shape.size() &&
         std::equal(mask.shape.begin(), mask.shape.end(), self.shape.begin());
}

std::string refuse_index_put(const OpCall& call) {
  const std::string reason = AdvancedIndex::refuse(call);
  return reason.empty() || is_masked(call)
             ? ""
             : "a mask beside other indices selects a number of elements not known before it runs";
}

// Of each element of a mask, how many true ones come before it: a vector.
int lower_positions(Lowering& lowering, int mask) {
  const int64_t count = element_count(lowering.type(mask).shape);
  const int flat = lowering.temporary({DType::boolean, {count}}), positions = lowering.temporary({DType::i64, {count}});
  lower_flat(lowering, "view", mask, flat);
  OpKernel k(lowering, {count}, 1);
  const Ex hit = k.cast(k.load_broadcast(k.read(flat)), Scalar::i64);
  k.store(k.write(positions), k.scan(Reduction::sum, hit) - hit);
  k.done("positions");
  return positions;
}

// self, and where the mask holds the next of `values` [count, rest…], which must have one for each, or the one there
// is; `counted`: one is no exception.
void lower_masked(Lowering& lowering, int mask, int values, bool accumulate, bool counted) {
  const Shape mask_shape = lowering.type(mask).shape, values_shape = lowering.type(values).shape;
  const Shape& shape = lowering.type(lowering.output(0)).shape;
  const size_t rest = shape.size() - mask_shape.size();
  const bool several = values_shape.size() > rest && (counted || values_shape[0] != 1);
  int positions = several ? lower_positions(lowering, mask) : -1;
  OpKernel k(lowering, shape);
  const Ex x = k.load_broadcast(k.read(lowering.input(0)));
  const auto mask_at = coordinates(identity_coordinates(mask_shape.size()));
  const Ex hit = k.load(k.read(mask), mask_at);
  std::vector<Coord> at;
  for (size_t d = 0; d < values_shape.size(); ++d) {
    const size_t from = shape.size() - values_shape.size() + d;
    if (several && d == 0) {
      Affine position;
      const Shape strides = row_major_strides(mask_shape);
      for (size_t i = 0; i < mask_shape.size(); ++i) position = position + k.dim(static_cast<int>(i)) * strides[i];
      const Coord position_at[] = {position};
      at.emplace_back(select(hit, k.load(k.read(positions), position_at), 0));
    } else if (values_shape[d] == 1) {
      at.emplace_back(int64_t{0});
    } else {
      at.emplace_back(k.dim(static_cast<int>(from)));
    }
  }
  const Ex value = element_count(values_shape) > 0 ? k.load(k.read(values), at)
                   : several                       ? select(require(!hit, Requirement::assertion), x, x)
                                                   : x;
  k.store(k.write(lowering.output(0)), select(hit, accumulate ? x + value : value, x));
  k.done("masked_put");
}

std::vector<TensorType> infer_index_put(const OpCall& call) {
  const TensorType& self = call.type("self");
  if (is_masked(call)) {
    const size_t rest = self.shape.size() - call.inputs[static_cast<size_t>(call.list("indices")[0])]->shape.size();
    const Shape& values = call.type("values").shape;
    if (values.size() > rest + 1) misfit(call, call.type("values"), "values", self);
    return {self};
  }
  const AdvancedIndex index(call);
  if (broadcast_shapes(index.shape, call.type("values").shape) != index.shape)
    misfit(call, call.type("values"), "values", self);
  return {self};
}

void lower_index_put(const OpCall& call, Lowering& lowering) {
  if (is_masked(call))
    return lower_masked(lowering, lowering.input(call.list("indices")[0]), lowering.input(call.tensor("values")),
                        call.boolean("accumulate"), false);
  const AdvancedIndex index(call);
  const std::optional<Reduction> accumulate = accumulated(call);
  const Updated updated = updated_result(lowering, accumulate.has_value());
  OpKernel k(lowering, index.shape);
  const int from = k.read(updated.from);
  const std::vector<Coord> at = index.coordinates(k);
  const Ex x = k.load_broadcast(k.read(lowering.input(call.tensor("values"))));
  k.store(k.write(updated.to, from), at, x, accumulate);
  k.done("index_put");
  round_update(lowering, updated);
}

// The elements of source in order where the mask, broadcast to self, holds.
std::vector<TensorType> infer_masked_scatter(const OpCall& call) {
  const TensorType& self = call.type("self");
  return {{self.dtype, broadcast_shapes(self.shape, call.type("mask").shape)}};
}

void lower_masked_scatter(const OpCall& call, Lowering& lowering) {
  const Shape& shape = call.outputs[0].shape;
  const TensorType& source = call.type("source");
  const int mask = lowering.temporary({DType::boolean, shape});
  const int values = lowering.temporary({source.dtype, {element_count(source.shape)}});
  OpKernel k(lowering, shape);
  const Ex hit = k.load_broadcast(k.read(lowering.input(call.tensor("mask"))));
  k.store(k.write(mask), hit);
  k.done("expand");
  lower_flat(lowering, "view", lowering.input(call.tensor("source")), values);
  lower_masked(lowering, mask, values, false, true);
}

// self as a flat vector.
std::vector<TensorType> infer_put(const OpCall& call) {
  need_index(call, call.type("index"));
  if (element_count(call.type("index").shape) != element_count(call.type("source").shape))
    misfit(call, call.type("source"), "source", call.type("index"));
  return {call.type("self")};
}

void lower_put(const OpCall& call, Lowering& lowering) {
  auto flat = [&](int operand, DType dtype) {
    const int view = lowering.temporary({dtype, {element_count(lowering.type(operand).shape)}});
    lower_flat(lowering, "view", operand, view);
    return view;
  };
  const int index = call.tensor("index"), source = call.tensor("source");
  const std::optional<Reduction> accumulate = accumulated(call);
  const int target = flat(lowering.input(0), updated_dtype(call.outputs[0].dtype, accumulate.has_value()));
  const int index_view = flat(lowering.input(index), call.type("index").dtype);
  const int source_view = flat(lowering.input(source), call.type("source").dtype);
  const int updated = lowering.temporary(lowering.type(target));
  OpKernel k(lowering, lowering.type(index_view).shape);
  const int from = k.read(target);
  const Coord at[] = {wrapped(k.load_broadcast(k.read(index_view)), k.shape(from)[0])};
  const Ex x = k.load_broadcast(k.read(source_view));
  k.store(k.write(updated, from), at, x, accumulate);
  k.done("put");
  lower_flat(lowering, "view", updated, lowering.output(0));
}

constexpr OpRecord put(std::string_view schema) {
  OpRecord record = indexed(schema, infer_index_put, lower_index_put);
  record.refuse = refuse_index_put;
  record.tolerance = 4;
  return record;
}
std::string refuse_index_add(const OpCall& call) {
  return !is_float(call.type("self").dtype) && call.is_real("alpha")
             ? fmt::format("alpha {} is no integer as self's {}", call.number("alpha"),
                           dtype_name(call.type("self").dtype))
             : "";
}

constexpr OpRecord summed(OpRecord record) {
  record.tolerance = 8;
  return record;
}

constexpr OpRecord refusing(OpRecord record, std::string (*refuse)(const OpCall&)) {
  record.refuse = refuse;
  return record;
}

constexpr OpRecord records[] = {
    indexed("index_copy(Tensor self, int dim, Tensor index, Tensor source) -> Tensor", infer_index_write,
            lower_index_copy),
    refusing(summed(indexed("index_add(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor",
                            infer_index_write, lower_index_add)),
             refuse_index_add),
    indexed("index_fill.int_Scalar(Tensor self, int dim, Tensor index, Scalar value) -> Tensor", infer_index_write,
            lower_index_fill),
    indexed("index_fill.int_Tensor(Tensor self, int dim, Tensor index, Tensor value) -> Tensor", infer_index_write,
            lower_index_fill),
    indexed("scatter.src(Tensor self, int dim, Tensor index, Tensor src) -> Tensor", infer_scatter, lower_scatter),
    indexed("scatter.value(Tensor self, int dim, Tensor index, Scalar value) -> Tensor", infer_scatter, lower_scatter),
    summed(indexed("scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor", infer_scatter,
                   lower_scatter_add)),
    indexed("masked_scatter(Tensor self, Tensor mask, Tensor source) -> Tensor", infer_masked_scatter,
            lower_masked_scatter),
    put("index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor"),
    put("index_put.hacked_twin(Tensor self, Tensor[] indices, Tensor values, bool accumulate=False) -> Tensor"),
    put("_unsafe_index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor"),
    put("_unsafe_index_put.hacked_twin(Tensor self, Tensor[] indices, Tensor values, bool accumulate=False) -> Tensor"),
    put("_index_put_impl(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False, bool unsafe=False) -> "
        "Tensor"),
    summed(indexed("put(Tensor self, Tensor index, Tensor source, bool accumulate=False) -> Tensor", infer_put,
                   lower_put)),
};

}  // namespace

std::span<const OpRecord> scatter_ops() { return records; }

}  // namespace npusim
