// Finds the reductions to an extreme's index.
#include "backends/cpu/loops/rewrite/extreme_index.h"

#include <limits>
#include <utility>
#include <vector>

#include "kernel/facts/affine.h"
#include "kernel/facts/compact.h"
#include "kernel/facts/range.h"
#include "kernel/facts/rename.h"
#include "kernel/facts/visit.h"

namespace npusim::cpu::loops::rewrite {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// A reduction to an index, as it is spelled out.
struct Search {
  int32_t value = -1, inside = -1;
  Reduction extreme = Reduction::max;
  int32_t index = -1;
  std::optional<IndexForm> affine;  // the index
  int32_t none = -1;                // the result where nothing counts
  bool sees_nan = false;
};

class Finder {
 public:
  Finder(Kernel& k, int column) : k_(k), column_(column) {}

  bool run() {
    const std::vector<Expr> from = k_.exprs;
    searches_.resize(from.size());
    last_nan_.assign(from.size(), false);
    bool any = false;
    count_uses();
    for (size_t i = 0; i < from.size(); ++i) searches_[i] = search(expr(static_cast<int32_t>(i)));
    for (size_t i = 0; i < from.size(); ++i) find_last_nan(static_cast<int32_t>(i));
    std::vector<int32_t> to(from.size());
    std::vector<Expr> exprs;
    out_ = &exprs;
    for (size_t i = 0; i < from.size(); ++i) {
      const auto& s = searches_[i];
      if (s && (last_nan_[i] || s->sees_nan || expr(s->value).type == Scalar::i64)) {
        to[i] = index_of(*s, last_nan_[i], from[i].type, to);
        any = true;
        continue;
      }
      Expr e = from[i];
      rename_operands(e, to);
      if (same_.size() > i && same_[i] >= 0) {
        to[i] = to[static_cast<size_t>(same_[i])];
        continue;
      }
      exprs.push_back(e);
      to[i] = static_cast<int32_t>(exprs.size()) - 1;
    }
    if (!any) return false;
    k_.exprs = std::move(exprs);
    for (Access& a : k_.accesses) rename_terms(a, to);
    rename_stores(k_, to);
    return true;
  }

 private:
  const Expr& expr(int32_t i) const { return k_.exprs[static_cast<size_t>(i)]; }
  void count_uses() {
    uses_.assign(k_.exprs.size(), 0);
    const auto use = [&](int32_t i) { ++uses_[static_cast<size_t>(i)]; };
    for (const Expr& e : k_.exprs) for_each_operand(k_, e, use);
    for (const Store& s : k_.stores) {
      use(s.expr);
      for (const IndexTerm& t : s.access.terms) use(t.expr);
    }
  }
  size_t outer() const { return k_.space.size() - static_cast<size_t>(k_.row_dims); }

  // Of a constant.
  std::optional<double> number(int32_t i) const {
    const Expr& e = expr(i);
    if (e.op != ExprOp::constant) return std::nullopt;
    return e.type >= Scalar::f32 ? e.number : static_cast<double>(e.integer);
  }
  bool is_nan_of(int32_t i, int32_t x) const { return expr(i).op == ExprOp::isnan && expr(i).in[0] == x; }

  // x == top, of an extreme of x.
  bool meets_extreme(int32_t i, Search& s) const {
    const Expr& e = expr(i);
    if (e.op != ExprOp::eq || e.type != Scalar::boolean) return false;
    for (size_t n = 0; n < 2; ++n) {
      const Expr& top = expr(e.in[n]);
      if (top.op != ExprOp::reduce || top.in[0] != e.in[1 - n] || top.type < Scalar::i64) continue;
      if (top.reduction != Reduction::min && top.reduction != Reduction::max) continue;
      s.value = e.in[1 - n];
      s.extreme = top.reduction;
      return true;
    }
    return false;
  }

  Scalar lane_of(const Search& s) const { return expr(s.value).type == Scalar::f32 ? Scalar::f32 : Scalar::f64; }

