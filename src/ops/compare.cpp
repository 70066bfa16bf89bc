// Comparisons, in ATen's common dtype of the operands.
#include <cmath>
#include <limits>

#include "base/error.h"
#include "ops/formula.h"

namespace npusim {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// The operand or Scalar `name`, rounded to the dtype ATen compares in: 0.1 beside a float16 tensor is float16's 0.1.
// Integers come as those of the common dtype.
Ex compared(Pointwise& p, const OpCall& call, std::string_view name, int nth, DType common) {
  const bool operand = call.op->schema.args[static_cast<size_t>(nth)].kind == ArgKind::tensor && call.tensor(name) >= 0;
  if (!operand) return p.kernel.round_to(p.attr(name), common);
  const Ex x = p.arg(nth);
  return call.type(name).dtype == common || !is_float(common) ? x : p.kernel.round_to(x, common);
}

template <auto relation>
void lower_comparison(const OpCall& call, Lowering& lowering) {
  Pointwise p(call, lowering);
  const DType common = common_dtype(call);
  const Ex left = compared(p, call, "self", 0, common);
  p.store(relation(left, compared(p, call, "other", 1, common)));
}

template <auto relation>
constexpr OpRecord comparison(std::string_view schema) {
  OpRecord record = boolean_formula<relation>(schema);
  record.lower = lower_comparison<relation>;
  return record;
}

// Integers that differ are as far apart as float32 has them, which ATen converts them to: differences might wrap.
Ex is_close(Ex x, Ex y, const OpCall& call) {
  Ex close = x == y;
  if (call.number("atol") == 0 && call.number("rtol") == 0) return close;
  if (!is_real(x) && !is_real(y)) x = x.builder->cast(x, Scalar::f32), y = y.builder->cast(y, Scalar::f32);
  if (call.boolean("equal_nan")) close = close || (isnan(x) && isnan(y));
  const Ex distance = abs(x - y);
  const Ex allowed = call.number("atol") + abs(y) * call.number("rtol");
  return close || (distance < infinity && distance <= allowed);
}

constexpr auto equal = [](Ex x, Ex y) { return x == y; };
constexpr auto unequal = [](Ex x, Ex y) { return x != y; };
constexpr auto less = [](Ex x, Ex y) { return x < y; };
constexpr auto less_equal = [](Ex x, Ex y) { return x <= y; };
constexpr auto greater = [](Ex x, Ex y) { return x > y; };
constexpr auto greater_equal = [](Ex x, Ex y) { return x >= y; };

constexpr OpRecord records[] = {
    comparison<equal>("eq.Tensor(Tensor self, Tensor other) -> Tensor"),
    comparison<equal>("eq.Scalar(Tensor self, Scalar other) -> Tensor"),
    comparison<unequal>("ne.Tensor(Tensor self, Tensor other) -> Tensor"),
    comparison<unequal>("ne.Scalar(Tensor self, Scalar other) -> Tensor"),
    comparison<unequal>("not_equal.Tensor(Tensor self, Tensor other) -> Tensor"),
    comparison<unequal>("not_equal.Scalar(Tensor self, Scalar other) -> Tensor"),
    comparison<less>("lt.Tensor(Tensor self, Tensor other) -> Tensor"),
    comparison<less>("lt.Scalar(Tensor self, Scalar other) -> Tensor"),
    comparison<less>("less.Tensor(Tensor self, Tensor other) -> Tensor"),
    comparison<less>("less.Scalar(Tensor self, Scalar other) -> Tensor"),
    comparison<less_equal>("le.Tensor(Tensor self, Tensor other) -> Tensor"),
    comparison<less_equal>("le.Scalar(Tensor self, Scalar other) -> Tensor"),
    comparison<less_equal>("less_equal.Tensor(Tensor self, Tensor other) -> Tensor"),
    comparison<less_equal>("less_equal.Scalar(Tensor self, Scalar other) -> Tensor"),
    comparison<greater>("gt.Tensor(Tensor self, Tensor other) -> Tensor"),
    comparison<greater>("gt.Scalar(Tensor self, Scalar other) -> Tensor"),
    comparison<greater>("greater.Tensor(Tensor self, Tensor other) -> Tensor"),
    comparison<greater>("greater.Scalar(Tensor self, Scalar other) -> Tensor"),
    comparison<greater_equal>("ge.Tensor(Tensor self, Tensor other) -> Tensor"),
    comparison<greater_equal>("ge.Scalar(Tensor self, Scalar other) -> Tensor"),
    comparison<greater_equal>("greater_equal.Tensor(Tensor self, Tensor other) -> Tensor"),
    comparison<greater_equal>("greater_equal.Scalar(Tensor self, Scalar other) -> Tensor"),
    boolean_formula<[](Ex x, Ex y, const OpCall& c) { return is_close(x, y, c); }>(
        "isclose(Tensor self, Tensor other, float rtol=1.0000000000000001e-05, float atol=1e-08, "
        "bool equal_nan=False) -> Tensor"),
};

}  // namespace

std::span<const OpRecord> compare_ops() { return records; }

}  // namespace npusim
