// The default choice of threads for rows, and what a schedule must be.
#include "print/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "print/plan.h"

namespace npusim {
namespace {

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

bool has_live(const PrintPlan& p, ExprOp op) {
  for (size_t i = 0; i < p.live.size(); ++i)
    if (p.live[i] && p.kernel.exprs[i].op == op) return true;
  return false;
}

bool accumulates(const Kernel& k) {
  return std::any_of(k.stores.begin(), k.stores.end(), [](const Store& s) { return s.accumulate; });
}

// Whether every point can be a thread's.
bool has_no_row(const PrintPlan& p) {
  return !has_live(p, ExprOp::reduce) && !has_live(p, ExprOp::scan) && p.row_length > 0;
}

RowLoop choose_row_loop(const PrintPlan& p) {
  if (has_no_row(p)) return RowLoop::none;
  if (has_live(p, ExprOp::scan) || p.row_length <= 16 || accumulates(p.kernel)) return RowLoop::thread;
  if (p.points >= 2048 && rows_lie_side_by_side(p)) return RowLoop::thread;
  return p.row_length <= 256 || (p.row_length <= 1024 && p.points >= 1024) ? RowLoop::warp : RowLoop::block;
}

}  // namespace

Schedule choose_schedule(const Kernel& kernel, const Dialect& d) {
  const PrintPlan p = plan_kernel(kernel);
  const RowLoop row = choose_row_loop(p);
  switch (row) {
    case RowLoop::none:
      return {row, 256};
    case RowLoop::thread:
      return {row, 128};
    case RowLoop::warp:
      return {row, 4 * d.warp};
    case RowLoop::block:
      break;
  }
  const int wanted = p.row_length >= 8192 ? 1024 : p.row_length >= 2048 ? 512 : 256;
  return {row, std::min(wanted, d.max_threads)};
}

std::optional<std::string> cannot_schedule(const Kernel& kernel, const Dialect& d, const Schedule& s) {
  if (s.threads < d.warp || s.threads % d.warp != 0 || s.threads > d.max_threads)
    return fmt::format("blocks of {} threads, {} has multiples of {} up to {}", s.threads, d.name, d.warp,
                       d.max_threads);
  const PrintPlan p = plan_kernel(kernel);
  if (s.row == RowLoop::none && !has_no_row(p))
    return "points are not threads' where rows are reduced, scanned or empty";
  const bool shared = s.row == RowLoop::warp || s.row == RowLoop::block;
  if (shared && has_live(p, ExprOp::scan)) return "one thread walks a row that is scanned";
  if (shared && accumulates(kernel)) return "one thread walks what adds up";
  const int64_t blocks = plan_print(kernel, d, s).launch.blocks;
  if (blocks > d.max_blocks) return fmt::format("{} blocks, {} launches {}", blocks, d.name, d.max_blocks);
  return std::nullopt;
}

}  // namespace npusim
