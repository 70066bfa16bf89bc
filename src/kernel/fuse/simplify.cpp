// Splitting, permuting and dropping of dimensions, expressions and arguments.
#include "kernel/fuse/simplify.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "kernel/facts/compact.h"
#include "kernel/facts/fourier.h"
#include "kernel/facts/rename.h"
#include "kernel/facts/visit.h"

namespace npusim {
namespace {

void rename_args(Kernel& k, const std::vector<int>& to) {
  const auto rename = [&](Access& a) { a.arg = to[static_cast<size_t>(a.arg)]; };
  edit_each_access(k, [&](Access& a, bool) { rename(a); });
  for (KernelArg& arg : k.args)
    if (arg.updates >= 0) arg.updates = to[static_cast<size_t>(arg.updates)];
  if (k.call) {
    auto call = std::make_shared<Call>(*k.call);
    for (std::vector<CallTensor>* tensors : {&call->operands, &call->results})
      for (CallTensor& tensor : *tensors) tensor.arg = to[static_cast<size_t>(tensor.arg)];
    k.call = std::move(call);
  }
  if (!k.contraction || !k.contraction->score) return;
  auto c = std::make_shared<Contraction>(*k.contraction);
  auto score = std::make_shared<Score>(*c->score);
  for (Access& a : score->accesses) rename(a);
  rename(score->a);
  rename(score->b);
  c->score = std::move(score);
  k.contraction = std::move(c);
}

void mark_args(const Kernel& k, std::vector<bool>& used) {
  const auto mark = [&](const Access& a) { used[static_cast<size_t>(a.arg)] = true; };
  for_each_access(k, [&](const Access& a, bool) { mark(a); });
  if (k.call)
    for (const std::vector<CallTensor>* tensors : {&k.call->operands, &k.call->results})
      for (const CallTensor& tensor : *tensors) used[static_cast<size_t>(tensor.arg)] = true;
  if (!k.contraction || !k.contraction->score) return;
  for (const Access& a : k.contraction->score->accesses) mark(a);
  mark(k.contraction->score->a);
  mark(k.contraction->score->b);
}

// Only these arguments, in this order.
void take_args(BoundKernel& bound, const std::vector<size_t>& taken) {
  Kernel& k = bound.kernel;
  std::vector<int> to(k.args.size(), -1);
  std::vector<KernelArg> args;
  std::vector<int> values;
  for (const size_t i : taken) {
    to[i] = static_cast<int>(args.size());
    args.push_back(k.args[i]);
    values.push_back(bound.values[i]);
  }
  k.args = std::move(args);
  bound.values = std::move(values);
  rename_args(k, to);
}

// Each value is read through one argument.
void merge_args(BoundKernel& bound) {
  Kernel& k = bound.kernel;
  std::unordered_map<int, int> first;  // argument by value
  std::vector<int> to(k.args.size());
  bool merged = false;
  for (size_t i = 0; i < k.args.size(); ++i) {
    to[i] = static_cast<int>(i);
    if (!k.args[i].written) to[i] = first.try_emplace(bound.values[i], to[i]).first->second;
    merged = merged || to[i] != static_cast<int>(i);
  }
  if (merged) rename_args(k, to);  // the arguments left over are unused
}

}  // namespace

int32_t add_expr(Kernel& kernel, const Expr& e) {
  // Kernels are small (tens of expressions): a search from the end is cheaper than keeping a table.
  for (size_t i = kernel.exprs.size(); i-- > 0;)
    if (kernel.exprs[i] == e && std::signbit(kernel.exprs[i].number) == std::signbit(e.number))  // −0 is not 0
      return static_cast<int32_t>(i);
  kernel.exprs.push_back(e);
  return static_cast<int32_t>(kernel.exprs.size()) - 1;
}

bool may_split(const Kernel& kernel, size_t d) {
  const size_t rank = kernel.space.size();
  return d >= rank || d + static_cast<size_t>(kernel.row_dims) < rank ||
         (std::none_of(kernel.exprs.begin(), kernel.exprs.end(),
                       [](const Expr& e) { return e.op == ExprOp::scan || e.op == ExprOp::order; }) &&
          !has_fourier(kernel));
}

void split_dim(Kernel& kernel, size_t d, int64_t inner) {
  auto split = [&](std::vector<int64_t>& v) {
    const int64_t stride = v[d];
    v[d] = stride * inner;
    v.insert(v.begin() + static_cast<std::ptrdiff_t>(d) + 1, stride);
  };
  const size_t rank = kernel.space.size();
  const bool reduced = d >= rank;
  edit_each_access(kernel, [&](Access& a, bool wide) {
    if (reduced && !wide) return;
    split(a.strides);
    for (Guard& g : a.guards) split(g.coeffs);
  });
  if (reduced) {
    auto c = std::make_shared<Contraction>(*kernel.contraction);
    c->reduce[d - rank] /= inner;
    c->reduce.insert(c->reduce.begin() + static_cast<std::ptrdiff_t>(d - rank) + 1, inner);
    kernel.contraction = std::move(c);
    return;
  }
  kernel.space[d] /= inner;
  kernel.space.insert(kernel.space.begin() + static_cast<std::ptrdiff_t>(d) + 1, inner);
  if (d >= rank - static_cast<size_t>(kernel.row_dims)) ++kernel.row_dims;
  // An index along the dimension becomes outer·inner + inner index; rebuilt in order so that operands stay earlier.
  std::vector<Expr> old = std::move(kernel.exprs);
  kernel.exprs.clear();
  std::vector<int32_t> to(old.size());
  auto integer = [&](int64_t value) {
    Expr e{.op = ExprOp::constant, .type = Scalar::i64};
    e.integer = value;
    return add_expr(kernel, e);
  };
  auto index = [&](size_t along) {
    Expr e{.op = ExprOp::index, .type = Scalar::i64};
    e.integer = static_cast<int64_t>(along);
    return add_expr(kernel, e);
  };
  auto binary = [&](ExprOp op, int32_t a, int32_t b) {
    Expr e{.op = op, .type = Scalar::i64};
    e.in = {a, b, -1};
    return add_expr(kernel, e);
  };
  for (size_t i = 0; i < old.size(); ++i) {
    Expr e = old[i];
    rename_operands(e, to);
    if (e.op == ExprOp::index && e.integer == static_cast<int64_t>(d)) {
      to[i] = binary(ExprOp::add, binary(ExprOp::mul, index(d), integer(inner)), index(d + 1));
      continue;
    }
    if (e.op == ExprOp::index && e.integer > static_cast<int64_t>(d)) ++e.integer;
    to[i] = add_expr(kernel, e);
  }
  for (Access& a : kernel.accesses) rename_terms(a, to);
  rename_stores(kernel, to);
}

void permute_dims(Kernel& kernel, const std::vector<size_t>& order) {
  auto pick = [&](std::vector<int64_t>& v) {
    std::vector<int64_t> out(order.size());
    for (size_t i = 0; i < order.size(); ++i) out[i] = v[order[i]];
    out.insert(out.end(), v.begin() + static_cast<std::ptrdiff_t>(order.size()), v.end());  // reduced dimensions
    v = std::move(out);
  };
  edit_each_access(kernel, [&](Access& a, bool) {
    pick(a.strides);
    for (Guard& g : a.guards) pick(g.coeffs);
  });
  pick(kernel.space);
  std::vector<int64_t> renamed(order.size());
  for (size_t i = 0; i < order.size(); ++i) renamed[order[i]] = static_cast<int64_t>(i);
  for (Expr& e : kernel.exprs)
    if (e.op == ExprOp::index) e.integer = renamed[static_cast<size_t>(e.integer)];
}

void order_args(BoundKernel& bound) {
  std::vector<size_t> order;
  for (const bool written : {false, true})
    for (size_t i = 0; i < bound.kernel.args.size(); ++i)
      if (bound.kernel.args[i].written == written) order.push_back(i);
  take_args(bound, order);
}

void simplify(BoundKernel& bound) {
  Kernel& k = bound.kernel;
  merge_args(bound);
  if (!k.contraction || k.contraction->kind == ContractionKind::matmul) drop_unit_dims(k);
  drop_dead(k);
  std::vector<bool> used(k.args.size(), false);
  mark_args(k, used);
  for (const KernelArg& arg : k.args)
    if (arg.updates >= 0) used[static_cast<size_t>(arg.updates)] = true;
  std::vector<size_t> kept;
  for (size_t i = 0; i < k.args.size(); ++i)
    if (used[i] || k.args[i].updates >= 0) kept.push_back(i);  // else nobody reads it, or a result nobody stores
  take_args(bound, kept);
}

}  // namespace npusim
