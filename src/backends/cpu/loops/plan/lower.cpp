// Walks the stages of a kernel: which section computes an expression, what a row keeps, where reductions end.
#include "backends/cpu/loops/plan/lower.h"

#include <algorithm>
#include <limits>

#include "backends/cpu/loops/plan/emit.h"
#include "backends/cpu/loops/plan/integer_lanes.h"
#include "backends/cpu/loops/rewrite/extreme_index.h"
#include "kernel/scalar.h"

namespace npusim::cpu::loops::plan {
namespace {

class Lowerer final : Emitter {
 public:
  explicit Lowerer(Plan& plan)
      : Emitter(plan), accumulator_(k_.exprs.size(), -1), wide_(k_.exprs.size(), 0), kept_(k_.exprs.size(), 0) {}
  void run();

 private:
  void emit_invariant(int stage);
  void row_section(int stage);
  std::vector<char> needed_in(int stage) const;  // the row-varying expressions that a stage's section computes
  void keep(size_t i);
  void fold(int32_t i);
  void fold_index(int32_t i);
  bool has_index_reduction(int32_t i) const;
  tiles::Fold form_of_fold() const;
  void finish_reductions(int stage);

  std::vector<int> accumulator_;
  std::vector<char> wide_, kept_;
  int64_t kept_bytes_ = 0;
};

void Lowerer::run() {
  begin_section(false);
  emit_invariant(0);
  if (a_.last_stage == 0) emit_stores(false);
  end_section();
  if (k_.row_dims > 0)
    for (int stage = 0; stage <= a_.last_stage; ++stage) {
      row_section(stage);
      if (stage == a_.last_stage) break;
      begin_section(false);
      finish_reductions(stage + 1);
      emit_invariant(stage + 1);
      if (stage + 1 == a_.last_stage) emit_stores(false);
      end_section();
    }
}

void Lowerer::emit_invariant(int stage) {
  for (size_t i = 0; i < k_.exprs.size(); ++i)
    if (a_.depends.stage[i] == stage && !varies_in_row(static_cast<int32_t>(i)) &&
        !(k_.row_dims > 0 && k_.exprs[i].op == ExprOp::reduce))
      emit(static_cast<int32_t>(i));
  for (size_t i = 0; i < k_.exprs.size(); ++i)
    if (local_[i].reg >= 0 && local_[i].move < 0) value_[i] = local_[i];
}

std::vector<char> Lowerer::needed_in(int stage) const {
  std::vector<char> needed(k_.exprs.size(), 0);
  const auto need = [&](int32_t i) { needed[static_cast<size_t>(i)] = 1; };
  if (stage == a_.last_stage)
    for (const Store& s : k_.stores)
      if (store_in_row(s)) {
        need(s.expr);
        for (const IndexTerm& t : s.access.terms) need(t.expr);
      }
  for (size_t i = k_.exprs.size(); i-- > 0;) {
    const Expr& e = k_.exprs[i];
    const bool root = e.op == ExprOp::reduce && a_.depends.stage[i] == stage + 1;
    if (!root && (!needed[i] || !varies_in_row(static_cast<int32_t>(i)))) {
      needed[i] = 0;
      continue;
    }
    if (!root && kept_[i] && value_[i].reg >= 0) continue;
    needed[i] = 1;
    if (const int32_t d = a_.deviations[i]; d >= 0) {
      for (size_t n = 0; n < 2; ++n) need(expr(d).in[n]);
      continue;
    }
    for (int n = 0; n < expr_arity(e.op); ++n) need(e.in[static_cast<size_t>(n)]);
    if (e.op == ExprOp::load)
      for (const IndexTerm& t : k_.accesses[static_cast<size_t>(e.integer)].terms) need(t.expr);
  }
  return needed;
}

void Lowerer::row_section(int stage) {
  begin_section(true);
  const std::vector<char> needed = needed_in(stage);
  std::vector<char> later(k_.exprs.size(), 0);
  for (int s = stage + 1; s <= a_.last_stage; ++s) {
    const std::vector<char> more = needed_in(s);
    for (size_t i = 0; i < later.size(); ++i) later[i] |= more[i];
  }
  for (size_t i = 0; i < k_.exprs.size(); ++i) {
    if (!needed[i]) continue;
    const auto id = static_cast<int32_t>(i);
    if (k_.exprs[i].op == ExprOp::reduce && a_.depends.stage[i] == stage + 1) {
      fold(id);
    } else if (varies_in_row(id) && !(kept_[i] && value_[i].reg >= 0)) {
      emit(id);
      if (later[i]) keep(i);
    }
  }
  if (stage == a_.last_stage) emit_stores(true);
  end_section();
}

// Keeps a value along the whole row for later stages: always when the row is one tile, else when it is expensive.
void Lowerer::keep(size_t i) {
  const InstOperand& value = local_[i];
  if (value.reg < 0 || value.move >= 0) return;
  Register& reg = plan_.registers[static_cast<size_t>(value.reg)];
  if (row_tiles_ > 1) {
    if (cost_of(k_.exprs[i].op) < 0.5 || kept_bytes_ + reg.bytes * row_tiles_ > (256 << 10)) return;
    for (const Inst& inst : section().insts)
      if (inst.dst == value.reg && inst.depth + 1 != static_cast<int>(plan_.inner.size())) return;
    kept_bytes_ += reg.bytes * row_tiles_;
    reg.per_tile = reg.bytes;
    reg.bytes *= row_tiles_;
  }
  kept_[i] = 1;
  value_[i] = value;
}

// Whether a reduction to an index carries the extreme `i` with it.
bool Lowerer::has_index_reduction(int32_t i) const {
  const Expr& e = expr(i);
  return std::any_of(k_.exprs.begin(), k_.exprs.end(), [&](const Expr& other) {
    return other.op == ExprOp::reduce && other.reduction == e.reduction && rewrite::is_candidate(expr(other.in[0])) &&
           rewrite::candidate(k_, other.in[0]).value == e.in[0];
  });
}

tiles::Fold Lowerer::form_of_fold() const {
  const int row = static_cast<int>(k_.space.size()) - k_.row_dims;  // its first dimension
  return plan_.column_dim >= row ? tiles::Fold::columns : plan_.row_dim >= row ? tiles::Fold::rows : tiles::Fold::none;
}

void Lowerer::fold_index(int32_t i) {
  const Expr& e = expr(i);
  const rewrite::Candidate c = rewrite::candidate(k_, e.in[0]);
  const Scalar type = expr(c.value).type;
  const moves::Span whole = span_of(a_.tile), left = span_of(a_.depends.dims[static_cast<size_t>(i)]);
  const auto spread_of = [&](int32_t id) {
    return spread(value(id), a_.depends.dims[static_cast<size_t>(id)] | a_.tile, whole);
  };
  Inst inst;
  inst.folds = true;
  inst.fold = form_of_fold();
  inst.fn = tiles::extreme_index_fn(e.reduction == Reduction::max, type, inst.fold, c.last_nan,
                                    !c.affine       ? tiles::IndexLanes::lanes
                                    : c.inside >= 0 ? tiles::IndexLanes::masked
                                                    : tiles::IndexLanes::affine);
  bind(inst, 0, spread_of(c.value), whole);
  bind(inst, 1, c.affine ? value(c.index) : spread_of(c.index), whole);
  if (inst.fold == tiles::Fold::columns) inst.index_dim = plan_.column_dim;
  inst.in[2].reg = new_register(left, lane_bytes(type));
  inst.in[2].span = left;
  Expr step{.op = ExprOp::constant, .type = e.type, .number = static_cast<double>(c.step)};
  bind(inst, 3, constant(step), whole);
  if (c.inside >= 0) bind(inst, 4, spread_of(c.inside), whole);
  inst.dst = new_register(left, lane_bytes(e.type));
  const Number start = identity(e.reduction);
  section().fills.push_back({inst.in[2].reg, type, start.f, start.i});
  section().fills.push_back({inst.dst, e.type, std::numeric_limits<double>::infinity(), 0});
  accumulator_[static_cast<size_t>(i)] = inst.dst;
  for (size_t n = 0; n < k_.exprs.size(); ++n)
    if (k_.exprs[n].op == ExprOp::reduce && k_.exprs[n].in[0] == c.value && k_.exprs[n].reduction == e.reduction)
      accumulator_[n] = inst.in[2].reg;
  push(inst, ~DimSet{0}, whole, 0);
  plan_.tile_cost += 0.3 * static_cast<double>(plan_.tile_rows * plan_.tile_columns * row_tiles_);
}

void Lowerer::fold(int32_t i) {
  const Expr& e = expr(i);
  if (rewrite::is_candidate(expr(e.in[0]))) return fold_index(i);
  if (has_index_reduction(i)) return;
  const moves::Span whole = span_of(a_.tile);
  const bool long_row = row_tiles_ > 16 || (form_of_fold() == tiles::Fold::columns && row_tiles_ > 1 &&
                                            row_tiles_ * plan_.tile_columns > 16 * 1024);
  const bool wide = e.type == Scalar::f32 && e.reduction == Reduction::sum && long_row;
  Inst inst;
  inst.folds = true;
  inst.fold = form_of_fold();
  const auto operand = [&](int n, int32_t id) {
    bind(inst, n, spread(value(id), a_.depends.dims[static_cast<size_t>(id)] | a_.tile, whole), whole);
  };
  const Expr& summed = expr(e.in[0]);
  if (const int32_t d = a_.deviations[static_cast<size_t>(i)]; d >= 0) {
    inst.fn = tiles::sum_of_deviations_fn(wide);
    operand(0, expr(d).in[0]);
    bind(inst, 1, value(expr(d).in[1]), whole);
  } else if (!a_.absorbed[static_cast<size_t>(e.in[0])]) {
    const bool narrow = e.type == Scalar::i64 && a_.integers != tiles::IntLane::i64;
    inst.fn = narrow ? tiles::integer_reduce_fn(e.reduction, a_.integers, inst.fold)
                     : tiles::reduce_fn(e.reduction, e.type, inst.fold, wide);
    operand(0, e.in[0]);
  } else {
    inst.fn =
        summed.op == ExprOp::mul ? tiles::sum_of_products_fn(inst.fold, wide) : tiles::count_fn(inst.fold, a_.integers);
    for (int n = 0; n < expr_arity(summed.op); ++n) operand(n, summed.in[static_cast<size_t>(n)]);
  }
  const Scalar type = wide ? Scalar::f64 : e.type;
  inst.dst = new_register(span_of(a_.depends.dims[static_cast<size_t>(i)]), bytes_of(type));
  constexpr double inf = std::numeric_limits<double>::infinity();
  const double numbers[] = {0, 1, inf, -inf};
  const Range held = values_of(a_.integers);
  const int64_t integers[] = {0, 1, held.high, held.low};
  const auto which = static_cast<size_t>(e.reduction);
  section().fills.push_back({inst.dst, type, numbers[which], integers[which]});
  accumulator_[static_cast<size_t>(i)] = inst.dst;
  wide_[static_cast<size_t>(i)] = wide;
  push(inst, ~DimSet{0}, whole, 0);
  plan_.tile_cost += 0.1 * static_cast<double>(plan_.tile_rows * plan_.tile_columns * row_tiles_);
}

void Lowerer::finish_reductions(int stage) {
  for (size_t i = 0; i < k_.exprs.size(); ++i) {
    if (k_.exprs[i].op != ExprOp::reduce || a_.depends.stage[i] != stage) continue;
    InstOperand sum;
    sum.reg = accumulator_[i];
    sum.span = span_of(a_.depends.dims[i]);
    if (wide_[i]) {
      Inst inst;
      inst.fn = tiles::cast_fn(Scalar::f64, Scalar::f32);
      bind(inst, 0, sum, sum.span);
      sum = push(inst, a_.depends.dims[i], sum.span, 4);
    }
    value_[i] = sum;
  }
}

}  // namespace

void lower_expressions(Plan& plan) { Lowerer(plan).run(); }

}  // namespace npusim::cpu::loops::plan
