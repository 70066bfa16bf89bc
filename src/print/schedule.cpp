// The default choice of threads for rows, and what a schedule must be.
#include "print/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "print/lanes.h"
#include "print/plan.h"

namespace npusim {
namespace {

// Neighbouring rows lie side by side while the elements of a row do not: a thread for each row reads in order.
bool rows_lie_side_by_side(const PrintPlan& p) {
  const Kernel& k = p.kernel;
  bool side_by_side = false;
  for (size_t i = 0; i < k.exprs.size(); ++i) {
    if (!p.live[i] || k.exprs[i].op != ExprOp::load || !p.varies[i]) continue;
    const Access& a = k.accesses[static_cast<size_t>(k.exprs[i].integer)];
    if (std::abs(a.strides.back()) == 1) return false;
    side_by_side = side_by_side || (p.outer() > 0 && a.strides[p.outer() - 1] == 1);
  }
  return side_by_side;
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

// Windows of many points, whose neighbours share what they read: a thread each.
bool has_many_windows(const PrintPlan& p) {
  constexpr int64_t longest_line = 8, longest_window = 128, many = 32768;
  return p.kernel.row_dims > 1 && p.kernel.space.back() <= longest_line && p.row_length <= longest_window &&
         p.points >= many;
}

RowLoop choose_row_loop(const PrintPlan& p) {
  if (has_no_row(p)) return RowLoop::none;
  if (has_live(p, ExprOp::scan) || p.row_length <= 16 || accumulates(p.kernel)) return RowLoop::thread;
  if (has_many_windows(p) || (p.points >= 2048 && rows_lie_side_by_side(p))) return RowLoop::thread;
  return p.row_length <= 256 || (p.row_length <= 1024 && p.points >= 1024) ? RowLoop::warp : RowLoop::block;
}

// As many as fill a word of the narrowest element that a store has, so that it is one word, or two of a wider one.
int lanes_of(const Kernel& k) {
  size_t narrowest = 16;
  for (const Store& s : k.stores)
    narrowest = std::min(narrowest, dtype_size(k.args[static_cast<size_t>(s.access.arg)].dtype));
  for (const Access& a : k.accesses)
    if (const DType dtype = k.args[static_cast<size_t>(a.arg)].dtype; is_float(dtype))
      narrowest = std::min(narrowest, dtype_size(dtype));
  return 16 / static_cast<int>(std::clamp<size_t>(narrowest, 2, 8));
}

// Functions that are many instructions each.
bool computes_long(const PrintPlan& p) {
  for (size_t i = 0; i < p.live.size(); ++i) {
    const ExprOp op = p.kernel.exprs[i].op;
    const bool is_long = (op >= ExprOp::exp && op <= ExprOp::log1p) || (op >= ExprOp::sin && op <= ExprOp::erfc) ||
                         op == ExprOp::pow || op == ExprOp::fmod || op == ExprOp::atan2;
    if (p.live[i] && is_long) return true;
  }
  return false;
}

// Threads of a row that is so many words long: all rows together as many as the device runs well at once.
void share_row(Schedule& s, int64_t words, int64_t rows, const Dialect& d, int multiprocessors) {
  constexpr int64_t most_words = 8;
  const int64_t at_once = int64_t{multiprocessors} * 1024;
  int64_t wanted = std::clamp<int64_t>(at_once / std::max<int64_t>(rows, 1), (words + most_words - 1) / most_words,
                                       std::min<int64_t>(words, d.max_threads));
  if (wanted <= 2 * d.warp && words <= most_words * d.warp) {
    s.row = RowLoop::warp;
    s.threads = rows < int64_t{4} * multiprocessors ? d.warp : 4 * d.warp;
    return;
  }
  wanted = std::min<int64_t>(wanted, d.max_threads);
  const int64_t words_each = (words + wanted - 1) / wanted;
  wanted = (words + words_each - 1) / words_each;
  s.row = RowLoop::block;
  s.threads = static_cast<int>((wanted + d.warp - 1) / d.warp * d.warp);
}

}  // namespace

Schedule choose_lanes(const Kernel& kernel, const Dialect& d, int multiprocessors) {
  const Schedule alone = choose_schedule(kernel, d);
  const PrintPlan p = plan_kernel(kernel);
  Schedule s = alone;
  s.lanes = lanes_of(p.kernel);
  if (s.lanes == 1 || cannot_take_lanes(p, d, s)) return alone;
  const PrintPlan planned = plan_print(kernel, d, s);
  const auto any = [](const std::vector<bool>& of) { return std::find(of.begin(), of.end(), true) != of.end(); };
  if (s.row == RowLoop::none || s.row == RowLoop::thread) {
    // Where there are fewer threads, a point each has its points sooner than the lanes one after the other.
    const bool walks = s.row == RowLoop::thread;
    const bool is_long = computes_long(planned) || (walks && p.row_length > 16);
    const int64_t enough = int64_t{multiprocessors} * (is_long ? 1024 : walks ? 96 : 32);
    const bool reads = has_live(planned, ExprOp::load);
    const bool words = any(planned.word_stores) && (any(planned.word_loads) || !reads || planned.lane_count < s.lanes);
    return planned.points >= enough && words ? s : alone;
  }
  const int64_t words = p.row_length / s.lanes;
  if (!any(planned.word_loads) || words < d.warp / 2) return alone;
  share_row(s, words, p.points, d, multiprocessors);
  return s;
}

Schedule choose_schedule(const Kernel& kernel, const Dialect& d) {
  const PrintPlan p = plan_kernel(kernel);
  const RowLoop row = choose_row_loop(p);
  switch (row) {
    case RowLoop::none:
      // Threads that each walk many elements: few of them to a block, so that they are on many multiprocessors.
      return {row, accumulates(kernel)
                       ? static_cast<int>(std::clamp<int64_t>(p.points / 256 / d.warp, 1, 256 / d.warp)) * d.warp
                       : 256};
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
  if (s.lanes != 1)
    if (auto reason = cannot_take_lanes(p, d, s)) return reason;
  const int64_t blocks = plan_print(kernel, d, s).launch.blocks;
  if (blocks > d.max_blocks) return fmt::format("{} blocks, {} launches {}", blocks, d.name, d.max_blocks);
  return std::nullopt;
}

}  // namespace npusim
