// Interval arithmetic over affine forms and over integer expressions.
#include "kernel/facts/range.h"

#include <algorithm>
#include <limits>

namespace npusim {
namespace {

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

}  // namespace

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
      return Range{std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()};
    default:
      return std::nullopt;
  }
}

std::optional<Range> integer_range(const Kernel& k, const Expr& e, const std::vector<std::optional<Range>>& known) {
  const auto operand = [&](size_t n) { return known[static_cast<size_t>(e.in[n])]; };
  switch (e.op) {
    case ExprOp::constant:
      return Range{e.integer, e.integer};
    case ExprOp::index:
      return Range{0, std::max<int64_t>(k.space[static_cast<size_t>(e.integer)] - 1, 0)};
    case ExprOp::order:
      return Range{0, std::max<int64_t>(k.space.back() - 1, 0)};
    case ExprOp::load: {  // 0 where a guard does not hold
      const Access& a = k.accesses[static_cast<size_t>(e.integer)];
      const auto element = element_range(k.args[static_cast<size_t>(a.arg)].dtype);
      if (!element) return std::nullopt;
      return Range{std::min<int64_t>(element->low, 0), std::max<int64_t>(element->high, 0)};
    }
    case ExprOp::cast:
      if (k.exprs[static_cast<size_t>(e.in[0])].type == Scalar::boolean) return Range{0, 1};
      return std::nullopt;
    case ExprOp::select:
      if (!operand(1) || !operand(2)) return std::nullopt;
      return Range{std::min(operand(1)->low, operand(2)->low), std::max(operand(1)->high, operand(2)->high)};
    case ExprOp::neg:
      if (!operand(0)) return std::nullopt;
      return hull({-static_cast<__int128>(operand(0)->low), -static_cast<__int128>(operand(0)->high)});
    default:
      if (expr_arity(e.op) != 2 || !operand(0) || !operand(1)) return std::nullopt;
      return binary_range(e.op, *operand(0), *operand(1));
  }
}

std::optional<Range> widened(Range r, int64_t stride, int64_t extent) {
  int64_t far = 0;
  if (__builtin_mul_overflow(stride, extent - 1, &far)) return std::nullopt;
  int64_t& end = far < 0 ? r.low : r.high;
  if (__builtin_add_overflow(end, far, &end)) return std::nullopt;
  return r;
}

std::optional<Range> range_of(int64_t offset, const std::vector<int64_t>& coeffs, const std::vector<int64_t>& extents) {
  std::optional<Range> r = Range{offset, offset};
  for (size_t d = 0; d < extents.size() && r; ++d) r = widened(*r, coeffs[d], extents[d]);
  return r;
}

std::vector<std::optional<Range>> integer_ranges(const Kernel& k) {
  std::vector<std::optional<Range>> ranges(k.exprs.size());
  for (size_t i = 0; i < k.exprs.size(); ++i)
    if (k.exprs[i].type == Scalar::i64) ranges[i] = integer_range(k, k.exprs[i], ranges);
  return ranges;
}

}  // namespace npusim
