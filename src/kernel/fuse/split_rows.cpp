// Pieces stand before all other dimensions of the space: neighbouring rows stay neighbours.
#include "kernel/fuse/split_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/shape.h"
#include "kernel/facts/depend.h"
#include "kernel/facts/fourier.h"
#include "kernel/facts/order.h"
#include "kernel/facts/visit.h"
#include "kernel/fuse/simplify.h"
#include "kernel/scalar.h"

namespace npusim {
namespace {

bool folds(const Expr& e) { return e.op == ExprOp::reduce || e.op == ExprOp::scan; }

DType dtype_of(Scalar type) {
  switch (type) {
    case Scalar::boolean:
      return DType::boolean;
    case Scalar::i64:
      return DType::i64;
    case Scalar::f32:
      return DType::f32;
    case Scalar::f64:
      break;
  }
  return DType::f64;
}

// One step under construction, and where the kernel's expressions are in it.
struct Part {
  BoundKernel bound;
  std::vector<int32_t> to;

  Kernel& kernel() { return bound.kernel; }
  int32_t add(const Expr& e) { return add_expr(bound.kernel, e); }
  int32_t binary(ExprOp op, Scalar type, int32_t a, int32_t b) {
    return add({.op = op, .type = type, .in = {a, b, -1}});
  }
  int32_t unary(ExprOp op, Scalar type, int32_t a) { return add({.op = op, .type = type, .in = {a, -1, -1}}); }
  int32_t select(Scalar type, int32_t c, int32_t a, int32_t b) {
    return add({.op = ExprOp::select, .type = type, .in = {c, a, b}});
  }
  int32_t integer(int64_t value) { return add({.op = ExprOp::constant, .type = Scalar::i64, .integer = value}); }
  int32_t number(Scalar type, double value) { return add({.op = ExprOp::constant, .type = type, .number = value}); }
  int32_t index(size_t d) {
    return add({.op = ExprOp::index, .type = Scalar::i64, .integer = static_cast<int64_t>(d)});
  }
  int32_t load(Scalar type, Access a) {
    bound.kernel.accesses.push_back(std::move(a));
    const auto at = static_cast<int64_t>(bound.kernel.accesses.size()) - 1;
    return add({.op = ExprOp::load, .type = type, .integer = at});
  }
};

class RowSplitter {
 public:
  RowSplitter(const Kernel& outer, int64_t wanted)
      : outer_(outer), rows_(outer.space.begin(), outer.space.end() - outer.row_dims), depends_(dependence_of(outer)) {
    along_ = rows_.size();
    while (along_ + 1 < outer.space.size() && total_ * outer.space[along_] <= wanted) total_ *= outer.space[along_++];
    const int64_t extent = outer.space[along_];
    pieces_ = std::clamp<int64_t>((wanted + total_ - 1) / total_, 1, extent);
    for (int64_t n = pieces_; n < 2 * pieces_; ++n)  // of equal length, of whole words
      if (extent % n == 0 && (extent / n % 8 == 0 || along_ + 1 < outer.space.size())) {
        pieces_ = n;
        break;
      }
    inner_ = (extent + pieces_ - 1) / pieces_;
    pieces_ = (extent + inner_ - 1) / inner_;
    total_ *= pieces_;
    live_ = live_expressions(outer, false);
    find_levels();
  }

  bool can() const {
    const bool plain = !outer_.contraction && !outer_.call && outer_.row_dims > 0 && total_ > 1 && levels_ > 0;
    if (!plain ||
        std::any_of(outer_.args.begin(), outer_.args.end(), [](const KernelArg& a) { return a.updates >= 0; }))
      return false;
    if (has_order(outer_) || has_fourier(outer_) || live_expressions(outer_, true) != live_) return false;
    const auto along = [&](const Store& s) { return stores_along(s); };
    const auto count = std::count_if(outer_.stores.begin(), outer_.stores.end(), along);
    return count == 0 || static_cast<size_t>(count) == outer_.stores.size();
  }

