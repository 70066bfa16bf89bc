// Matching of score expressions.
#include "kernel/facts/score_form.h"

#include <algorithm>

#include "kernel/facts/affine.h"
#include "kernel/facts/match_expr.h"
#include "kernel/facts/score_kernel.h"

namespace npusim {
namespace {

struct Matcher : ExprMatcher {
  // The keys for which `condition` is `wanted` are those below an affine limit of the other dimensions.
  bool limit(int32_t condition, bool wanted, ScoreForm& form) const {
    const Expr& c = at(condition);
    if (c.op == ExprOp::logical_not && at(c.in[0]).type == Scalar::boolean) return limit(c.in[0], !wanted, form);
    if (c.op != ExprOp::lt && c.op != ExprOp::le) return false;
    if (at(c.in[0]).type != Scalar::i64) return false;
    const auto a = affine_of(kernel, c.in[0]), b = affine_of(kernel, c.in[1]);
    if (!a || !b) return false;
    // Holds where difference = b - a >= least.
    const int64_t least = c.op == ExprOp::lt;
    const size_t key = kernel.space.size() - 1;
    const int64_t slope = b->coeffs[key] - a->coeffs[key];
    if (slope != (wanted ? -1 : 1)) return false;
    form.limited = true;
    const int64_t sign =
        wanted ? 1 : -1;  // limit = g - least + 1, or least - g, for g = the difference without the key
    for (size_t d = 0; d < key; ++d) form.limit_coeffs.push_back(sign * (b->coeffs[d] - a->coeffs[d]));
    form.limit_offset = sign * (b->offset - a->offset) + (wanted ? 1 - least : least);
    return true;
  }

  // `condition` is a tensor of booleans that is `wanted` where keys count.
  bool kept(int32_t condition, bool wanted, ScoreForm& form) const {
    const Expr& c = at(condition);
    if (c.op == ExprOp::logical_not && at(c.in[0]).type == Scalar::boolean) return kept(c.in[0], !wanted, form);
    if (c.op != ExprOp::load || c.type != Scalar::boolean || form.kept >= 0) return false;
    const Access& access = kernel.accesses[static_cast<size_t>(c.integer)];
    if (!access.terms.empty() || !access.guards.empty()) return false;
    form.kept = static_cast<int>(c.integer);
    form.keeps = wanted;
    return true;
  }

  // Keys for which `condition` is not `wanted` are masked, all alike.
  bool match_masked(int32_t condition, bool wanted, float masked, bool added, ScoreForm& form) const {
    const bool again = form.limited || form.kept >= 0;
    if (again && (form.masked != masked || form.added != added)) return false;
    form.masked = masked;
    form.added = added;
    return kept(condition, wanted, form) || (!form.limited && limit(condition, wanted, form));
  }

  // A term that is 0 for the keys that count and the same number for all others.
  bool is_added(const Expr& e) const {
    if (e.op != ExprOp::select) return false;
    const auto first = constant(e.in[1]), second = constant(e.in[2]);
    return first && second && (*first == 0) != (*second == 0);
  }
  bool match_added(const Expr& e, ScoreForm& form) const {
    const bool wanted = *constant(e.in[1]) == 0;
    return match_masked(e.in[0], wanted, static_cast<float>(*constant(e.in[wanted ? 2 : 1])), true, form);
  }

  bool match(int32_t e, ScoreForm& form) const {
    const Expr& x = at(e);
    if (x.type != Scalar::f32) return false;
    switch (x.op) {
      case ExprOp::contraction:
        return true;
      case ExprOp::mul:
      case ExprOp::div: {
        if (form.mask >= 0) return false;
        auto factor = constant(x.in[1]);
        int32_t rest = x.in[0];
        if (!factor && x.op == ExprOp::mul) factor = constant(x.in[0]), rest = x.in[1];
        if (!factor || !match_scale(rest, form)) return false;
        form.scale *= static_cast<float>(x.op == ExprOp::mul ? *factor : 1 / *factor);
        return true;
      }
      case ExprOp::add:
        for (int n = 0; n < 2; ++n) {
          const int32_t term = x.in[static_cast<size_t>(n)], rest = x.in[static_cast<size_t>(1 - n)];
          if (is_added(at(term))) return match_added(at(term), form) && match(rest, form);
          const Expr& load = at(term);
          if (load.op != ExprOp::load || load.type != Scalar::f32) continue;
          const Access& access = kernel.accesses[static_cast<size_t>(load.integer)];
          if (!access.terms.empty() || !access.guards.empty() || !match_scale(rest, form)) return false;
          form.mask = static_cast<int>(load.integer);
          return true;
        }
        return false;
      case ExprOp::select:
        for (int n = 1; n < 3; ++n)
          if (const auto masked = constant(x.in[static_cast<size_t>(n)]))
            return match_masked(x.in[0], n == 2, static_cast<float>(*masked), false, form) &&
                   match(x.in[static_cast<size_t>(3 - n)], form);
        return false;
      default:
        return false;
    }
  }

  bool match_scale(int32_t e, ScoreForm& form) const {
    return (at(e).op == ExprOp::contraction || at(e).op == ExprOp::mul || at(e).op == ExprOp::div) && match(e, form);
  }
};

}  // namespace

std::optional<ScoreForm> score_form(const Kernel& outer) {
  ScoreForm form;
  const Kernel score = score_kernel(outer);
  if (!Matcher{{score}}.match(outer.contraction->score->result, form)) return std::nullopt;
  return form;
}

}  // namespace npusim
