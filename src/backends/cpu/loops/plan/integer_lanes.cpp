// Which width suffices is a fact of each expression: whether its lanes may have the low bits alone, or need the value.
#include "backends/cpu/loops/plan/integer_lanes.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include "kernel/facts/range.h"

namespace npusim::cpu::loops::plan {
namespace {

using Ranges = std::vector<std::optional<Range>>;

// Of the sum of a row's elements; nullopt: not known, or more than 64 bits hold.
std::optional<Range> range_of_sum(const Kernel& k, const Range& x) {
  Range sum = x;
  for (size_t d = k.space.size() - static_cast<size_t>(k.row_dims); d < k.space.size(); ++d)
    if (__builtin_mul_overflow(sum.low, k.space[d], &sum.low) ||
        __builtin_mul_overflow(sum.high, k.space[d], &sum.high))
      return std::nullopt;
  return sum;
}

// More than devices ask for: what wraps, and sums and extremes of rows, which have elements.
std::optional<Range> range_of(const Kernel& k, const Expr& e, const Ranges& known) {
  if (e.op != ExprOp::round_to && e.op != ExprOp::reduce && e.op != ExprOp::abs) return integer_range(k, e, known);
  const std::optional<Range> x = known[static_cast<size_t>(e.in[0])];
  if (e.op == ExprOp::round_to) {
    const std::optional<Range> all = element_range(e.dtype);
    return x && all && all->low <= x->low && x->high <= all->high ? x : all;
  }
  if (!x) return std::nullopt;
  if (e.op == ExprOp::reduce) {
    if (e.reduction == Reduction::sum) return range_of_sum(k, *x);
    return e.reduction == Reduction::product ? std::nullopt : x;
  }
  if (x->low < -std::numeric_limits<int64_t>::max()) return std::nullopt;
  return Range{0, std::max(-x->low, x->high)};
}

bool is_integer(const Kernel& k, int32_t i) { return k.exprs[static_cast<size_t>(i)].type == Scalar::i64; }

// Whether the expression can be computed in lanes in which those integers are their values that `fits` says.
template <class Fits>
bool is_computed(const Kernel& k, const Expr& e, const Fits& fits) {
  const auto all_fit = [&] {
    for (int n = 0; n < expr_arity(e.op); ++n)
      if (const int32_t x = e.in[static_cast<size_t>(n)]; is_integer(k, x) && !fits(x)) return false;
    return true;
  };
  const auto any_integer = [&] {
    for (int n = 0; n < expr_arity(e.op); ++n)
      if (is_integer(k, e.in[static_cast<size_t>(n)])) return true;
    return false;
  };
  if (e.type != Scalar::i64)
    return !any_integer() ||
           ((e.op == ExprOp::cast || (tiles::is_comparison(e.op) && e.type == Scalar::boolean)) && all_fit());
  switch (e.op) {
    case ExprOp::constant:
    case ExprOp::load:
    case ExprOp::neg:
    case ExprOp::add:
    case ExprOp::sub:
    case ExprOp::mul:
    case ExprOp::bit_and:
    case ExprOp::bit_or:
    case ExprOp::bit_xor:
    case ExprOp::select:
      return true;
    case ExprOp::shl:
      return fits(e.in[1]);
    case ExprOp::shr:
    case ExprOp::min:
    case ExprOp::max:
    case ExprOp::abs:
      return all_fit();
    case ExprOp::round_to:
      return e.dtype != DType::boolean;
    case ExprOp::cast:
      return k.exprs[static_cast<size_t>(e.in[0])].type == Scalar::boolean;
    case ExprOp::reduce:
      return e.reduction == Reduction::sum || e.reduction == Reduction::product || all_fit();
    default:
      return false;
  }
}

}  // namespace

Range values_of(tiles::IntLane lane) {
  switch (lane) {
    case tiles::IntLane::u8:
      return {0, 255};
    case tiles::IntLane::i8:
      return {-128, 127};
    case tiles::IntLane::i16:
      return {-32768, 32767};
    case tiles::IntLane::i32:
      return {std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()};
    default:
      return {std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()};
  }
}

tiles::IntLane integer_lanes(const Kernel& k) {
  const auto plain = [](const Access& a) { return a.terms.empty(); };
  const auto stored = [&](const Store& s) { return plain(s.access) && !s.accumulate; };
  const auto has_points = [](int64_t extent) { return extent > 0; };
  if (!std::all_of(k.accesses.begin(), k.accesses.end(), plain) ||
      !std::all_of(k.stores.begin(), k.stores.end(), stored) ||
      !std::all_of(k.space.begin(), k.space.end(), has_points))
    return tiles::IntLane::i64;
  Ranges ranges(k.exprs.size());
  for (size_t i = 0; i < k.exprs.size(); ++i)
    if (k.exprs[i].type == Scalar::i64) ranges[i] = range_of(k, k.exprs[i], ranges);
  for (const tiles::IntLane lane : {tiles::IntLane::u8, tiles::IntLane::i8, tiles::IntLane::i16, tiles::IntLane::i32}) {
    const Range held = values_of(lane);
    const auto fits = [&](int32_t i) {
      const auto& r = ranges[static_cast<size_t>(i)];
      return r && held.low <= r->low && r->high <= held.high;
    };
    const auto is_kept = [&](const Store& s) {
      const size_t bytes = dtype_size(k.args[static_cast<size_t>(s.access.arg)].dtype);
      return !is_integer(k, s.expr) || bytes <= static_cast<size_t>(lane_bytes(lane)) || fits(s.expr);
    };
    if (std::all_of(k.exprs.begin(), k.exprs.end(), [&](const Expr& e) { return is_computed(k, e, fits); }) &&
        std::all_of(k.stores.begin(), k.stores.end(), is_kept))
      return lane;
  }
  return tiles::IntLane::i64;
}

}  // namespace npusim::cpu::loops::plan
