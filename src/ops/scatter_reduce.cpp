// Scatters that combine: scatter with a reduction, scatter_reduce, index_reduce. Each result element looks at every
// index along its dimension, so the order of duplicates does not matter.
#include <limits>

#include "base/error.h"
#include "ops/formula.h"
#include "ops/index.h"

namespace npusim {
namespace {

enum class Combine { sum, product, mean, smallest, largest };

Combine combine_of(const OpCall& call) {
  const std::string name = call.text("reduce");
  if (name == "sum" || name == "add") return Combine::sum;
  if (name == "prod" || name == "multiply") return Combine::product;
  if (name == "mean") return Combine::mean;
  if (name == "amin") return Combine::smallest;
  if (name == "amax") return Combine::largest;
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

Ex combined(Combine how, Ex hits, Ex x, OpKernel& k) {
  const Scalar type = x.type();
  constexpr double inf = std::numeric_limits<double>::infinity();
  const bool real = type >= Scalar::f32;
  switch (how) {
    case Combine::product:
      return k.reduce(Reduction::product, select(hits, x, k.integer(1, type)));
    case Combine::smallest:
      return k.reduce(Reduction::min,
                      select(hits, x, real ? k.number(inf, type) : k.integer(std::numeric_limits<int64_t>::max())));
    case Combine::largest:
      return k.reduce(Reduction::max,
                      select(hits, x, real ? k.number(-inf, type) : k.integer(std::numeric_limits<int64_t>::min())));
    default:
      return k.reduce(Reduction::sum, select(hits, x, k.integer(0, type)));
  }
}

Ex joined(Combine how, Ex a, Ex b) {
  switch (how) {
    case Combine::product:
      return a * b;
    case Combine::smallest:
      return min(a, b);
    case Combine::largest:
      return max(a, b);
    default:
      return a + b;
  }
}

// Space: self, then the position along the index.
void lower_combining(const OpCall& call, Lowering& lowering) {
  const Shape self = call.type("self").shape;
  const Shape& index = call.type("index").shape;
  if (element_count(index) == 0) return lower_flat(lowering, "copy", lowering.input(0), lowering.output(0));
  const bool vector = is_vector_index(call);
  const size_t dim = dim_argument(call, "dim", self.size());
  const Combine how = combine_of(call);
  const bool include_self = call.op->schema.find("include_self") < 0 || call.boolean("include_self");
  const int rank = static_cast<int>(self.size());
  const int64_t count = index.empty() ? 1 : index[vector ? 0 : dim];

  Shape space = self;
  space.push_back(count);
  OpKernel k(lowering, space, 1);
  const int self_arg = k.read(lowering.input(0)), index_arg = k.read(lowering.input(call.tensor("index")));
  std::vector<Coord> at, index_at;
  Ex inside = k.integer(1, Scalar::boolean);
  for (size_t d = 0; d < self.size(); ++d) {
    at.emplace_back(k.dim(d == dim ? rank : static_cast<int>(d)));
    if (d != dim && !vector && index[d] < self[d]) inside = inside && k.index(static_cast<int>(d)) < index[d];
  }
  if (vector && !index.empty())
    index_at.emplace_back(k.dim(rank));
  else if (!vector && !index.empty())
    index_at = self.empty() ? std::vector<Coord>{Coord(k.dim(0))} : at;
  const Ex own = self.empty() ? k.integer(0) : k.index(static_cast<int>(dim));
  const Ex hits = inside && k.load(index_arg, index_at) == own;
  const Scalar type = scalar_of(call.outputs[0].dtype);
  const std::string_view from = vector ? "source" : "src";
  Ex x = k.number(call.op->schema.find("value") >= 0 ? call.number("value") : 0, type);
  if (call.op->schema.find(from) >= 0) {
    const int src = k.read(lowering.input(call.tensor(from)));
    x = k.cast(k.load(src, k.shape(src).empty() ? std::vector<Coord>{} : self.empty() ? index_at : at), type);
  }
  if (type == Scalar::boolean) x = k.cast(x, Scalar::i64);
  const Ex before = k.cast(k.load(self_arg, coordinates(identity_coordinates(self.size()))), x.type());
  Ex hit_count = k.reduce(Reduction::sum, select(hits, k.integer(1), k.integer(0)));
  Ex result = combined(how, hits, x, k);
  if (include_self) {
    result = joined(how, before, result);
    hit_count = hit_count + 1;
  }
  if (how == Combine::mean) {
    const Ex n = max(hit_count, 1);
    if (x.type() >= Scalar::f32)
      result = result / n;
    else {  // integers round down
      const Ex q = idiv(result, n);
      result = select((irem(result, n) != 0) && result < 0, q - 1, q);
    }
  }
  if (!include_self) result = select(hit_count == 0, before, result);
  k.store(k.write(lowering.output(0)), result);
  k.done(kernel_name(call));
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
