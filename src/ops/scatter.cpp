// Writes at computed indices into a copy of self: index_copy, index_put, index_add, index_fill, scatter and scatter_add.
#include <algorithm>

#include "base/error.h"
#include "ops/advanced_index.h"
#include "ops/formula.h"

namespace npusim {
namespace {

[[noreturn]] void misfit(const OpCall& call, const TensorType& a, std::string_view what, const TensorType& self) {
  fail(ErrorKind::bad_input, "{}: {} {} does not fit self {}", call.op->name(), what, to_string(a), to_string(self));
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
  } else if (call.op->schema.find("value") >= 0 && call.tensor("value") >= 0 && !call.type("value").shape.empty()) {
    misfit(call, call.type("value"), "value", self);
  }
  return {self};
}

// The write of index_copy and its kind: one kernel over the source, storing at self[…, index[i], …].
void lower_index_write(Lowering& lowering, std::string name, bool wrap, bool accumulate,
                       const std::function<Ex(OpKernel&)>& value) {
  const OpCall& call = lowering.call;
  const Shape self = call.type("self").shape;
  const size_t dim = dim_argument(call, "dim", self.size());
  const int target = in_result_dtype(lowering, lowering.input(0)), index = lowering.input(call.tensor("index"));
  Shape space = self;
  if (!self.empty()) space[dim] = element_count(call.type("index").shape);
  OpKernel k(lowering, space);
  const int from = k.read(target), index_arg = k.read(index);
  std::vector<Coord> index_at, at = coordinates(identity_coordinates(self.size()));
  if (!k.shape(index_arg).empty()) index_at.emplace_back(self.empty() ? Affine{} : k.dim(static_cast<int>(dim)));
  const Ex i = k.load(index_arg, index_at);
  if (!self.empty()) at[dim] = Coord(wrap ? wrapped(i, self[dim]) : i);
  const Ex x = value(k);
  k.store(k.write(lowering.output(0), from), at, x, accumulate);
  k.done(std::move(name));
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
  lower_index_write(lowering, "index_copy", false, false,
                    [&](OpKernel& k) { return source_at(k, lowering.input(call.tensor("source"))); });
}

void lower_index_add(const OpCall& call, Lowering& lowering) {
  lower_index_write(lowering, "index_add", false, true, [&](OpKernel& k) {
    const Ex x = source_at(k, lowering.input(call.tensor("source")));
    return call.number("alpha") == 1 ? x : x * scalar_attr(x, call, "alpha");
  });
}

void lower_index_fill(const OpCall& call, Lowering& lowering) {
  lower_index_write(lowering, "index_fill", true, false, [&](OpKernel& k) {
    const bool given = call.op->schema.args[static_cast<size_t>(call.op->schema.find("value"))].kind == ArgKind::tensor &&
                       call.tensor("value") >= 0;
    if (given) return k.load_broadcast(k.read(lowering.input(call.tensor("value"))));
    return k.number(call.number("value"), scalar_of(call.outputs[0].dtype));
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
    if (!fits) fail(ErrorKind::bad_input, "{}: index {} does not fit src {}", call.op->name(), to_string(index), to_string(call.type("src")));
  }
  return {self};
}

Ex scattered_value(OpKernel& k, const OpCall& call, Lowering& lowering) {
  if (call.op->schema.find("src") < 0) return k.number(call.number("value"), scalar_of(call.outputs[0].dtype));
  const int src = k.read(lowering.input(call.tensor("src")));
  return k.load(src, coordinates(identity_coordinates(k.shape(src).size())));
}

void lower_scatter_as(const OpCall& call, Lowering& lowering, bool accumulate) {
  const Shape self = call.type("self").shape, &index = call.type("index").shape;
  if (element_count(index) == 0) {
    return lower_flat(lowering, "copy", lowering.input(0), lowering.output(0));
  }
  const int target = in_result_dtype(lowering, lowering.input(0));
  OpKernel k(lowering, at_least_vector(index));
  const int from = k.read(target), index_arg = k.read(lowering.input(call.tensor("index")));
  const Ex i = k.load(index_arg, coordinates(identity_coordinates(index.size())));
  std::vector<Coord> at = coordinates(identity_coordinates(self.size()));
  if (!self.empty()) at[dim_argument(call, "dim", self.size())] = Coord(i);
  const Ex x = scattered_value(k, call, lowering);
  k.store(k.write(lowering.output(0), from), at, x, accumulate);
  k.done(kernel_name(call));
}
void lower_scatter(const OpCall& call, Lowering& lowering) { lower_scatter_as(call, lowering, false); }
void lower_scatter_add(const OpCall& call, Lowering& lowering) { lower_scatter_as(call, lowering, true); }

// A mask alone with one value (or one per element of what follows the masked dimensions) is a choice.
bool is_masked_fill(const OpCall& call) {
  const std::vector<int> indices = call.list("indices");
  if (indices.size() != 1 || !call.inputs[static_cast<size_t>(indices[0])]) return false;
  const TensorType &mask = *call.inputs[static_cast<size_t>(indices[0])], &self = call.type("self");
  if (mask.dtype != DType::boolean || mask.shape.size() > self.shape.size() || call.boolean("accumulate")) return false;
  if (!std::equal(mask.shape.begin(), mask.shape.end(), self.shape.begin())) return false;
  const Shape& values = call.type("values").shape;
  const size_t rest = self.shape.size() - mask.shape.size();
  return values.size() <= rest || (values.size() == rest + 1 && values[0] == 1) || element_count(values) == 1;
}

std::string refuse_index_put(const OpCall& call) {
  const std::string reason = AdvancedIndex::refuse(call);
  return reason.empty() || is_masked_fill(call) ? "" : "a mask with one value per masked element has no static shape";
}

std::vector<TensorType> infer_index_put(const OpCall& call) {
  const TensorType& self = call.type("self");
  if (is_masked_fill(call)) return {self};
  const AdvancedIndex index(call);
  if (broadcast_shapes(index.shape, call.type("values").shape) != index.shape) misfit(call, call.type("values"), "values", self);
  return {self};
}

void lower_masked_fill(const OpCall& call, Lowering& lowering) {
  OpKernel k(lowering, call.outputs[0].shape);
  const Ex x = k.load_broadcast(k.read(lowering.input(0)));
  const int mask_arg = k.read(lowering.input(call.list("indices")[0])), values = k.read(lowering.input(call.tensor("values")));
  const Ex mask = k.load(mask_arg, coordinates(identity_coordinates(k.shape(mask_arg).size())));
  std::vector<Coord> at;
  const size_t own = k.shape(values).size(), rank = call.outputs[0].shape.size();
  for (size_t d = 0; d < own; ++d)
    at.emplace_back(k.shape(values)[d] == 1 ? Affine{} : k.dim(static_cast<int>(rank - own + d)));
  const Ex value = k.load(values, at);
  k.store(k.write(lowering.output(0)), select(mask, value, x));
  k.done("masked_fill");
}

void lower_index_put(const OpCall& call, Lowering& lowering) {
  if (is_masked_fill(call)) return lower_masked_fill(call, lowering);
  const AdvancedIndex index(call);
  const int target = in_result_dtype(lowering, lowering.input(0));
  OpKernel k(lowering, index.shape);
  const int from = k.read(target);
  const std::vector<Coord> at = index.coordinates(k);
  const Ex x = k.load_broadcast(k.read(lowering.input(call.tensor("values"))));
  k.store(k.write(lowering.output(0), from), at, x, call.boolean("accumulate"));
  k.done("index_put");
}

// self as a flat vector.
std::vector<TensorType> infer_put(const OpCall& call) {
  need_index(call, call.type("index"));
  if (element_count(call.type("index").shape) != element_count(call.type("source").shape))
    misfit(call, call.type("source"), "source", call.type("index"));
  return {call.type("self")};
}

void lower_put(const OpCall& call, Lowering& lowering) {
  auto flat = [&](int operand) {
    const TensorType type = lowering.type(operand);
    const int view = lowering.temporary({type.dtype, {element_count(type.shape)}});
    lower_flat(lowering, "view", operand, view);
    return view;
  };
  const int target = flat(in_result_dtype(lowering, lowering.input(0)));
  const int index = flat(lowering.input(call.tensor("index"))), source = flat(lowering.input(call.tensor("source")));
  const int updated = lowering.temporary(lowering.type(target));
  OpKernel k(lowering, lowering.type(index).shape);
  const int from = k.read(target);
  const Coord at[] = {wrapped(k.load_broadcast(k.read(index)), k.shape(from)[0])};
  const Ex x = k.load_broadcast(k.read(source));
  k.store(k.write(updated, from), at, x, call.boolean("accumulate"));
  k.done("put");
  lower_flat(lowering, "view", updated, lowering.output(0));
}

constexpr OpRecord put(std::string_view schema) {
  OpRecord record = indexed(schema, infer_index_put, lower_index_put);
  record.refuse = refuse_index_put;
  record.tolerance = 4;
  return record;
}
constexpr OpRecord summed(OpRecord record) {
  record.tolerance = 8;
  return record;
}

constexpr OpRecord records[] = {
    indexed("index_copy(Tensor self, int dim, Tensor index, Tensor source) -> Tensor", infer_index_write, lower_index_copy),
    summed(indexed("index_add(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor",
                   infer_index_write, lower_index_add)),
    indexed("index_fill.int_Scalar(Tensor self, int dim, Tensor index, Scalar value) -> Tensor", infer_index_write,
            lower_index_fill),
    indexed("index_fill.int_Tensor(Tensor self, int dim, Tensor index, Tensor value) -> Tensor", infer_index_write,
            lower_index_fill),
    indexed("scatter.src(Tensor self, int dim, Tensor index, Tensor src) -> Tensor", infer_scatter, lower_scatter),
    indexed("scatter.value(Tensor self, int dim, Tensor index, Scalar value) -> Tensor", infer_scatter, lower_scatter),
    summed(indexed("scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor", infer_scatter, lower_scatter_add)),
    put("index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor"),
    put("index_put.hacked_twin(Tensor self, Tensor[] indices, Tensor values, bool accumulate=False) -> Tensor"),
    put("_unsafe_index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor"),
    put("_unsafe_index_put.hacked_twin(Tensor self, Tensor[] indices, Tensor values, bool accumulate=False) -> Tensor"),
    put("_index_put_impl(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False, bool unsafe=False) -> Tensor"),
    summed(indexed("put(Tensor self, Tensor index, Tensor source, bool accumulate=False) -> Tensor", infer_put, lower_put)),
};

}  // namespace

std::span<const OpRecord> scatter_ops() { return records; }

}  // namespace npusim
