// Tiles by how accesses run along the dimensions.
#include "backends/cpu/loops/plan/choose.h"

#include <algorithm>
#include <cstdlib>

#include "backends/cpu/loops/plan/analyse.h"
#include "backends/cpu/loops/plan/integer_lanes.h"
#include "backends/cpu/loops/rewrite/condition.h"
#include "backends/cpu/loops/rewrite/search.h"

namespace npusim::cpu::loops::plan {
namespace {

constexpr int64_t tile_elements = 1024;     // a register of 4 KiB of floats: several fit L1
constexpr int64_t copied_elements = 16384;  // where nothing is kept in scratch
constexpr int64_t longest_whole_row = 4096;

struct Choice {
  const Kernel& k;
  size_t outer;  // dimensions that are not the row
  bool reduces = false, scans = false;
  bool computes = false, alone = false;  // alone: one operation, which memory is enough for
  int64_t elements = tile_elements;      // of a tile

  bool in_row(int d) const { return d >= 0 && static_cast<size_t>(d) >= outer; }
  int64_t extent(int d) const { return d < 0 ? 1 : k.space[static_cast<size_t>(d)]; }
  int rank() const { return static_cast<int>(k.space.size()); }

  template <class F>
  void each_access(F f) const {
    for (const Access& a : k.accesses) f(a, 1.0);
    for (const Store& s : k.stores) f(s.access, 2.0);
  }

  // What is broadcast along a row is reached once.
  double share_of_row(const Access& a) const {
    double share = 1;
    for (size_t d = outer; d < k.space.size(); ++d) {
      if (a.strides[d] != 0 || !a.terms.empty()) return 1;
      share /= static_cast<double>(std::max<int64_t>(k.space[d], 1));
    }
    return share;
  }

  // What an element of floats takes where that is more than to fetch it from elsewhere, in ns: of a block of lanes all
  // are computed, however few count.
  double computing() const {
    double cost = 0;
    for (const Expr& e : k.exprs)
      if (const double own = cost_of(e.op); e.type >= Scalar::f32 && own >= 0.5)
        cost += e.type == Scalar::f64 ? 2 * own : own;
    return cost;
  }

  // How well accesses run with unit steps along d.
  double column_score(int d) const {
    double score = 0;
    each_access([&](const Access& a, double weight) {
      weight *= share_of_row(a);
      const int64_t stride = a.strides[static_cast<size_t>(d)];
      score += weight * (stride == 1 ? 1.0 : stride == -1 ? 0.9 : stride == 0 ? 0.6 : 0.0);
    });
    const double filled = static_cast<double>(extent(d)) / static_cast<double>(tiles::padded(extent(d)));
    return (score + 0.1) * std::min(1.0, static_cast<double>(extent(d)) / 16) + computing() * filled;
  }

  int column() const {
    if (rank() == 0) return -1;
    if (scans) return rank() - 1;
    int best = rank() - 1;
    for (int d = rank() - 1; d >= 0; --d)
      if (column_score(d) > column_score(best) * 1.001) best = d;
    return best;
  }

  // A dimension with unit stride, forward or back, where the columns have none: the tile transposes.
  int transposed_row(int column) const {
    int found = -1;
    each_access([&](const Access& a, double) {
      if (std::abs(a.strides[static_cast<size_t>(column)]) < 2) return;
      for (int d = 0; d < rank(); ++d)
        if (d != column && std::abs(a.strides[static_cast<size_t>(d)]) == 1 && extent(d) >= 4) found = d;
    });
    return found;
  }

  int64_t store_stride(int d) const {
    return k.stores.empty() ? 0 : std::abs(k.stores[0].access.strides[static_cast<size_t>(d)]);
  }