  Unfused run() {
    scratch_of_piece_.resize(outer_.exprs.size(), -1), scratch_of_row_ = scratch_of_piece_;
    const bool along = stores_along(outer_.stores[0]);
    for (int level = 0; level < levels_; ++level) {
      step(fold_pieces(level));
      if (!along && level + 1 == levels_) break;
      for (const ExprOp op : {ExprOp::reduce, ExprOp::scan})
        if (Part rows = fold_rows(level, op); !rows.kernel().stores.empty()) step(std::move(rows));
    }
    if (!along)
      step(store_rows());
    else
      step(scans_ ? store_pieces() : store_points());
    return std::move(result_);
  }

 private:
  void find_levels() {
    level_.resize(outer_.exprs.size(), 0);  // how many folds the expression waits for
    for (size_t i = 0; i < outer_.exprs.size(); ++i) {
      const Expr& e = outer_.exprs[i];
      for_each_operand(outer_, e, [&](int32_t x) {
        const auto operand = static_cast<size_t>(x);
        level_[i] = std::max(level_[i], level_[operand] + (folds(outer_.exprs[operand]) ? 1 : 0));
      });
      if (!live_[i] || !folds(e)) continue;
      levels_ = std::max(levels_, level_[i] + 1);
      scans_ = scans_ || e.op == ExprOp::scan;
    }
  }
  bool is_fold_of(size_t i, int level) const { return live_[i] && folds(outer_.exprs[i]) && level_[i] == level; }
  bool stores_along(const Store& s) const { return (dims_of(s.access, depends_) & row_of(outer_)) != 0; }
  void step(Part p) {
    order_args(p.bound), simplify(p.bound);
    result_.steps.push_back(std::move(p.bound));
  }

  // A step over this space, without anything to do yet.
  Part part(const char* suffix, std::vector<int64_t> space, int row_dims) const {
    Part p{{outer_, {}}, std::vector<int32_t>(outer_.exprs.size(), -1)};
    p.bound.values.resize(outer_.args.size());
    std::iota(p.bound.values.begin(), p.bound.values.end(), 0);
    Kernel& k = p.kernel();
    k.name += suffix;
    k.space = std::move(space), k.row_dims = row_dims;
    k.accesses.clear(), k.exprs.clear(), k.stores.clear();
    return p;
  }
  std::vector<int64_t> space_of_pieces() const {
    std::vector<int64_t> space(outer_.space.begin() + at(rows_.size()), outer_.space.begin() + at(along_));
    space.push_back(pieces_);
    space.insert(space.end(), rows_.begin(), rows_.end());
    space.push_back(inner_);
    space.insert(space.end(), outer_.space.begin() + at(along_) + 1, outer_.space.end());
    return space;
  }
  static std::ptrdiff_t at(size_t i) { return static_cast<std::ptrdiff_t>(i); }
  Part part_of_pieces(const char* suffix) const {
    return part(suffix, space_of_pieces(), static_cast<int>(outer_.space.size() - along_));
  }
  size_t dim_of_pieces() const { return along_ - rows_.size(); }
  bool is_even() const { return inner_ * pieces_ == outer_.space[along_]; }

  // The kernel's dimension d, not that which is in pieces, in their space.
  size_t moved(size_t d) const {
    return d < rows_.size() ? d + dim_of_pieces() + 1 : d < along_ ? d - rows_.size() : d + 1;
  }
  std::vector<int64_t> in_pieces(const std::vector<int64_t>& steps) const {
    std::vector<int64_t> to(outer_.space.size() + 1, 0);
    for (size_t d = 0; d < steps.size(); ++d)
      if (d != along_) to[moved(d)] = steps[d];
    to[dim_of_pieces()] = steps[along_] * inner_, to[along_ + 1] = steps[along_];
    return to;
  }
  // Where the last piece is shorter, what is behind it is not reached.
  Access in_pieces(Access a) const {
    const int64_t step = a.strides[along_];
    if (!is_even() && step != 0) {
      Guard g{std::vector<int64_t>(outer_.space.size(), 0), 0, outer_.space[along_], step};
      g.coeffs[along_] = 1;
      a.strides[along_] = 0;
      a.guards.push_back(std::move(g));
    }
    a.strides = in_pieces(a.strides);
    for (Guard& g : a.guards) g.coeffs = in_pieces(g.coeffs);
    return a;
  }
  static Access of_rows(Access a, size_t rows, size_t rank) {
    const auto cut = [&](std::vector<int64_t>& v) { v.resize(rows), v.resize(rank, 0); };
    cut(a.strides);
    for (Guard& g : a.guards) cut(g.coeffs);
    return a;
  }
  int32_t index_along(Part& p) const {
    const int32_t first = p.binary(ExprOp::mul, Scalar::i64, p.index(dim_of_pieces()), p.integer(inner_));
    return p.binary(ExprOp::add, Scalar::i64, first, p.index(along_ + 1));
  }

