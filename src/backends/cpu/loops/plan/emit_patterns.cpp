// Instructions of several expressions, as analyse() found them.
#include <algorithm>

#include "backends/cpu/loops/plan/emit.h"

namespace npusim::cpu::loops::plan {
namespace {

constexpr double draw_cost = 2;  // ns per element

}  // namespace

InstOperand Emitter::fused(int32_t i, DimSet mask, moves::Span span) {
  const Expr& e = expr(i);
  const auto n = static_cast<size_t>(a_.fused[static_cast<size_t>(i)]);
  const Expr& product = expr(e.in[n]);
  if (e.op == ExprOp::select) return choice(i, mask, span);
  if (product.op != ExprOp::mul || (e.op != ExprOp::add && e.op != ExprOp::sub)) return pair(i, mask, span);
  const tiles::FusedOp op = e.op == ExprOp::add ? tiles::FusedOp::mul_add
                            : n == 0            ? tiles::FusedOp::mul_sub
                                                : tiles::FusedOp::neg_mul_add;
  Inst inst;
  unsigned scalars = bind(inst, 0, value(product.in[0]), span);
  scalars |= bind(inst, 1, value(product.in[1]), span);
  scalars |= bind(inst, 2, value(e.in[1 - n]), span);
  inst.fn = tiles::fused_fn(op, scalars);
  return push(inst, mask, span, 4);
}

InstOperand Emitter::polynomial(int32_t i, DimSet mask, moves::Span span) {
  const Polynomial& p = a_.polynomials[static_cast<size_t>(i)];
  Inst inst;
  inst.terms = p.terms;
  bind(inst, 0, spread(value(p.x), mask, span), span);
  const bool fixed = bind(inst, 1, value(p.start), span) != 0;
  inst.fn = tiles::polynomial_fn(expr(i).type, fixed);
  return push(inst, mask, span, lane_bytes(expr(i).type));
}

// What a comparison decides, in one instruction with it.
InstOperand Emitter::choice(int32_t i, DimSet mask, moves::Span span) {
  const Expr& e = expr(i);
  const Expr& relation = expr(e.in[0]);
  const bool itself = relation.op == ExprOp::isnan;
  Inst inst;
  unsigned scalars = bind(inst, 0, value(relation.in[0]), span);
  scalars |= bind(inst, 1, value(relation.in[itself ? 0 : 1]), span);
  scalars |= bind(inst, 2, value(e.in[1]), span);
  scalars |= bind(inst, 3, value(e.in[2]), span);
  inst.fn = tiles::choose_fn(itself ? ExprOp::ne : relation.op, e.type, scalars);
  return push(inst, mask, span, lane_bytes(e.type));
}

InstOperand Emitter::leak(int32_t i, DimSet mask, moves::Span span) {
  const Expr& e = expr(i);
  Inst inst;
  bind(inst, 0, value(expr(e.in[0]).in[0]), span);
  bind(inst, 1, spread(value(e.in[1]), mask, span), span);
  inst.fn = tiles::leak_fn(bind(inst, 2, value(a_.leaks[static_cast<size_t>(i)]), span) != 0);
  return push(inst, mask, span, 4);
}

InstOperand Emitter::gelu(int32_t i, DimSet mask, moves::Span span) {
  const Gelu& g = a_.gelus[static_cast<size_t>(i)];
  Inst inst;
  inst.terms = {g.half, g.inner};
  bind(inst, 0, spread(value(g.x), mask, span), span);
  inst.fn = tiles::gelu_fn();
  add_cost(cost_of(ExprOp::erf));
  return push(inst, mask, span, 4);
}

InstOperand Emitter::between(int32_t i, DimSet mask, moves::Span span) {
  const Between& b = a_.between[static_cast<size_t>(i)];
  Inst inst;
  int n = 0;
  for (const int32_t operand : {b.from, b.to, b.weight}) bind(inst, n++, spread(value(operand), mask, span), span);
  inst.fn = tiles::between_fn();
  return push(inst, mask, span, 4);
}

InstOperand Emitter::normed(int32_t i, DimSet mask, moves::Span span) {
  const Normed& n = a_.normed[static_cast<size_t>(i)];
  Inst inst;
  unsigned scalars = 0;
  int at = 0;
  for (const int32_t operand : {n.x, n.mean, n.scale, n.weight, n.bias})
    scalars |= bind(inst, at, value(operand), span), ++at;
  inst.fn = tiles::normed_fn((scalars & 8) != 0, (scalars & 16) != 0);
  return push(inst, mask, span, 4);
}

InstOperand Emitter::share(int32_t i, DimSet mask, moves::Span span) {
  Inst inst;
  bind(inst, 0, spread(value(a_.shares[static_cast<size_t>(i)]), mask, span), span);
  inst.fn = tiles::share_fn();
  add_cost(cost_of(ExprOp::erf));
  return push(inst, mask, span, 4);
}

InstOperand Emitter::flip(int32_t i, DimSet mask, moves::Span span) {
  Inst inst;
  bind(inst, 0, spread(value(expr(i).in[2]), mask, span), span);
  bind(inst, 1, spread(value(a_.signs[static_cast<size_t>(i)]), mask, span), span);
  inst.fn = tiles::flip_fn(expr(i).type);
  return push(inst, mask, span, lane_bytes(expr(i).type));
}

// Two operations where there is an instruction of both.
InstOperand Emitter::pair(int32_t i, DimSet mask, moves::Span span) {
  const auto n = static_cast<size_t>(a_.fused[static_cast<size_t>(i)]);
  const Expr& outer = expr(i);
  const int32_t at = outer.in[n];
  const Expr& inner = expr(at);
  Inst inst;
  const bool first_fixed = bind(inst, 0, value(inner.in[0]), span) != 0;
  const size_t running = first_fixed ? 1 : 0;  // the operand of the inner one that is a tile
  const bool both = bind(inst, 0, value(inner.in[running]), span) != 0;
  const bool fixed = bind(inst, 1, value(inner.in[1 - running]), span) != 0;
  const bool last_fixed = bind(inst, 2, value(outer.in[1 - n]), span) != 0;
  const auto first = link_of(k_, inner, running, fixed), second = link_of(k_, outer, n, last_fixed);
  if (first && second && !both) inst.fn = tiles::pair_fn(*first, fixed, *second, last_fixed);
  if (inst.fn) return push(inst, mask, span, 4);
  local_[static_cast<size_t>(at)] = plain(at, mask, span);
  return plain(i, mask, span);
}

// A word of a draw: half of a pair, which other words of the draw share.
InstOperand Emitter::drawn(int32_t i, Scalar type) {
  const DrawnWord& word = *a_.drawn[static_cast<size_t>(i)];
  const DimSet mask = a_.depends.dims[static_cast<size_t>(i)];
  const moves::Span span = span_of(mask);
  const bool second = word.word >= 2;
  auto pair = std::find_if(pairs_.begin(), pairs_.end(),
                           [&](const Pair& p) { return p.draw == word.draw && p.second == second; });
  if (pair == pairs_.end()) {
    const auto& counter = word.draw.counter;
    const int32_t ids[] = {counter[0], counter[1], counter[2], counter[3], word.draw.key[0], word.draw.key[1]};
    Inst inst;
    unsigned scalars = 0;
    for (int n = 0; n < 6; ++n) scalars |= bind(inst, n, value(ids[n]), span);
    constexpr unsigned all_but_one = 0b111011;
    const bool plain = scalars == all_but_one;
    for (int n = 0; n < 6 && !plain; ++n) bind(inst, n, spread(value(ids[n]), mask, span), span);
    inst.fn = tiles::draw_fn(second, plain);
    pairs_.push_back({word.draw, second, push(inst, mask, span, 8)});
    plan_.tile_cost += draw_cost * static_cast<double>(plan_.tile_rows * plan_.tile_columns);
    pair = pairs_.end() - 1;
  }
  Inst inst;
  bind(inst, 0, pair->words, span);
  inst.fn = tiles::drawn_word_fn(word.word % 2 == 1, type);
  return push(inst, mask, span, lane_bytes(type));
}

}  // namespace npusim::cpu::loops::plan
