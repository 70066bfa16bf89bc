// Copies, identities, and kernels whose result may lie where an operand lay.
#include "kernel/facts/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>

#include "kernel/facts/attention_axes.h"
#include "kernel/facts/depend.h"
#include "kernel/facts/fourier.h"
#include "kernel/facts/range.h"
#include "kernel/facts/score_kernel.h"
#include "kernel/facts/visit.h"

namespace npusim {
namespace {

// Whether any part of the kernel reads the argument, by argument.
std::vector<bool> read_arguments(const Kernel& k) {
  std::vector<bool> read(k.args.size(), false);
  const auto visit = [&](const Access& a, bool) { read[static_cast<size_t>(a.arg)] = true; };
  for_each_access(k, visit);
  if (k.contraction && k.contraction->score) for_each_access(score_kernel(k), visit);
  return read;
}

}  // namespace

bool is_copy(const Kernel& k) {
  if (k.contraction || k.stores.size() != 1 || k.row_dims != 0) return false;
  const Store& s = k.stores[0];
  const Expr& e = k.exprs[static_cast<size_t>(s.expr)];
  if (e.op != ExprOp::load || s.accumulate || k.args[static_cast<size_t>(s.access.arg)].updates >= 0) return false;
  const Access& a = k.accesses[static_cast<size_t>(e.integer)];
  return a.guards.empty() && a.terms.empty() && s.access.guards.empty() && s.access.terms.empty() &&
         k.args[static_cast<size_t>(a.arg)].dtype == k.args[static_cast<size_t>(s.access.arg)].dtype;
}

bool is_identity(const Kernel& k) {
  if (!is_copy(k)) return false;
  const Store& s = k.stores[0];
  const Access& a = k.accesses[static_cast<size_t>(k.exprs[static_cast<size_t>(s.expr)].integer)];
  if (k.args[static_cast<size_t>(a.arg)].elements != k.args[static_cast<size_t>(s.access.arg)].elements ||
      a.offset != s.access.offset)
    return false;
  for (size_t d = 0; d < k.space.size(); ++d)
    if (k.space[d] > 1 && a.strides[d] != s.access.strides[d]) return false;
  return true;
}

namespace {

struct Digit {
  int64_t stride, extent;
};

// Whether a sum of digits determines each of them: every stride exceeds all that smaller ones can add up to. Or of two
// one is too short to make up for a step of the other: a·x = b·y needs |x| >= b / gcd(a, b).
bool is_injective(std::vector<Digit> digits) {
  std::erase_if(digits, [](const Digit& digit) { return digit.extent <= 1; });
  if (digits.size() == 2 && digits[0].stride != 0 && digits[1].stride != 0) {
    const int64_t common = std::gcd(digits[0].stride, digits[1].stride);
    if (digits[0].extent <= digits[1].stride / common || digits[1].extent <= digits[0].stride / common) return true;
  }
  std::sort(digits.begin(), digits.end(), [](const Digit& x, const Digit& y) { return x.stride < y.stride; });
  __int128 covered = 0;
  for (const Digit& digit : digits) {
    if (digit.stride <= covered) return false;
    covered += static_cast<__int128>(digit.stride) * (digit.extent - 1);
  }
  return true;
}

// Whether a guarded coordinate determines the index along each of its dimensions, as o · stride + k does for k <
// stride.
bool determines_dims(const Kernel& k, const Guard& g) {
  std::vector<Digit> digits;
  for (size_t d = 0; d < k.space.size(); ++d)
    if (g.coeffs[d] && k.space[d] > 1) digits.push_back({std::abs(g.coeffs[d]), k.space[d]});
  return is_injective(std::move(digits));
}

}  // namespace

// The address is a sum of digits: a dimension with its stride, a guarded coordinate, an index term. If it determines
// every digit, it determines the index along every dimension that is a digit by itself or that a guarded coordinate
// determines: along those no two points meet. A guard of stride 0 only leaves points out, and one of extent 1 along one
// dimension all but one.
std::vector<bool> colliding_dims(const Kernel& k, const Access& a) {
  const size_t rank = k.space.size();
  std::vector<Digit> digits;
  std::vector<bool> meets(rank, true), all(rank, true), determines(a.guards.size());
  for (size_t i = 0; i < a.guards.size(); ++i) determines[i] = determines_dims(k, a.guards[i]);
  for (size_t d = 0; d < rank; ++d) {
    int guards = 0;
    bool determined = true, fixed = false;
    for (size_t i = 0; i < a.guards.size(); ++i) {
      const Guard& g = a.guards[i];
      if (!g.coeffs[d] || k.space[d] == 1) continue;
      bool own = true;
      for (size_t other = 0; other < rank; ++other)
        own = own && (other == d || !g.coeffs[other] || k.space[other] == 1);
      fixed = fixed || (own && g.limit <= 1);
      if (!g.stride) continue;
      ++guards;
      determined = determined && determines[i];
    }
    if (fixed) {
      meets[d] = false;
      continue;
    }
    if (a.strides[d] && guards) return all;
    if (a.strides[d]) digits.push_back({std::abs(a.strides[d]), k.space[d]});
    meets[d] = k.space[d] > 1 && !(a.strides[d] || (guards == 1 && determined));
  }
  for (const Guard& g : a.guards)
    if (g.stride) digits.push_back({std::abs(g.stride), g.limit});
  for (const IndexTerm& t : a.terms) digits.push_back({std::abs(t.stride), t.extent});
  return is_injective(std::move(digits)) ? meets : all;
}

namespace {

// By expression: along which dimensions its value differs. What an attention's scores sum up to is the same along its
// values, the last one.
std::vector<DimSet> variation_of(const Kernel& k, const Dependence& dependence) {
  std::vector<DimSet> varies(k.exprs.size(), 0);
  for (size_t i = 0; i < varies.size(); ++i) {
    const Expr& e = k.exprs[i];
    const bool leaf = e.op == ExprOp::contraction || e.op == ExprOp::load || e.op == ExprOp::index;
    if (leaf) varies[i] = dependence.dims[i];
    if (is_log_of_sum(e)) varies[i] &= ~dim_bit(k.space.size() - 1);
    for_each_operand(k, e, [&](int32_t operand) { varies[i] |= varies[static_cast<size_t>(operand)]; });
    if (!leaf) varies[i] &= dependence.dims[i];
  }
  return varies;
}

// Of one store that does not accumulate, at positions that are no index terms.
std::string meeting_points(const Kernel& k, const Store& s, const Dependence& dependence,
                           const std::vector<DimSet>& variation) {
  const DimSet reached = dims_of(s.access, dependence), row = row_of(k);
  const std::vector<bool> meets = colliding_dims(k, s.access);
  for (size_t d = 0; d < k.space.size(); ++d) {
    if (k.space[d] <= 1 || !meets[d]) continue;
    if (!((reached | variation[static_cast<size_t>(s.expr)]) & dim_bit(d))) continue;  // the same at the same element
    if (!(row & dim_bit(d)) || (reached & dim_bit(d)))
      return fmt::format("points that differ along dimension {} may store to one element of %{}", d, s.access.arg);
    if (dependence.dims[static_cast<size_t>(s.expr)] & dim_bit(d))
      return fmt::format("%{} is stored once in a row, and e{} varies along dimension {}", s.access.arg, s.expr, d);
  }
  return {};
}

// The elements that a store may reach.
Range reach_of(const Kernel& k, const Access& a) {
  Range reach = range_of(a.offset, a.strides, k.space).value_or(Range{});
  for (const Guard& g : a.guards) reach = widened(reach, g.stride, std::max<int64_t>(g.limit, 1)).value_or(reach);
  for (const IndexTerm& t : a.terms) reach = widened(reach, t.stride, std::max<int64_t>(t.extent, 1)).value_or(reach);
  return reach;
}

}  // namespace

std::vector<std::string> store_conflicts(const Kernel& k) {
  std::vector<std::string> problems;
  if (std::find(k.space.begin(), k.space.end(), 0) != k.space.end()) return problems;
  const Dependence dependence = dependence_of(k);
  const std::vector<DimSet> variation = variation_of(k, dependence);
  struct Reach {
    int arg;
    Range range;
    const Store* store;
  };
  std::vector<Reach> reached;
  for (const Store& s : k.stores) {
    reached.push_back({s.access.arg, reach_of(k, s.access), &s});
    if (s.accumulate || !s.access.terms.empty()) continue;
    if (std::string problem = meeting_points(k, s, dependence, variation); !problem.empty())
      problems.push_back(std::move(problem));
  }
  std::sort(reached.begin(), reached.end(),
            [](const Reach& x, const Reach& y) { return std::tie(x.arg, x.range.low) < std::tie(y.arg, y.range.low); });
  for (size_t i = 1, widest = 0; i < reached.size(); ++i) {
    const Reach &one = reached[widest], &other = reached[i];
    if (one.arg == other.arg && other.range.low <= one.range.high &&
        (!(one.store->access == other.store->access) || one.store->accumulate || other.store->accumulate))
      problems.push_back(fmt::format("two stores may reach one element of %{}", one.arg));
    if (one.arg != other.arg || other.range.high > one.range.high) widest = i;
  }
  return problems;
}

struct GuardedDim {
  size_t dim;
  int64_t count;  // of its indices, those from the first on that the guard lets through
};

// Where the only guard of an access is of one dimension that it does not depend on otherwise.
std::optional<GuardedDim> guarded_dim(const Kernel& k, const Access& a) {
  if (a.guards.size() != 1 || a.guards[0].offset != 0 || a.guards[0].stride == 0) return std::nullopt;
  const Guard& guard = a.guards[0];
  std::optional<GuardedDim> found;
  for (size_t d = 0; d < k.space.size(); ++d) {
    if (guard.coeffs[d] == 0) continue;
    if (found || guard.coeffs[d] != 1 || a.strides[d] != 0) return std::nullopt;
    found = {d, std::clamp<int64_t>(guard.limit, 0, k.space[d])};
  }
  return found;
}

std::vector<int64_t> reached_elements(const Kernel& k) {
  std::vector<int64_t> reached(k.args.size(), 0);
  std::set<std::tuple<int, int64_t, std::vector<int64_t>>> counted;  // several stores may be of one element
  for (const Store& s : k.stores) {
    const Access& to = s.access;
    if (s.accumulate || !to.terms.empty()) continue;
    int64_t points = 1;
    std::vector<int64_t> strides = to.strides;
    if (!to.guards.empty()) {  // of positions in one dimension
      const std::optional<GuardedDim> guarded = guarded_dim(k, to);
      if (!guarded) continue;
      points = guarded->count, strides[guarded->dim] = to.guards[0].stride;
    }
    if (!counted.emplace(to.arg, to.offset, strides).second) continue;
    for (size_t d = 0; d < k.space.size(); ++d)
      if (to.strides[d] != 0 || k.space[d] == 0) points *= k.space[d];
    reached[static_cast<size_t>(to.arg)] += points;
  }
  return reached;
}

std::vector<bool> filled_arguments(const Kernel& k) {
  const std::vector<int64_t> reached = reached_elements(k);
  std::vector<bool> filled;
  for (size_t i = 0; i < k.args.size(); ++i) filled.push_back(k.args[i].written && reached[i] == k.args[i].elements);
  return filled;
}

bool order_matters(const Kernel& k) {
  const size_t outer = k.space.size() - static_cast<size_t>(k.row_dims);
  return std::any_of(k.stores.begin(), k.stores.end(), [&](const Store& s) {
    if (s.accumulate) return true;
    const std::vector<bool> meets = colliding_dims(k, s.access);
    const size_t dims = s.access.terms.empty() ? outer : k.space.size();  // else what meets along the row is the same
    for (size_t d = 0; d < dims; ++d)
      if (meets[d] && k.space[d] > 1) return true;
    return false;
  });
}

Sharing sharing_of(const Kernel& k) {
  Sharing sharing{std::vector<bool>(k.args.size(), true), std::vector<bool>(k.args.size(), false), -1};
  if (k.call) return sharing;
  // Where there are no points, nothing is read and no stride has been bounded.
  if (std::find(k.space.begin(), k.space.end(), 0) != k.space.end()) {
    sharing.reads.assign(k.args.size(), false);
    return sharing;
  }
  sharing.reads = read_arguments(k);
  if (k.contraction || k.stores.size() != 1 || k.stores[0].accumulate || has_fourier(k)) return sharing;
  const Access& to = k.stores[0].access;
  if (!to.guards.empty() || !to.terms.empty()) return sharing;
  const std::vector<bool> meets = colliding_dims(k, to);
  if (std::find(meets.begin(), meets.end(), true) != meets.end()) return sharing;
  sharing.stored = to.arg;
  sharing.same.assign(k.args.size(), true);
  for (const Access& a : k.accesses) {
    bool same = a.offset == to.offset && a.guards.empty() && a.terms.empty();
    for (size_t d = 0; d < k.space.size() && same; ++d) same = k.space[d] <= 1 || a.strides[d] == to.strides[d];
    if (!same) sharing.same[static_cast<size_t>(a.arg)] = false;
  }
  return sharing;
}

bool may_share(const Sharing& sharing, int read, int written) {
  const auto at = static_cast<size_t>(read);
  return !sharing.reads[at] || (written == sharing.stored && sharing.same[at]);
}

bool may_share(const Kernel& k, int read, int written) { return may_share(sharing_of(k), read, written); }

bool may_be_one(const Kernel& k, int read, int written) {
  const KernelArg &from = k.args[static_cast<size_t>(read)], &to = k.args[static_cast<size_t>(written)];
  if (to.updates == read) return true;
  return from.dtype == to.dtype && from.elements == to.elements && may_share(k, read, written);
}

bool updates_in_place(const Kernel& k) {
  std::optional<Sharing> sharing;
  for (size_t i = 0; i < k.args.size(); ++i) {
    if (k.args[i].updates < 0) continue;
    if (!sharing) sharing = sharing_of(k);
    if (!may_share(*sharing, k.args[i].updates, static_cast<int>(i))) return false;
  }
  return true;
}

}  // namespace npusim
