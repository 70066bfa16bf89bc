// Recognises the one fold; its addresses, conditions and indices are found by evaluating them.
#include "backends/cpu/window/match.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/shape.h"
#include "kernel/facts/compact.h"
#include "kernel/facts/depend.h"
#include "kernel/facts/range.h"
#include "kernel/facts/rename.h"

namespace npusim::cpu::window {
namespace {

constexpr int64_t most_taps = 1 << 20, most_rows = 4096, most_along = 4096, longest_line = 4096, least_line = 8;
constexpr int64_t long_window = 128;  // from where on a line of one window is long enough
constexpr int64_t most_indices = std::numeric_limits<int32_t>::max();
// What a file may ask of whoever opens it: entries of a table, operations of one entry, each counted as often as it is
// used, and parts of a condition or an index.
constexpr int64_t most_entries = 1 << 18;
constexpr int most_operations = 64;
constexpr size_t most_parts = 16;

class Matcher {
 public:
  explicit Matcher(const Kernel& k)
      : k_(k),
        outer_(k.space.size() - static_cast<size_t>(k.row_dims)),
        depends_(dependence_of(k)),
        index_(k.space.size(), 0) {}

  std::optional<SlidingWindow> run() {
    if (!find_fold() || !find_dims() || !find_line() || !make_rest()) return std::nullopt;
    return std::move(w_);
  }

 private:
  const Expr& expr(int32_t i) const { return k_.exprs[static_cast<size_t>(i)]; }
  DimSet dims(int32_t i) const { return depends_.dims[static_cast<size_t>(i)]; }
  DimSet row() const { return row_of(k_); }

  // The value of an integer expression of indices at index_; nullopt: it is none, or one of too many operations.
  std::optional<int64_t> value(int32_t i) const {
    int left = most_operations;
    return follow(i, left);
  }
  std::optional<int64_t> follow(int32_t i, int& left) const {
    const Expr& e = expr(i);
    if (e.type > Scalar::i64 || --left < 0) return std::nullopt;
    if (e.op == ExprOp::constant) return e.integer;
    if (e.op == ExprOp::index) return index_[static_cast<size_t>(e.integer)];
    if (expr_arity(e.op) != 2 || expr(e.in[0]).type > Scalar::i64) return std::nullopt;
    const auto a = follow(e.in[0], left), b = a ? follow(e.in[1], left) : std::nullopt;
    if (!a || !b) return std::nullopt;
    int64_t result = 0;
    switch (e.op) {
      case ExprOp::add:
        return __builtin_add_overflow(*a, *b, &result) ? std::nullopt : std::optional(result);
      case ExprOp::sub:
        return __builtin_sub_overflow(*a, *b, &result) ? std::nullopt : std::optional(result);
      case ExprOp::mul:
        return __builtin_mul_overflow(*a, *b, &result) ? std::nullopt : std::optional(result);
      case ExprOp::idiv:
        return *b > 0 ? std::optional(*a / *b) : std::nullopt;
      case ExprOp::min:
        return std::min(*a, *b);
      case ExprOp::max:
        return std::max(*a, *b);
      case ExprOp::le:
        return *a <= *b;
      case ExprOp::lt:
        return *a < *b;
      case ExprOp::shr:
        return *b >= 0 && *b < 63 ? std::optional(*a >> *b) : std::nullopt;
      case ExprOp::bit_and:
        return *a & *b;
      default:
        return std::nullopt;
    }
  }

  // The reduction of what is loaded; the others find its index.
  bool find_fold() {
    for (size_t i = 0; i < k_.exprs.size(); ++i) {
      const Expr& e = k_.exprs[i];
      if (e.op == ExprOp::scan || e.op == ExprOp::order) return false;
      if (e.op != ExprOp::reduce || (e.reduction != Reduction::sum && e.reduction != Reduction::max)) continue;
      const Access* access = access_of(e);
      if (!access) continue;
      if (fold_ >= 0) return false;
      fold_ = static_cast<int32_t>(i), access_ = access;
    }
    if (fold_ < 0) return false;
    const Expr& fold = expr(fold_);
    value_ = fold.in[0];
    if (const Expr& x = expr(value_); x.op == ExprOp::select) inside_ = x.in[0];
    w_.top = fold.type == Scalar::f64 ? DType::f64 : fold.type == Scalar::i64 ? DType::i64 : DType::f32;
    w_.fold = fold.reduction == Reduction::sum ? WindowFold::sum : WindowFold::max;
    return std::none_of(k_.stores.begin(), k_.stores.end(), [](const Store& s) { return s.accumulate; });
  }

