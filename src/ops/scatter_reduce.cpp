// Scatters that combine: scatter with a reduction, scatter_reduce, index_reduce. One walk along the sources combines
// each with the element that it falls on.
#include <cmath>
#include <functional>
#include <limits>

#include "base/error.h"
#include "ops/formula.h"
#include "ops/index.h"

namespace npusim {
namespace {

enum class Combine { sum, product, mean, smallest, largest };

// Each operator has names of its own for them.
Combine combine_of(const OpCall& call) {
  const std::string name = call.text("reduce");
  const bool scatter = call.op->name().starts_with("aten.scatter."), index = call.op->name().starts_with("aten.index_");
  if (name == (scatter ? "add" : "sum") && !index) return Combine::sum;
  if (name == (scatter ? "multiply" : "prod")) return Combine::product;
  if (name == "mean" && !scatter) return Combine::mean;
  if (name == "amin" && !scatter) return Combine::smallest;
  if (name == "amax" && !scatter) return Combine::largest;
  fail(ErrorKind::bad_input, "{}: unknown reduction '{}'", call.op->name(), name);
}

// The index is a tensor of self's rank (scatter) or a vector along one dimension (index_reduce).
bool is_vector_index(const OpCall& call) { return call.op->schema.find("source") >= 0; }

std::vector<TensorType> infer_combining(const OpCall& call) {
  const TensorType &self = call.type("self"), &index = call.type("index");
  need_index(call, index);
  combine_of(call);
  const bool vector = is_vector_index(call);
  const size_t dim = dim_argument(call, "dim", self.shape.size());
  const Shape a = at_least_vector(self.shape);
  Shape b = at_least_vector(index.shape);
  if (vector) {
    if (b.size() != 1)
      fail(ErrorKind::bad_input, "{}: index must be a vector, found {}", call.op->name(), to_string(index));
    const int64_t count = b[0];
    b = a;
    b[dim] = count;
  }
  bool fits = a.size() == b.size() || element_count(b) == 0;
  for (size_t d = 0; fits && element_count(b) > 0 && d < a.size(); ++d) fits = d == dim || b[d] <= a[d];
  const std::string_view from = vector ? "source" : "src";
  if (call.op->schema.find(from) >= 0 && element_count(b) > 0) {
    const Shape c = at_least_vector(call.type(from).shape);
    fits = fits && c.size() == b.size();
    for (size_t d = 0; fits && d < c.size(); ++d) fits = b[d] <= c[d];
  }
  if (!fits)
    fail(ErrorKind::bad_input, "{}: index {} does not fit self {}", call.op->name(), to_string(index), to_string(self));
  return {self};
}

Reduction reduction_of(Combine how) {
  switch (how) {
    case Combine::product:
      return Reduction::product;
    case Combine::smallest:
      return Reduction::min;
    case Combine::largest:
      return Reduction::max;
    default:
      return Reduction::sum;
  }
}

// What leaves any element of the dtype as it is.
Ex neutral(OpKernel& k, Reduction reduction, DType dtype) {
  const bool least = reduction == Reduction::max;
  if (reduction == Reduction::sum || reduction == Reduction::product)
    return k.integer(reduction == Reduction::product, scalar_of(dtype));
  if (is_float(dtype)) return k.number(least ? -INFINITY : INFINITY, scalar_of(dtype));
  if (dtype == DType::boolean || dtype == DType::u8)
    return k.integer(least ? 0 : dtype == DType::u8 ? 255 : 1, scalar_of(dtype));
  const int64_t most = std::numeric_limits<int64_t>::max() >> (64 - 8 * dtype_size(dtype));
  return k.integer(least ? -most - 1 : most);
}

// The dividend as ATen divides: integers round down.
Ex quotient(Ex sum, Ex count) {
  if (sum.type() >= Scalar::f32) return sum / count;
  const Ex q = idiv(sum, count);
  return select(irem(sum, count) != 0 && sum < 0, q - 1, q);
}

// One call: what is combined, where it starts, and how often each element was hit where that decides.
struct Combining {
  const OpCall& call;
  Lowering& lowering;
  Combine how = combine_of(call);
  bool vector = is_vector_index(call);
  bool include_self = call.op->schema.find("include_self") < 0 || call.boolean("include_self");
  bool counted = how == Combine::mean || !include_self;
  Shape shape = at_least_vector(call.type("self").shape);
  size_t dim = dim_argument(call, "dim", call.type("self").shape.size());
  DType dtype = how == Combine::mean && call.outputs[0].dtype == DType::boolean
                    ? DType::i64
                    : updated_dtype(call.outputs[0].dtype, true);
  DType count_dtype = how == Combine::mean ? DType::i64 : DType::boolean;

