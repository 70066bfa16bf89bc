// Dropping and merging of dimensions, dropping of dead expressions.
#include "kernel/facts/compact.h"

#include <algorithm>

#include "kernel/facts/depend.h"
#include "kernel/facts/fourier.h"
#include "kernel/facts/rename.h"
#include "kernel/facts/visit.h"

namespace npusim {
namespace {

// Keeps dimensions `keep` of every list of coefficients over the space, and what follows for reduced dimensions.
void keep_dims(Kernel& k, const std::vector<size_t>& keep) {
  const auto rank = static_cast<std::ptrdiff_t>(k.space.size());
  const auto pick = [&](std::vector<int64_t>& v) {
    std::vector<int64_t> out;
    out.reserve(keep.size());
    for (size_t d : keep) out.push_back(v[d]);
    out.insert(out.end(), v.begin() + rank, v.end());
    v = std::move(out);
  };
  edit_each_access(k, [&](Access& a, bool) {
    pick(a.strides);
    for (Guard& g : a.guards) pick(g.coeffs);
  });
  std::vector<int64_t> renamed(k.space.size(), -1);
  for (size_t i = 0; i < keep.size(); ++i) renamed[keep[i]] = static_cast<int64_t>(i);
  for (Expr& e : k.exprs) {
    if (e.op != ExprOp::index) continue;
    e.integer = renamed[static_cast<size_t>(e.integer)];
    if (e.integer < 0) e = {.op = ExprOp::constant, .type = Scalar::i64};
  }
  const size_t outer = k.space.size() - static_cast<size_t>(k.row_dims);
  k.row_dims = static_cast<int>(std::count_if(keep.begin(), keep.end(), [&](size_t d) { return d >= outer; }));
  pick(k.space);
}

bool is_along_row(const Expr& e) {
  return e.op == ExprOp::reduce || e.op == ExprOp::scan || e.op == ExprOp::order || is_fourier(e);
}

// A reduction or scan along a row of one element is that element, and so is a transform: no other expression uses it
// any more. Its order is 0.
void drop_reductions(Kernel& k) {
  std::vector<int32_t> to(k.exprs.size());
  for (size_t i = 0; i < k.exprs.size(); ++i) {
    Expr& e = k.exprs[i];
    rename_operands(e, to);
    to[i] = static_cast<int32_t>(i);
    if (e.op == ExprOp::order) e = {.op = ExprOp::constant, .type = Scalar::i64};
    if (!is_along_row(e)) continue;
    to[i] = e.in[e.op == ExprOp::fourier_im];
    e = {.op = ExprOp::cast, .type = e.type, .in = {to[i], -1, -1}};
  }
  for (Access& a : k.accesses) rename_terms(a, to);
  rename_stores(k, to);
}

}  // namespace

std::vector<size_t> drop_unit_dims(Kernel& k) {
  std::vector<size_t> keep;
  for (size_t d = 0; d < k.space.size(); ++d)
    if (k.space[d] != 1) keep.push_back(d);
  if (keep.size() != k.space.size()) keep_dims(k, keep);
  if (k.row_dims == 0 && std::any_of(k.exprs.begin(), k.exprs.end(), is_along_row)) drop_reductions(k);
  return keep;
}

void order_dims(Kernel& k, const std::vector<size_t>& order) { keep_dims(k, order); }

bool merge_dims(Kernel& k) {
  const size_t rank = k.space.size(), outer = rank - static_cast<size_t>(k.row_dims);
  if (std::count(k.space.begin(), k.space.end(), 0)) return false;
  std::vector<bool> alone(rank, false);
  for (const Expr& e : k.exprs)
    if (e.op == ExprOp::index) alone[static_cast<size_t>(e.integer)] = true;
  std::vector<size_t> keep;  // the innermost of each group: its strides are the group's
  for (size_t d = 0; d < rank; ++d) {
    bool joins = !keep.empty() && !alone[d] && !alone[d - 1] && d != outer;
    if (joins)
      for_each_access(k, [&](const Access& a, bool) {
        joins = joins && a.strides[d - 1] == a.strides[d] * k.space[d];
        for (const Guard& g : a.guards) joins = joins && g.coeffs[d - 1] == g.coeffs[d] * k.space[d];
      });
    if (joins)
      keep.back() = d;
    else
      keep.push_back(d);
  }
  if (keep.size() == rank) return false;
  size_t first = 0;
  for (size_t d : keep) {
    int64_t extent = 1;
    for (size_t i = first; i <= d; ++i) extent *= k.space[i];
    k.space[d] = extent;
    first = d + 1;
  }
  keep_dims(k, keep);
  return true;
}

void cut_row(Kernel& kernel) {
  const size_t outer = kernel.space.size() - static_cast<size_t>(kernel.row_dims);
  const auto cut = [&](Access& a) {
    a.strides.resize(outer);
    for (Guard& g : a.guards) g.coeffs.resize(outer);
  };
  for (Access& a : kernel.accesses) cut(a);
  for (Store& s : kernel.stores) cut(s.access);
  kernel.space.resize(outer);
  kernel.row_dims = 0;
}

void drop_dead(Kernel& k) {
  const std::vector<bool> live = live_expressions(k, false);
  std::vector<int32_t> to(k.exprs.size(), -1);
  std::vector<int64_t> access_to(k.accesses.size(), -1);
  std::vector<Expr> exprs;
  std::vector<Access> accesses;
  for (size_t i = 0; i < k.exprs.size(); ++i) {
    if (!live[i]) continue;
    Expr e = k.exprs[i];
    rename_operands(e, to);
    if (e.op == ExprOp::load) {
      int64_t& renamed = access_to[static_cast<size_t>(e.integer)];
      if (renamed < 0) {
        renamed = static_cast<int64_t>(accesses.size());
        accesses.push_back(k.accesses[static_cast<size_t>(e.integer)]);
        rename_terms(accesses.back(), to);
      }
      e.integer = renamed;
    }
    to[i] = static_cast<int32_t>(exprs.size());
    exprs.push_back(e);
  }
  rename_stores(k, to);
  k.exprs = std::move(exprs);
  k.accesses = std::move(accesses);
}

}  // namespace npusim