  // What no integer that is loaded is below.
  int64_t least_of(int32_t load) const {
    constexpr int64_t least = std::numeric_limits<int64_t>::min();
    if (expr(load).op != ExprOp::load) return least;
    const Access& access = k_.accesses[static_cast<size_t>(expr(load).integer)];
    const auto range = element_range(k_.args[static_cast<size_t>(access.arg)].dtype);
    return range ? range->low : least;
  }
  // Of a fold of what is loaded, or, where a condition does not hold, of the fold's identity; null: of something else.
  const Access* access_of(const Expr& fold) const {
    int32_t load = fold.in[0];
    const bool whole = fold.type == Scalar::i64, sums = fold.reduction == Reduction::sum;
    if (const Expr& x = expr(load); x.op == ExprOp::select) {
      load = x.in[1];
      const Expr& other = expr(x.in[2]);
      if (other.op != ExprOp::constant) return nullptr;
      if (!whole && other.number != (sums ? 0 : -std::numeric_limits<double>::infinity())) return nullptr;
      if (whole && (sums ? other.integer != 0 : other.integer > least_of(load))) return nullptr;
    }
    if (expr(load).op != ExprOp::load) return nullptr;
    const Access& access = k_.accesses[static_cast<size_t>(expr(load).integer)];
    const DType dtype = k_.args[static_cast<size_t>(access.arg)].dtype;
    const bool fits = whole                      ? !is_float(dtype) && dtype != DType::boolean
                      : fold.type == Scalar::f64 ? dtype == DType::f64
                                                 : dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
    return fits ? &access : nullptr;
  }

  // The one dimension of the row that is in the set, as a number in the row, and at most one other; nullopt: more.
  struct Pair {
    size_t row = 0;
    int over = -1;
  };
  std::optional<Pair> pair_of(DimSet set) const {
    const DimSet in_row = set & row(), others = set & ~row();
    if (std::popcount(in_row) != 1 || std::popcount(others) > 1) return std::nullopt;
    return Pair{static_cast<size_t>(std::countr_zero(in_row)) - outer_, others ? std::countr_zero(others) : -1};
  }
  static DimSet dims_of(const Guard& g) {
    DimSet set = 0;
    for (size_t d = 0; d < g.coeffs.size(); ++d)
      if (g.coeffs[d] != 0) set |= dim_bit(d);
    return set;
  }
  // The window's dimension slides along the pair's other one; false if along another already.
  bool join(const std::optional<Pair>& pair) {
    if (!pair) return false;
    int& over = w_.dims[pair->row].over;
    if (over >= 0 && pair->over >= 0 && over != pair->over) return false;
    over = std::max(over, pair->over);
    return true;
  }

  // What an expression joins by such operations; nullopt: too many.
  std::optional<std::vector<int32_t>> parts_of(int32_t whole, ExprOp op) const {
    std::vector<int32_t> all, open{whole};
    while (!open.empty()) {
      if (all.size() + open.size() > most_parts) return std::nullopt;
      const int32_t i = open.back();
      open.pop_back();
      if (const Expr& e = expr(i); e.op == op)
        open.push_back(e.in[0]), open.push_back(e.in[1]);
      else
        all.push_back(i);
    }
    return all;
  }