  int filled(const TensorType& type, const std::function<Ex(OpKernel&)>& value) const {
    const int operand = lowering.temporary(type);
    OpKernel k(lowering, type.shape);
    k.store(k.write(operand), value(k));
    k.done("start");
    return operand;
  }

  int start() const {
    if (!include_self) return filled({dtype, shape}, [&](OpKernel& k) { return neutral(k, reduction_of(how), dtype); });
    if (dtype == call.type("self").dtype && !call.type("self").shape.empty()) return lowering.input(0);
    const int copy = lowering.temporary({dtype, shape});
    lower_flat(lowering, "cast", lowering.input(0), copy);
    return copy;
  }

  // Combines `from` with every source in order.
  void combine(int from, int to, int counts_from, int counts_to) const {
    const Shape index = at_least_vector(call.type("index").shape);
    Shape space = index;
    if (vector) space = shape, space[dim] = index[0];
    OpKernel k(lowering, space);
    const int from_arg = k.read(from), counts_arg = counted ? k.read(counts_from) : -1;
    const int index_arg = k.read(lowering.input(call.tensor("index")));
    const std::vector<Coord> all = coordinates(identity_coordinates(space.size()));
    const std::vector<Coord> along{Coord(k.dim(static_cast<int>(dim)))};
    const auto element_at = [&](int arg, const std::vector<Coord>& at) {
      return k.load(arg, k.shape(arg).empty() ? std::vector<Coord>{} : at);
    };
    std::vector<Coord> at = all;
    at[dim] = Coord(element_at(index_arg, vector ? along : all));
    const std::string_view source = vector ? "source" : "src";
    Ex x;
    if (call.op->schema.find(source) < 0)
      x = stored_attr(k, call, "value", dtype);
    else
      x = element_at(k.read(lowering.input(call.tensor(source))), all);
    k.store(k.write(to, from_arg), at, x, reduction_of(how));
    if (counted) k.store(k.write(counts_to, counts_arg), at, k.integer(1, scalar_of(count_dtype)), Reduction::sum);
    k.done(kernel_name(call));
  }

  void finish(int totals, int counts, int result) const {
    OpKernel k(lowering, shape);
    Ex x = k.load_broadcast(k.read(totals));
    if (counted) {
      const Ex count = k.load_broadcast(k.read(counts));
      if (how == Combine::mean) x = quotient(x, max(count, 1));
      const Ex hit = how == Combine::mean ? count != 0 : count;
      if (!include_self) x = select(hit, x, k.cast(k.load_broadcast(k.read(lowering.input(0))), x.type()));
    }
    k.store(k.write(result), x);
    k.done("finish");
  }
};

void lower_combining(const OpCall& call, Lowering& lowering) {
  if (element_count(call.type("index").shape) == 0)
    return lower_flat(lowering, "copy", lowering.input(0), lowering.output(0));
  const Combining c{call, lowering};
  const bool scalar = call.type("self").shape.empty();
  const bool done = c.dtype == call.outputs[0].dtype && !c.counted && !scalar;  // the totals are the result
  const int from = c.start();
  const TensorType count_type{c.count_dtype, c.shape};
  int counts_from = -1, counts_to = -1;
  if (c.counted) {
    counts_from =
        c.filled(count_type, [&](OpKernel& k) { return k.integer(c.include_self, scalar_of(c.count_dtype)); });
    counts_to = lowering.temporary(count_type);
  }
  const int totals = done ? lowering.output(0) : lowering.temporary({c.dtype, c.shape});
  c.combine(from, totals, counts_from, counts_to);
  if (done) return;
  const int result = scalar ? lowering.temporary({call.outputs[0].dtype, c.shape}) : lowering.output(0);
  c.finish(totals, counts_to, result);
  if (scalar) lower_flat(lowering, "view", result, lowering.output(0));
}

constexpr OpRecord combining(std::string_view schema) {
  OpRecord record = indexed(schema, infer_combining, lower_combining);
  record.tolerance = 8;
  return record;
}

constexpr OpRecord records[] = {
    combining("scatter.reduce(Tensor self, int dim, Tensor index, Tensor src, *, str reduce) -> Tensor"),
    combining("scatter.value_reduce(Tensor self, int dim, Tensor index, Scalar value, *, str reduce) -> Tensor"),
    combining("scatter_reduce.two(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, bool "
              "include_self=True) -> Tensor"),
    combining("index_reduce(Tensor self, int dim, Tensor index, Tensor source, str reduce, *, bool include_self=True) "
              "-> Tensor"),
};

}  // namespace

std::span<const OpRecord> scatter_reduce_ops() { return records; }

}  // namespace npusim
