// A target that compiles as the CPU's does and then puts a fault into some of its kernels, and two faults.
#pragma once
#include <algorithm>
#include <functional>

#include "codegen/target.h"

namespace npusim {

// The CPU, but for kernels that it spoils before the program is finished: `spoil` says whether it did.
class Faulty : public CodegenTarget {
 public:
  explicit Faulty(std::function<bool(Kernel&)> spoil) : spoil_(std::move(spoil)) {
    config_ = find_target("cpu")->config();
  }
  std::string refuse(const Kernel&) const override { return {}; }
  void plan(Program& program, const ProgramPlans&, std::vector<std::string>&) const override {
    for (Kernel& kernel : program.kernels) spoiled_ += spoil_(kernel);
  }
  int spoiled() const { return spoiled_; }

 private:
  std::function<bool(Kernel&)> spoil_;
  mutable int spoiled_ = 0;
};

// max(x, 0) behind a sum becomes x: only where a convolution, a residual and a relu are one.
inline bool drop_bound(Kernel& k) {
  if (!k.contraction || k.args.size() < 5) return false;
  for (Expr& e : k.exprs)
    if (e.op == ExprOp::max) {
      e.in = {e.in[0], e.in[0], -1};
      return true;
    }
  return false;
}

// 1/sqrt(x) is rounded to float16.
inline bool round_roots(Kernel& k) {
  const auto root = std::find_if(k.exprs.begin(), k.exprs.end(), [](const Expr& e) { return e.op == ExprOp::rsqrt; });
  if (root == k.exprs.end()) return false;
  const int32_t at = static_cast<int32_t>(root - k.exprs.begin());
  // An expression behind it takes its place: who reads it, and who reads what is behind, reads one further.
  for (Expr& e : k.exprs)
    for (int32_t& in : e.in) in += in >= at;
  for (Store& store : k.stores) store.expr += store.expr >= at;
  for (Access& access : k.accesses)
    for (IndexTerm& term : access.terms) term.expr += term.expr >= at;
  for (Store& store : k.stores)
    for (IndexTerm& term : store.access.terms) term.expr += term.expr >= at;
  Expr rounded;
  rounded.op = ExprOp::round_to;
  rounded.type = k.exprs[static_cast<size_t>(at)].type;
  rounded.dtype = DType::f16;
  rounded.in[0] = at;
  k.exprs.insert(k.exprs.begin() + at + 1, rounded);
  return true;
}

}  // namespace npusim