  // Each guard, index term and condition is of one dimension of the row.
  bool find_dims() {
    w_.arg = access_->arg, w_.offset = access_->offset;
    w_.space.assign(k_.space.begin(), k_.space.begin() + static_cast<std::ptrdiff_t>(outer_));
    w_.strides.assign(access_->strides.begin(), access_->strides.begin() + static_cast<std::ptrdiff_t>(outer_));
    w_.dims.resize(static_cast<size_t>(k_.row_dims));
    int64_t taps = 1;
    for (size_t t = 0; t < w_.dims.size(); ++t) taps *= w_.dims[t].size = k_.space[outer_ + t];
    if (taps < 2 || taps > most_taps) return false;
    const auto all = inside_ >= 0 ? parts_of(inside_, ExprOp::bit_and) : std::vector<int32_t>{};
    if (!all) return false;
    for (const Guard& g : access_->guards)
      if (!join(pair_of(dims_of(g)))) return false;
    for (const IndexTerm& t : access_->terms)
      if (!join(pair_of(dims(t.expr)))) return false;
    for (int32_t c : *all)
      if (!join(pair_of(dims(c)))) return false;
    for (size_t t = 0; t < w_.dims.size(); ++t)
      if (indices(w_.dims[t]) > most_entries / w_.dims[t].size || !fill_addresses(t, *all)) return false;
    return true;
  }

  int64_t indices(const WindowDim& dim) const { return dim.over < 0 ? 1 : w_.space[static_cast<size_t>(dim.over)]; }
  // f(index along `over`, tap) with index_ there, until it is false.
  template <typename F>
  bool each_tap(size_t t, F&& f) {
    const WindowDim& dim = w_.dims[t];
    bool good = true;
    for (int64_t o = 0; o < indices(dim) && good; ++o)
      for (int64_t j = 0; j < dim.size && good; ++j) {
        if (dim.over >= 0) index_[static_cast<size_t>(dim.over)] = o;
        index_[outer_ + t] = j;
        good = f(o, j);
      }
    std::fill(index_.begin(), index_.end(), 0);
    return good;
  }

  bool fill_addresses(size_t t, const std::vector<int32_t>& conditions) {
    WindowDim& dim = w_.dims[t];
    const DimSet own = dim_bit(outer_ + t);
    dim.address.assign(static_cast<size_t>(indices(dim) * dim.size), 0);
    return each_tap(t, [&](int64_t o, int64_t j) {
      int64_t& address = dim.at(dim.address, o)[j];
      for (int32_t c : conditions) {
        if ((dims(c) & own) == 0) continue;
        const auto holds = value(c);
        if (!holds) return false;
        if (*holds == 0) {
          address = WindowDim::outside;
          return true;
        }
      }
      address = access_->strides[outer_ + t] * j;
      for (const Guard& g : access_->guards) {
        if (g.coeffs[outer_ + t] == 0) continue;
        int64_t at = g.offset;
        for (size_t d = 0; d < index_.size(); ++d) at += g.coeffs[d] * index_[d];
        if (at < 0 || at >= g.limit) return false;  // a load gives 0 there, which counts
        address += g.stride * at;
      }
      for (const IndexTerm& term : access_->terms) {
        if ((dims(term.expr) & own) == 0) continue;
        const auto at = value(term.expr);
        if (!at || *at < 0 || *at >= term.extent) return false;
        address += term.stride * *at;
      }
      return true;
    });
  }

  // Of no condition along the row's last dimension: the one dimension along which windows begin near each other is that
  // which it slides along.
  bool find_over(WindowDim& x, std::vector<int64_t>& strides) const {
    for (size_t d = 0; d < outer_; ++d) {
      if (strides[d] <= 0 || strides[d] > 2 * x.size || w_.space[d] == 1) continue;
      if (x.over >= 0) return false;
      x.over = static_cast<int>(d);
    }
    if (x.over < 0 || x.size < 2 || w_.dims.size() < 2 || indices(x) > most_entries / x.size) return false;
    const auto d = static_cast<size_t>(x.over);
    const std::vector<int64_t> taps = std::exchange(x.address, {});
    for (int64_t o = 0; o < w_.space[d]; ++o)
      for (int64_t tap : taps) x.address.push_back(tap == WindowDim::outside ? tap : tap + o * strides[d]);
    strides[d] = 0;
    return true;
  }