  enum class Space : uint8_t { pieces, rows, points };  // rows: the last dimension is of the pieces
  Access mapped(const Part& p, Space space, const Access& a) const {
    Access m = space == Space::pieces ? in_pieces(a)
               : space == Space::rows ? of_rows(a, rows_.size(), p.bound.kernel.space.size())
                                      : a;
    for (IndexTerm& t : m.terms) t.expr = p.to[static_cast<size_t>(t.expr)];
    return m;
  }

  // What expression i is in the step, where it is no fold: its operands are there.
  int32_t copied(Part& p, Space space, size_t i) const {
    Expr e = outer_.exprs[i];
    if (e.op == ExprOp::load) return p.load(e.type, mapped(p, space, outer_.accesses[static_cast<size_t>(e.integer)]));
    if (e.op == ExprOp::index && space == Space::pieces) {
      const auto d = static_cast<size_t>(e.integer);
      return d == along_ ? index_along(p) : p.index(moved(d));
    }
    for (int n = 0; n < expr_arity(e.op); ++n) {
      int32_t& operand = e.in[static_cast<size_t>(n)];
      operand = p.to[static_cast<size_t>(operand)];
    }
    return p.add(e);
  }

  // Everything that `wanted` depends on; folds are what `fold` makes of them, and nothing behind those that it makes of
  // what other steps left.
  template <class Known, class Fold>
  void write(Part& p, Space space, std::vector<bool> wanted, Known&& known, Fold&& fold) const {
    for (size_t i = wanted.size(); i-- > 0;)
      if (wanted[i] && !(folds(outer_.exprs[i]) && known(i)))
        for_each_operand(outer_, outer_.exprs[i], [&](int32_t x) { wanted[static_cast<size_t>(x)] = true; });
    for (size_t i = 0; i < wanted.size(); ++i)
      if (wanted[i]) p.to[i] = folds(outer_.exprs[i]) ? fold(i) : copied(p, space, i);
  }
  std::vector<bool> of_stores() const {
    std::vector<bool> wanted(outer_.exprs.size(), false);
    for (const Store& s : outer_.stores) {
      wanted[static_cast<size_t>(s.expr)] = true;
      for (const IndexTerm& t : s.access.terms) wanted[static_cast<size_t>(t.expr)] = true;
    }
    return wanted;
  }
  void store(Part& p, Space space) const {
    for (const Store& s : outer_.stores)
      p.kernel().stores.push_back({mapped(p, space, s.access), p.to[static_cast<size_t>(s.expr)], false});
  }

  Access scratch(Part& p, int which, bool written, std::vector<int64_t> steps) const {
    const Unfused::Scratch& s = result_.scratch[static_cast<size_t>(which)];
    p.kernel().args.push_back({s.dtype, s.elements, written, -1});
    p.bound.values.push_back(static_cast<int>(outer_.args.size()) + which);
    return {static_cast<int>(p.kernel().args.size()) - 1, 0, std::move(steps), {}, {}};
  }
  int add_scratch(Scalar type, int64_t elements) {
    result_.scratch.push_back({dtype_of(type), elements});
    return static_cast<int>(result_.scratch.size()) - 1;
  }
  int64_t row_count() const { return element_count(rows_); }

  // Steps by the dimensions of each space. Pieces come before rows.
  std::vector<int64_t> by_pieces(bool of_pieces) const {
    std::vector<int64_t> steps(outer_.space.size() + 1, 0);
    const std::vector<int64_t> rows = row_major_strides(rows_);
    for (size_t d = 0; d < rows_.size(); ++d) steps[moved(d)] = rows[d];
    int64_t step = row_count();
    for (size_t d = dim_of_pieces() + 1; of_pieces && d-- > 0; step *= space_of_pieces()[d]) steps[d] = step;
    return steps;
  }
  std::vector<int64_t> by_rows(bool of_pieces, size_t rank) const {
    std::vector<int64_t> steps = row_major_strides(rows_);
    steps.resize(rank, 0);
    if (of_pieces) steps[rows_.size()] = row_count();
    return steps;
  }

