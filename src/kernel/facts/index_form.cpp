// Recognises indices that count from the end.
#include "kernel/facts/index_form.h"

#include "kernel/facts/match_expr.h"

namespace npusim {

int64_t added_to_negative(const Kernel& kernel, const IndexTerm& term) {
  const ExprMatcher match{kernel};
  const auto is_constant = [&](int32_t id, int64_t value) {
    return match.is(id, ExprOp::constant) && !match.is_float(id) && match.at(id).integer == value;
  };
  if (!match.is(term.expr, ExprOp::select)) return 0;
  const auto [negative, moved, index] = match.at(term.expr).in;
  if (!match.is(negative, ExprOp::lt) || match.at(negative).in[0] != index || !is_constant(match.at(negative).in[1], 0))
    return 0;
  if (!match.is(moved, ExprOp::add)) return 0;
  const auto [a, b, none] = match.at(moved).in;
  return (a == index && is_constant(b, term.extent)) || (b == index && is_constant(a, term.extent)) ? term.extent : 0;
}

}  // namespace npusim
