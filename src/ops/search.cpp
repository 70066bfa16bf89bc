// Where values stand among others: bucketize, searchsorted; and whether they do: isin.
#include "kernel/search.h"

#include <algorithm>

#include "base/error.h"
#include "ops/formula.h"
#include "ops/index.h"
#include "ops/order.h"

namespace npusim {
namespace {

bool out_of_order(const OpCall& call, const Shape& sorted, const Shape& values) {
  if (call.op->schema.find("sorted_sequence") < 0) return sorted.size() != 1;
  if (sorted.size() == 1) return false;
  if (sorted.size() != values.size() || sorted.empty()) return true;
  return !std::equal(sorted.begin(), sorted.end() - 1, values.begin());
}

// The value searched for: a tensor, or a number.
bool has_values(const OpCall& call) { return call.tensor_or_number("self") >= 0; }

std::vector<TensorType> infer_search(const OpCall& call) {
  const TensorType& sorted = call.type(call.op->schema.find("boundaries") >= 0 ? "boundaries" : "sorted_sequence");
  const Shape values = has_values(call) ? call.type("self").shape : Shape{};
  if (out_of_order(call, sorted.shape, values))
    fail(ErrorKind::bad_input, "{}: values {} do not fit sorted {}", call.op->name(), to_string(values),
         to_string(sorted));
  if (call.op->schema.find("side") >= 0 && !call.is_none("side")) {
    const std::string side = call.text("side");
    if (side != "left" && side != "right")
      fail(ErrorKind::bad_input, "{}: side '{}' is not left or right", call.op->name(), side);
    if (side == "left" && call.boolean("right"))
      fail(ErrorKind::bad_input, "{}: side is left, and right is true", call.op->name());
  }
  return {{call.boolean("out_int32") ? DType::i32 : DType::i64, values}};
}

// How many of the row's numbers stand before the value: those below it, and (right) those equal to it. NaN is above
// all.
void lower_search(const OpCall& call, Lowering& lowering) {
  const bool sequence = call.op->schema.find("sorted_sequence") >= 0;
  const int sorted = lowering.input(call.tensor(sequence ? "sorted_sequence" : "boundaries"));
  bool right = call.boolean("right");
  if (sequence && !call.is_none("side")) right = call.text("side") == "right";
  const Shape shape = lowering.type(sorted).shape;
  const int64_t count = shape.back();
  OpKernel k(lowering, call.outputs[0].shape);
  const int sorted_arg = k.read(sorted);
  const bool through = sequence && call.tensor("sorter") >= 0;
  const int sorter = through ? k.read(lowering.input(call.tensor("sorter"))) : -1;
  Ex value;
  if (has_values(call))
    value = k.load_broadcast(k.read(lowering.input(call.tensor("self"))));
  else
    value = call.is_real("self")
                ? k.number(call.number("self"), std::max(scalar_of(lowering.type(sorted).dtype), Scalar::f32))
                : k.integer(converted(call.integer("self"), lowering.type(sorted).dtype));
  const Ex first = first_not(k, count, [&](Ex position) {
    std::vector<Coord> at;
    for (size_t d = 0; d + 1 < shape.size(); ++d) at.emplace_back(k.dim(static_cast<int>(d)));
    at.emplace_back(position);
    if (through) at.back() = Coord(k.load(sorter, at));
    const Ex boundary = k.load(sorted_arg, at);
    return right ? !(value < boundary) : !(value <= boundary);
  });
  k.store(k.write(lowering.output(0)), first);
  k.done(kernel_name(call));
}

std::vector<TensorType> infer_isin(const OpCall& call) {
  const bool tensor = call.op->schema.find("elements") >= 0;
  return {{DType::boolean, tensor ? call.type("elements").shape : Shape{}}};
}

// ATen compares with each of a few test elements, in the dtype of a tensor with a number; it sorts more of them
// together with the elements, in the dtype of both as tensors.
DType dtype_of_comparison(const OpCall& call, int64_t tests) {
  const int number = call.op->schema.find("element");
  constexpr int64_t sorted_from = 10;  // for one element
  if (tests < sorted_from || (number < 0 && !call.type("elements").shape.empty())) return common_dtype(call);
  const DType own = number < 0 ? call.type("elements").dtype : scalar_dtype(call.attrs[static_cast<size_t>(number)]);
  return promote_types(own, call.type("test_elements").dtype);
}

void lower_isin(const OpCall& call, Lowering& lowering) {
  const bool elements = call.op->schema.find("elements") >= 0, tests = call.op->schema.find("test_elements") >= 0;
  constexpr int64_t most_compared = 16;  // test elements; more of them are ordered
  Shape space = call.outputs[0].shape;
  const int row = static_cast<int>(space.size());
  int list = -1;
  int64_t count = 0;
  if (tests) {
    const TensorType& type = call.type("test_elements");
    count = element_count(type.shape);
    list = lowering.temporary({type.dtype, {count}});
    lower_flat(lowering, "view", lowering.input(call.tensor("test_elements")), list);
    if (count > most_compared) {
      const int positions = lowering.temporary({DType::i64, {count}}),
                ordered = lowering.temporary({type.dtype, {count}});
      lower_order(lowering, list, {0, false, count}, positions);
      lower_values(lowering, list, 0, positions, ordered);
      list = ordered;
    }
  }
  const bool compares = tests && count <= most_compared;
  if (compares) space.push_back(count);
  OpKernel k(lowering, space, compares);
  const DType common = dtype_of_comparison(call, count);
  auto number = [&](std::string_view arg) {
    if (is_float(common)) return k.round_to(k.number(call.number(arg), scalar_of(common)), common);
    return k.integer(converted(call.integer(arg), common));
  };
  const auto as_compared = [&](Ex e, const char* arg) { return converted(e, call.type(arg).dtype, common); };
  const Ex x =
      elements ? as_compared(k.load_broadcast(k.read(lowering.input(call.tensor("elements"))), compares), "elements")
               : number("element");
  Ex found;
  if (compares) {
    const Coord at[] = {k.dim(row)};
    found =
        k.reduce(Reduction::max, k.cast(x == as_compared(k.load(k.read(list), at), "test_elements"), Scalar::i64)) > 0;
  } else if (tests) {
    const int from = k.read(list);
    const auto test = [&](Ex position) {
      const Coord at[] = {position};
      return k.load(from, at);
    };
    found = test(min(first_not(k, count, [&](Ex position) { return test(position) < x; }), count - 1)) == x;
  } else {
    found = x == number("test_element");
  }
  k.store(k.write(lowering.output(0)), call.boolean("invert") ? !found : found);
  k.done("isin");
}

constexpr OpRecord records[] = {
    indexed("bucketize.Tensor(Tensor self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor",
            infer_search, lower_search),
    indexed("bucketize.Scalar(Scalar self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor",
            infer_search, lower_search),
    indexed("searchsorted.Tensor(Tensor sorted_sequence, Tensor self, *, bool out_int32=False, bool right=False, "
            "str? side=None, Tensor? sorter=None) -> Tensor",
            infer_search, lower_search),
    indexed("searchsorted.Scalar(Tensor sorted_sequence, Scalar self, *, bool out_int32=False, bool right=False, "
            "str? side=None, Tensor? sorter=None) -> Tensor",
            infer_search, lower_search),
    indexed("isin.Tensor_Tensor(Tensor elements, Tensor test_elements, *, bool assume_unique=False, bool invert=False) "
            "-> Tensor",
            infer_isin, lower_isin),
    indexed("isin.Tensor_Scalar(Tensor elements, Scalar test_element, *, bool assume_unique=False, bool invert=False) "
            "-> Tensor",
            infer_isin, lower_isin),
    indexed("isin.Scalar_Tensor(Scalar element, Tensor test_elements, *, bool assume_unique=False, bool invert=False) "
            "-> Tensor",
            infer_isin, lower_isin),
};

}  // namespace

std::span<const OpRecord> search_ops() { return records; }

}  // namespace npusim