  // A fold that earlier steps have the result of: of the row, or of a scan's pieces.
  int32_t known_in_pieces(Part& p, size_t i) const {
    const Expr& e = outer_.exprs[i];
    if (e.op == ExprOp::reduce) return p.load(e.type, scratch(p, scratch_of_row_[i], false, by_pieces(false)));
    // Of those before this piece, and within it.
    Access before = scratch(p, scratch_of_row_[i], false, by_pieces(false));
    Guard g{std::vector<int64_t>(outer_.space.size() + 1, 0), -1, total_, row_count()};
    g.coeffs[dim_of_pieces()] = 1;
    before.guards.push_back(std::move(g));
    const int32_t carry = p.load(e.type, std::move(before));
    Expr scan = e;
    scan.in[0] = inside(p, e, p.to[static_cast<size_t>(e.in[0])]);
    const int32_t here = p.add(scan);
    const int32_t is_first = p.binary(ExprOp::eq, Scalar::boolean, p.index(dim_of_pieces()), p.integer(0));
    return p.select(e.type, is_first, here, combined(p, e, carry, here));
  }
  static int32_t combined(Part& p, const Expr& e, int32_t a, int32_t b) {
    if (e.op == ExprOp::scan && e.integer != 0) return log_sum(p, e.type, a, b);
    switch (e.reduction) {
      case Reduction::sum:
        return p.binary(ExprOp::add, e.type, a, b);
      case Reduction::product:
        return p.binary(ExprOp::mul, e.type, a, b);
      case Reduction::min:
        return p.binary(ExprOp::min, e.type, a, b);
      case Reduction::max:
        break;
    }
    return p.binary(ExprOp::max, e.type, a, b);
  }
  // The largest, or 0 for one that nothing may be subtracted from.
  static int32_t finite(Part& p, Scalar type, int32_t top) {
    const int32_t infinite = p.binary(ExprOp::eq, Scalar::boolean, p.unary(ExprOp::abs, type, top),
                                      p.number(type, std::numeric_limits<double>::infinity()));
    return p.select(type, infinite, p.number(type, 0), top);
  }
  static int32_t log_sum(Part& p, Scalar type, int32_t a, int32_t b) {
    const int32_t top = finite(p, type, p.binary(ExprOp::max, type, a, b));
    const auto power = [&](int32_t x) { return p.unary(ExprOp::exp, type, p.binary(ExprOp::sub, type, x, top)); };
    const int32_t sum = p.binary(ExprOp::add, type, power(a), power(b));
    return p.binary(ExprOp::add, type, top, p.unary(ExprOp::log, type, sum));
  }
  // x within the row, and what changes no fold behind its end.
  int32_t inside(Part& p, const Expr& e, int32_t x) const {
    if (is_even()) return x;
    const int32_t there = p.binary(ExprOp::lt, Scalar::boolean, index_along(p), p.integer(outer_.space[along_]));
    const bool log = e.op == ExprOp::scan && e.integer != 0;
    const double none = -std::numeric_limits<double>::infinity();
    return p.select(e.type, there, x, log ? p.number(e.type, none) : p.add(identity_of(e.reduction, e.type)));
  }
  static int32_t reduced(Part& p, Scalar type, Reduction reduction, int32_t x) {
    return p.add({.op = ExprOp::reduce, .type = type, .reduction = reduction, .in = {x, -1, -1}});
  }