  // Whether taps of the last dimension are evenly apart in memory, and it alone moves along a dimension of the space.
  bool slides_along() {
    WindowDim x = w_.dims.back();
    std::vector<int64_t> strides = w_.strides;
    if (x.size > most_along || (x.over < 0 && !find_over(x, strides))) return false;
    const auto line = static_cast<size_t>(x.over);
    if (strides[line] != 0) return false;
    for (size_t t = 0; t + 1 < w_.dims.size(); ++t)
      if (w_.dims[t].over == x.over) return false;
    if (!lies_along(x, w_.space[line]) || (loops_are_as_good() && !overlaps(x, w_.space[line]))) return false;
    w_.line = line;
    w_.dims.back() = std::move(x);
    w_.strides = std::move(strides);
    return true;
  }
  // Whether what counts of each window is one run of taps, all evenly apart, and all windows lie together.
  static bool lies_along(const WindowDim& x, int64_t windows) {
    int64_t step = 0, low = std::numeric_limits<int64_t>::max(), high = 0, counted = 0;
    for (int64_t o = 0; o < windows; ++o) {
      const int64_t* at = x.addresses(o);
      int runs = 0;
      for (int64_t j = 0; j < x.size; ++j) {
        if (at[j] == WindowDim::outside) continue;
        low = std::min(low, at[j]), high = std::max(high, at[j]), ++counted;
        const bool begins = j == 0 || at[j - 1] == WindowDim::outside;
        if (begins && ++runs > 1) return false;
        if (begins) continue;
        if (step == 0) step = at[j] - at[j - 1];
        if (at[j] - at[j - 1] != step || step <= 0) return false;
      }
    }
    return counted > 0 && high - low < 4 * counted && high - low < longest_line * 64;
  }

  // Whether a window's taps lie among those of others along the line: else it is one of channels, whose taps are apart.
  static bool overlaps(const WindowDim& x, int64_t windows) {
    int64_t step = 0, low = std::numeric_limits<int64_t>::max(), high = 0;  // of taps; of where windows begin
    for (int64_t o = 0; o < windows; ++o) {
      const int64_t* at = x.addresses(o);
      const int64_t* begin = std::find_if(at, at + x.size, [](int64_t a) { return a != WindowDim::outside; });
      if (begin == at + x.size) continue;
      low = std::min(low, *begin), high = std::max(high, *begin);
      if (begin + 1 < at + x.size && begin[1] != WindowDim::outside) step = begin[1] - *begin;
    }
    return step <= high - low;
  }
  bool finds_index() const {
    const auto reduces = [](const Expr& e) { return e.op == ExprOp::reduce; };
    return std::count_if(k_.exprs.begin(), k_.exprs.end(), reduces) > 1;
  }
  // Of few taps of many channels: a line of windows has too little to do.
  bool loops_are_as_good() const {
    constexpr int64_t few = 16;
    int64_t taps = 1;
    for (const WindowDim& dim : w_.dims) taps *= dim.size;
    return taps < few && !finds_index();
  }

