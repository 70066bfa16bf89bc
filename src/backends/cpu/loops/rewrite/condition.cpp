// Finds conditions on indices.
#include "backends/cpu/loops/rewrite/condition.h"

#include <optional>
#include <vector>

#include "kernel/facts/affine.h"
#include "kernel/facts/compact.h"
#include "kernel/facts/range.h"

namespace npusim::cpu::loops::rewrite {
namespace {

constexpr size_t most_guards = 16;  // of a condition; conditions of more are tested apart

// A comparison of affine indices as a guard.
std::optional<Guard> guard_of(const Kernel& k, const Expr& e) {
  constexpr int64_t most = int64_t{1} << 50;
  if (e.type != Scalar::boolean || (e.op != ExprOp::eq && e.op != ExprOp::lt && e.op != ExprOp::le))
    return std::nullopt;
  if (k.exprs[static_cast<size_t>(e.in[0])].type != Scalar::i64) return std::nullopt;
  const auto a = affine_of(k, e.in[0]), b = affine_of(k, e.in[1]);
  if (!a || !b) return std::nullopt;
  Guard g{.coeffs = b->coeffs, .offset = b->offset - a->offset - (e.op == ExprOp::lt), .limit = most};
  if (e.op == ExprOp::eq) g.limit = 1;
  for (size_t d = 0; d < g.coeffs.size(); ++d) g.coeffs[d] -= a->coeffs[d];
  const auto range = range_of(g.offset, g.coeffs, k.space);
  return range && range->low > -most && range->high < most ? std::optional(g) : std::nullopt;
}

// A condition, or true.
bool holds_by_guards(const Expr& e) {
  return is_condition(e) || (e.op == ExprOp::constant && e.type == Scalar::boolean && e.integer != 0);
}

}  // namespace

bool is_condition(const Expr& e) { return e.op == ExprOp::load && e.dtype == DType::boolean; }

void find_conditions(Kernel& k) {
  if (k.space.empty()) return;
  bool any = false;
  for (Expr& e : k.exprs) {
    std::vector<Guard> guards;
    if (const auto guard = guard_of(k, e)) {
      guards.push_back(*guard);
    } else if (e.op == ExprOp::bit_and && e.type == Scalar::boolean) {
      const Expr &a = k.exprs[static_cast<size_t>(e.in[0])], &b = k.exprs[static_cast<size_t>(e.in[1])];
      if (!holds_by_guards(a) || !holds_by_guards(b)) continue;
      if (is_condition(a)) guards = k.accesses[static_cast<size_t>(a.integer)].guards;
      if (is_condition(b)) {
        const auto& more = k.accesses[static_cast<size_t>(b.integer)].guards;
        if (guards.size() + more.size() > most_guards) continue;
        guards.insert(guards.end(), more.begin(), more.end());
      }
    } else {
      continue;
    }
    e = {.op = ExprOp::load, .type = Scalar::boolean, .dtype = DType::boolean};
    e.integer = static_cast<int64_t>(k.accesses.size());
    Access nothing{.arg = 0, .offset = 0, .strides = {}, .guards = std::move(guards), .terms = {}};
    nothing.strides.assign(k.space.size(), 0);
    k.accesses.push_back(std::move(nothing));
    any = true;
  }
  if (any) drop_dead(k);
}

}  // namespace npusim::cpu::loops::rewrite
