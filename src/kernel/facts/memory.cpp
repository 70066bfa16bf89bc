// Copies, identities, and kernels whose result may lie where an operand lay.
#include "kernel/facts/memory.h"

#include <algorithm>
#include <cstdlib>

#include "kernel/facts/score_kernel.h"
#include "kernel/facts/visit.h"

namespace npusim {
namespace {

// Whether any part of the kernel reads the argument.
bool reads(const Kernel& k, int arg) {
  bool found = false;
  for_each_access(k, [&](const Access& a, bool) { found = found || a.arg == arg; });
  if (found || !k.contraction || !k.contraction->score) return found;
  return reads(score_kernel(k), arg);
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

bool may_share(const Kernel& k, int read, int written) {
  if (k.call) return false;
  // Where there are no points, nothing is read and no stride has been bounded.
  if (!reads(k, read) || std::find(k.space.begin(), k.space.end(), 0) != k.space.end()) return true;
  if (k.contraction || k.stores.size() != 1 || k.stores[0].accumulate) return false;
  const Access& to = k.stores[0].access;
  if (to.arg != written || !to.guards.empty() || !to.terms.empty()) return false;
  const std::vector<bool> meets = colliding_dims(k, to);
  if (std::find(meets.begin(), meets.end(), true) != meets.end()) return false;
  return std::all_of(k.accesses.begin(), k.accesses.end(), [&](const Access& a) {
    if (a.arg != read) return true;
    if (a.offset != to.offset || !a.guards.empty() || !a.terms.empty()) return false;
    for (size_t d = 0; d < k.space.size(); ++d)
      if (k.space[d] > 1 && a.strides[d] != to.strides[d]) return false;
    return true;
  });
}

bool may_be_one(const Kernel& k, int read, int written) {
  const KernelArg &from = k.args[static_cast<size_t>(read)], &to = k.args[static_cast<size_t>(written)];
  if (to.updates == read) return true;
  return from.dtype == to.dtype && from.elements == to.elements && may_share(k, read, written);
}

bool updates_in_place(const Kernel& k) {
  for (size_t i = 0; i < k.args.size(); ++i)
    if (k.args[i].updates >= 0 && !may_share(k, k.args[i].updates, static_cast<int>(i))) return false;
  return true;
}

}  // namespace npusim