  // Two dimensions as one, of which the second does not slide; nullopt: it has too many taps.
  std::optional<WindowDim> joined(const WindowDim& a, const WindowDim& b) const {
    if (b.over >= 0 || a.size > most_along / b.size || indices(a) > most_entries / (a.size * b.size))
      return std::nullopt;
    const auto sums = [](const std::vector<int64_t>& first, const std::vector<int64_t>& second) {
      std::vector<int64_t> all;
      for (int64_t x : first)
        for (int64_t y : second)
          all.push_back(x == WindowDim::outside || y == WindowDim::outside ? WindowDim::outside : x + y);
      return all;
    };
    return WindowDim{a.over, a.size * b.size, sums(a.address, b.address), sums(a.position, b.position)};
  }
  // Of a window that does not slide: along which dimension of the space others are near it, of those the nearest; none
  // where each is long.
  std::optional<size_t> nearest(const WindowDim& x) const {
    std::optional<size_t> line;
    for (size_t d = 0; d < outer_ && x.size < long_window; ++d)
      if (w_.strides[d] > 0 && w_.strides[d] <= 2 * x.size && w_.space[d] > 1 && w_.space[d] <= most_entries / x.size &&
          (!line || w_.strides[d] < w_.strides[*line]))
        line = d;
    return line;
  }
  // Whether windows are whole lines of memory or several, so that their last dimensions are one that is evenly apart.
  // Only where an index is wanted: else loops take such rows as they are.
  bool lies_whole() {
    if (!finds_index()) return false;
    WindowDim x = w_.dims.back();
    int64_t rows = 1;
    for (const WindowDim& dim : w_.dims) rows *= dim.size;
    for (size_t t = w_.dims.size() - 1; t-- > 0; ++joins_) {
      auto more = joined(w_.dims[t], x);
      if (!more || !lies_along(*more, indices(*more))) break;
      x = std::move(*more);
    }
    if (joins_ == 0 || rows / x.size > most_rows) return false;
    if (x.over < 0) {
      set_line_positions(x);
    } else {
      w_.line = static_cast<size_t>(x.over);
      for (size_t t = 0; t + joins_ + 1 < w_.dims.size(); ++t)
        if (w_.dims[t].over == x.over) return false;
      if (w_.strides[w_.line] != 0) return false;
    }
    whole_ = std::move(x);
    return true;
  }
  // Lines of neighbours, or of one window each: then a dimension of extent 1 is added to the space.
  void set_line_positions(WindowDim& x) {
    if (const auto line = nearest(x)) {
      WindowDim slid{static_cast<int>(*line), x.size, {}, {}};
      for (int64_t o = 0; o < w_.space[*line]; ++o)
        for (int64_t tap : x.address)
          slid.address.push_back(tap == WindowDim::outside ? tap : tap + o * w_.strides[*line]);
      if (lies_along(slid, w_.space[*line])) {
        x = std::move(slid);
        w_.line = *line, w_.strides[*line] = 0;
        return;
      }
    }
    w_.line = outer_, x.over = static_cast<int>(outer_);
    w_.space.push_back(1), w_.strides.push_back(0);
  }
  // The last dimensions as the one that lies_whole() found, positions with them.
  void join_dims() {
    WindowDim x = w_.dims.back();
    for (w_.dims.pop_back(); joins_ > 0; --joins_, w_.dims.pop_back()) x = *joined(w_.dims.back(), x);
    while (x.position.size() < whole_->address.size())
      x.position.insert(x.position.end(), x.position.begin(), x.position.begin() + x.size);
    whole_->position = std::move(x.position);
    w_.dims.push_back(std::move(*whole_));
  }

  bool find_line() {
    int64_t rows = 1;
    for (const WindowDim& dim : w_.dims) rows *= dim.size;
    w_.along = true;
    if (rows / w_.dims.back().size <= most_rows && slides_along()) return true;
    if (lies_whole()) return true;
    if (rows > most_rows) return false;
    // Neighbours in memory side by side, where some dimension of the window does slide.
    w_.along = false;
    if (loops_are_as_good()) return false;
    bool slides = false;
    for (const WindowDim& dim : w_.dims) slides = slides || dim.over >= 0;
    for (size_t d = 0; d < outer_ && slides; ++d) {
      const bool free = std::none_of(w_.dims.begin(), w_.dims.end(),
                                     [&](const WindowDim& dim) { return dim.over == static_cast<int>(d); });
      w_.line = d;
      if (free && w_.strides[d] == 1 && w_.space[d] >= least_line && w_.space[d] <= longest_line) return true;
    }
    return false;
  }

  bool meets_top(int32_t i) const {
    const Expr& e = expr(i);
    return e.op == ExprOp::eq && ((e.in[0] == value_ && e.in[1] == fold_) || (e.in[1] == value_ && e.in[0] == fold_));
  }

