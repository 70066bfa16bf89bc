// Quotients of indices taken apart.
#include "backends/cpu/loops/rewrite/repeat.h"

#include <algorithm>
#include <optional>

#include "kernel/facts/compact.h"
#include "kernel/facts/visit.h"

namespace npusim::cpu::loops::rewrite {
namespace {

struct Repeats {
  size_t dim = 0;
  int64_t times = 0;
  bool operator==(const Repeats&) const = default;
};

// Of a term that is an index divided by a number which divides the extent.
std::optional<Repeats> repeats_of(const Kernel& k, const IndexTerm& term) {
  const Expr& e = k.exprs[static_cast<size_t>(term.expr)];
  if (e.op != ExprOp::idiv) return std::nullopt;
  const Expr &index = k.exprs[static_cast<size_t>(e.in[0])], &by = k.exprs[static_cast<size_t>(e.in[1])];
  if (index.op != ExprOp::index || by.op != ExprOp::constant || by.integer < 2) return std::nullopt;
  const int64_t extent = k.space[static_cast<size_t>(index.integer)];
  if (extent % by.integer != 0 || extent / by.integer > term.extent) return std::nullopt;
  return Repeats{static_cast<size_t>(index.integer), by.integer};
}

std::optional<Repeats> find_repeats(const Kernel& k) {
  for (const Access& a : k.accesses)
    for (const IndexTerm& t : a.terms)
      if (const auto repeats = repeats_of(k, t)) return repeats;
  return std::nullopt;
}

bool only_copies(const Kernel& k) {
  return k.row_dims == 0 && !k.contraction && std::all_of(k.stores.begin(), k.stores.end(), [&](const Store& s) {
           return !s.accumulate && k.exprs[static_cast<size_t>(s.expr)].op == ExprOp::load;
         });
}

// The dimension becomes one of its elements and, behind it, one of their times; terms that divide by them are gone.
void take_apart(Kernel& k, const Repeats& repeats) {
  const size_t dim = repeats.dim;
  const int64_t times = repeats.times;
  const auto behind = static_cast<std::ptrdiff_t>(dim) + 1;
  const auto split = [&](std::vector<int64_t>& coeffs) {
    coeffs.insert(coeffs.begin() + behind, coeffs[dim]);
    coeffs[dim] *= times;
  };
  edit_each_access(k, [&](Access& a, bool) {
    int64_t step = 0;
    std::erase_if(a.terms, [&](const IndexTerm& t) {
      const bool divides = repeats_of(k, t) == repeats;
      if (divides) step += t.stride;
      return divides;
    });
    split(a.strides);
    a.strides[dim] += step;
    for (Guard& g : a.guards) split(g.coeffs);
  });
  k.space.insert(k.space.begin() + behind, times);
  k.space[dim] /= times;
  for (Expr& e : k.exprs)
    if (e.op == ExprOp::index && e.integer > static_cast<int64_t>(dim)) ++e.integer;
}

// Whether any expression that is left has the index along the dimension.
bool reads_index(const Kernel& k, size_t dim) {
  return std::any_of(k.exprs.begin(), k.exprs.end(),
                     [&](const Expr& e) { return e.op == ExprOp::index && e.integer == static_cast<int64_t>(dim); });
}

}  // namespace

void split_repeats(Piece& piece) {
  if (!only_copies(piece.kernel)) return;
  while (const auto repeats = find_repeats(piece.kernel)) {
    Kernel apart = piece.kernel;
    take_apart(apart, *repeats);
    drop_dead(apart);
    if (reads_index(apart, repeats->dim)) return;
    piece.kernel = std::move(apart);
    piece.dims.clear();
  }
}

}  // namespace npusim::cpu::loops::rewrite
