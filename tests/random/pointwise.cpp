// Pointwise calls: every formula of the op table that takes tensors and numbers, selections, casts, integers.
#include <algorithm>
#include <array>

#include "random/maker.h"

namespace npusim::test {
namespace {

// Formulas whose results are another thing than a function of their operands' elements, and those with domains of their
// own, which have actions.
bool is_apart(std::string_view name) {
  constexpr std::string_view apart[] = {"dropout",      "rrelu",   "_cast",    "copy",   "alias", "lift",     "detach",
                                        "to.",          "type_as", "assert",   "sym_",   "fill",  "zero",     "bitwise",
                                        "shift",        "__",      "where",    "clone",  "norm",  "contig",   "glu",
                                        "log_sigmoid_", "diff",    "upsample", "affine", "prelu", "positive", "gcd"};
  return std::any_of(std::begin(apart), std::end(apart),
                     [&](std::string_view part) { return name.find(part) != std::string_view::npos; });
}

// Formulas of `count` tensors and else numbers only.
std::vector<const Op*> formulas(int count) {
  std::vector<const Op*> found;
  for (const auto& [name, op] : op_table()) {
    if (op.record.family != OpFamily::formula || op.record.is_check || is_apart(name)) continue;
    int tensors = 0;
    bool plain = op.schema.results == 1;
    for (const SchemaArg& arg : op.schema.args) {
      tensors += arg.kind == ArgKind::tensor;
      const bool number = arg.kind == ArgKind::scalar || arg.kind == ArgKind::real;
      plain = plain && (arg.kind == ArgKind::tensor || number || arg.has_default || arg.kind == ArgKind::ignored ||
                        arg.optional);
    }
    if (plain && tensors == count) found.push_back(&op);
  }
  return found;
}

const std::vector<const Op*>& formulas_of(int count) {
  static const std::array<std::vector<const Op*>, 4> table{formulas(0), formulas(1), formulas(2), formulas(3)};
  return table[static_cast<size_t>(count)];
}

bool divides(std::string_view name) {
  return name.find("div") != std::string_view::npos || name.find("rem") != std::string_view::npos ||
         name.find("mod") != std::string_view::npos;
}

Attributes numbers_for(Maker& m, const Op& op, bool whole) {
  Attributes attrs;
  for (const SchemaArg& arg : op.schema.args) {
    if (arg.kind == ArgKind::text && arg.name == "rounding_mode")
      attrs.emplace_back(arg.name, m.chance(50) ? Attr{std::string("floor")} : Attr{std::string("trunc")});
    if (arg.kind != ArgKind::scalar && arg.kind != ArgKind::real) continue;
    if (arg.has_default && m.chance(60)) continue;
    if (arg.optional && m.chance(40)) continue;
    double number = m.real();
    if (whole && divides(op.name()) && number == 0) number = 3;
    if (whole && arg.kind == ArgKind::scalar)
      attrs.emplace_back(arg.name, static_cast<int64_t>(number));
    else
      attrs.emplace_back(arg.name, number);
  }
  return attrs;
}

// Whether a quotient or remainder of integers could trap.
bool may_trap(Maker& m, const Op& op, ValueId value) { return divides(op.name()) && !is_float(m.type(value).dtype); }

bool unary(Maker& m) {
  const Op& op = *m.choose(formulas_of(1));
  const ValueId x = m.floats();
  return !m.call(op.name(), {x}, numbers_for(m, op, false)).empty();
}

bool binary(Maker& m) {
  static const std::vector<std::string> common{"aten.add.Tensor", "aten.sub.Tensor",      "aten.mul.Tensor",
                                               "aten.div.Tensor", "aten.maximum.default", "aten.minimum.default"};
  const Op& op = m.chance(60) ? *find_op(m.choose(common)) : *m.choose(formulas_of(2));
  const ValueId x = m.floats();
  if (m.chance(12) && op.schema.find("other") >= 0) {
    const ValueId made = m.one(op.name(), {x, number_operand(m.real())});
    if (made != no_value) return true;
  }
  const ValueId y = m.partner(x);
  Attributes attrs = numbers_for(m, op, false);
  return m.chance(50) ? !m.call(op.name(), {x, y}, attrs).empty() : !m.call(op.name(), {y, x}, attrs).empty();
}

bool ternary(Maker& m) {
  const Op& op = *m.choose(formulas_of(3));
  const ValueId x = m.floats(), y = m.partner(x), z = m.partner(x);
  return !m.call(op.name(), {x, y, z}, numbers_for(m, op, false)).empty();
}

ValueId mask_for(Maker& m, ValueId x) {
  const ValueId known =
      m.chance(50) ? m.some([&](const TensorType& t) { return t.dtype == DType::boolean && t.shape == m.shape_of(x); })
                   : no_value;
  if (known != no_value) return known;
  return m.given({DType::boolean, m.chance(60) ? m.shape_of(x) : m.broadcast_to(m.shape_of(x))}, "mask");
}

bool compare(Maker& m) {
  static const std::vector<std::string> names{"eq", "ne", "lt", "le", "gt", "ge"};
  const ValueId x = m.floats();
  if (m.chance(40)) return m.one("aten." + m.choose(names) + ".Scalar", {x}, {{"other", m.real()}}) != no_value;
  return m.one("aten." + m.choose(names) + ".Tensor", {x, m.partner(x)}) != no_value;
}

bool where(Maker& m) {
  const ValueId x = m.floats(), mask = mask_for(m, x);
  switch (m.pick(5)) {
    case 0:
      return m.one("aten.where.ScalarOther", {mask, x}, {{"other", m.real()}}) != no_value;
    case 1:
      return m.one("aten.where.ScalarSelf", {mask, x}, {{"self", m.real()}}) != no_value;
    case 2:
      return m.one("aten.masked_fill.Scalar", {x, mask}, {{"value", m.real()}}) != no_value;
    default:
      return m.one("aten.where.self", {mask, x, m.partner(x)}) != no_value;
  }
}

bool clamp(Maker& m) {
  static const std::vector<double> bounds{-1e30, -1e6, -4, -1, -1e-4, 0, 1e-4, 1, 4, 1e6, 1e30};
  const ValueId x = m.floats();
  double low = m.choose(bounds), high = m.choose(bounds);
  if (low > high) std::swap(low, high);
  const Attr none;
  return m.one("aten.clamp.default", {x},
               {{"min", m.chance(20) ? none : Attr{low}}, {"max", m.chance(20) ? none : Attr{high}}}) != no_value;
}

ValueId cast_to(Maker& m, ValueId x, DType to) {
  const char* ops[] = {"aten.to.dtype", "aten._to_copy.default"};
  return m.one(ops[m.pick(2)], {x}, {{"dtype", to}});
}

bool cast(Maker& m) {
  static const std::vector<DType> integers{DType::u8, DType::i8, DType::i16, DType::i32, DType::i64, DType::boolean};
  if (m.chance(50)) {
    ValueId x = m.floats();
    if (m.chance(40))
      return cast_to(m, x, m.chance(70) ? DType::f32 : m.chance(50) ? DType::f16 : DType::bf16) != no_value;
    const DType to = m.choose(integers);
    // A float that does not fit becomes no certain integer.
    if (to != DType::boolean) {
      x = m.one("aten.nan_to_num.default", {x});
      if (x != no_value)
        x = m.one("aten.clamp.default", {x}, {{"min", to == DType::u8 ? 0.0 : -100.0}, {"max", 100.0}});
    }
    return x != no_value && cast_to(m, x, to) != no_value;
  }
  const ValueId x = m.some([](const TensorType& t) { return !is_float(t.dtype); });
  if (x == no_value) return false;
  return cast_to(m, x, m.chance(70) ? m.real_dtype() : m.choose(integers)) != no_value;
}

bool integer(Maker& m) {
  static const std::vector<std::string> names{
      "aten.add.Tensor",        "aten.sub.Tensor",         "aten.mul.Tensor",      "aten.bitwise_and.Tensor",
      "aten.bitwise_or.Tensor", "aten.bitwise_xor.Tensor", "aten.maximum.default", "aten.minimum.default",
      "aten.eq.Tensor",         "aten.lt.Tensor"};
  static const std::vector<DType> dtypes{DType::i64, DType::i64, DType::i32, DType::i16, DType::i8, DType::u8};
  ValueId x = m.chance(70) ? m.some([](const TensorType& t) { return is_integer(t.dtype); }) : no_value;
  if (x == no_value) x = m.given({m.choose(dtypes), m.shape(0, 3)}, m.chance(25) ? "big" : "small");
  switch (m.pick(7)) {
    case 0: {
      const ValueId divisor = m.one("aten.bitwise_or.Scalar", {m.partner(x)}, {{"other", int64_t{1}}});
      return divisor != no_value && m.one("aten.remainder.Tensor", {x, divisor}) != no_value;
    }
    case 1:
      return m.one("aten.floor_divide.Scalar", {x}, {{"other", int64_t{m.chance(50) ? 3 : -2}}}) != no_value;
    case 2:
      return m.one(m.chance(50) ? "aten.bitwise_left_shift.Tensor_Scalar" : "aten.bitwise_right_shift.Tensor_Scalar",
                   {x}, {{"other", m.pick(5)}}) != no_value;
    case 3: {
      const Op& op = *m.choose(formulas_of(1));
      return !may_trap(m, op, x) && !m.call(op.name(), {x}, numbers_for(m, op, true)).empty();
    }
    case 4: {
      const Op& op = *m.choose(formulas_of(2));
      return !may_trap(m, op, x) && !m.call(op.name(), {x, m.partner(x)}, numbers_for(m, op, true)).empty();
    }
    default:
      return m.one(m.choose(names), {x, m.partner(x)}) != no_value;
  }
}

bool logical(Maker& m) {
  static const std::vector<std::string> names{
      "aten.logical_and.default", "aten.logical_or.default", "aten.logical_xor.default", "aten.bitwise_and.Tensor",
      "aten.bitwise_xor.Tensor",  "aten.mul.Tensor",         "aten.add.Tensor"};
  const ValueId x = m.some([](const TensorType& t) { return t.dtype == DType::boolean; });
  if (x == no_value) return compare(m);
  if (m.chance(20)) return m.one("aten.logical_not.default", {x}) != no_value;
  return m.one(m.choose(names), {x, mask_for(m, x)}) != no_value;
}

// A float with an integer or boolean operand, as scales and counts are.
bool mixed(Maker& m) {
  const ValueId x = m.floats();
  const Shape shape = m.broadcast_to(m.shape_of(x));
  const ValueId y = m.given({m.chance(60) ? DType::i64 : DType::boolean, shape}, "small");
  return m.one(m.chance(60) ? "aten.mul.Tensor" : "aten.add.Tensor", {x, y}) != no_value;
}

bool create(Maker& m) {
  const Shape shape = m.shape(0, 3);
  switch (m.pick(5)) {
    case 0:
      return m.one("aten.zeros.default", {}, {{"size", shape}}) != no_value;
    case 1:
      return m.one("aten.full.default", {}, {{"size", shape}, {"fill_value", m.real()}}) != no_value;
    case 2:
      return m.one("aten.arange.start_step", {},
                   {{"start", m.pick(5)}, {"end", 5 + m.extent()}, {"step", 1 + m.pick(2)}, {"dtype", DType::f32}}) !=
             no_value;
    case 3:
      return m.one("aten.ones_like.default", {m.floats()}) != no_value;
    default:
      return m.one("aten.arange.default", {}, {{"end", 1 + m.extent()}}) != no_value;
  }
}

}  // namespace

std::string unary_op(Maker& m) { return m.choose(formulas_of(1))->name(); }

std::vector<Action> pointwise_actions() {
  return {{"unary", 10, unary},    {"binary", 14, binary}, {"ternary", 3, ternary}, {"compare", 3, compare},
          {"where", 4, where},     {"clamp", 3, clamp},    {"cast", 4, cast},       {"integer", 4, integer},
          {"logical", 2, logical}, {"mixed", 2, mixed},    {"create", 2, create}};
}

}  // namespace npusim::test
