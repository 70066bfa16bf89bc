// Orders along a dimension: sort, argsort, topk, kthvalue, median.
#include <limits>

#include "base/error.h"
#include "ops/formula.h"
#include "ops/index.h"
#include "ops/order.h"

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
  const int places = to_indices < 0 ? lowering.temporary({DType::i64, kept}) : to_indices;
  lower_order(lowering, self, order, places);
  if (values >= 0) lower_values(lowering, self, order.dim, places, to_values);
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

// Which place of each sorted row [place…] is picked: the same of all, or one for each row of a tensor of their own.
struct Picked {
  int64_t same = 0;
  int operand = -1;
};

// Numbers among the elements decide: ones that are NaN stand behind all others.
template <Pick pick>
Picked pick_place(const OpCall& call, Lowering& lowering, int self, size_t dim) {
  const TensorType type = lowering.type(self);
  const int64_t n = type.shape[dim];
  if (pick == Pick::kth) return {call.integer("k") - 1, -1};
  if (!is_float(type.dtype)) return {(n - 1) / 2, -1};
  Shape place = type.shape;
  place.erase(place.begin() + static_cast<std::ptrdiff_t>(dim));
  const int wanted = lowering.temporary({DType::i64, place});
  Shape space = place;
  space.push_back(n);
  OpKernel k(lowering, space, 1);
  const int row = static_cast<int>(place.size());
  std::vector<Coord> at = coordinates(identity_coordinates(place.size()));
  at.insert(at.begin() + static_cast<std::ptrdiff_t>(dim), Coord(k.dim(row)));
  const Ex numbers = k.reduce(Reduction::sum, k.cast(!isnan(k.load(k.read(self), at)), Scalar::i64));
  k.store(k.write(wanted),
          pick == Pick::median ? select(numbers < n, numbers, (n - 1) / 2) : max(idiv(numbers - 1, k.integer(2)), 0));
  k.done("middle");
  return {0, wanted};
}

template <Pick pick>
void lower_pick(const OpCall& call, Lowering& lowering) {
  int self = opened(lowering, lowering.input(0), true);
  size_t dim = 0;
  if (call.op->schema.find("dim") >= 0) {
    dim = dim_argument(call, "dim", lowering.type(self).shape.size());
  } else if (lowering.type(self).shape.size() > 1) {
    const int flat = lowering.temporary({lowering.type(self).dtype, {element_count(lowering.type(self).shape)}});
    lower_flat(lowering, "view", self, flat);
    self = flat;
  }
  const Shape shape = lowering.type(self).shape;
  Shape place = shape, kept = shape;
  place.erase(place.begin() + static_cast<std::ptrdiff_t>(dim));
  const bool nothing = shape[dim] == 0;  // its median is NaN
  Picked picked;
  int places = -1;
  if (!nothing) {
    picked = pick_place<pick>(call, lowering, self, dim);
    kept[dim] = picked.operand < 0 ? picked.same + 1 : shape[dim];
    places = lowering.temporary({DType::i64, kept});
    lower_order(lowering, self, {dim, false, kept[dim]}, places);
  }
  OpKernel k(lowering, place);
  const auto along = [&](Coord coordinate) {
    std::vector<Coord> at = coordinates(identity_coordinates(place.size()));
    at.insert(at.begin() + static_cast<std::ptrdiff_t>(dim), std::move(coordinate));
    return at;
  };
  const auto keep = [&](int result, Ex y) {
    std::vector<Coord> to = coordinates(identity_coordinates(place.size()));
    if (lowering.type(result).shape.size() > place.size())
      to.insert(to.begin() + static_cast<std::ptrdiff_t>(dim), Coord(int64_t{0}));
    k.store(k.write(result), to, y);
  };
  if (nothing) {
    keep(lowering.output(0), k.number(std::numeric_limits<double>::quiet_NaN(), scalar_of(call.outputs[0].dtype)));
    return k.done(kernel_name(call));
  }
  const int from = k.read(self), from_places = k.read(places);
  const Coord at = picked.operand < 0 ? Coord(picked.same) : Coord(k.load_broadcast(k.read(picked.operand)));
  const Ex index = k.load(from_places, along(at));
  keep(lowering.output(0), k.load(from, along(index)));
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

void lower_order(Lowering& lowering, int self, const Order& order, int places) {
  if (element_count(lowering.type(places).shape) == 0) {
    OpKernel nothing(lowering, lowering.type(places).shape);
    nothing.store(nothing.write(places), nothing.integer(0));
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
  k.store(k.write(places), at, k.order(x, order.descending));
  k.done("order");
}

void lower_values(Lowering& lowering, int self, size_t dim, int places, int values) {
  OpKernel k(lowering, lowering.type(values).shape);
  const int from = k.read(self);
  std::vector<Coord> at = coordinates(identity_coordinates(k.space().size()));
  at[dim] = Coord(k.load_broadcast(k.read(places)));
  k.store(k.write(values), k.load(from, at));
  k.done("ordered");
}

std::span<const OpRecord> sort_ops() { return records; }

}  // namespace npusim