  // The rows of a tile whose columns are short: the reduced dimension under columns that are not reduced, else the
  // dimension nearest in memory.
  int row(int column) const {
    if (const int t = transposed_row(column); t >= 0) return t;
    const int64_t fit = std::max<int64_t>(elements / tiles::padded(std::min(extent(column), elements)), 1);
    const auto most = [&](int begin, int end) {  // elements that a dimension of these has, at most as many as fit
      int64_t extents = 0;
      for (int d = begin; d < end; ++d)
        if (d != column) extents = std::max(extents, extent(d));
      return std::min(extents, fit);
    };
    int best = -1;
    const int in_row_from = static_cast<int>(outer);
    if (!in_row(column) && reduces && 4 * most(in_row_from, rank()) > most(0, in_row_from))
      for (int d = in_row_from; d < rank(); ++d)
        if (extent(d) >= 6 && (best < 0 || extent(d) > extent(best))) best = d;
    if (best >= 0) return best;
    // Of those that fill a tile the nearest in memory, else the one that fills it most: a tile has its price.
    const int64_t enough = std::min<int64_t>(fit, 8);
    const auto filled = [&](int d) { return std::min(extent(d), enough); };
    for (int d = static_cast<int>(outer) - 1; d >= 0; --d)
      if (d != column && extent(d) > 1 &&
          (best < 0 || filled(d) > filled(best) || (filled(d) == filled(best) && store_stride(d) < store_stride(best))))
        best = d;
    if (best >= 0) return best;
    for (int d = rank() - 1; d >= static_cast<int>(outer); --d)
      if (d != column && (best < 0 || extent(d) > extent(best))) best = d;
    return best;
  }
};

// Whether instructions over the tile, cheap ones that nothing stops and whose lanes know nothing of each other, read
// what is one for each of its points or one for all: its rows may be one behind the other, and what is between them
// computed, too. Only where elements come from addresses that integers give, or integers are folded: else a row of
// lanes costs no more than what is in it.
bool runs_flat(const Kernel& k, DimSet tile) {
  const Dependence depends = dependence_of(k);
  const auto in_tile = [&](int32_t i) { return depends.dims[static_cast<size_t>(i)] & tile; };
  const auto plain = [](const Access& a) { return a.guards.empty(); };
  if (!std::all_of(k.accesses.begin(), k.accesses.end(), plain)) return false;
  const DimSet row = row_of(k) & tile;
  bool folds = false;
  for (size_t i = 0; i < k.exprs.size(); ++i) {
    const Expr& e = k.exprs[i];
    const DimSet own = in_tile(static_cast<int32_t>(i));
    const bool apart = e.op == ExprOp::index || e.op == ExprOp::require || e.op == ExprOp::scan;
    const bool divides = (e.op == ExprOp::idiv || e.op == ExprOp::irem) &&
                         k.exprs[static_cast<size_t>(e.in[1])].op == ExprOp::constant &&
                         k.exprs[static_cast<size_t>(e.in[1])].integer > 0;
    if (apart || (cost_of(e.op) >= 0.5 && !divides) || rewrite::is_search(e) || rewrite::is_condition(e)) return false;
    if (k.row_dims > 0 && (own & row) != 0 && e.type >= Scalar::f32) return false;
    if (e.op == ExprOp::reduce) {
      folds = true;
      if (e.type != Scalar::i64 || in_tile(e.in[0]) != tile) return false;
    } else if (own == tile) {
      for (int n = 0; n < expr_arity(e.op); ++n)
        if (const DimSet of_operand = in_tile(e.in[static_cast<size_t>(n)]); of_operand != 0 && of_operand != tile)
          return false;
    }
  }
  const auto gathers = [](const Access& a) { return !a.terms.empty(); };
  const bool named = std::any_of(k.accesses.begin(), k.accesses.end(), gathers);
  const bool folds_short_rows = folds && !named && row != 0 && row != tile;
  if (k.row_dims > 0 ? !folds_short_rows : !named) return false;
  return std::all_of(k.stores.begin(), k.stores.end(), [&](const Store& s) {
    return !s.accumulate && plain(s.access) && s.access.terms.empty() &&
           (in_tile(s.expr) == tile || (folds && (in_tile(s.expr) & row) == 0));
  });
}

// Of so many columns as many as fill whole blocks, which instructions read and write where they lie; the others are a
// tile of their own. 0: too few for two.
int64_t in_place_columns(int64_t columns) {
  constexpr int64_t least = 8 * tiles::lane_block;
  return columns % tiles::lane_block == 0 ? columns
         : columns >= least               ? columns / tiles::lane_block * tiles::lane_block
                                          : 0;
}

// From row to row of a tile. Instructions run over whole blocks of lanes: of short rows they take many at once.
int64_t pitch_of(const Plan& plan, const Choice& c, bool transposes) {
  const bool dense = plan.row_dim >= 0 && plan.tile_columns < tiles::lane_block && !transposes &&
                     runs_flat(c.k, bit(plan.row_dim) | bit(plan.column_dim));
  return dense ? plan.tile_columns : tiles::padded(plan.tile_columns);
}

void choose_extents(Plan& plan, const Choice& c) {
  const int64_t columns = c.extent(plan.column_dim), rows = c.extent(plan.row_dim);
  const bool transposes = plan.row_dim >= 0 && c.transposed_row(plan.column_dim) == plan.row_dim;
  if (c.in_row(plan.column_dim) && (c.reduces || c.scans)) {
    plan.tile_columns = columns <= longest_whole_row ? columns : std::min(c.elements, longest_whole_row);
  } else if (c.in_row(plan.row_dim) && c.reduces) {
    const int64_t share =
        std::clamp<int64_t>(2 * tile_elements / rows / tiles::lane_block * tiles::lane_block, 64, tile_elements);
    plan.tile_columns = std::min(columns, share);
    plan.pitch = pitch_of(plan, c, false);
    plan.tile_rows = std::min(rows, std::max<int64_t>(4 * tile_elements / plan.pitch, 1));
    return;
  } else {
    plan.tile_columns = std::min(columns, transposes ? 64 : c.elements);
    if (c.alone && !transposes && in_place_columns(columns) > 0)
      plan.tile_columns = std::min(in_place_columns(columns), c.elements);
  }
  plan.pitch = pitch_of(plan, c, transposes);
  const bool dense = plan.pitch < tiles::lane_block;
  const int64_t fit = std::max<int64_t>((dense && !c.computes ? 2 * tile_elements : c.elements) / plan.pitch, 1);
  plan.tile_rows = transposes ? std::min<int64_t>(rows, std::max<int64_t>(fit, 64)) : std::min(rows, fit);
}

// A tile's: half as many of chains of wide lanes, so that their registers fit L1, and where the next tile's memory
// comes there too; more where memory is all that is used, and of chains of narrow lanes, since a tile has its price.
int64_t elements_of(const Kernel& k, Choice& c) {
  if (c.reduces || c.scans) return tile_elements;
  const int64_t of_integers = lane_bytes(integer_lanes(k));
  int wide = 0, computed = 0;
  int64_t widest = 1;
  for (const Expr& e : k.exprs) {
    const int64_t bytes = e.type == Scalar::i64       ? of_integers
                          : e.type == Scalar::boolean ? 1
                          : e.type == Scalar::f32     ? 4
                                                      : 8;
    widest = std::max(widest, bytes);
    computed += expr_arity(e.op) > 0;
    wide += expr_arity(e.op) > 0 && bytes == 8;
  }
  c.computes = computed > 0, c.alone = computed == 1;
  if (computed <= 1 && in_place_columns(c.extent(c.column())) > 0) return 4 * tile_elements;
  const int64_t elements = tile_elements * std::max<int64_t>(4 / widest, 1);
  return wide > 4 || is_large(k) ? elements / 2 : elements;
}

// Whether whole rows are combined with what is there: of such a tile little but indices is in scratch.
bool combines_rows(const Plan& plan) {
  const Kernel& k = plan.piece.kernel;
  const Dependence depends = dependence_of(k);
  return std::all_of(k.stores.begin(), k.stores.end(), [&](const Store& s) {
    return s.accumulate && std::all_of(s.access.terms.begin(), s.access.terms.end(), [&](const IndexTerm& t) {
             return (depends.dims[static_cast<size_t>(t.expr)] & bit(plan.column_dim)) == 0;
           });
  });
}

// Whether every store is of what is loaded, as it is, from one address for all columns of a row.
bool only_copies(const Kernel& k, int column) {
  const Dependence depends = dependence_of(k);
  return std::all_of(k.stores.begin(), k.stores.end(), [&](const Store& s) {
    const Expr& e = k.exprs[static_cast<size_t>(s.expr)];
    if (e.op != ExprOp::load || e.type != scalar_of(k.args[static_cast<size_t>(s.access.arg)].dtype) ||
        !s.access.guards.empty() || !s.access.terms.empty() || s.accumulate)
      return false;
    const Access& from = k.accesses[static_cast<size_t>(e.integer)];
    return from.guards.empty() && std::all_of(from.terms.begin(), from.terms.end(), [&](const IndexTerm& t) {
             return (depends.dims[static_cast<size_t>(t.expr)] & bit(column)) == 0;
           });
  });
}

// Whether along the row nothing is computed but sums, of loads or products of loads, and extremes: folds read memory.
bool only_folds(const Kernel& k) {
  const Dependence depends = dependence_of(k);
  const DimSet row = row_of(k);
  bool folds = false;
  for (size_t i = 0; i < k.exprs.size(); ++i) {
    const Expr& e = k.exprs[i];
    folds = folds || e.op == ExprOp::reduce;
    if ((depends.dims[i] & row) == 0) continue;
    if (e.op == ExprOp::load) {
      const Access& a = k.accesses[static_cast<size_t>(e.integer)];
      const DType dtype = k.args[static_cast<size_t>(a.arg)].dtype;
      if (dtype != DType::f32 || !a.guards.empty() || !a.terms.empty()) return false;
    } else if (e.op != ExprOp::mul || k.exprs[static_cast<size_t>(e.in[0])].op != ExprOp::load ||
               k.exprs[static_cast<size_t>(e.in[1])].op != ExprOp::load) {
      return false;
    }
  }
  return folds;
}

// Stores one by one in index order: the tile is a run of consecutive points.
void choose_serial(Plan& plan, const Choice& c) {
  plan.column_dim = c.rank() - 1;
  plan.tile_columns =
      std::min(c.extent(plan.column_dim), c.in_row(plan.column_dim) ? longest_whole_row : tile_elements);
  if (c.rank() < 2 || plan.tile_columns < c.extent(plan.column_dim) || plan.piece.kernel.row_dims > 1) return;
  plan.row_dim = c.rank() - 2;
  const int64_t elements = combines_rows(plan) ? 8 * tile_elements : tile_elements;
  plan.tile_rows = std::min(c.extent(plan.row_dim), std::max<int64_t>(elements / tiles::padded(plan.tile_columns), 1));
}

// What does not vary along the innermost loop is computed once for all of it: where that is much, as the addresses that
// are read are for all channels of an image, a dimension becomes the innermost whatever the order in memory. -1: none.
int innermost(const std::vector<int>& order, const Plan& plan, const Choice& c) {
  constexpr double much = 0.45;  // ns of an element
  const Dependence depends = dependence_of(c.k);
  const DimSet tile = bit(plan.row_dim) | bit(plan.column_dim);
  int best = -1;
  double most = much;
  for (const int d : order) {
    if (c.in_row(d) || c.extent(d) < 2) continue;
    const auto fixed = [&](DimSet dims) { return (dims & bit(d)) == 0 && (dims & tile) == tile; };
    double saved = 0;
    for (size_t i = 0; i < c.k.exprs.size(); ++i)
      if (fixed(depends.dims[i])) saved += cost_of(c.k.exprs[i].op);
    for (const Access& a : c.k.accesses) {
      DimSet terms = 0;
      for (const IndexTerm& t : a.terms) terms |= depends.dims[static_cast<size_t>(t.expr)];
      if (!a.terms.empty() && fixed(terms)) saved += 0.5;
    }
    if (saved > most) best = d, most = saved;
  }
  return best;
}

void choose_loops(Plan& plan, const Choice& c) {
  std::vector<int> order;
  for (int d = 0; d < c.rank(); ++d)
    if (d != plan.row_dim && d != plan.column_dim) order.push_back(d);
  int last = -1;
  if (!plan.serial) {
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
      return !c.in_row(a) && !c.in_row(b) && c.store_stride(a) > c.store_stride(b);
    });
    last = innermost(order, plan, c);
  }
  const auto add = [&](int d, int64_t step) {
    if (d >= 0 && c.extent(d) > step) (c.in_row(d) ? plan.inner : plan.outer).push_back({d, step});
  };
  for (int d : order)
    if (d != last) add(d, 1);
  add(plan.row_dim, plan.tile_rows);
  add(plan.column_dim, plan.tile_columns);
  add(last, 1);
}

}  // namespace

void choose_tile(Plan& plan, int64_t most_copied) {
  const Kernel& k = plan.piece.kernel;
  Choice c{k, k.space.size() - static_cast<size_t>(k.row_dims)};
  for (const Expr& e : k.exprs) {
    c.reduces = c.reduces || e.op == ExprOp::reduce;
    c.scans = c.scans || e.op == ExprOp::scan;
  }
  c.elements = elements_of(k, c);
  plan.pitch = 0;
  if (plan.serial) {
    choose_serial(plan, c);
  } else {
    plan.column_dim = c.column();
    if (only_copies(k, plan.column_dim))
      c.elements = std::min(copied_elements, most_copied);
    else if (only_folds(k))
      c.elements = copied_elements;
    if (plan.column_dim >= 0) plan.row_dim = c.row(plan.column_dim);
    choose_extents(plan, c);
  }
  if (plan.tile_rows <= 1) plan.tile_rows = 1;
  if (plan.tile_rows == 1 && plan.row_dim >= 0) plan.row_dim = -1;
  if (plan.pitch == 0) plan.pitch = tiles::padded(plan.tile_columns);
  choose_loops(plan, c);
}

}  // namespace npusim::cpu::loops::plan
