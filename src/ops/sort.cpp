// Orders along a dimension by counting, for each element, how many come before it: sort, argsort, topk, kthvalue,
// median.
//
// The count is exact and stable and puts NaN last (first when descending), as ATen does; it costs the square of the
// row.
#include <algorithm>
#include <limits>

#include "base/error.h"
#include "ops/formula.h"
#include "ops/index.h"

namespace npusim {
namespace {

constexpr int64_t longest_row = 4096;

struct Order {
  size_t dim = 0;
  bool descending = false;
  int64_t kept = 0;  // how many of the first ones
};

bool flag(const OpCall& call, std::string_view arg, bool absent) {
  return call.op->schema.find(arg) < 0 ? absent : call.boolean(arg);
}

Order order_of(const OpCall& call) {
  const Shape self = at_least_vector(call.type("self").shape);
  Order order;
  if (call.op->schema.find("dim") >= 0) order.dim = dim_argument(call, "dim", self.size());
  order.kept = self[order.dim];
  order.descending = flag(call, "descending", flag(call, "largest", false));
  if (call.op->schema.find("largest") >= 0) order.kept = call.integer("k");
  if (order.kept < 0 || order.kept > self[order.dim])
    fail(ErrorKind::bad_input, "{}: k {} is out of range for a dimension of {}", call.op->name(), order.kept,
         self[order.dim]);
  return order;
}

std::string refuse_order(const OpCall& call) {
  const Shape self = at_least_vector(call.type("self").shape);
  if (call.op->schema.find("largest") >= 0 && call.type("self").shape.empty() && call.integer("k") == 0)
    return "no element of a scalar is a scalar without a value";
  const bool flat = call.op->schema.find("dim") < 0 && call.op->name() != "aten.msort.default";
  if (flat && element_count(self) == 0 && !is_float(call.type("self").dtype))
    return "no integer is the median of nothing";
  const int64_t row = flat ? element_count(self) : self[order_of(call).dim];
  return row > longest_row ? fmt::format("rows of {} elements are too long to sort (at most {})", row, longest_row)
                           : "";
}

// Whether a comes before b whatever their places.
Ex before(Ex a, Ex b, bool descending) {
  if (a.type() == Scalar::boolean) a = a.builder->cast(a, Scalar::i64), b = b.builder->cast(b, Scalar::i64);
  const Ex less = descending ? b < a : a < b;
  if (a.type() < Scalar::f32) return less;
  return less || (descending ? isnan(a) && !isnan(b) : isnan(b) && !isnan(a));
}

// The place of every element of `self` (of rank 1 at least) in its sorted row.
int lower_ranks(Lowering& lowering, int self, const Order& order) {
  const Shape shape = lowering.type(self).shape;
  const int ranks = lowering.temporary({DType::i64, shape});
  const int rank = static_cast<int>(shape.size()), dim = static_cast<int>(order.dim);
  Shape space = shape;
  space.push_back(shape[order.dim]);
  OpKernel k(lowering, space, 1);
  const int from = k.read(self);
  std::vector<Coord> at = coordinates(identity_coordinates(shape.size()));
  const Ex x = k.load(from, at);
  at[order.dim] = Coord(k.dim(rank));
  const Ex other = k.load(from, at);
  const Ex tie = !before(x, other, order.descending) && k.index(rank) < k.index(dim);
  const Ex first = before(other, x, order.descending) || tie;
  k.store(k.write(ranks), k.reduce(Reduction::sum, k.cast(first, Scalar::i64)));
  k.done("rank");
  return ranks;
}

// values and indices (either may be -1) receive the first `kept` elements of each sorted row and where they stood.
void lower_place(Lowering& lowering, int self, int ranks, const Order& order, int values, int indices) {
  const Shape shape = lowering.type(self).shape;
  const bool all = order.kept == shape[order.dim];
  Shape room = shape;
  room[order.dim] = all ? order.kept : order.kept + 1;  // the last place takes what is not kept
  OpKernel k(lowering, shape);
  const Ex x = k.load_broadcast(k.read(self)), rank = k.load_broadcast(k.read(ranks));
  std::vector<Coord> at = coordinates(identity_coordinates(shape.size()));
  at[order.dim] = Coord(all ? rank : min(rank, order.kept));
  auto target = [&](int result) {
    return all && result >= 0 ? result : lowering.temporary({lowering.type(result).dtype, room});
  };
  const int placed_values = values < 0 ? -1 : target(values), placed_indices = indices < 0 ? -1 : target(indices);
  if (values >= 0) k.store(k.write(placed_values), at, x);
  if (indices >= 0) k.store(k.write(placed_indices), at, k.index(static_cast<int>(order.dim)));
  k.done("place");
  if (all) return;
  Shape kept = shape;
  kept[order.dim] = order.kept;
  if (values >= 0) lower_map(lowering, "slice", {kept, identity_coordinates(shape.size())}, placed_values, values);
  if (indices >= 0) lower_map(lowering, "slice", {kept, identity_coordinates(shape.size())}, placed_indices, indices);
}

// The operand with a scalar seen as a vector, and the same of a result; `close` copies the latter back.
int opened(Lowering& lowering, int operand, bool copy) {
  const TensorType type = lowering.type(operand);
  if (!type.shape.empty()) return operand;
  const int vector = lowering.temporary({type.dtype, {1}});
  if (copy) lower_flat(lowering, "view", operand, vector);
  return vector;
}

void lower_sorted(Lowering& lowering, const Order& order, int values, int indices) {
  const int self = opened(lowering, lowering.input(0), true);
  const int to_values = values < 0 ? -1 : opened(lowering, values, false);
  const int to_indices = indices < 0 ? -1 : opened(lowering, indices, false);
  lower_place(lowering, self, lower_ranks(lowering, self, order), order, to_values, to_indices);
  if (to_values != values) lower_flat(lowering, "view", to_values, values);
  if (to_indices != indices) lower_flat(lowering, "view", to_indices, indices);
}

std::vector<TensorType> infer_sort(const OpCall& call) {
  TensorType type = call.type("self");
  const Order order = order_of(call);
  if (!type.shape.empty()) type.shape[order.dim] = order.kept;
  return {type, {DType::i64, type.shape}};
}
void lower_sort(const OpCall& call, Lowering& lowering) {
  lower_sorted(lowering, order_of(call), lowering.output(0), lowering.output(1));
}

std::vector<TensorType> infer_argsort(const OpCall& call) { return {infer_sort(call)[1]}; }
void lower_argsort(const OpCall& call, Lowering& lowering) {
  lower_sorted(lowering, order_of(call), -1, lowering.output(0));
}

void lower_msort(const OpCall& call, Lowering& lowering) {
  lower_sorted(lowering, order_of(call), lowering.output(0), -1);
}

// One element of each sorted row. median takes the lower middle, or NaN where there is one; nanmedian ignores NaN.
enum class Pick { kth, median, nanmedian };

std::vector<TensorType> infer_pick(const OpCall& call) {
  const TensorType& self = call.type("self");
  if (call.op->schema.find("dim") < 0) return {{self.dtype, {}}};
  Shape shape = self.shape;
  const size_t dim = dim_argument(call, "dim", shape.size());
  if (element_count(shape) == 0 && (shape.empty() || shape[dim] == 0))
    fail(ErrorKind::bad_input, "{}: {} has no element to pick", call.op->name(), to_string(self));
  if (call.op->schema.find("k") >= 0 && (call.integer("k") < 1 || call.integer("k") > at_least_vector(shape)[dim]))
    fail(ErrorKind::bad_input, "{}: k {} is out of range for {}", call.op->name(), call.integer("k"), to_string(self));
  if (!shape.empty() && call.boolean("keepdim"))
    shape[dim] = 1;
  else if (!shape.empty())
    shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(dim));
  return {{self.dtype, shape}, {DType::i64, shape}};
}

// The row's elements whose rank is the wanted one: exactly one each, found by sums.
template <Pick pick>
void lower_pick(const OpCall& call, Lowering& lowering) {
  int self = opened(lowering, lowering.input(0), true);
  Order order;
  if (call.op->schema.find("dim") >= 0) {
    order.dim = dim_argument(call, "dim", lowering.type(self).shape.size());
  } else if (lowering.type(self).shape.size() > 1) {
    const int flat = lowering.temporary({lowering.type(self).dtype, {element_count(lowering.type(self).shape)}});
    lower_flat(lowering, "view", self, flat);
    self = flat;
  }
  const Shape shape = lowering.type(self).shape;
  const int ranks = lower_ranks(lowering, self, order);
  const int64_t n = shape[order.dim];
  Shape space = shape;
  space.erase(space.begin() + static_cast<std::ptrdiff_t>(order.dim));
  const int row = static_cast<int>(space.size());
  space.push_back(n);
  OpKernel k(lowering, space, 1);
  std::vector<Coord> at;
  for (int d = 0, other = 0; d <= row; ++d) at.emplace_back(k.dim(d == static_cast<int>(order.dim) ? row : other++));
  const Ex x = k.load(k.read(self), at), rank = k.load(k.read(ranks), at);
  Ex wanted = k.integer(pick == Pick::kth ? 0 : (n - 1) / 2);
  if (pick == Pick::kth) wanted = k.integer(call.integer("k") - 1);
  if (pick != Pick::kth && is_float(lowering.type(self).dtype)) {
    const Ex numbers = k.reduce(Reduction::sum, k.cast(!isnan(x), Scalar::i64));
    if (pick == Pick::median)
      wanted = select(numbers < n, numbers, wanted);
    else
      wanted = max(idiv(numbers - 1, k.integer(2)), 0);
  }
  const Ex found = rank == wanted;
  const Ex picked = k.reduce(Reduction::sum, select(found, k.cast(x, std::max(x.type(), Scalar::i64)), 0));
  const Ex value = n == 0 ? literal(x, std::numeric_limits<double>::quiet_NaN()) : picked;
  const Ex index = k.reduce(Reduction::sum, select(found, k.index(row), 0));
  const Shape place(space.begin(), space.end() - 1);
  auto keep = [&](int result, Ex y) {
    const Shape stored = lowering.type(result).shape;
    std::vector<Coord> to = coordinates(identity_coordinates(place.size()));
    if (stored.size() > place.size()) to.insert(to.begin() + static_cast<std::ptrdiff_t>(order.dim), Coord(int64_t{0}));
    k.store(k.write(result), to, y);
  };
  keep(lowering.output(0), value);
  if (call.outputs.size() > 1) keep(lowering.output(1), index);
  k.done(kernel_name(call));
}

constexpr OpRecord order(std::string_view schema, std::vector<TensorType> (*infer)(const OpCall&),
                         void (*lower)(const OpCall&, Lowering&)) {
  OpRecord record = indexed(schema, infer, lower);
  record.refuse = refuse_order;
  return record;
}

constexpr OpRecord records[] = {
    order("sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)", infer_sort,
          lower_sort),
    order("sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False) -> (Tensor values, Tensor "
          "indices)",
          infer_sort, lower_sort),
    order("topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor values, Tensor "
          "indices)",
          infer_sort, lower_sort),
    order("argsort(Tensor self, int dim=-1, bool descending=False) -> Tensor", infer_argsort, lower_argsort),
    order("argsort.stable(Tensor self, *, bool stable, int dim=-1, bool descending=False) -> Tensor", infer_argsort,
          lower_argsort),
    order("msort(Tensor self) -> Tensor", infer_same, lower_msort),
    order("kthvalue(Tensor self, SymInt k, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)",
          infer_pick, lower_pick<Pick::kth>),
    order("median(Tensor self) -> Tensor", infer_pick, lower_pick<Pick::median>),
    order("median.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)", infer_pick,
          lower_pick<Pick::median>),
    order("nanmedian(Tensor self) -> Tensor", infer_pick, lower_pick<Pick::nanmedian>),
    order("nanmedian.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)", infer_pick,
          lower_pick<Pick::nanmedian>),
};

}  // namespace

std::span<const OpRecord> sort_ops() { return records; }

}  // namespace npusim
