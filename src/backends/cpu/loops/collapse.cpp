// Removal and merging of dimensions.
#include "backends/cpu/loops/collapse.h"

#include <algorithm>

namespace npusim::cpu {
namespace {

template <class F>
void each_access(Kernel& k, F f) {
  for (Access& a : k.accesses) f(a);
  for (Store& s : k.stores) f(s.access);
}

void erase_dim(Piece& piece, size_t d) {
  Kernel& k = piece.kernel;
  const auto at = static_cast<std::ptrdiff_t>(d);
  if (d >= k.space.size() - static_cast<size_t>(k.row_dims)) --k.row_dims;
  k.space.erase(k.space.begin() + at);
  if (!piece.dims.empty()) piece.dims.erase(piece.dims.begin() + at);
  each_access(k, [&](Access& a) {
    a.strides.erase(a.strides.begin() + at);
    for (Guard& g : a.guards) g.coeffs.erase(g.coeffs.begin() + at);
  });
  for (Expr& e : k.exprs)
    if (e.op == ExprOp::index && e.integer > static_cast<int64_t>(d)) --e.integer;
}

bool indexed(const Kernel& k, size_t d) {
  return std::any_of(k.exprs.begin(), k.exprs.end(),
                     [&](const Expr& e) { return e.op == ExprOp::index && e.integer == static_cast<int64_t>(d); });
}

// Whether dimensions d and d + 1 are walked by every access as one of the extent of both.
bool mergeable(Kernel& k, size_t d) {
  const size_t outer = k.space.size() - static_cast<size_t>(k.row_dims);
  if (d + 1 == outer || indexed(k, d) || indexed(k, d + 1)) return false;
  bool same = true;
  each_access(k, [&](const Access& a) {
    same = same && a.strides[d] == a.strides[d + 1] * k.space[d + 1];
    for (const Guard& g : a.guards) same = same && g.coeffs[d] == g.coeffs[d + 1] * k.space[d + 1];
  });
  return same;
}

}  // namespace

void collapse_dimensions(Piece& piece, bool merge) {
  Kernel& k = piece.kernel;
  const bool scans = std::any_of(k.exprs.begin(), k.exprs.end(), [](const Expr& e) { return e.op == ExprOp::scan; });
  for (size_t d = k.space.size(); d-- > 0;)
    if (k.space[d] == 1 && !(scans && d + 1 == k.space.size())) erase_dim(piece, d);
  if (!merge) return;
  for (size_t d = k.space.size(); d-- > 1;) {
    if (!mergeable(k, d - 1)) continue;
    k.space[d] *= k.space[d - 1];
    erase_dim(piece, d - 1);
    piece.dims.clear();
  }
}

}  // namespace npusim::cpu
