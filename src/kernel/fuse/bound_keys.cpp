// What a mask is for the keys up to a position, and for those behind it.
#include "kernel/fuse/bound_keys.h"

#include <cmath>
#include <optional>

#include "kernel/facts/compact.h"
#include "kernel/facts/score_kernel.h"
#include "kernel/scalar.h"

namespace npusim {
namespace {

// What is known of a score's expressions for some keys: those at the position and before it, or those behind.
class Known {
 public:
  // `position`: the argument of the kernel around the score that is the position.
  Known(const Kernel& score, int position, bool behind) : score_(score), position_(position), behind_(behind) {
    for (const Expr& e : score.exprs) {
      values_.push_back(value(e));
      lowest_.push_back(lowest(e, values_.back()));
    }
  }

  // The constant that an expression is; nothing where it is not known to be one.
  const std::optional<Number>& of(int32_t expr) const { return values_[static_cast<size_t>(expr)]; }
  // Whether it is −inf, or NaN where −inf is added to no finite number.
  bool is_lowest(int32_t expr) const { return lowest_[static_cast<size_t>(expr)]; }

 private:
  const Expr& at(int32_t expr) const { return score_.exprs[static_cast<size_t>(expr)]; }
  bool is_key(int32_t expr) const {
    return at(expr).op == ExprOp::index && at(expr).integer + 1 == static_cast<int64_t>(score_.space.size());
  }
  bool is_position(int32_t expr) const {
    if (at(expr).op != ExprOp::load) return false;
    const Access& a = score_.accesses[static_cast<size_t>(at(expr).integer)];
    return a.arg == position_ && a.guards.empty() && a.terms.empty();  // of one element
  }

  std::optional<Number> value(const Expr& e) const {
    if (e.op == ExprOp::constant) return Number{e.number, e.integer};
    if (e.op == ExprOp::le && is_key(e.in[0]) && is_position(e.in[1])) return Number{0, !behind_};
    if (e.op == ExprOp::lt && is_position(e.in[0]) && is_key(e.in[1])) return Number{0, behind_};
    if (e.op == ExprOp::select) {
      const auto& condition = of(e.in[0]);
      return condition ? of(e.in[condition->i ? 1 : 2]) : std::nullopt;
    }
    if (e.type == Scalar::boolean && (e.op == ExprOp::bit_and || e.op == ExprOp::bit_or))
      for (size_t n = 0; n < 2; ++n)
        if (const auto& side = of(e.in[n]); side && (side->i != 0) == (e.op == ExprOp::bit_or)) return side;
    const int operands = expr_arity(e.op);
    if (operands == 0 || e.op == ExprOp::reduce || e.op == ExprOp::scan) return std::nullopt;
    if (e.op == ExprOp::idiv || e.op == ExprOp::irem) return std::nullopt;  // may trap
    for (int n = 0; n < operands; ++n)
      if (!of(e.in[static_cast<size_t>(n)])) return std::nullopt;
    Number result = apply(e, at(e.in[0]).type, *of(e.in[0]), operands > 1 ? *of(e.in[1]) : Number{});
    if (e.type == Scalar::f32) result.f = static_cast<float>(result.f);
    return result;
  }

  bool lowest(const Expr& e, const std::optional<Number>& value) const {
    if (e.type != Scalar::f32) return false;
    if (value) return std::isinf(value->f) && value->f < 0;
    switch (e.op) {
      case ExprOp::add:
      case ExprOp::min:
        return is_lowest(e.in[0]) || is_lowest(e.in[1]);
      case ExprOp::round_to:
        return is_lowest(e.in[0]);
      case ExprOp::select:
        return of(e.in[0]) && is_lowest(e.in[of(e.in[0])->i ? 1 : 2]);
      default:
        return false;
    }
  }

  const Kernel& score_;
  int position_;
  bool behind_;
  std::vector<std::optional<Number>> values_;
  std::vector<bool> lowest_;
};

// The score where all keys are known to be at the position or before it.
void simplify_score(Kernel& score, const Known& known) {
  std::vector<int32_t> to(score.exprs.size());
  const auto is_zero = [&](int32_t expr) { return known.of(expr) && known.of(expr)->f == 0; };
  for (size_t i = 0; i < score.exprs.size(); ++i) {
    Expr& e = score.exprs[i];
    to[i] = static_cast<int32_t>(i);
    const auto operand = [&](size_t n) { return to[static_cast<size_t>(e.in[n])]; };
    if (const auto& value = known.of(to[i]); value && e.op != ExprOp::constant) {
      e = {.op = ExprOp::constant, .type = e.type, .number = value->f, .integer = value->i};
    } else if (e.op == ExprOp::select && known.of(e.in[0])) {
      to[i] = operand(known.of(e.in[0])->i ? 1 : 2);
    } else {
      for (size_t n = 0; n < static_cast<size_t>(expr_arity(e.op)); ++n) e.in[n] = operand(n);
    }
  }
  int32_t& stored = score.stores[0].expr;
  stored = to[static_cast<size_t>(stored)];
  // A mask of zeros; which zero a score is does not matter to a softmax.
  const Expr& sum = score.exprs[static_cast<size_t>(stored)];
  if (sum.op != ExprOp::add) return;
  if (is_zero(sum.in[1]))
    stored = sum.in[0];
  else if (is_zero(sum.in[0]))
    stored = sum.in[1];
}

}  // namespace

std::shared_ptr<const Kernel> bound_keys(const Kernel& kernel, int position) {
  Kernel score = score_kernel(kernel);
  const Score& old = *kernel.contraction->score;
  if (old.keys >= 0 || !Known(score, position, true).is_lowest(old.result)) return nullptr;
  score.stores = {{.access = {}, .expr = old.result}};
  simplify_score(score, Known(score, position, false));
  Expr load{.op = ExprOp::load, .type = Scalar::i64}, one{.op = ExprOp::constant, .type = Scalar::i64};
  load.integer = static_cast<int64_t>(score.accesses.size());
  one.integer = 1;
  const auto first = static_cast<int32_t>(score.exprs.size());
  score.accesses.push_back({position, 0, std::vector<int64_t>(score.space.size(), 0), {}, {}});
  score.exprs.push_back(load);
  score.exprs.push_back(one);
  score.exprs.push_back({.op = ExprOp::add, .type = Scalar::i64, .in = {first, first + 1, -1}});
  score.stores.push_back({.access = {}, .expr = first + 2});
  drop_dead(score);
  auto contraction = std::make_shared<Contraction>(*kernel.contraction);
  contraction->score = std::make_shared<const Score>(to_score(score));
  auto bounded = std::make_shared<Kernel>(kernel);
  bounded->contraction = std::move(contraction);
  return bounded;
}

}  // namespace npusim
