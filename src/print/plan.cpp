// Merging of dimensions, and what is known about each expression.
#include "print/plan.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <numeric>

#include "kernel/facts/compact.h"
#include "kernel/facts/depend.h"
#include "kernel/facts/memory.h"
#include "kernel/facts/range.h"
#include "print/lanes.h"

namespace npusim {
namespace {

constexpr int64_t int32_limit = std::numeric_limits<int32_t>::max();

// How many of the kernel's accesses are apart from neighbour to neighbour along a dimension.
int64_t apart_along(const Kernel& k, size_t d) {
  const auto apart = [&](const Access& a) { return int64_t{std::abs(a.strides[d]) > 1}; };
  int64_t count = 0;
  for (const Expr& e : k.exprs)
    if (e.op == ExprOp::load) count += apart(k.accesses[static_cast<size_t>(e.integer)]);
  for (const Store& s : k.stores) count += apart(s.access);
  return count;
}

// Neighbouring points and rows store side by side: the dimensions by how far the first store goes along them, where
// that does not part more of what is read. What accumulates keeps its order, and so does what is stored where indices
// say.
void order_by_store(Kernel& k) {
  if (k.stores.empty() || std::any_of(k.stores.begin(), k.stores.end(), [](const Store& s) { return s.accumulate; }))
    return;
  const Access& to = k.stores[0].access;
  if (!to.terms.empty() || static_cast<int>(k.space.size()) == k.row_dims) return;
  const auto step = [&](size_t d) {
    return to.strides[d] == 0 ? std::numeric_limits<int64_t>::max() : std::abs(to.strides[d]);
  };
  std::vector<size_t> order(k.space.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto outer = order.end() - k.row_dims;
  std::stable_sort(order.begin(), outer, [&](size_t a, size_t b) { return step(a) > step(b); });
  const size_t last = k.space.size() - static_cast<size_t>(k.row_dims) - 1;
  if (apart_along(k, *(outer - 1)) <= apart_along(k, last)) order_dims(k, order);
}

// Stages, liveness and variation of every expression.
void classify(PrintPlan& p) {
  const Dependence depends = dependence_of(p.kernel);
  const DimSet row = row_of(p.kernel);
  p.live = live_expressions(p.kernel, true);
  p.ends = coarseness_of(p.kernel);
  p.stage = depends.stage;
  for (size_t i = 0; i < p.live.size(); ++i) {
    p.varies.push_back((depends.dims[i] & row) != 0);
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

// Those that stay in int32 with all their operands are computed there.
std::vector<bool> narrow_expressions(const Kernel& k) {
  const auto ranges = integer_ranges(k);
  std::vector<bool> narrow(k.exprs.size());
  for (size_t i = 0; i < k.exprs.size(); ++i) {
    const Expr& e = k.exprs[i];
    if (e.type != Scalar::i64 || !ranges[i]) continue;
    narrow[i] = e.op == ExprOp::load || (ranges[i]->low > -int32_limit && ranges[i]->high <= int32_limit);
    for (int n = 0; n < expr_arity(e.op); ++n) {
      const auto operand = static_cast<size_t>(e.in[static_cast<size_t>(n)]);
      if (k.exprs[operand].type == Scalar::i64 && !narrow[operand]) narrow[i] = false;
    }
  }
  return narrow;
}

int64_t parallel_points(const PrintPlan& p, size_t dims) {
  int64_t points = 1;
  for (size_t d = 0; d < dims; ++d)
    if (!p.serial[d] || p.kernel.space[d] == 0) points *= p.steps_along(d);
  return points;
}

}  // namespace

PrintPlan plan_kernel(const Kernel& kernel) {
  PrintPlan p;
  p.kernel = kernel;
  drop_unit_dims(p.kernel);
  order_by_store(p.kernel);
  merge_dims(p.kernel);
  const Kernel& k = p.kernel;
  classify(p);
  p.narrow = narrow_expressions(k);
  p.wide = needs_64_bits(p);
  for (size_t d = p.outer(); d < k.space.size(); ++d) p.row_length *= k.space[d];
  p.serial.assign(k.space.size(), false);
  for (const Store& s : k.stores) {
    if (!s.accumulate) continue;
    const std::vector<bool> meets = colliding_dims(k, s.access);
    for (size_t d = 0; d < k.space.size(); ++d)
      if (meets[d]) p.serial[d] = true;
  }
  p.points = parallel_points(p, p.outer());
  return p;
}

PrintPlan plan_points(const Kernel& kernel) {
  PrintPlan p;
  p.kernel = kernel;
  classify(p);
  p.narrow = narrow_expressions(p.kernel);
  p.wide = needs_64_bits(p);
  p.serial.assign(kernel.space.size(), false);
  return p;
}

PrintPlan plan_print(const Kernel& kernel, const Dialect& dialect, const Schedule& schedule) {
  PrintPlan p = plan_kernel(kernel);
  p.schedule = schedule;
  p.word_loads.assign(p.kernel.exprs.size(), false);
  p.word_stores.assign(p.kernel.stores.size(), false);
  if (schedule.lanes > 1) plan_lanes(p, dialect);
  if (schedule.row == RowLoop::thread) p.points = parallel_points(p, p.outer());
  if (schedule.row == RowLoop::none) p.points = parallel_points(p, p.kernel.space.size());
  int64_t per_block = schedule.threads;
  if (schedule.row == RowLoop::warp) per_block /= dialect.warp;
  if (schedule.row == RowLoop::block) per_block = 1;
  p.launch = {p.points / per_block + (p.points % per_block != 0), schedule.threads};
  return p;
}

}  // namespace npusim
