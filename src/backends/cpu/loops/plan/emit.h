// What makes a section: registers, instructions and moves for expressions and stores.
#pragma once
#include <vector>

#include "backends/cpu/loops/plan/analyse.h"
#include "backends/cpu/loops/plan/plan.h"

namespace npusim::cpu::loops::plan {

int lane_bytes(Scalar type);  // of integers: where they are not narrower

// One section after the other; which expressions each computes is decided above (lower.cpp).
class Emitter {
 protected:
  explicit Emitter(Plan& plan);  // whose tile is chosen

  const Expr& expr(int32_t i) const { return k_.exprs[static_cast<size_t>(i)]; }
  Section& section() { return plan_.sections.back(); }
  const Section& section() const { return plan_.sections.back(); }
  moves::Span span_of(DimSet m) const;
  bool varies_in_row(int32_t i) const { return (a_.depends.dims[static_cast<size_t>(i)] & a_.row) != 0; }
  bool store_in_row(const Store& s) const;

  void begin_section(bool in_row);
  void end_section();
  // Expressions and stores: instructions and moves of the current section
  void emit(int32_t i);
  void emit_stores(bool in_row);
  InstOperand& value(int32_t i);
  InstOperand spread(const InstOperand& from, DimSet mask, moves::Span span);
  InstOperand constant(const Expr& e);
  InstOperand push(Inst inst, DimSet mask, moves::Span span, int bytes);
  int new_register(moves::Span span, int bytes);
  int bytes_of(Scalar type) const { return type == Scalar::i64 ? lane_bytes(a_.integers) : lane_bytes(type); }
  static unsigned bind(Inst& inst, int n, const InstOperand& from, moves::Span span);

  Plan& plan_;
  const Kernel& k_;
  Analysis a_;
  int64_t row_tiles_ = 1;
  std::vector<InstOperand> value_;  // by expression: seen by every later section
  std::vector<InstOperand> local_;  // seen by this section

 private:
  int depth_of(DimSet m) const;  // the innermost loop of the section over a dimension of m, or -1
  void store(const Store& s, DimSet reach);
  InstOperand load(int32_t i);
  InstOperand scan(int32_t i);
  InstOperand search(int32_t i);
  InstOperand condition(int32_t i);
  InstOperand running_index(int32_t i);
  void take_source(moves::Move& m, const Store& s);
  bool copy_straight(moves::Move& m, const Store& s);
  InstOperand compute(int32_t i);
  InstOperand plain(int32_t i, DimSet mask, moves::Span span);
  tiles::TileFn plain_fn(const Expr& e, unsigned scalars) const;
  bool is_operand(int32_t i) const;
  bool is_used_once(int32_t i) const;
  InstOperand index(int d, DimSet mask, moves::Span span);
  InstOperand fused(int32_t i, DimSet mask, moves::Span span);
  InstOperand choice(int32_t i, DimSet mask, moves::Span span);
  InstOperand leak(int32_t i, DimSet mask, moves::Span span);
  void add_cost(double each);
  InstOperand gelu(int32_t i, DimSet mask, moves::Span span);
  InstOperand between(int32_t i, DimSet mask, moves::Span span);
  InstOperand normed(int32_t i, DimSet mask, moves::Span span);
  InstOperand share(int32_t i, DimSet mask, moves::Span span);
  InstOperand flip(int32_t i, DimSet mask, moves::Span span);
  InstOperand polynomial(int32_t i, DimSet mask, moves::Span span);
  InstOperand pair(int32_t i, DimSet mask, moves::Span span);
  InstOperand drawn(int32_t i, Scalar type);
  bool only_copied(int32_t i) const;
  void find_addresses(moves::Move& load, const Access& a);
  void ready_index(int32_t t);
  moves::Move make_move(const Access& a, DimSet mask, moves::Span span);

  struct Pair {
    DrawForm draw;
    bool second = false;
    InstOperand words;
  };
  std::vector<Pair> pairs_;           // this section's
  std::vector<moves::Move> pending_;  // its stores
};

}  // namespace npusim::cpu::loops::plan
