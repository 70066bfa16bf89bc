// Merging of dimensions, the choice of threads for rows, and what is known about each expression.
#include "print/plan.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>

namespace npusim {
namespace {

constexpr int64_t int32_limit = std::numeric_limits<int32_t>::max();

// Every coefficient list over the dimensions of the space.
template <typename F>
void for_each_coeffs(Kernel& k, F&& f) {
  auto visit = [&](Access& a) {
    f(a.strides);
    for (Guard& g : a.guards) f(g.coeffs);
  };
  for (Access& a : k.accesses) visit(a);
  for (Store& s : k.stores) visit(s.access);
}

Kernel merged(Kernel k) {
  const size_t rank = k.space.size(), outer = rank - static_cast<size_t>(k.row_dims);
  if (std::count(k.space.begin(), k.space.end(), 0)) return k;
  std::vector<bool> indexed(rank, false);
  for (const Expr& e : k.exprs)
    if (e.op == ExprOp::index) indexed[static_cast<size_t>(e.integer)] = true;

  std::vector<size_t> last;  // the innermost original dimension of each kept one: its strides are the merged strides
  std::vector<int64_t> space;
  std::vector<int> kept(rank, -1);
  int row_dims = 0;
  for (size_t d = 0; d < rank; ++d) {
    if (k.space[d] == 1) continue;
    bool joins = !last.empty() && !indexed[d] && !indexed[last.back()] && (last.back() < outer) == (d < outer);
    if (joins)
      for_each_coeffs(k, [&](std::vector<int64_t>& c) { joins = joins && c[last.back()] == c[d] * k.space[d]; });
    if (joins) {
      last.back() = d;
      space.back() *= k.space[d];
    } else {
      last.push_back(d);
      space.push_back(k.space[d]);
      row_dims += d >= outer;
    }
    kept[d] = static_cast<int>(space.size()) - 1;
  }
  for_each_coeffs(k, [&](std::vector<int64_t>& c) {
    std::vector<int64_t> merged;
    for (size_t d : last) merged.push_back(c[d]);
    c = std::move(merged);
  });
  for (Expr& e : k.exprs) {
    if (e.op != ExprOp::index) continue;
    const int dim = kept[static_cast<size_t>(e.integer)];
    if (dim < 0)
      e = {.op = ExprOp::constant, .type = Scalar::i64};
    else
      e.integer = dim;
  }
  k.space = std::move(space);
  k.row_dims = row_dims;
  return k;
}

bool runs_along_row(const Access& a, size_t outer) {
  for (size_t d = outer; d < a.strides.size(); ++d) {
    if (a.strides[d]) return true;
    for (const Guard& g : a.guards)
      if (g.coeffs[d]) return true;
  }
  return false;
}

// Stages, liveness and variation of every expression.
void classify(PrintPlan& p) {
  const Kernel& k = p.kernel;
  p.live = live_expressions(k);
  p.stage.assign(k.exprs.size(), 0);
  p.varies.assign(k.exprs.size(), false);
  for (size_t i = 0; i < k.exprs.size(); ++i) {
    const Expr& e = k.exprs[i];
    auto depend = [&](int32_t on) {
      p.stage[i] = std::max(p.stage[i], p.stage[static_cast<size_t>(on)]);
      if (p.varies[static_cast<size_t>(on)]) p.varies[i] = true;
    };
    for (int n = 0; n < expr_arity(e.op); ++n) depend(e.in[static_cast<size_t>(n)]);
    if (e.op == ExprOp::load) {
      const Access& a = k.accesses[static_cast<size_t>(e.integer)];
      for (const IndexTerm& t : a.terms) depend(t.expr);
      if (runs_along_row(a, p.outer())) p.varies[i] = true;
    }
    if (e.op == ExprOp::index) p.varies[i] = static_cast<size_t>(e.integer) >= p.outer();
    if (e.op == ExprOp::scan) p.varies[i] = true;
    if (e.op == ExprOp::reduce) {
      p.varies[i] = false;
      ++p.stage[i];
    }
    if (p.live[i]) p.last_stage = std::max(p.last_stage, p.stage[i]);
  }
}

// Addresses and coordinates that could leave int32.
bool needs_64_bits(const PrintPlan& p) {
  const Kernel& k = p.kernel;
  __int128 points = 1;
  for (int64_t n : k.space) points *= std::max<int64_t>(n, 1);
  if (points > int32_limit - 4096) return true;
  auto too_far = [&](int64_t offset, const std::vector<int64_t>& coeffs, __int128 start) {
    __int128 sum = start + (offset < 0 ? -static_cast<__int128>(offset) : offset);
    for (size_t d = 0; d < k.space.size(); ++d)
      sum += static_cast<__int128>(coeffs[d] < 0 ? -coeffs[d] : coeffs[d]) * std::max<int64_t>(k.space[d] - 1, 0);
    return sum > int32_limit;
  };
  auto wide = [&](const Access& a) {
    __int128 inner = 0;
    for (const Guard& g : a.guards) {
      inner += static_cast<__int128>(std::abs(g.stride)) * g.limit;
      if (g.limit > int32_limit || too_far(g.offset, g.coeffs, 0)) return true;
    }
    for (const IndexTerm& t : a.terms) inner += static_cast<__int128>(std::abs(t.stride)) * t.extent;
    return too_far(a.offset, a.strides, inner);
  };
  for (size_t i = 0; i < k.exprs.size(); ++i)
    if (p.live[i] && k.exprs[i].op == ExprOp::load && wide(k.accesses[static_cast<size_t>(k.exprs[i].integer)]))
      return true;
  return std::any_of(k.stores.begin(), k.stores.end(), [&](const Store& s) { return wide(s.access); });
}

std::optional<Range> element_range(DType dtype) {
  switch (dtype) {
    case DType::boolean:
      return Range{0, 1};
    case DType::u8:
      return Range{0, 255};
    case DType::i8:
      return Range{-128, 127};
    case DType::i16:
      return Range{-32768, 32767};
    case DType::i32:
      return Range{std::numeric_limits<int32_t>::min(), int32_limit};
    default:
      return std::nullopt;
  }
}

std::optional<Range> hull(std::initializer_list<__int128> values) {
  const __int128 low = std::min(values), high = std::max(values);
  if (low < std::numeric_limits<int64_t>::min() || high > std::numeric_limits<int64_t>::max()) return std::nullopt;
  return Range{static_cast<int64_t>(low), static_cast<int64_t>(high)};
}

std::optional<Range> binary_range(ExprOp op, Range a, Range b) {
  using Big = __int128;
  switch (op) {
    case ExprOp::add:
      return hull({Big{a.low} + b.low, Big{a.high} + b.high});
    case ExprOp::sub:
      return hull({Big{a.low} - b.high, Big{a.high} - b.low});
    case ExprOp::mul:
      return hull({Big{a.low} * b.low, Big{a.low} * b.high, Big{a.high} * b.low, Big{a.high} * b.high});
    case ExprOp::min:
      return Range{std::min(a.low, b.low), std::min(a.high, b.high)};
    case ExprOp::max:
      return Range{std::max(a.low, b.low), std::max(a.high, b.high)};
    case ExprOp::idiv:
      if (b.low != b.high || b.low <= 0) return std::nullopt;
      return Range{a.low / b.low, a.high / b.low};
    case ExprOp::irem:
      if (b.low != b.high || b.low <= 0) return std::nullopt;
      return Range{a.low < 0 ? 1 - b.low : 0, a.high > 0 ? b.low - 1 : 0};
    default:
      return std::nullopt;
  }
}

// Ranges of i64 expressions; those that stay in int32 with all their operands are computed there.
void find_ranges(PrintPlan& p) {
  const Kernel& k = p.kernel;
  p.range.assign(k.exprs.size(), std::nullopt);
  p.narrow.assign(k.exprs.size(), false);
  for (size_t i = 0; i < k.exprs.size(); ++i) {
    const Expr& e = k.exprs[i];
    if (e.type != Scalar::i64) continue;
    auto in = [&](int n) { return static_cast<size_t>(e.in[static_cast<size_t>(n)]); };
    switch (e.op) {
      case ExprOp::constant:
        p.range[i] = Range{e.integer, e.integer};
        break;
      case ExprOp::index:
        p.range[i] = Range{0, std::max<int64_t>(k.space[static_cast<size_t>(e.integer)] - 1, 0)};
        break;
      case ExprOp::load: {
        const Access& a = k.accesses[static_cast<size_t>(e.integer)];
        p.range[i] = element_range(k.args[static_cast<size_t>(a.arg)].dtype);
        if (p.range[i])
          p.range[i] = Range{std::min<int64_t>(p.range[i]->low, 0), std::max<int64_t>(p.range[i]->high, 0)};
        break;
      }
      case ExprOp::cast:
        if (k.exprs[in(0)].type == Scalar::boolean) p.range[i] = Range{0, 1};
        break;
      case ExprOp::select:
        if (p.range[in(1)] && p.range[in(2)])
          p.range[i] = Range{std::min(p.range[in(1)]->low, p.range[in(2)]->low),
                             std::max(p.range[in(1)]->high, p.range[in(2)]->high)};
        break;
      case ExprOp::neg:
        if (p.range[in(0)])
          p.range[i] =
              hull({-static_cast<__int128>(p.range[in(0)]->low), -static_cast<__int128>(p.range[in(0)]->high)});
        break;
      default:
        if (expr_arity(e.op) == 2 && p.range[in(0)] && p.range[in(1)])
          p.range[i] = binary_range(e.op, *p.range[in(0)], *p.range[in(1)]);
    }
    bool narrow = p.range[i] && p.range[i]->low > -int32_limit && p.range[i]->high <= int32_limit;
    if (e.op == ExprOp::load) narrow = p.range[i].has_value();
    for (int n = 0; n < expr_arity(e.op); ++n)
      if (k.exprs[in(n)].type == Scalar::i64 && !p.narrow[in(n)]) narrow = false;
    p.narrow[i] = narrow;
  }
}

// Neighbouring rows lie side by side while the elements of a row do not: a thread for each row reads in order.
bool rows_lie_side_by_side(const PrintPlan& p) {
  const Kernel& k = p.kernel;
  bool beside = false;
  for (size_t i = 0; i < k.exprs.size(); ++i) {
    if (!p.live[i] || k.exprs[i].op != ExprOp::load || !p.varies[i]) continue;
    const Access& a = k.accesses[static_cast<size_t>(k.exprs[i].integer)];
    if (std::abs(a.strides.back()) == 1) return false;
    beside = beside || (p.outer() > 0 && a.strides[p.outer() - 1] == 1);
  }
  return beside;
}

RowLoop choose_row_loop(const PrintPlan& p) {
  const Kernel& k = p.kernel;
  bool reduces = false, scans = false;
  for (size_t i = 0; i < k.exprs.size(); ++i) {
    reduces = reduces || (p.live[i] && k.exprs[i].op == ExprOp::reduce);
    scans = scans || (p.live[i] && k.exprs[i].op == ExprOp::scan);
  }
  if (!reduces && !scans && p.row_length > 0) return RowLoop::none;
  if (scans || p.row_length <= 16) return RowLoop::thread;
  const bool accumulates = std::any_of(k.stores.begin(), k.stores.end(), [](const Store& s) { return s.accumulate; });
  if (accumulates) return RowLoop::thread;
  if (p.points >= 2048 && rows_lie_side_by_side(p)) return RowLoop::thread;
  return p.row_length <= 256 || (p.row_length <= 1024 && p.points >= 1024) ? RowLoop::warp : RowLoop::block;
}

LaunchShape choose_launch(const PrintPlan& p, const Dialect& d) {
  auto blocks = [&](int64_t per_block) { return p.points / per_block + (p.points % per_block != 0); };
  switch (p.row) {
    case RowLoop::none:
      return {blocks(256), 256};
    case RowLoop::thread:
      return {blocks(128), 128};
    case RowLoop::warp:
      return {blocks(4), 4 * d.warp};
    case RowLoop::block:
      break;
  }
  const int wanted = p.row_length >= 8192 ? 1024 : p.row_length >= 2048 ? 512 : 256;
  return {p.points, std::min(wanted, d.max_threads)};
}

}  // namespace

Range range_of(int64_t offset, const std::vector<int64_t>& coeffs, const std::vector<int64_t>& space) {
  Range r{offset, offset};
  for (size_t d = 0; d < space.size(); ++d) {
    const int64_t far = coeffs[d] * (space[d] - 1);
    (far < 0 ? r.low : r.high) += far;
  }
  return r;
}

bool can_trap(const Kernel& k, const Expr& e) {
  if (e.op == ExprOp::load) return !k.accesses[static_cast<size_t>(e.integer)].terms.empty();
  if (e.op != ExprOp::idiv && e.op != ExprOp::irem) return false;
  const Expr& divisor = k.exprs[static_cast<size_t>(e.in[1])];
  return divisor.op != ExprOp::constant || divisor.integer == 0;
}

std::vector<bool> live_expressions(const Kernel& k) {
  std::vector<bool> live(k.exprs.size(), false);
  auto mark = [&](const Access& a) {
    for (const IndexTerm& t : a.terms) live[static_cast<size_t>(t.expr)] = true;
  };
  for (const Store& s : k.stores) {
    live[static_cast<size_t>(s.expr)] = true;
    mark(s.access);
  }
  for (size_t i = k.exprs.size(); i-- > 0;) {
    const Expr& e = k.exprs[i];
    if (can_trap(k, e)) live[i] = true;
    if (!live[i]) continue;
    for (int n = 0; n < expr_arity(e.op); ++n) live[static_cast<size_t>(e.in[static_cast<size_t>(n)])] = true;
    if (e.op == ExprOp::load) mark(k.accesses[static_cast<size_t>(e.integer)]);
  }
  return live;
}

// The address is a sum of digits: a dimension with its stride, a guarded coordinate, an index term. If each digit's
// stride exceeds all that smaller ones can add up to, the address tells every digit, and with it the index along every
// dimension that is a digit by itself: along those no two points meet.
std::vector<bool> colliding_dims(const Kernel& k, const Access& a) {
  struct Digit {
    int64_t stride, extent;
  };
  const size_t rank = k.space.size();
  std::vector<Digit> digits;
  std::vector<bool> meets(rank, true), all(rank, true);
  for (size_t d = 0; d < rank; ++d) {
    int guards = 0;
    bool alone = true;
    for (const Guard& g : a.guards) {
      if (!g.coeffs[d] || k.space[d] == 1) continue;
      ++guards;
      for (size_t other = 0; other < rank; ++other)
        alone = alone && (other == d || !g.coeffs[other] || k.space[other] == 1);
    }
    if (a.strides[d] && guards) return all;
    if (a.strides[d]) digits.push_back({std::abs(a.strides[d]), k.space[d]});
    meets[d] = k.space[d] > 1 && !(a.strides[d] || (guards == 1 && alone));
  }
  for (const Guard& g : a.guards) digits.push_back({std::abs(g.stride), g.limit});
  for (const IndexTerm& t : a.terms) digits.push_back({std::abs(t.stride), t.extent});
  std::sort(digits.begin(), digits.end(), [](const Digit& x, const Digit& y) { return x.stride < y.stride; });
  __int128 covered = 0;
  for (const Digit& digit : digits) {
    if (digit.extent <= 1) continue;
    if (digit.stride <= covered) return all;
    covered += static_cast<__int128>(digit.stride) * (digit.extent - 1);
  }
  return meets;
}

PrintPlan plan_print(const Kernel& kernel, const Dialect& dialect) {
  PrintPlan p;
  p.kernel = merged(kernel);
  const Kernel& k = p.kernel;
  const size_t rank = k.space.size();
  classify(p);
  find_ranges(p);
  p.wide = needs_64_bits(p);
  for (size_t d = p.outer(); d < rank; ++d) p.row_length *= k.space[d];

  p.serial.assign(rank, false);
  for (const Store& s : k.stores) {
    if (!s.accumulate) continue;
    const std::vector<bool> meets = colliding_dims(k, s.access);
    for (size_t d = 0; d < rank; ++d)
      if (meets[d]) p.serial[d] = true;
  }
  auto count = [&](size_t end) {
    p.points = 1;
    for (size_t d = 0; d < end; ++d)
      if (!p.serial[d] || k.space[d] == 0) p.points *= k.space[d];
  };
  count(p.outer());
  p.row = choose_row_loop(p);
  if (p.row == RowLoop::none) count(rank);
  p.launch = choose_launch(p, dialect);
  return p;
}

}  // namespace npusim
