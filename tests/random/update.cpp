// In-place calls: on results, inputs, weights and constants, through views and views of views.
#include <algorithm>

#include "random/maker.h"

namespace npusim::test {
namespace {

ValueId target(Maker& m) {
  ValueId base = no_value;
  switch (m.pick(8)) {
    case 0:
      base =
          m.on("states") ? m.some([](const TensorType& t) { return is_float(t.dtype) && !t.shape.empty(); }) : no_value;
      if (base != no_value && m.source(base) != ValueSource::input) base = m.given_float(m.shape(1, 3));
      break;
    case 1:
      if (m.on("update_weights")) base = m.given_float(m.shape(1, 3), true);
      break;
    case 2:
      base = m.one("aten.zeros.default", {}, {{"size", m.shape(1, 3)}});
      break;
    case 3:
      base = m.one("aten.clone.default", {m.floats(1, 4)});
      break;
    default:
      base = m.floats(0, 4);
      break;
  }
  if (base == no_value) return no_value;
  const bool kept =
      (m.on("states") || m.source(base) != ValueSource::input) &&
      (m.on("update_weights") || (m.source(base) != ValueSource::weight && m.source(base) != ValueSource::constant));
  return kept ? base : m.one("aten.clone.default", {base});
}

// What an in-place call writes, from the base itself or from elsewhere.
ValueId operand_for(Maker& m, ValueId to) {
  if (m.on("twice") && m.chance(15)) return to;
  return m.partner(to);
}

bool write(Maker& m, ValueId to) {
  static const std::vector<std::string> binary{"aten.add_.Tensor", "aten.mul_.Tensor",   "aten.sub_.Tensor",
                                               "aten.div_.Tensor", "aten.copy_.default", "aten.copy_.default"};
  static const std::vector<std::string> unary{"aten.relu_.default", "aten.sigmoid_.default", "aten.neg_.default",
                                              "aten.tanh_.default", "aten.abs_.default",     "aten.exp_.default"};
  const Shape shape = m.shape_of(to);
  switch (m.pick(12)) {
    case 0:
      return m.one(m.choose(unary), {to}) != no_value;
    case 1:
      return m.one("aten.fill_.Scalar", {to}, {{"value", m.real()}}) != no_value;
    case 2:
      return m.one("aten.zero_.default", {to}) != no_value;
    case 3:
      return m.one("aten.masked_fill_.Scalar", {to, m.given({DType::boolean, m.broadcast_to(shape)}, "mask")},
                   {{"value", m.real()}}) != no_value;
    case 4:
      return m.one("aten.clamp_.default", {to}, {{"min", -1.0}, {"max", 1.0}}) != no_value;
    case 5:
    case 6: {
      if (shape.empty() || shape[0] == 0) return false;
      Shape rows = shape;
      rows[0] = 1 + m.pick(shape[0]);
      const ValueId at = m.index({rows[0]}, shape[0], true), from = m.given_float(rows);
      if (m.chance(40)) return m.one("aten.index_copy_.default", {to, at, from}, {{"dim", int64_t{0}}}) != no_value;
      if (m.chance(50)) return m.one("aten.index_add_.default", {to, at, from}, {{"dim", int64_t{0}}}) != no_value;
      return m.one("aten.index_put_.default", {to, std::vector<ValueId>{at}, from}) != no_value;
    }
    case 7: {
      const ValueId scaled = m.one("aten.mul_.Tensor", {to, number_operand(m.real())});
      return scaled != no_value;
    }
    default:
      return m.one(m.choose(binary), {to, operand_for(m, to)}) != no_value;
  }
}

bool update(Maker& m) {
  const ValueId to = target(m);
  return to != no_value && write(m, to);
}

bool update_view(Maker& m) {
  ValueId to = target(m);
  for (int64_t times = 1 + m.pick(3); times > 0 && to != no_value; --times) to = random_view(m, to);
  return to != no_value && write(m, to);
}

// One part of a value takes what another part of it was, as a cache does that moves on.
bool shift(Maker& m) {
  const ValueId x = m.chance(50) ? m.floats(1, 4) : m.one("aten.mul.Tensor", {m.floats(1, 4), number_operand(1.5)});
  if (x == no_value) return false;
  if (m.source(x) == ValueSource::input && !m.on("states")) return false;
  if ((m.source(x) == ValueSource::weight || m.source(x) == ValueSource::constant) && !m.on("update_weights"))
    return false;
  const int64_t dim = m.pick(m.rank(x)), n = m.shape_of(x)[static_cast<size_t>(dim)];
  if (n < 2) return false;
  const int64_t length = 1 + m.pick(n - 1), from = m.pick(n - length + 1), to = m.pick(n - length + 1);
  const auto part = [&](int64_t start) {
    return m.one("aten.slice.Tensor", {x},
                 {{"dim", dim}, {"start", start}, {"end", start + length}, {"step", int64_t{1}}});
  };
  const ValueId target = part(to), source = part(from);
  if (target == no_value || source == no_value) return false;
  ValueId moved = no_value;
  switch (m.pick(5)) {
    case 0:
      moved = m.one("aten.clone.default", {source});
      break;
    case 1:
      moved = m.one("aten.mul.Tensor", {source, number_operand(2.0)});
      break;
    case 2:
      moved = m.one("aten.flip.default", {source}, {{"dims", std::vector<int64_t>{dim}}});
      break;
    case 3:
      moved = m.one("aten.roll.default", {source},
                    {{"shifts", std::vector<int64_t>{1}}, {"dims", std::vector<int64_t>{m.pick(m.rank(x))}}});
      break;
    default:
      moved = m.one(unary_op(m), {source});
      break;
  }
  if (moved == no_value) return false;
  return m.one(m.chance(70) ? "aten.copy_.default" : "aten.add_.Tensor", {target, moved}) != no_value;
}

// A base that only weights make, read before and after it is written.
bool weights_only(Maker& m) {
  const Shape shape = m.shape(1, 3);
  const ValueId w = m.given_float(shape, true);
  ValueId base = no_value;
  switch (m.pick(4)) {
    case 0: {
      const ValueId zeros = m.one("aten.zeros.default", {}, {{"size", shape}});
      base = zeros == no_value ? zeros : m.one("aten.add.Tensor", {zeros, w});
      break;
    }
    case 1:
      base = m.one("aten.cumsum.default", {w}, {{"dim", int64_t{0}}});
      break;
    case 2:
      base = m.one("aten.mul.Tensor", {w, number_operand(2.0)});
      break;
    default:
      base = m.one(unary_op(m), {w});
      break;
  }
  if (base == no_value || !is_float(m.type(base).dtype)) return base != no_value;
  if (m.chance(60)) m.one("aten.add.Tensor", {base, m.like(shape, base)});
  if (m.chance(40)) m.one(unary_op(m), {base});
  const ValueId view = m.chance(70) ? random_view(m, base) : base;
  if (view != no_value) write(m, view);
  return m.one("aten.add.Tensor", {base, m.like(shape, base)}) != no_value;
}

bool shift_rows_of_product(Maker& m) {
  const ValueId x = m.floats(2, 2);
  const ValueId b =
      m.one("aten.linear.default", {x, m.given_float({m.positive_extent(), m.shape_of(x)[1]}, true), Operand()});
  if (b == no_value) return false;
  const int64_t n = m.shape_of(b)[0];
  if (n < 2) return false;
  const ValueId low = m.one("aten.slice.Tensor", {b}, {{"dim", int64_t{0}}, {"start", int64_t{1}}, {"end", n}});
  const ValueId high = m.one("aten.slice.Tensor", {b}, {{"dim", int64_t{0}}, {"start", int64_t{0}}, {"end", n - 1}});
  if (low == no_value || high == no_value) return false;
  const ValueId moved = m.one("aten.mul.Tensor", {high, number_operand(2.0)});
  return moved != no_value && m.one("aten.copy_.default", {low, moved}) != no_value;
}

}  // namespace

std::vector<Action> update_actions() {
  return {{"update", 5, update},
          {"update_view", 7, update_view},
          {"shift", 2, shift},
          {"weights_only", 2, weights_only},
          {"shift_product", 1, shift_rows_of_product}};
}

}  // namespace npusim::test
