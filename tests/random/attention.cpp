// Attention: the call and its unfused form, with masks, causal, with shared keys, with keys that masks hide.
#include <cmath>
#include <limits>

#include "random/maker.h"

namespace npusim::test {
namespace {

struct Heads {
  int64_t batch = 1, heads = 2, shared = 2, queries = 4, keys = 4, width = 4;
};

Heads heads_for(Maker& m) {
  Heads h;
  h.batch = m.chance(70) ? 1 : 2;
  h.heads = 1 + m.pick(4);
  h.shared = h.heads % 2 == 0 && m.chance(30) ? h.heads / 2 : h.heads;
  h.queries = m.positive_extent();
  h.keys = m.chance(40) ? h.queries : m.positive_extent();
  const std::vector<int64_t> widths{1, 2, 3, 4, 7, 8, 16};
  h.width = m.choose(widths);
  return h;
}

// Queries, keys or values: as they are, or [batch, length, heads · width] split and transposed.
ValueId part(Maker& m, const Heads& h, int64_t heads, int64_t length, bool hidden) {
  const Shape shape{h.batch, heads, length, h.width};
  if (hidden && m.on("special") && m.chance(15)) return m.given({m.real_dtype(), shape}, "special");
  if (m.chance(50)) return m.given_float(shape);
  const ValueId flat = m.like({h.batch, length, heads * h.width}, m.floats());
  const ValueId split = m.one("aten.view.default", {flat}, {{"size", Shape{h.batch, length, heads, h.width}}});
  return split == no_value ? split : m.one("aten.transpose.int", {split}, {{"dim0", int64_t{1}}, {"dim1", int64_t{2}}});
}

ValueId mask_for(Maker& m, const Heads& h) {
  Shape shape{h.batch, h.heads, h.queries, h.keys};
  if (m.chance(40)) shape[1] = 1;
  if (m.chance(40)) shape[0] = 1;
  if (m.chance(30)) shape = {h.queries, h.keys};
  if (!m.on("mask")) return no_value;
  if (m.chance(50)) return m.given({DType::boolean, shape}, "mask");
  if (m.chance(50)) return m.given_float(shape);
  // A float mask with −inf where a boolean one hides.
  const ValueId hides = m.given({DType::boolean, shape}, "mask");
  const ValueId zeros = m.one("aten.zeros.default", {}, {{"size", shape}});
  if (zeros == no_value) return zeros;
  return m.one("aten.masked_fill.Scalar", {zeros, hides}, {{"value", -std::numeric_limits<double>::infinity()}});
}

bool attention(Maker& m) {
  const Heads h = heads_for(m);
  const ValueId q = part(m, h, h.heads, h.queries, false), k = part(m, h, h.shared, h.keys, true),
                v = part(m, h, h.shared, h.keys, true);
  if (q == no_value || k == no_value || v == no_value) return false;
  Attributes attrs{{"enable_gqa", h.shared != h.heads}};
  Operand mask;
  if (m.chance(50)) {
    if (const ValueId given = mask_for(m, h); given != no_value) mask = given;
  } else if (m.chance(40)) {
    attrs.emplace_back("is_causal", true);
  }
  if (m.chance(30)) attrs.emplace_back("scale", m.choose(std::vector<double>{0.125, 1, 0.3}));
  const ValueId y = m.one("aten.scaled_dot_product_attention.default", {q, k, v, mask}, attrs);
  if (y == no_value) return false;
  if (m.chance(50)) {
    const ValueId back = m.one("aten.transpose.int", {y}, {{"dim0", int64_t{1}}, {"dim1", int64_t{2}}});
    if (back != no_value)
      m.one("aten.reshape.default", {back}, {{"shape", Shape{h.batch, h.queries, h.heads * h.width}}});
  } else if (m.on("epilogue") && m.chance(40)) {
    epilogue(m, y);
  }
  return true;
}

bool unfused_attention(Maker& m) {
  Heads h = heads_for(m);
  h.shared = h.heads;
  const ValueId q = part(m, h, h.heads, h.queries, false), k = part(m, h, h.heads, h.keys, true),
                v = part(m, h, h.heads, h.keys, true);
  if (q == no_value || k == no_value || v == no_value) return false;
  const ValueId turned = m.one("aten.transpose.int", {k}, {{"dim0", int64_t{-2}}, {"dim1", int64_t{-1}}});
  ValueId score = turned == no_value ? turned : m.one("aten.matmul.default", {q, turned});
  if (score == no_value) return false;
  const double scale = 1 / std::sqrt(static_cast<double>(h.width));
  score = m.chance(50) ? m.one("aten.mul.Scalar", {score}, {{"other", scale}})
                       : m.one("aten.div.Tensor", {score, number_operand(std::sqrt(static_cast<double>(h.width)))});
  if (score == no_value) return false;
  if (m.chance(60)) {
    const ValueId mask = mask_for(m, h);
    ValueId masked = no_value;
    if (mask != no_value && m.type(mask).dtype == DType::boolean)
      masked = m.one("aten.masked_fill.Scalar", {score, mask},
                     {{"value", m.chance(70) ? -std::numeric_limits<double>::infinity() : -1e9}});
    else if (mask != no_value)
      masked = m.one("aten.add.Tensor", {score, mask});
    if (masked != no_value) score = masked;
  }
  const ValueId weights = m.one("aten.softmax.int", {score}, {{"dim", int64_t{-1}}});
  return weights != no_value && m.one("aten.matmul.default", {weights, v}) != no_value;
}

}  // namespace

std::vector<Action> attention_actions() {
  return {{"attention", 4, attention}, {"unfused_attention", 3, unfused_attention}};
}

}  // namespace npusim::test
