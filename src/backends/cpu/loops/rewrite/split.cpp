// Splitting of spaces at conditions, and removal of what no store needs.
#include "backends/cpu/loops/rewrite/split.h"

#include <algorithm>
#include <limits>

#include "backends/cpu/loops/rewrite/fold.h"
#include "kernel/facts/compact.h"
#include "kernel/facts/depend.h"
#include "kernel/facts/memory.h"
#include "kernel/facts/range.h"
#include "kernel/scalar.h"

namespace npusim::cpu::loops::rewrite {
namespace {

// Reductions over an empty row are their identities; of its stores only those that are the same along the row remain.
Kernel without_empty_row(Kernel k) {
  const size_t outer = k.space.size() - static_cast<size_t>(k.row_dims);
  if (std::none_of(k.space.begin() + static_cast<std::ptrdiff_t>(outer), k.space.end(),
                   [](int64_t n) { return n == 0; }))
    return k;
  const Dependence depends = dependence_of(k);  // also of what gives a store its address
  std::erase_if(k.stores, [&](const Store& s) { return (dims_of(s.access, depends) & row_of(k)) != 0; });
  for (Expr& e : k.exprs)
    if (e.op == ExprOp::reduce || e.op == ExprOp::scan) e = identity_of(e.reduction, e.type);
  std::fill(k.space.begin() + static_cast<std::ptrdiff_t>(outer), k.space.end(), 1);
  drop_dead(k);  // what moves along the row reaches nothing that is known
  return k;
}

void add_cut(std::vector<int64_t>& cuts, int64_t at, int64_t extent) {
  if (at > 0 && at < extent) cuts.push_back(at);
}

// Where along dimension d the conditions change: those of d alone everywhere; those of several dimensions only where
// most of the extent then holds for all values of the others (the interior of a padded window).
std::vector<int64_t> cuts_along(size_t d, const std::vector<IndexForm>& conditions, const std::vector<int64_t>& space,
                                bool interior) {
  std::vector<int64_t> cuts{0, space[d]};
  for (const IndexForm& f : conditions) {
    const int64_t c = f.coeffs[d];
    if (c == 0) continue;
    std::vector<int64_t> others = f.coeffs;
    others[d] = 0;
    const Range rest = *range_of(f.offset, others, space);  // that of the whole form is known
    if (rest.low != rest.high && !interior) continue;
    // c·i + rest.low >= 0: from `first` on, or up to `first`.
    const int64_t first = c > 0          ? -(rest.low >= 0 ? rest.low / c : -((-rest.low + c - 1) / c))
                          : rest.low < 0 ? 0
                                         : rest.low / -c + 1;
    const int64_t holds = c > 0 ? space[d] - std::max<int64_t>(first, 0) : std::min(first, space[d]);
    if (rest.low != rest.high && holds * 2 < space[d]) continue;
    add_cut(cuts, first, space[d]);
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  return cuts;
}

constexpr size_t most_pieces = 96, most_expressions = size_t{1} << 18;  // of all pieces

struct Splitter {
  const Kernel& k;
  std::vector<Piece>& pieces;
  bool cut;

  // The box in pieces, `most` of them; what is folded in one may show where to cut it further.
  void split(const std::vector<int64_t>& begin, const std::vector<int64_t>& extents, bool interior, size_t most) {
    const size_t rank = k.space.size(), outer = rank - static_cast<size_t>(k.row_dims);
    std::vector<IndexForm> conditions;
    Kernel folded = fold_kernel(k, begin, extents, &conditions);
    std::vector<std::vector<int64_t>> cuts(rank);
    size_t count = 1;
    for (size_t d = 0; d < rank; ++d) {
      cuts[d] = {0, extents[d]};
      if (d >= outer || !cut) continue;
      auto found = cuts_along(d, conditions, extents, interior);
      if (count * (found.size() - 1) > most) continue;
      count *= found.size() - 1;
      cuts[d] = std::move(found);
    }
    if (count == 1) return add(std::move(folded), begin, extents);
    std::vector<int64_t> from(rank), size(rank);
    for (size_t n = 0; n < count; ++n) {
      size_t code = n;
      for (size_t d = 0; d < rank; ++d) {
        const size_t part = code % (cuts[d].size() - 1);
        code /= cuts[d].size() - 1;
        from[d] = begin[d] + cuts[d][part];
        size[d] = cuts[d][part + 1] - cuts[d][part];
      }
      split(from, size, false, most / count);
    }
  }

  void add(Kernel folded, const std::vector<int64_t>& begin, const std::vector<int64_t>& extents) {
    Piece piece;
    piece.kernel = std::move(folded);
    drop_dead(piece.kernel);
    if (piece.kernel.stores.empty()) return;
    piece.begin = begin;
    for (size_t d = 0; d < begin.size(); ++d) {
      piece.end.push_back(begin[d] + extents[d]);
      piece.dims.push_back(static_cast<int>(d));
    }
    pieces.push_back(std::move(piece));
  }
};

}  // namespace

std::vector<Piece> split_kernel(const Kernel& original) {
  const Kernel k = without_empty_row(original);
  std::vector<Piece> pieces;
  int64_t points = 1;
  for (int64_t n : k.space) points *= n;
  if (points == 0) return pieces;
  // A piece has its price, about that of all conditions at so many points.
  constexpr int64_t least_points = 2048;
  Splitter splitter{k, pieces, points >= least_points && !order_matters(k)};
  splitter.split(std::vector<int64_t>(k.space.size(), 0), k.space, points >= 8192,
                 std::min(most_pieces, most_expressions / std::max<size_t>(k.exprs.size(), 1)));
  return pieces;
}

}  // namespace npusim::cpu::loops::rewrite