  // reduce min of (inside && x == top ? index : nowhere)
  bool is_first(const Expr& e) {
    if (e.op != ExprOp::reduce || e.reduction != Reduction::min || e.type != Scalar::i64) return false;
    const Expr& chosen = expr(e.in[0]);
    if (chosen.op != ExprOp::select || expr(chosen.in[2]).op != ExprOp::constant) return false;
    const Expr& hit = expr(chosen.in[0]);
    const bool guarded =
        inside_ >= 0 && hit.op == ExprOp::bit_and &&
        ((hit.in[0] == inside_ && meets_top(hit.in[1])) || (hit.in[1] == inside_ && meets_top(hit.in[0])));
    if (inside_ >= 0 ? !guarded : !meets_top(chosen.in[0])) return false;
    w_.nowhere = expr(chosen.in[2]).integer;
    return takes_index(chosen.in[1]);
  }
  // reduce max of (isnan x ? index : −1)
  bool is_last_nan(const Expr& e) {
    if (e.op != ExprOp::reduce || e.reduction != Reduction::max || e.type != Scalar::i64) return false;
    const Expr& chosen = expr(e.in[0]);
    if (chosen.op != ExprOp::select || expr(chosen.in[0]).op != ExprOp::isnan || expr(chosen.in[0]).in[0] != value_)
      return false;
    const Expr& none = expr(chosen.in[2]);
    return none.op == ExprOp::constant && none.integer == -1 && takes_index(chosen.in[1]);
  }

  // An index is a sum, each part of which is of one dimension of the window or of none.
  bool takes_index(int32_t argmax) {
    if (argmax_ >= 0) return argmax == argmax_;
    argmax_ = argmax;
    w_.index_of.assign(w_.space.size(), {});
    for (WindowDim& dim : w_.dims) dim.position.assign(dim.address.size(), 0);
    const auto parts = parts_of(argmax, ExprOp::add);
    if (!parts || w_.fold != WindowFold::max ||
        !std::all_of(parts->begin(), parts->end(), [&](int32_t i) { return add_position(i); }))
      return false;
    if (whole_) join_dims();
    return grows();
  }
  bool add_position(int32_t i) {
    const DimSet set = dims(i);
    if (set == 0) {
      const auto part = value(i);
      w_.index_offset += part.value_or(0);
      return part.has_value();
    }
    if ((set & row()) == 0) {
      if (std::popcount(set) != 1) return false;
      const auto d = static_cast<size_t>(std::countr_zero(set));
      if (w_.space[d] > most_entries) return false;
      std::vector<int64_t>& table = w_.index_of[d];
      table.resize(static_cast<size_t>(w_.space[d]), 0);
      std::optional<int64_t> part = 0;
      for (int64_t o = 0; o < w_.space[d] && part; ++o) {
        index_[d] = o;
        if ((part = value(i))) table[static_cast<size_t>(o)] += *part;
      }
      index_[d] = 0;
      return part.has_value();
    }
    const auto pair = pair_of(set);
    if (!pair || (pair->over >= 0 && pair->over != w_.dims[pair->row].over)) return false;
    WindowDim& dim = w_.dims[pair->row];
    return each_tap(pair->row, [&](int64_t o, int64_t j) {
      const auto part = value(i);
      if (part) dim.at(dim.position, o)[j] += *part;
      return part.has_value();
    });
  }
  // Whether positions grow with the taps in their order, are few enough, and evenly apart along a line.
  bool grows() const {
    int64_t within = 0, apart = 0;  // of the dimensions behind: how far their positions are apart at most
    for (size_t t = w_.dims.size(); t-- > 0;) {
      const WindowDim& dim = w_.dims[t];
      int64_t widest = 0;
      for (int64_t o = 0; o < indices(dim); ++o) {
        const int64_t* at = dim.positions(o);
        for (int64_t j = 1; j < dim.size; ++j) {
          if (at[j] - at[j - 1] <= within) return false;
          if (t + 1 < w_.dims.size() || !w_.along) continue;
          if (apart == 0) apart = at[j] - at[j - 1];
          if (at[j] - at[j - 1] != apart) return false;
        }
        widest = std::max(widest, at[dim.size - 1] - at[0]);
        if (at[0] < 0 || at[dim.size - 1] > most_indices / 4) return false;
      }
      within += widest;
    }
    return within < most_indices / 4;
  }