  Part fold_pieces(int level) {
    Part p = part_of_pieces("_pieces");
    std::vector<bool> wanted(outer_.exprs.size(), false);
    for (size_t i = 0; i < wanted.size(); ++i)
      if (is_fold_of(i, level)) wanted[static_cast<size_t>(outer_.exprs[i].in[0])] = true;
    write(
        p, Space::pieces, std::move(wanted), [&](size_t i) { return outer_.exprs[i].op == ExprOp::reduce; },
        [&](size_t i) { return known_in_pieces(p, i); });
    for (size_t i = 0; i < outer_.exprs.size(); ++i) {
      if (!is_fold_of(i, level)) continue;
      const Expr& e = outer_.exprs[i];
      const int32_t x = inside(p, e, p.to[static_cast<size_t>(e.in[0])]);
      int32_t value = -1;
      if (e.op == ExprOp::scan && e.integer != 0) {
        const int32_t top = finite(p, e.type, reduced(p, e.type, Reduction::max, x));
        const int32_t power = p.unary(ExprOp::exp, e.type, p.binary(ExprOp::sub, e.type, x, top));
        const int32_t sum = p.unary(ExprOp::log, e.type, reduced(p, e.type, Reduction::sum, power));
        value = p.binary(ExprOp::add, e.type, top, sum);
      } else {
        value = reduced(p, e.type, e.reduction, x);
      }
      scratch_of_piece_[i] = add_scratch(e.type, total_ * row_count());
      p.kernel().stores.push_back({scratch(p, scratch_of_piece_[i], true, by_pieces(true)), value, false});
    }
    return p;
  }

  // The fold of all pieces of a row, from those of each.
  int32_t fold_of_pieces(Part& p, size_t i) const {
    Expr e = outer_.exprs[i];
    e.in[0] = p.load(e.type, scratch(p, scratch_of_piece_[i], false, by_rows(true, rows_.size() + 1)));
    return p.add(e);
  }
  std::vector<int64_t> rows_of_pieces() const {
    std::vector<int64_t> space = rows_;
    space.push_back(total_);
    return space;
  }
  // Of all scans of a level, or of all reductions: none, then there is no store.
  Part fold_rows(int level, ExprOp op) {
    Part p = part("_rows", rows_of_pieces(), 1);
    const bool scan = op == ExprOp::scan;
    for (size_t i = 0; i < outer_.exprs.size(); ++i) {
      if (!is_fold_of(i, level) || outer_.exprs[i].op != op) continue;
      scratch_of_row_[i] = add_scratch(outer_.exprs[i].type, (scan ? total_ : 1) * row_count());
      const int32_t value = fold_of_pieces(p, i);
      p.kernel().stores.push_back(
          {scratch(p, scratch_of_row_[i], true, by_rows(scan, rows_.size() + 1)), value, false});
    }
    return p;
  }

  // What is the same along the row, with the folds that nothing else waits for.
  Part store_rows() const {
    Part p = part("_rows", rows_of_pieces(), 1);
    write(
        p, Space::rows, of_stores(), [](size_t) { return true; },
        [&](size_t i) {
          if (level_[i] + 1 == levels_) return fold_of_pieces(p, i);
          return p.load(outer_.exprs[i].type, scratch(p, scratch_of_row_[i], false, by_rows(false, rows_.size() + 1)));
        });
    store(p, Space::rows);
    return p;
  }
  Part store_points() const {
    Part p = part("_points", outer_.space, 0);
    write(
        p, Space::points, of_stores(), [](size_t) { return true; },
        [&](size_t i) {
          return p.load(outer_.exprs[i].type,
                        scratch(p, scratch_of_row_[i], false, by_rows(false, outer_.space.size())));
        });
    store(p, Space::points);
    return p;
  }
  Part store_pieces() const {
    Part p = part_of_pieces("_points");
    write(
        p, Space::pieces, of_stores(), [&](size_t i) { return outer_.exprs[i].op == ExprOp::reduce; },
        [&](size_t i) { return known_in_pieces(p, i); });
    store(p, Space::pieces);
    return p;
  }

  const Kernel& outer_;
  const std::vector<int64_t> rows_;  // the extents of the dimensions before the row
  const Dependence depends_;
  std::vector<bool> live_;
  std::vector<int> level_;
  int levels_ = 0;
  bool scans_ = false;
  size_t along_ = 0;  // the dimension that is in pieces; those of the row before it are pieces as they are
  int64_t pieces_ = 1, inner_ = 1, total_ = 1;  // total: with those before it
  std::vector<int> scratch_of_piece_, scratch_of_row_;
  Unfused result_;
};

}  // namespace

Unfused split_rows(const Kernel& kernel, int64_t pieces) {
  if (kernel.row_dims == 0 || kernel.stores.empty() || element_count(kernel.space) == 0) return {};
  RowSplitter splitter(kernel, pieces);
  return splitter.can() ? splitter.run() : Unfused{};
}

}  // namespace npusim
