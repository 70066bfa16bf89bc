// Makes the registers, instructions and moves of a section from expressions and stores.
#include "backends/cpu/loops/plan/emit.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "backends/cpu/loops/plan/section.h"
#include "backends/cpu/loops/rewrite/condition.h"
#include "backends/cpu/loops/rewrite/running_index.h"
#include "base/error.h"
#include "kernel/facts/index_form.h"
#include "kernel/facts/memory.h"
#include "kernel/scalar.h"

namespace npusim::cpu::loops::plan {

int lane_bytes(Scalar type) { return type == Scalar::boolean ? 1 : type == Scalar::f32 ? 4 : 8; }

namespace {

// Whether an instruction over `inst` reads one lane per row, or one in all, of the operand.
bool is_scalar(moves::Span inst, moves::Span operand) {
  if (inst == moves::Span::one) return false;
  if (inst == moves::Span::row) return operand == moves::Span::one;
  return operand == moves::Span::one || operand == moves::Span::row;
}

}  // namespace

Emitter::Emitter(Plan& plan)
    : plan_(plan), k_(plan.piece.kernel), a_(analyse(plan)), value_(k_.exprs.size()), local_(k_.exprs.size()) {
  for (const Loop& l : plan.inner) row_tiles_ *= (k_.space[static_cast<size_t>(l.dim)] + l.step - 1) / l.step;
}

bool Emitter::store_in_row(const Store& s) const {
  return k_.row_dims > 0 && (s.accumulate || varies_in_row(s.expr) || (dims_of(s.access, a_.depends) & a_.row) != 0);
}

moves::Span Emitter::span_of(DimSet m) const {
  const bool row = (m & bit(plan_.row_dim)) != 0, column = (m & bit(plan_.column_dim)) != 0;
  return row ? (column ? moves::Span::full : moves::Span::row) : column ? moves::Span::column : moves::Span::one;
}

int Emitter::depth_of(DimSet m) const {
  const auto& loops = section().in_row ? plan_.inner : plan_.outer;
  int depth = -1;
  for (size_t l = 0; l < loops.size(); ++l)
    if (m & bit(loops[l].dim)) depth = static_cast<int>(l);
  return depth;
}

void Emitter::begin_section(bool in_row) {
  plan_.sections.emplace_back();
  section().in_row = in_row;
  std::fill(local_.begin(), local_.end(), InstOperand{});
  pending_.clear();
  pairs_.clear();
}

void Emitter::end_section() {
  finish_section(section(), std::move(pending_),
                 static_cast<int>((section().in_row ? plan_.inner : plan_.outer).size()));
}

int Emitter::new_register(moves::Span span, int bytes) {
  // Of rows that are less than a block apart folds read a block of each.
  const int64_t behind = plan_.pitch % tiles::lane_block != 0 ? tiles::lane_block : 0;
  const int64_t lanes = span == moves::Span::full     ? tiles::padded(plan_.tile_rows * plan_.pitch) + behind
                        : span == moves::Span::column ? tiles::padded(plan_.pitch)
                        : span == moves::Span::row    ? tiles::padded(plan_.tile_rows)
                                                      : tiles::lane_block;
  Register r;
  r.bytes = (lanes * bytes + 63) / 64 * 64;
  r.span = span;
  r.lane_bytes = bytes;
  plan_.registers.push_back(r);
  return static_cast<int>(plan_.registers.size()) - 1;
}

InstOperand Emitter::constant(const Expr& e) {
  InstOperand o;
  o.span = moves::Span::one;
  o.reg = new_register(moves::Span::one, bytes_of(e.type));
  plan_.constants.push_back({o.reg, e.type, e.number, e.integer});
  return o;
}

InstOperand& Emitter::value(int32_t i) {
  InstOperand& local = local_[static_cast<size_t>(i)];
  if (local.reg >= 0) return local;
  InstOperand& global = value_[static_cast<size_t>(i)];
  if (global.reg >= 0) return global;
  if (expr(i).op == ExprOp::constant) return global = constant(expr(i));
  // A load of the row's outside that an instruction in the row may not read in place from another section.
  emit(i);
  return local_[static_cast<size_t>(i)];
}

InstOperand Emitter::push(Inst inst, DimSet mask, moves::Span span, int bytes) {
  inst.span = span;
  inst.depth = depth_of(mask);
  if (inst.dst < 0) inst.dst = new_register(span, bytes);
  InstOperand result;
  result.reg = inst.dst;
  result.span = span;
  section().insts.push_back(std::move(inst));
  return result;
}

unsigned Emitter::bind(Inst& inst, int n, const InstOperand& from, moves::Span span) {
  InstOperand& in = inst.in[n];
  in = from;
  in.scalar = is_scalar(span, from.span);
  return in.scalar ? 1u << n : 0;
}

InstOperand Emitter::spread(const InstOperand& from, DimSet mask, moves::Span span) {
  if (from.span == span) return from;
  Inst copy;
  const int bytes = plan_.registers[static_cast<size_t>(from.reg)].lane_bytes;
  const unsigned scalars = bind(copy, 0, from, span);
  copy.fn = tiles::copy_fn(static_cast<size_t>(bytes), scalars != 0);
  return push(copy, mask, span, bytes);
}

moves::Move Emitter::make_move(const Access& a, DimSet mask, moves::Span span) {
  moves::Move m;
  m.arg = a.arg;
  m.bytes = dtype_size(k_.args[static_cast<size_t>(a.arg)].dtype);
  m.offset = a.offset;
  m.strides = a.strides;
  m.guards = a.guards;
  m.span = span;
  m.depth = depth_of(mask);
  const auto stride = [&](int d) { return d < 0 ? 0 : a.strides[static_cast<size_t>(d)]; };
  const bool rows_only = span == moves::Span::row;
  m.row_stride = rows_only ? 0 : stride(plan_.row_dim);
  m.column_stride = rows_only ? stride(plan_.row_dim) : stride(plan_.column_dim);
  for (const IndexTerm& t : a.terms) {
    const InstOperand& index = value(t.expr);
    m.terms.push_back({index.reg, index.span, t.stride, t.extent, added_to_negative(k_, t)});
  }
  m.in_place = m.guards.empty() && m.terms.empty() && m.column_stride == 1 &&
               (span == moves::Span::full || span == moves::Span::column);
  return m;
}

void Emitter::emit(int32_t i) {
  if (a_.absorbed[static_cast<size_t>(i)] || local_[static_cast<size_t>(i)].reg >= 0) return;
  const Expr& e = expr(i);
  if (e.op == ExprOp::constant) {
    if (value_[static_cast<size_t>(i)].reg < 0) value_[static_cast<size_t>(i)] = constant(e);
    return;
  }
  local_[static_cast<size_t>(i)] = e.op == ExprOp::load           ? load(i)
                                   : e.op == ExprOp::scan         ? scan(i)
                                   : rewrite::is_running_index(e) ? running_index(i)
                                                                  : compute(i);
  add_cost(cost_of(e.op));
}

// ns for each element.
void Emitter::add_cost(double each) {
  plan_.tile_cost += each * static_cast<double>(plan_.tile_rows * plan_.tile_columns) *
                     (section().in_row ? static_cast<double>(row_tiles_) : 1);
}

InstOperand Emitter::load(int32_t i) {
  const Expr& e = expr(i);
  if (rewrite::is_search(e)) return search(i);
  if (rewrite::is_condition(e)) return condition(i);
  const Access& a = k_.accesses[static_cast<size_t>(e.integer)];
  const DimSet mask = a_.depends.dims[static_cast<size_t>(i)];
  const moves::Span span = span_of(mask);
  for (const IndexTerm& t : a.terms) ready_index(t.expr);
  moves::Move m = make_move(a, mask, span);
  if (!m.terms.empty()) find_addresses(m, a);
  m.reg = new_register(span, static_cast<int>(m.bytes));
  InstOperand raw;
  raw.reg = m.reg;
  raw.span = span;
  const bool gathers = !m.terms.empty();
  const DType dtype = k_.args[static_cast<size_t>(a.arg)].dtype;
  raw.move = m.in_place ? static_cast<int>(section().moves.size()) : -1;
  section().moves.push_back(std::move(m));
  if (gathers) {
    Inst gather;
    gather.move = static_cast<int>(section().moves.size()) - 1;
    gather.dst = raw.reg;
    push(gather, mask, span, 0);
  }
  const bool narrow = e.type == Scalar::i64 && a_.integers != tiles::IntLane::i64;
  const tiles::TileFn widen = narrow ? tiles::integer_load_fn(dtype, a_.integers) : tiles::widen_fn(dtype);
  if (!widen || only_copied(i)) return raw;
  Inst inst;
  inst.fn = widen;
  bind(inst, 0, raw, span);
  return push(inst, mask, span, bytes_of(e.type));
}

// Makes the load a gather from addresses, which are found where their terms vary and no deeper.
void Emitter::find_addresses(moves::Move& load, const Access& a) {
  if (!a.guards.empty()) return;  // where those do not hold, terms may be anything
  int64_t farthest = 0;
  DimSet mask = 0;
  for (const IndexTerm& t : a.terms) {
    if (t.extent < 1) return;  // address 0 is of no element
    farthest += std::abs(t.stride) * t.extent;
    mask |= a_.depends.dims[static_cast<size_t>(t.expr)];
  }
  if (farthest > std::numeric_limits<int32_t>::max()) return;
  moves::Move m;
  m.kind = moves::MoveKind::addresses;
  m.arg = load.arg;
  m.strides.assign(k_.space.size(), 0);
  m.terms = std::move(load.terms);
  m.span = span_of(mask);
  m.depth = depth_of(mask);
  m.reg = new_register(m.span, 4);
  load.kind = moves::MoveKind::gather;
  load.terms = {{m.reg, m.span, 1, 0}};
  Inst inst;
  inst.move = static_cast<int>(section().moves.size());
  inst.dst = m.reg;
  section().moves.push_back(std::move(m));
  push(inst, mask, section().moves.back().span, 0);
}

// Stored again in the same type, and nothing else: raw elements do.
bool Emitter::only_copied(int32_t i) const {
  const auto n = static_cast<size_t>(i);
  return !rewrite::is_search(expr(i)) && !rewrite::is_condition(expr(i)) && a_.copies[n] == a_.uses[n];
}

// Terms are read from scratch: an index loaded in place is copied there.
void Emitter::ready_index(int32_t t) {
  InstOperand& index = value(t);
  if (index.move >= 0) {
    section().moves[static_cast<size_t>(index.move)].in_place = false;
    for (Inst& inst : section().insts)
      for (InstOperand& in : inst.in)
        if (in.move == index.move) in.move = -1;
    index.move = -1;
  }
}

InstOperand Emitter::scan(int32_t i) {
  const Expr& e = expr(i);
  const DimSet mask = a_.depends.dims[static_cast<size_t>(i)];
  const moves::Span span = span_of(mask);
  const InstOperand in = spread(value(e.in[0]), mask, span);
  Inst inst;
  const bool log = e.integer == 1;
  inst.fn = log ? tiles::log_scan_fn(e.type) : tiles::scan_fn(e.reduction, e.type);
  bind(inst, 0, in, span);
  inst.in[1].reg = new_register(plan_.row_dim >= 0 ? moves::Span::row : moves::Span::one, 8);
  inst.in[1].span = plan_.row_dim >= 0 ? moves::Span::row : moves::Span::one;
  const Number start = identity(log ? Reduction::max : e.reduction);
  section().fills.push_back({inst.in[1].reg, e.type == Scalar::i64 ? Scalar::i64 : Scalar::f64, start.f, start.i});
  return push(inst, mask, span, lane_bytes(e.type));
}

InstOperand Emitter::running_index(int32_t i) {
  const Expr& e = expr(i);
  const DimSet mask = a_.depends.dims[static_cast<size_t>(i)];
  const moves::Span span = span_of(mask), of_row = plan_.row_dim >= 0 ? moves::Span::row : moves::Span::one;
  Inst inst;
  inst.fn = tiles::running_index_fn(expr(e.in[0]).type);
  bind(inst, 0, spread(value(e.in[0]), mask, span), span);
  bind(inst, 2, spread(value(e.in[1]), mask, span), span);
  inst.in[1].reg = new_register(of_row, 8);
  inst.in[1].span = of_row;
  inst.index_dim = static_cast<int>(k_.space.size()) - 1;
  section().fills.push_back({inst.in[1].reg, Scalar::i64, 0, 0});
  return push(inst, mask, span, 8);
}

InstOperand Emitter::search(int32_t i) {
  const Access& a = k_.accesses[static_cast<size_t>(expr(i).integer)];
  const DimSet mask = a_.depends.dims[static_cast<size_t>(i)];
  const moves::Span span = span_of(mask);
  ready_index(a.terms[0].expr);
  moves::Move m = make_move(a, mask, span);
  m.kind = moves::MoveKind::search;
  m.search = rewrite::search_fn(expr(i), k_.args[static_cast<size_t>(a.arg)].dtype);
  m.reg = new_register(span, 8);
  Inst inst;
  inst.move = static_cast<int>(section().moves.size());
  inst.dst = m.reg;
  section().moves.push_back(std::move(m));
  plan_.tile_cost +=
      std::log2(static_cast<double>(a.terms[0].extent) + 1) * static_cast<double>(plan_.tile_rows * plan_.tile_columns);
  return push(inst, mask, span, 8);
}

InstOperand Emitter::condition(int32_t i) {
  const DimSet mask = a_.depends.dims[static_cast<size_t>(i)];
  const moves::Span span = span_of(mask);
  moves::Move m = make_move(k_.accesses[static_cast<size_t>(expr(i).integer)], mask, span);
  m.kind = moves::MoveKind::condition;
  m.bytes = 1;
  m.in_place = false;
  m.reg = new_register(span, 1);
  InstOperand holds;
  holds.reg = m.reg;
  holds.span = span;
  section().moves.push_back(std::move(m));
  return holds;
}

InstOperand Emitter::compute(int32_t i) {
  const Expr& e = expr(i);
  const DimSet mask = a_.depends.dims[static_cast<size_t>(i)];
  const moves::Span span = span_of(mask);
  if (a_.drawn[static_cast<size_t>(i)]) return drawn(i, Scalar::i64);
  if (e.op == ExprOp::cast && e.type == Scalar::f32 && a_.drawn[static_cast<size_t>(e.in[0])])
    return drawn(e.in[0], Scalar::f32);
  if (e.op == ExprOp::index) return index(static_cast<int>(e.integer), mask, span);
  if (is_operand(i)) return value(e.in[0]);
  if (a_.signs[static_cast<size_t>(i)] >= 0) return flip(i, mask, span);
  if (a_.gelus[static_cast<size_t>(i)].x >= 0) return gelu(i, mask, span);
  if (a_.between[static_cast<size_t>(i)].weight >= 0) return between(i, mask, span);
  if (a_.normed[static_cast<size_t>(i)].x >= 0) return normed(i, mask, span);
  if (a_.shares[static_cast<size_t>(i)] >= 0) return share(i, mask, span);
  if (a_.leaks[static_cast<size_t>(i)] >= 0) return leak(i, mask, span);
  if (!a_.polynomials[static_cast<size_t>(i)].terms.empty()) return polynomial(i, mask, span);
  return a_.fused[static_cast<size_t>(i)] >= 0 ? fused(i, mask, span) : plain(i, mask, span);
}

// One instruction of one expression.
InstOperand Emitter::plain(int32_t i, DimSet mask, moves::Span span) {
  const Expr& e = expr(i);
  Inst inst;
  unsigned scalars = 0;
  for (int n = 0; n < expr_arity(e.op); ++n) scalars |= bind(inst, n, value(e.in[static_cast<size_t>(n)]), span);
  inst.fn = plain_fn(e, scalars);
  if (!inst.fn)
    fail(ErrorKind::internal, "loops: no tile function for {} of type {}", expr_op_name(e.op),
         static_cast<int>(expr(e.in[0]).type));
  return push(inst, mask, span, bytes_of(e.type));
}

tiles::TileFn Emitter::plain_fn(const Expr& e, unsigned scalars) const {
  const Scalar in_type = expr(e.in[0]).type;
  if (a_.integers != tiles::IntLane::i64 && (e.type == Scalar::i64 || in_type == Scalar::i64))
    return tiles::integer_fn(e, in_type, a_.integers, scalars);
  if (e.op == ExprOp::select) return tiles::select_fn(e.type, scalars);
  if (e.op == ExprOp::cast) return tiles::cast_fn(in_type, e.type);
  if (e.op == ExprOp::round_to) return tiles::round_fn(e.dtype, e.type);
  return expr_arity(e.op) == 2 ? tiles::binary_fn(e.op, in_type, scalars) : tiles::unary_fn(e.op, in_type);
}

// Whether the expression is its operand, as it lies in lanes.
bool Emitter::is_operand(int32_t i) const {
  const Expr& e = expr(i);
  return e.op == ExprOp::reduce ||  // of one element
         (e.op == ExprOp::round_to && e.type == Scalar::i64 && tiles::keeps_lane(e.dtype, a_.integers));
}

// Whether the lanes that have the value are for this one use alone.
bool Emitter::is_used_once(int32_t i) const {
  while (a_.uses[static_cast<size_t>(i)] == 1 && expr(i).op == ExprOp::round_to && is_operand(i)) i = expr(i).in[0];
  return a_.uses[static_cast<size_t>(i)] == 1;
}

InstOperand Emitter::index(int d, DimSet mask, moves::Span span) {
  Inst inst;
  inst.index_dim = d;
  inst.fn = d == plan_.row_dim || d == plan_.column_dim ? tiles::iota_fn() : tiles::index_fn();
  return push(inst, mask, span, 8);
}

void Emitter::emit_stores(bool in_row) {
  const DimSet reach = in_row ? a_.tile : a_.tile & ~a_.row;
  for (const Store& s : k_.stores)
    if (store_in_row(s) == in_row) store(s, reach);
}

void Emitter::store(const Store& s, DimSet reach) {
  const moves::Span span = span_of(reach);
  for (const IndexTerm& t : s.access.terms) ready_index(t.expr);
  moves::Move m = make_move(s.access, ~DimSet{0}, span);
  const DType dtype = k_.args[static_cast<size_t>(s.access.arg)].dtype;
  m.store = true;
  if (s.accumulate) m.combine = moves::combine_fn(dtype, s.reduction);
  const bool contiguous = m.in_place;
  m.in_place = contiguous && !s.accumulate && is_used_once(s.expr);
  add_cost(0.05);
  InstOperand from = value(s.expr);
  const auto source = static_cast<size_t>(s.expr);
  const bool narrow_lanes = expr(s.expr).type == Scalar::i64 && a_.integers != tiles::IntLane::i64;
  const tiles::TileFn narrow = narrow_lanes ? tiles::integer_store_fn(a_.integers, dtype) : tiles::narrow_fn(dtype);
  const bool raw = expr(s.expr).op == ExprOp::load && only_copied(s.expr);
  const DimSet mask = a_.depends.dims[source] | reach;
  if (raw && copy_straight(m, s)) {
    pending_.push_back(std::move(m));
    return;
  }
  if (narrow && !raw && !s.accumulate) {
    Inst inst;
    inst.fn = narrow;
    bind(inst, 0, spread(from, mask, span), span);
    from = push(inst, mask, span, static_cast<int>(m.bytes));
    m.in_place = contiguous;
  } else if (from.span != span) {
    from = spread(from, mask, span);
    m.in_place = contiguous && !s.accumulate;
  }
  m.reg = from.reg;
  m.lane_bytes = static_cast<size_t>(bytes_of(expr(s.expr).type));
  m.source_move = from.move;
  if (from.move >= 0 || k_.exprs[source].op == ExprOp::reduce) m.in_place = false;
  if (s.accumulate) take_source(m, s);
  pending_.push_back(std::move(m));
}

// What is loaded only to be stored goes from memory to memory, unless a store before it may write where it is read.
bool Emitter::copy_straight(moves::Move& m, const Store& s) {
  constexpr size_t most_stores = 64;  // each is held to all others
  if (k_.stores.size() > most_stores) return false;
  const Access& from = k_.accesses[static_cast<size_t>(expr(s.expr).integer)];
  for (const Store& other : k_.stores) {
    const Access& to = other.access;
    if (other.expr == s.expr && (!to.guards.empty() || !to.terms.empty())) return false;
    if (k_.stores.size() > 1 && may_be_one(k_, from.arg, to.arg)) return false;
  }
  const int reg = local_[static_cast<size_t>(s.expr)].reg;
  const auto load = std::find_if(section().moves.begin(), section().moves.end(),
                                 [&](const moves::Move& other) { return reg >= 0 && other.reg == reg; });
  if (load == section().moves.end() || !load->guards.empty()) return false;
  const auto varies = [](const moves::Move::Term& t) {
    return t.span == moves::Span::full || t.span == moves::Span::column;
  };
  if (load->kind == moves::MoveKind::gather) {
    if (m.span != moves::Span::full || load->span != moves::Span::full || m.column_stride != 1 ||
        varies(load->terms[0]))
      return false;
  } else if (load->kind != moves::MoveKind::plain || !load->terms.empty()) {
    return false;
  }
  const auto stride = [&](int d) { return d < 0 ? 0 : from.strides[static_cast<size_t>(d)]; };
  m.copied = static_cast<int>(load - section().moves.begin());
  m.copied_row = m.span == moves::Span::row ? 0 : stride(plan_.row_dim);
  m.copied_column = stride(m.span == moves::Span::row ? plan_.row_dim : plan_.column_dim);
  m.reg = reg;
  m.in_place = false;
  load->only_copied = true;
  plan_.registers[static_cast<size_t>(reg)].bytes = 0;
  std::erase_if(section().insts, [&](const Inst& inst) { return inst.move == m.copied; });
  return true;
}

// Rows that are gathered only to be combined are combined from where they lie, times a number for each.
void Emitter::take_source(moves::Move& m, const Store& s) {
  const auto uses = [&](int32_t i) { return a_.uses[static_cast<size_t>(i)]; };
  int32_t rows = s.expr, factor = -1;
  if (expr(rows).op == ExprOp::mul && uses(rows) == 1)
    for (size_t n = 0; n < 2 && factor < 0; ++n)
      if (const int32_t one = expr(s.expr).in[n];
          expr(one).op == ExprOp::load && !k_.accesses[static_cast<size_t>(expr(one).integer)].terms.empty())
        rows = one, factor = expr(s.expr).in[1 - n];
  if (expr(rows).op != ExprOp::load || rewrite::is_search(expr(rows)) || uses(rows) != 1) return;
  if (m.span != moves::Span::full || m.column_stride != 1 || !m.guards.empty() || m.terms.size() != 1 ||
      m.terms[0].span == moves::Span::full || m.terms[0].span == moves::Span::column)
    return;
  const auto is_f32 = [&](int arg) { return k_.args[static_cast<size_t>(arg)].dtype == DType::f32; };
  const int reg = local_[static_cast<size_t>(rows)].reg;
  const auto gather = std::find_if(section().moves.begin(), section().moves.end(), [&](const moves::Move& other) {
    return other.kind == moves::MoveKind::gather && other.reg == reg;
  });
  if (gather == section().moves.end() || gather->span != moves::Span::full || gather->column_stride != 1 ||
      gather->terms[0].span == moves::Span::full || gather->terms[0].span == moves::Span::column ||
      !is_f32(gather->arg) || !is_f32(m.arg))
    return;
  if (factor >= 0) {
    const InstOperand scale = value(factor);
    if ((scale.span != moves::Span::row && scale.span != moves::Span::one) || scale.move >= 0) return;
    m.scale = scale.reg, m.scale_span = scale.span;
  }
  m.gathered = static_cast<int>(gather - section().moves.begin());
  m.combine = moves::combine_rows_fn(s.reduction);
  std::erase_if(section().insts, [&](const Inst& inst) {
    return inst.move == m.gathered || (factor >= 0 && inst.dst == local_[static_cast<size_t>(s.expr)].reg);
  });
}

}  // namespace npusim::cpu::loops::plan