  int32_t add(const Expr& e) {
    w_.rest.exprs.push_back(e);
    return static_cast<int32_t>(w_.rest.exprs.size()) - 1;
  }
  int32_t load_result(size_t arg, Scalar type) {
    Access a{static_cast<int>(k_.args.size() + arg), 0, row_major_strides(w_.space), {}, {}};
    a.strides.resize(outer_), a.strides.resize(k_.space.size(), 0);
    w_.rest.accesses.push_back(std::move(a));
    Expr e{.op = ExprOp::load, .type = type};
    e.integer = static_cast<int64_t>(w_.rest.accesses.size()) - 1;
    return add(e);
  }
  int32_t number(int64_t value) {
    Expr e{.op = ExprOp::constant, .type = Scalar::i64};
    e.integer = value;
    return add(e);
  }
  bool is_top_nan(int32_t i) const { return expr(i).op == ExprOp::isnan && expr(i).in[0] == fold_; }

  // The kernel with loads instead of the reductions, and without the row that only they need.
  bool make_rest() {
    Kernel& rest = w_.rest;
    rest = k_;
    rest.exprs.clear();
    const int64_t points = element_count(w_.space);
    rest.args.push_back({w_.top, points, false, -1}), rest.args.push_back({DType::i64, points, false, -1});
    std::vector<int32_t> to(k_.exprs.size());
    std::vector<bool> first(k_.exprs.size()), last(k_.exprs.size());
    int32_t top = -1, argmax = -1;
    const auto where = [&] { return argmax >= 0 ? argmax : argmax = load_result(1, Scalar::i64); };
    for (size_t i = 0; i < k_.exprs.size(); ++i) {
      const Expr& e = k_.exprs[i];
      if (static_cast<int32_t>(i) == fold_) {
        to[i] = top = load_result(0, e.type);
        if (w_.top == DType::i64 && w_.fold != WindowFold::sum && inside_ >= 0)  // also of no elements
          to[i] =
              add({.op = ExprOp::max, .type = Scalar::i64, .in = {top, number(expr(expr(value_).in[2]).integer), -1}});
      } else if (e.op == ExprOp::reduce) {
        first[i] = top >= 0 && is_first(e), last[i] = top >= 0 && !first[i] && is_last_nan(e);
        if (!first[i] && !last[i]) return false;
        const int32_t found = where();
        if (w_.top == DType::i64) {
          to[i] = found;
          continue;
        }
        const int32_t nan = add({.op = ExprOp::isnan, .type = Scalar::boolean, .in = {top, -1, -1}});
        const int32_t none = number(first[i] ? w_.nowhere : -1);
        to[i] = add(
            {.op = ExprOp::select, .type = Scalar::i64, .in = {nan, first[i] ? none : found, first[i] ? found : none}});
      } else if (e.op == ExprOp::select && is_top_nan(e.in[0]) && last[static_cast<size_t>(e.in[1])] &&
                 first[static_cast<size_t>(e.in[2])]) {
        to[i] = where();
      } else {
        Expr copy = e;
        rename_operands(copy, to);
        to[i] = add(copy);
      }
    }
    if (argmax >= 0) w_.fold = WindowFold::argmax;
    for (Access& a : rest.accesses) rename_terms(a, to);
    rename_stores(rest, to);
    return drop_row();
  }

  bool drop_row() {
    Kernel& rest = w_.rest;
    drop_dead(rest);
    const Dependence depends = dependence_of(rest);
    const auto varies = [&](DimSet set) { return (set & row()) != 0; };
    if (std::any_of(depends.dims.begin(), depends.dims.end(), varies)) return false;
    for (const Store& s : rest.stores)
      if (varies(npusim::dims_of(s.access, depends))) return false;
    cut_row(rest);
    return true;
  }

  const Kernel& k_;
  size_t outer_;
  Dependence depends_;
  std::vector<int64_t> index_;
  SlidingWindow w_;
  int32_t fold_ = -1, value_ = -1, inside_ = -1, argmax_ = -1;
  const Access* access_ = nullptr;
  size_t joins_ = 0;  // of the last dimensions, which make whole_
  std::optional<WindowDim> whole_;
};

}  // namespace

std::optional<SlidingWindow> match_window(const Kernel& kernel) {
  if (kernel.row_dims == 0 || kernel.contraction || kernel.call || element_count(kernel.space) == 0)
    return std::nullopt;
  return Matcher(kernel).run();
}

}  // namespace npusim::cpu::window