  // Whether what does not count is never beyond what does.
  bool is_identity_outside(const Search& s) const {
    const Expr& x = expr(s.value);
    if (x.op != ExprOp::select || x.in[0] != s.inside || !number(x.in[2])) return false;
    const Expr& outside = expr(x.in[2]);
    const bool highest = s.extreme == Reduction::max;
    using Limits = std::numeric_limits<int64_t>;
    if (x.type == Scalar::i64) return outside.integer == (highest ? Limits::min() : Limits::max());
    return outside.number == (highest ? -infinity : infinity);
  }

  std::optional<Search> search(const Expr& e) const {
    if (e.op != ExprOp::reduce || e.reduction != Reduction::min || e.type == Scalar::boolean) return std::nullopt;
    const Expr& chosen = expr(e.in[0]);
    if (chosen.op != ExprOp::select) return std::nullopt;
    Search s;
    const Expr& hit = expr(chosen.in[0]);
    if (!meets_extreme(chosen.in[0], s)) {
      if (hit.op != ExprOp::bit_and && hit.op != ExprOp::bit_or) return std::nullopt;
      const size_t n = meets_extreme(hit.in[0], s) ? 0 : 1;
      if (n == 1 && !meets_extreme(hit.in[1], s)) return std::nullopt;
      if (hit.op == ExprOp::bit_and)
        s.inside = hit.in[1 - n];
      else if (!(s.sees_nan = is_nan_of(hit.in[1 - n], s.value)))
        return std::nullopt;
    }
    int32_t none = chosen.in[2];
    if (const Expr& other = expr(none); other.op == ExprOp::select) {
      if (!is_nan_of(other.in[0], s.value) || other.in[1] != chosen.in[1] || s.inside >= 0) return std::nullopt;
      s.sees_nan = true;
      none = other.in[2];
    }
    if (s.inside >= 0 && !is_identity_outside(s)) return std::nullopt;
    if (!number(none)) return std::nullopt;
    s.index = chosen.in[1], s.affine = affine_of(k_, chosen.in[1]), s.none = none;
    return exact(s) ? std::optional(s) : std::nullopt;
  }

  // Whether a float as wide as the value has every index in a row, and none of them is what stands for none.
  bool exact(const Search& s) const {
    if (!s.affine)
      return s.inside < 0 && expr(s.index).type >= Scalar::f32 && expr(s.index).type <= lane_of(s) &&
             *number(s.none) == infinity;
    const auto range = range_of(s.affine->offset, s.affine->coeffs, k_.space);
    const int64_t most = int64_t{1} << (expr(s.value).type == Scalar::f32 ? 24 : 53);
    if (!range || range->low <= -most || range->high >= most) return false;
    return expr(s.none).type == Scalar::i64 ? expr(s.none).integer >= most : *number(s.none) == infinity;
  }

  // top is NaN ? reduce max of (x is NaN ? index : negative) : what a search led to.
  void find_last_nan(int32_t i) {
    const Expr& e = expr(i);
    if (e.op != ExprOp::select || expr(e.in[0]).op != ExprOp::isnan) return;
    const Expr& last = expr(e.in[1]);
    if (last.op != ExprOp::reduce || last.reduction != Reduction::max || expr(last.in[0]).op != ExprOp::select) return;
    const int32_t from = expr(e.in[2]).op == ExprOp::select ? expr(e.in[2]).in[2] : e.in[2];
    auto& s = searches_[static_cast<size_t>(from)];
    if (!s || s->sees_nan) return;
    const Expr &chosen = expr(last.in[0]), &top = expr(expr(e.in[0]).in[0]);
    const auto none = number(chosen.in[2]);
    if (top.op != ExprOp::reduce || top.in[0] != s->value || top.reduction != s->extreme ||
        !is_nan_of(chosen.in[0], s->value) || chosen.in[1] != s->index || !none || *none >= 0)
      return;
    int uses = 1;  // of the search, whose result where there is NaN nothing else may see
    if (const Expr& found = expr(e.in[2]); found.op == ExprOp::select) {
      const Expr& hit = expr(found.in[0]);
      if (hit.op != ExprOp::eq || hit.in[0] != from || hit.in[1] != s->none) return;
      if (uses_[static_cast<size_t>(e.in[2])] != 1 || uses_[static_cast<size_t>(found.in[0])] != 1) return;
      uses = 2;
    }
    if (uses_[static_cast<size_t>(from)] != uses) return;
    last_nan_[static_cast<size_t>(from)] = true;
    same_.resize(k_.exprs.size(), -1);
    same_[static_cast<size_t>(i)] = e.in[2];
  }

