// Which dimension lanes lie along, what differs between them, and which accesses are words.
#include "print/lanes.h"

#include <fmt/format.h>

#include <algorithm>

namespace npusim {
namespace {

constexpr int64_t word_bytes = 16;
constexpr int64_t most_kept_bytes = 256;       // of a thread
constexpr int64_t register_bytes = 256 << 10;  // of a multiprocessor: a block leaves half of its own for other things

bool shares_rows(RowLoop row) { return row == RowLoop::warp || row == RowLoop::block; }

// Along a row that threads share, else along the last dimension of what a thread has one of; -1: there is none.
int find_lane_dim(const PrintPlan& p, RowLoop row) {
  const auto rank = static_cast<int>(p.kernel.space.size()), outer = static_cast<int>(p.outer());
  if (row == RowLoop::none) return rank - 1;
  if (row == RowLoop::thread) return outer - 1;
  return rank == outer + 1 ? outer : -1;
}

// index < c and its like, which is uniform across the lanes of a word.
bool is_same_in_word(const Kernel& k, const Expr& e, int dim, int64_t lanes) {
  if (e.op != ExprOp::lt && e.op != ExprOp::le) return false;
  const Expr &a = k.exprs[static_cast<size_t>(e.in[0])], &b = k.exprs[static_cast<size_t>(e.in[1])];
  const auto is_index = [&](const Expr& x) { return x.op == ExprOp::index && x.integer == dim; };
  const bool below = is_index(a) && b.op == ExprOp::constant, above = is_index(b) && a.op == ExprOp::constant;
  if (!below && !above) return false;
  const int64_t limit = below ? b.integer : a.integer;
  return (limit % lanes + ((e.op == ExprOp::le) == below)) % lanes == 0;
}

bool touches(const Access& a, size_t dim) {
  return a.strides[dim] != 0 ||
         std::any_of(a.guards.begin(), a.guards.end(), [&](const Guard& g) { return g.coeffs[dim] != 0; });
}

std::vector<bool> find_varying(const Kernel& k, int dim, int64_t lanes, bool along_row) {
  std::vector<bool> varies(k.exprs.size());
  for (size_t i = 0; i < k.exprs.size(); ++i) {
    const Expr& e = k.exprs[i];
    if (e.op == ExprOp::index) varies[i] = e.integer == dim;
    if (e.op == ExprOp::load) {
      const Access& a = k.accesses[static_cast<size_t>(e.integer)];
      varies[i] = touches(a, static_cast<size_t>(dim)) ||
                  std::any_of(a.terms.begin(), a.terms.end(),
                              [&](const IndexTerm& t) { return varies[static_cast<size_t>(t.expr)]; });
    }
    if ((e.op == ExprOp::reduce && along_row) || is_same_in_word(k, e, dim, lanes)) continue;
    for (int n = 0; n < expr_arity(e.op); ++n)
      if (varies[static_cast<size_t>(e.in[static_cast<size_t>(n)])]) varies[i] = true;
  }
  return varies;
}

// Each lane's element is behind that of the lane before, the first one's address a multiple of the lanes, and what
// guards and terms say the same for all of them.
bool lies_in_words(const PrintPlan& p, const Access& a) {
  const int64_t lanes = p.schedule.lanes;
  const auto dim = static_cast<size_t>(p.lane_dim);
  if (lanes * static_cast<int64_t>(dtype_size(p.kernel.args[static_cast<size_t>(a.arg)].dtype)) % word_bytes != 0)
    return false;
  int64_t step = a.strides[dim];
  const auto whole = [&](const std::vector<int64_t>& factors) {
    for (size_t d = 0; d < factors.size(); ++d)
      if (d != dim && factors[d] % lanes != 0) return false;
    return true;
  };
  if (a.offset % lanes != 0 || !whole(a.strides)) return false;
  for (const Guard& g : a.guards) {
    step += g.stride * g.coeffs[dim];
    const bool apart = g.coeffs[dim] == 0 && g.stride % lanes == 0;
    if (!apart && (g.coeffs[dim] != 1 || g.offset % lanes != 0 || g.limit % lanes != 0 || !whole(g.coeffs)))
      return false;
  }
  for (const IndexTerm& t : a.terms)
    if (t.stride % lanes != 0 || p.lane_varies[static_cast<size_t>(t.expr)]) return false;
  return step == 1;
}

// A word of which some elements do not exist may be written whole: nothing else is there, and nobody asks for it.
bool has_room(const PrintPlan& p, const Store& s) {
  const KernelArg& arg = p.kernel.args[static_cast<size_t>(s.access.arg)];
  int64_t last = s.access.offset;
  for (size_t d = 0; d < p.kernel.space.size(); ++d) {
    if (s.access.strides[d] < 0) return false;
    if (static_cast<int>(d) != p.lane_dim) last += s.access.strides[d] * std::max<int64_t>(p.kernel.space[d] - 1, 0);
  }
  const auto to_same = [&](const Store& other) { return other.access.arg == s.access.arg; };
  return arg.updates < 0 && s.access.guards.empty() && s.access.terms.empty() &&
         last + p.schedule.lanes <= arg.elements &&
         std::count_if(p.kernel.stores.begin(), p.kernel.stores.end(), to_same) == 1;
}

}  // namespace

std::optional<std::string> cannot_take_lanes(const PrintPlan& p, const Dialect& d, const Schedule& s) {
  if (d.words.empty()) return fmt::format("{} has no words of several elements", d.name);
  const int dim = find_lane_dim(p, s.row);
  if (s.lanes < 1 || dim < 0) return fmt::format("{} lanes along no dimension", s.lanes);
  const int64_t extent = p.kernel.space[static_cast<size_t>(dim)];
  const bool part = s.row == RowLoop::none && extent < s.lanes;
  if (p.row_length == 0 || extent == 0 || (!part && extent % s.lanes != 0))
    return fmt::format("{} lanes along an extent of {}", s.lanes, extent);
  for (size_t i = 0; i < p.kernel.exprs.size(); ++i)
    if (p.live[i] && p.kernel.exprs[i].op == ExprOp::scan) return "lanes do not wait for each other in a scan";
  if (std::any_of(p.kernel.stores.begin(), p.kernel.stores.end(), [](const Store& store) { return store.accumulate; }))
    return "lanes do not wait for each other where they add up";
  return std::nullopt;
}

void plan_lanes(PrintPlan& p, const Dialect& d) {
  const Kernel& k = p.kernel;
  const int lanes = p.schedule.lanes;
  const RowLoop row = p.schedule.row;
  p.lane_dim = find_lane_dim(p, row);
  const int64_t extent = k.space[static_cast<size_t>(p.lane_dim)];
  p.lane_count = static_cast<int>(std::min<int64_t>(lanes, extent));
  p.lane_varies = find_varying(k, p.lane_dim, lanes, shares_rows(row));
  int64_t kept = 0;  // bytes of each kept word
  for (size_t i = 0; i < k.exprs.size(); ++i) {
    const Expr& e = k.exprs[i];
    if (e.op != ExprOp::load) continue;
    const Access& a = k.accesses[static_cast<size_t>(e.integer)];
    if (!p.live[i] || p.lane_count < lanes || p.stage[i] != 0 || !lies_in_words(p, a)) continue;
    p.word_loads[i] = true;
    kept += lanes * static_cast<int64_t>(dtype_size(k.args[static_cast<size_t>(a.arg)].dtype));
  }
  for (size_t n = 0; n < k.stores.size(); ++n)
    p.word_stores[n] = lies_in_words(p, k.stores[n].access) && (p.lane_count == lanes || has_room(p, k.stores[n]));
  if (!shares_rows(row)) return;
  const int64_t step = int64_t{lanes} * (row == RowLoop::warp ? d.warp : p.schedule.threads);
  const int64_t kept_words = (extent + step - 1) / step;
  if (kept > 0 && kept_words * kept <= std::min(most_kept_bytes, register_bytes / 2 / p.schedule.threads))
    p.kept_words = static_cast<int>(kept_words);
}

}  // namespace npusim
