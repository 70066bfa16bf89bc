// Compiles the expressions of a kernel to the sections of its plan: loops_lower.cpp walks stages and expressions,
// loops_emit.cpp makes their registers, instructions and moves.
#pragma once
#include <vector>

#include "backends/cpu/loops_analyse.h"
#include "backends/cpu/loops_plan.h"

namespace npusim::cpu {

int lane_bytes(Scalar type);

class Lowering {
 public:
  explicit Lowering(Plan& plan);  // whose tile is chosen
  void run();

 private:
  const Expr& expr(int32_t i) const { return k_.exprs[static_cast<size_t>(i)]; }
  Section& section() { return plan_.sections.back(); }
  const Section& section() const { return plan_.sections.back(); }
  Span span_of(Mask m) const;
  int depth_of(Mask m) const;  // the innermost loop of the section over a dimension of m, or -1
  bool varies_in_row(int32_t i) const { return (a_.mask[static_cast<size_t>(i)] & a_.row) != 0; }
  bool store_in_row(const Store& s) const;

  // Sections
  void begin_section(bool in_row);
  void end_section();
  void emit_invariant(int stage);
  void row_section(int stage);
  std::vector<char> needed_in(int stage) const;  // the row-varying expressions that a stage's section computes
  void keep(size_t i);
  void fold(int32_t i);
  void finish_reductions(int stage);

  // Expressions and stores: instructions and moves of the current section
  void emit(int32_t i);
  void emit_stores(bool in_row);
  void store(const Store& s, Mask reach);
  Operand load(int32_t i);
  Operand scan(int32_t i);
  Operand compute(int32_t i);
  Operand index(int d, Mask mask, Span span);
  Operand fused(int32_t i, Mask mask, Span span);
  Operand constant(const Expr& e);
  Operand& value(int32_t i);
  bool only_copied(int32_t i) const;
  void ready_index(int32_t t);

  int new_register(Span span, int bytes);
  Operand push(Inst inst, Mask mask, Span span, int bytes);
  static unsigned bind(Inst& inst, int n, const Operand& from, Span span);
  Operand spread(const Operand& from, Mask mask, Span span);
  Move make_move(const Access& a, Mask mask, Span span);

  Plan& plan_;
  const Kernel& k_;
  Analysis a_;
  int64_t row_tiles_ = 1, kept_bytes_ = 0;
  std::vector<Operand> value_;  // seen by every later section
  std::vector<Operand> local_;  // seen by this section
  std::vector<int> accumulator_;
  std::vector<char> wide_, kept_;
  std::vector<Move> pending_;  // this section's stores
};

}  // namespace npusim::cpu
