// Orders along a dimension: sort, argsort, topk, kthvalue, median.
#include <limits>

#include "base/error.h"
#include "ops/formula.h"
#include "ops/index.h"
#include "ops/order.h"
#include "ops/reduce.h"

namespace npusim {
namespace {

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
  return "";
}

// The operand with a scalar seen as a vector, a copy of it or room for a result.
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
  Shape kept = lowering.type(self).shape;
  kept[order.dim] = order.kept;
  const bool apart = to_indices < 0 || lowering.type(to_indices).dtype != DType::i64;
  const int positions = apart ? lowering.temporary({DType::i64, kept}) : to_indices;
  lower_order(lowering, self, order, positions);
  if (values >= 0) lower_values(lowering, self, order.dim, positions, to_values);
  if (apart && to_indices >= 0) lower_flat(lowering, "positions", positions, to_indices);  // declared of another dtype
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

// self with infinities instead of NaN, as many of either sign as leave the middle of the row where that of its numbers
// is. Where that is an infinity the position of one may be a NaN's.
int without_nan(Lowering& lowering, int self, size_t dim) {
  const TensorType type = lowering.type(self);
  const int result = lowering.temporary(type);
  RowKernel k(lowering, type.shape, one_dim(static_cast<int64_t>(dim), type.shape.size()));
  const Ex x = k.load_element(self), none = isnan(x);
  const Ex numbers = k.size() - k.reduce(Reduction::sum, none);
  const Ex low = (k.size() - 1) / 2 - max(idiv(numbers - 1, k.integer(2)), 0);
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const Ex end = select(k.scan(Reduction::sum, none) <= low, literal(x, -infinity), literal(x, infinity));
  k.store_element(result, select(none, end, x));
  k.done("without_nan");
  return result;
}

// The operand as rows along a dimension: a scalar as a vector, and all of it as one row where there is no dimension.
int opened_rows(const OpCall& call, Lowering& lowering, size_t& dim) {
  const int self = opened(lowering, lowering.input(0), true);
  const TensorType type = lowering.type(self);
  if (call.op->schema.find("dim") >= 0) {
    dim = dim_argument(call, "dim", type.shape.size());
    return self;
  }
  if (type.shape.size() == 1) return self;
  const int flat = lowering.temporary({type.dtype, {element_count(type.shape)}});
  lower_flat(lowering, "view", self, flat);
  return flat;
}

template <Pick pick>
void lower_pick(const OpCall& call, Lowering& lowering) {
  size_t dim = 0;
  const int self = opened_rows(call, lowering, dim);
  const TensorType type = lowering.type(self);
  const int64_t n = type.shape[dim];
  const bool middle = pick != Pick::kth && is_float(type.dtype), nothing = n == 0;  // the median of nothing is NaN
  int positions = -1, ordered = self;
  if (!nothing) {
    Shape kept = type.shape;
    kept[dim] = 1;
    if (middle && pick == Pick::nanmedian) ordered = without_nan(lowering, self, dim);
    positions = lowering.temporary({DType::i64, kept});
    lower_order(lowering, ordered, {dim, false, 1, pick == Pick::kth ? call.integer("k") - 1 : (n - 1) / 2}, positions);
  }
  Shape rows = type.shape, space = rows;
  rows.erase(rows.begin() + static_cast<std::ptrdiff_t>(dim));
  space = rows;
  const bool reduces = middle && !nothing;
  if (reduces) space.push_back(n);
  OpKernel k(lowering, space, reduces);
  const auto along = [&](Coord coordinate) {
    std::vector<Coord> at = coordinates(identity_coordinates(rows.size()));
    at.insert(at.begin() + static_cast<std::ptrdiff_t>(dim), std::move(coordinate));
    return at;
  };
  const auto keep = [&](int result, Ex y) {
    const bool keepdim = lowering.type(result).shape.size() > rows.size();
    k.store(k.write(result), keepdim ? along(Coord(int64_t{0})) : coordinates(identity_coordinates(rows.size())), y);
  };
  if (nothing) {
    keep(lowering.output(0), k.number(std::numeric_limits<double>::quiet_NaN(), scalar_of(call.outputs[0].dtype)));
    return k.done(kernel_name(call));
  }
  const int from = k.read(self);
  Ex position = k.load(k.read(positions), along(Coord(int64_t{0})));
  if (reduces) {
    // The first NaN is the median, and the first element that is equal to the median of the numbers is theirs.
    const int row = static_cast<int>(rows.size());
    const Ex x = k.load(from, along(Coord(k.dim(row))));
    if (pick == Pick::median && call.outputs.size() == 1) {
      const Ex top = k.reduce(Reduction::max, x);
      keep(lowering.output(0), select(isnan(top), top, k.load(from, along(Coord(position)))));
      return k.done(kernel_name(call));
    }
    const Ex hit = pick == Pick::median ? isnan(x) : x == k.load(k.read(ordered), along(Coord(position)));
    const Ex first = k.reduce(Reduction::min, select(hit, k.index(row), n));
    position = select(first < n, first, pick == Pick::median ? position : k.integer(0));
  }
  keep(lowering.output(0), k.load(from, along(Coord(position))));
  if (call.outputs.size() > 1) keep(lowering.output(1), position);
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

void lower_order(Lowering& lowering, int self, const Order& order, int positions) {
  if (const TensorType declared = lowering.type(positions); declared.dtype != DType::i64) {
    const int exact = lowering.temporary({DType::i64, declared.shape});
    lower_order(lowering, self, order, exact);
    return lower_flat(lowering, "positions", exact, positions);
  }
  if (element_count(lowering.type(positions).shape) == 0) {
    OpKernel nothing(lowering, lowering.type(positions).shape);
    nothing.store(nothing.write(positions), nothing.integer(0));
    return nothing.done("nothing");
  }
  Shape space = lowering.type(self).shape;
  space.erase(space.begin() + static_cast<std::ptrdiff_t>(order.dim));
  const int row = static_cast<int>(space.size());
  space.push_back(lowering.type(self).shape[order.dim]);
  OpKernel k(lowering, space, 1);
  std::vector<Coord> at = coordinates(identity_coordinates(static_cast<size_t>(row)));
  at.insert(at.begin() + static_cast<std::ptrdiff_t>(order.dim), Coord(k.dim(row)));
  const Ex x = k.load(k.read(self), at);
  at[order.dim] = Coord(k.dim(row) + -order.first);
  k.store(k.write(positions), at, k.order(x, order.descending));
  k.done("order");
}

void lower_values(Lowering& lowering, int self, size_t dim, int positions, int values) {
  OpKernel k(lowering, lowering.type(values).shape);
  const int from = k.read(self);
  std::vector<Coord> at = coordinates(identity_coordinates(k.space().size()));
  at[dim] = Coord(k.load_broadcast(k.read(positions)));
  k.store(k.write(values), k.load(from, at));
  k.done("ordered");
}

std::span<const OpRecord> sort_ops() { return records; }

}  // namespace npusim