  int32_t add(Expr e) {
    out_->push_back(e);
    return static_cast<int32_t>(out_->size()) - 1;
  }
  int32_t op(ExprOp op, Scalar type, int32_t a, int32_t b = -1, int32_t c = -1) {
    return add({.op = op, .type = type, .in = {a, b, c}});
  }
  int32_t integer(int64_t value) {
    Expr e{.op = ExprOp::constant, .type = Scalar::i64};
    e.integer = value;
    return add(e);
  }

  // offset + Σ coeffs[d]·index[d] over the dimensions of the row but the columns, or over all others.
  int32_t sum(const IndexForm& a, bool in_row) {
    int32_t total = integer(in_row ? 0 : a.offset);
    for (size_t d = 0; d < a.coeffs.size(); ++d) {
      if (a.coeffs[d] == 0 || (d >= outer()) != in_row || (in_row && static_cast<int>(d) == column_)) continue;
      Expr along{.op = ExprOp::index, .type = Scalar::i64};
      along.integer = static_cast<int64_t>(d);
      total = op(ExprOp::add, Scalar::i64, total, op(ExprOp::mul, Scalar::i64, add(along), integer(a.coeffs[d])));
    }
    return total;
  }

  // The reduction in place of a search, and what that gave, of `type`.
  int32_t index_of(const Search& s, bool last_nan, Scalar type, const std::vector<int32_t>& to) {
    const Scalar lane = lane_of(s);
    int32_t value = to[static_cast<size_t>(s.value)];
    if (s.inside >= 0) value = op(ExprOp::lt, Scalar::i64, value, to[static_cast<size_t>(s.inside)]);
    Expr pair{.op = ExprOp::le, .type = Scalar::i64, .number = last_nan ? 1.0 : 0.0};
    if (!s.affine) {
      const int32_t index = to[static_cast<size_t>(s.index)];
      pair.in = {value, expr(s.index).type == lane ? index : op(ExprOp::cast, lane, index), -1};
      pair.dtype = DType::boolean;
    } else {
      pair.in = {value, op(ExprOp::cast, lane, sum(*s.affine, true)), -1};
      if (column_ >= static_cast<int>(outer())) pair.integer = s.affine->coeffs[static_cast<size_t>(column_)];
    }
    const int32_t points = add(pair);
    const int32_t found = add({.op = ExprOp::reduce, .type = lane, .reduction = s.extreme, .in = {points, -1, -1}});
    if (type != Scalar::i64) return lane == type ? found : op(ExprOp::cast, type, found);
    const int32_t index = op(ExprOp::add, Scalar::i64, op(ExprOp::cast, Scalar::i64, found), sum(*s.affine, false));
    if (s.inside < 0) return index;
    Expr nowhere{.op = ExprOp::constant, .type = lane, .number = infinity};
    const int32_t missed = op(ExprOp::eq, Scalar::boolean, found, add(nowhere));
    return op(ExprOp::select, Scalar::i64, missed, to[static_cast<size_t>(s.none)], index);
  }

  Kernel& k_;
  int column_;
  std::vector<std::optional<Search>> searches_;
  std::vector<bool> last_nan_;
  std::vector<int> uses_;
  std::vector<int32_t> same_;
  std::vector<Expr>* out_ = nullptr;
};

}  // namespace

bool is_candidate(const Expr& e) { return (e.op == ExprOp::le || e.op == ExprOp::lt) && e.type == Scalar::i64; }

Candidate candidate(const Kernel& k, int32_t i) {
  const Expr& e = k.exprs[static_cast<size_t>(i)];
  Candidate c{.value = e.in[0],
              .index = e.in[1],
              .step = e.integer,
              .affine = e.dtype != DType::boolean,
              .last_nan = e.number != 0};
  if (const Expr& masked = k.exprs[static_cast<size_t>(c.value)]; is_candidate(masked))
    c.value = masked.in[0], c.inside = masked.in[1];
  return c;
}

void find_extreme_indices(Kernel& k, int column) {
  if (k.row_dims > 0 && Finder(k, column).run()) drop_dead(k);
}

}  // namespace npusim::cpu::loops::rewrite
