// Rewriting of matmul, convolution and attention as row kernels.
#include "kernel/fuse/unfuse.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "base/shape.h"
#include "kernel/facts/attention_axes.h"
#include "kernel/facts/fourier.h"
#include "kernel/facts/key_count.h"
#include "kernel/facts/order.h"
#include "kernel/facts/rename.h"
#include "kernel/facts/score_kernel.h"
#include "kernel/fuse/fourier_steps.h"
#include "kernel/fuse/merge_runs.h"
#include "kernel/fuse/select_digits.h"
#include "kernel/fuse/simplify.h"

namespace npusim {
namespace {

int32_t add(Kernel& k, Expr e) {
  k.exprs.push_back(e);
  return static_cast<int32_t>(k.exprs.size()) - 1;
}

int32_t add_load(Kernel& k, Access access) {
  k.accesses.push_back(std::move(access));
  Expr e{.op = ExprOp::load, .type = Scalar::f32};
  e.integer = static_cast<int64_t>(k.accesses.size()) - 1;
  return add(k, e);
}

int32_t add_op(Kernel& k, ExprOp op, int32_t a, int32_t b = -1) {
  return add(k, {.op = op, .type = Scalar::f32, .in = {a, b, -1}});
}

int32_t add_reduce(Kernel& k, Reduction reduction, int32_t x) {
  return add(k, {.op = ExprOp::reduce, .type = Scalar::f32, .reduction = reduction, .in = {x, -1, -1}});
}

int32_t add_number(Kernel& k, double value) {
  return add(k, {.op = ExprOp::constant, .type = Scalar::f32, .number = value});
}

// The expressions of `old` behind those that `k` has, the leaf replaced; the first `accesses` are theirs.
void append_epilogue(Kernel& k, const std::vector<Expr>& old, size_t accesses, int32_t leaf) {
  std::vector<int32_t> to(old.size());
  for (size_t i = 0; i < old.size(); ++i) {
    Expr e = old[i];
    rename_operands(e, to);
    to[i] = e.op == ExprOp::contraction ? leaf : add(k, e);
  }
  for (size_t i = 0; i < accesses; ++i) rename_terms(k.accesses[i], to);
  rename_stores(k, to);
}

class Unfuser {
 public:
  explicit Unfuser(const Kernel& kernel) : outer_(kernel) {}

  Unfused run() {
    if (has_order(outer_)) return order_steps();
    if (has_fourier(outer_)) return fourier_steps(outer_);
    if (!outer_.contraction) {
      step(bound(outer_));
    } else if (outer_.contraction->kind == ContractionKind::attention) {
      attention(DType::f32, true);
    } else {
      const Contraction& c = *outer_.contraction;
      product(bound(outer_), c.reduce, c.a, c.b);
    }
    return std::move(result_);
  }

  Unfused order_steps() const {
    constexpr int64_t least_length = 1 << 16;  // where digits are fewer steps than merges, and less work
    const OrderForm form = order_form(outer_);
    return form.count == 1 && form.length >= least_length ? select_digits(outer_) : merge_runs(outer_);
  }

  Unfused products(DType weights) {
    attention(weights, false);
    return std::move(result_);
  }

  Unfused split(size_t along, int64_t parts) {
    const Contraction& c = *outer_.contraction;
    const size_t rank = outer_.space.size();
    const std::vector<size_t> order = by_steps(outer_.stores[0].access);
    std::vector<int64_t> memory{parts};
    for (size_t d : order) memory.push_back(outer_.space[d]);
    const int sums = add_scratch(memory);
    const std::vector<int64_t> steps = row_major_strides(memory);

    BoundKernel first = reader(bound(outer_), "_part");
    Kernel& part = first.kernel;
    part.space.push_back(parts);
    auto piece = std::make_shared<Contraction>(c);
    piece->kind = ContractionKind::matmul;
    piece->reduce[along] /= parts;
    const auto add_piece = [&](std::vector<int64_t>& factors) {
      const int64_t step = factors[rank + along] * piece->reduce[along];
      factors.insert(factors.begin() + static_cast<ptrdiff_t>(rank), step);
    };
    for (Access* a : {&piece->a, &piece->b}) {
      add_piece(a->strides);
      for (Guard& g : a->guards) add_piece(g.coeffs);
    }
    part.contraction = piece;
    part.exprs = {{.op = ExprOp::contraction, .type = Scalar::f32}};
    Access to = scratch_access(first, sums, memory, true);
    to.strides.assign(rank + 1, 0);
    for (size_t n = 0; n < rank; ++n) to.strides[order[n]] = steps[n + 1];
    to.strides[rank] = steps[0];
    part.stores = {{to, 0, false}};
    step(std::move(first));

    BoundKernel rest = bound(outer_);
    Kernel& k = rest.kernel;
    k.contraction = nullptr;
    reorder(k, order);
    const size_t accesses = k.accesses.size();
    const auto extend = [](Access& a) {
      a.strides.push_back(0);
      for (Guard& g : a.guards) g.coeffs.push_back(0);
    };
    for (Access& a : k.accesses) extend(a);
    for (Store& s : k.stores) extend(s.access);
    k.space.push_back(parts);
    k.row_dims = 1;
    Access from = scratch_access(rest, sums, memory, false);
    std::rotate(from.strides.begin(), from.strides.begin() + 1, from.strides.end());
    const std::vector<Expr> epilogue = std::exchange(k.exprs, {});
    append_epilogue(k, epilogue, accesses, add_reduce(k, Reduction::sum, add_load(k, from)));
    step(std::move(rest));
    return std::move(result_);
  }

  Unfused pack(const std::vector<int>& order, int64_t padding) {
    const Contraction& c = *outer_.contraction;
    std::vector<int64_t> extents = outer_.space, memory;
    extents.insert(extents.end(), c.reduce.begin(), c.reduce.end());
    for (int d : order) memory.push_back(extents[static_cast<size_t>(d)]);
    const int64_t last = memory.back();
    memory.back() = (last + padding - 1) / padding * padding;
    const int packed = add_scratch(memory, outer_.args[static_cast<size_t>(c.b.arg)].dtype);

    BoundKernel copy = reader(bound(outer_), "_pack");
    Kernel& k = copy.kernel;
    k.contraction = nullptr;
    k.space = memory;
    Access from{c.b.arg, c.b.offset, {}, {}, {}};
    for (int d : order) from.strides.push_back(c.b.strides[static_cast<size_t>(d)]);
    if (memory.back() != last) {
      Guard there{std::vector<int64_t>(order.size(), 0), 0, last, std::exchange(from.strides.back(), 0)};
      there.coeffs.back() = 1;
      from.guards.push_back(std::move(there));
    }
    const int32_t element = add_load(k, from);
    k.stores = {{scratch_access(copy, packed, memory, true), element, false}};
    step(std::move(copy));

    BoundKernel product = bound(outer_);
    auto contraction = std::make_shared<Contraction>(c);
    const Access dense = scratch_access(product, packed, memory, false);
    contraction->b = {dense.arg, 0, std::vector<int64_t>(extents.size(), 0), {}, {}};
    for (size_t n = 0; n < order.size(); ++n) contraction->b.strides[static_cast<size_t>(order[n])] = dense.strides[n];
    product.kernel.contraction = contraction;
    step(std::move(product));
    return std::move(result_);
  }

 private:
  // Dimensions of the space by how far a step along them goes, the farthest first.
  static std::vector<size_t> by_steps(const Access& access) {
    std::vector<size_t> order(access.strides.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return std::abs(access.strides[a]) > std::abs(access.strides[b]); });
    return order;
  }
  // The space's dimensions in another order, those of a kernel without contraction.
  static void reorder(Kernel& k, const std::vector<size_t>& order) {
    const auto ordered = [&](std::vector<int64_t>& v) {
      const std::vector<int64_t> old = v;
      for (size_t n = 0; n < order.size(); ++n) v[n] = old[order[n]];
    };
    const auto visit = [&](Access& a) {
      ordered(a.strides);
      for (Guard& g : a.guards) ordered(g.coeffs);
    };
    ordered(k.space);
    for (Access& a : k.accesses) visit(a);
    for (Store& s : k.stores) visit(s.access);
    for (Expr& e : k.exprs)
      if (e.op == ExprOp::index)
        e.integer = std::find(order.begin(), order.end(), static_cast<size_t>(e.integer)) - order.begin();
  }

  // Its arguments are the outer kernel's, by position.
  static BoundKernel bound(const Kernel& kernel) {
    BoundKernel b{kernel, {}};
    for (size_t i = 0; i < kernel.args.size(); ++i) b.values.push_back(static_cast<int>(i));
    return b;
  }
  // The same arguments, of which only those are left that are read, and nothing computed yet.
  static BoundKernel reader(BoundKernel b, const std::string& suffix) {
    Kernel& k = b.kernel;
    k.name += suffix;
    for (KernelArg& arg : k.args) arg.updates = -1;  // simplify() drops what is not stored
    k.accesses.clear();
    k.exprs.clear();
    k.stores.clear();
    return b;
  }

  void step(BoundKernel b) {
    order_args(b);
    simplify(b);
    result_.steps.push_back(std::move(b));
  }

  // New scratch over `space`, one element per point; its number among the values.
  int add_scratch(const std::vector<int64_t>& space, DType dtype = DType::f32) {
    result_.scratch.push_back({dtype, element_count(space)});
    return static_cast<int>(outer_.args.size() + result_.scratch.size()) - 1;
  }
  // An access to scratch over `space` as an argument of `b`.
  Access scratch_access(BoundKernel& b, int value, const std::vector<int64_t>& space, bool written) const {
    const Unfused::Scratch& scratch = result_.scratch[static_cast<size_t>(value) - outer_.args.size()];
    b.kernel.args.push_back({scratch.dtype, scratch.elements, written, -1});
    b.values.push_back(value);
    return {static_cast<int>(b.kernel.args.size()) - 1, 0, row_major_strides(space), {}, {}};
  }

  // `b`, whose leaf is Σ a·b over `reduce`; both run over its space ++ reduce.
  void product(BoundKernel b, const std::vector<int64_t>& reduce, const Access& left, const Access& right) {
    Kernel& k = b.kernel;
    k.contraction = nullptr;
    std::vector<Expr> epilogue = std::move(k.exprs);
    k.exprs.clear();
    const size_t accesses = k.accesses.size();
    const bool accumulates = std::any_of(k.stores.begin(), k.stores.end(), [](const Store& s) { return s.accumulate; });
    if (accumulates) {
      const int sums = add_scratch(k.space);
      BoundKernel sum = reader(b, "_sum");
      sum.kernel.exprs = {{.op = ExprOp::contraction, .type = Scalar::f32}};
      sum.kernel.stores = {{scratch_access(sum, sums, k.space, true), 0, false}};
      product(std::move(sum), reduce, left, right);
      append_epilogue(k, epilogue, accesses, add_load(k, scratch_access(b, sums, k.space, false)));
      return step(std::move(b));
    }
    const size_t rank = k.space.size() + reduce.size();
    const auto extend = [&](Access& a) {
      a.strides.resize(rank, 0);
      for (Guard& g : a.guards) g.coeffs.resize(rank, 0);
    };
    for (Access& a : k.accesses) extend(a);
    for (Store& s : k.stores) extend(s.access);
    k.space.insert(k.space.end(), reduce.begin(), reduce.end());
    k.row_dims = static_cast<int>(reduce.size());
    const int32_t x = add_load(k, left), y = add_load(k, right);
    const int32_t term = where_keys(k, rank - 1, add_op(k, ExprOp::mul, x, y), 0);
    append_epilogue(k, epilogue, accesses, add_reduce(k, Reduction::sum, term));
    step(std::move(b));
  }

  // The leaf of `b` is a product that stays one.
  void whole_product(BoundKernel b, const std::vector<int64_t>& reduce, const Access& left, const Access& right) {
    auto contraction = std::make_shared<Contraction>();
    contraction->reduce = reduce;
    contraction->a = left, contraction->b = right;
    b.kernel.contraction = contraction;
    step(std::move(b));
  }

  void attention(DType stored, bool spelled) {
    const Contraction& c = *outer_.contraction;
    const Score& score = *c.score;
    const std::vector<int64_t>& space = score.space;  // queries ++ keys
    const int scores = add_scratch(space), weights = add_scratch(space, stored);

    BoundKernel first = bound(score_kernel(outer_));
    first.kernel.stores = {{scratch_access(first, scores, space, true), score.result, false}};
    if (spelled)
      product(std::move(first), score.reduce, score.a, score.b);
    else
      whole_product(std::move(first), score.reduce, score.a, score.b);

    if (score.keys >= 0) keys_ = key_count(outer_);
    const std::vector<int64_t> rows(space.begin(), space.end() - 1);
    const int logs = takes_log(outer_) ? add_scratch(rows) : -1;
    step(softmax(space, scores, weights, logs));

    BoundKernel last = bound(outer_);
    if (logs >= 0) load_logs(last, logs, rows);
    Access a = scratch_access(last, weights, space, false);
    a.strides.insert(a.strides.end() - 1, 0);  // along the values' own dimension
    if (spelled || keys_)
      product(std::move(last), c.reduce, a, c.b);
    else
      whole_product(std::move(last), c.reduce, a, c.b);
  }

  // The log of the weights' sum in `b`, which was the contraction's, from scratch: the same along the values.
  void load_logs(BoundKernel& b, int logs, const std::vector<int64_t>& rows) const {
    Access from = scratch_access(b, logs, rows, false);
    from.strides.push_back(0);
    Expr load{.op = ExprOp::load, .type = Scalar::f32};
    load.integer = static_cast<int64_t>(b.kernel.accesses.size());
    b.kernel.accesses.push_back(std::move(from));
    for (Expr& e : b.kernel.exprs)
      if (is_log_of_sum(e)) e = load;
  }

  // x where the key, the index along dimension `along`, is one of those there are, else `other`. `k` has the outer
  // kernel's arguments, and the score's dimensions but the keys before all others.
  int32_t where_keys(Kernel& k, size_t along, int32_t x, double other) const {
    if (!keys_) return x;
    const auto accesses = static_cast<int64_t>(k.accesses.size());
    const auto exprs = static_cast<int32_t>(k.exprs.size());
    for (Expr e : keys_->exprs) {
      for (int n = 0; n < expr_arity(e.op); ++n) e.in[static_cast<size_t>(n)] += exprs;
      if (e.op == ExprOp::load) e.integer += accesses;
      add(k, e);
    }
    for (Access a : keys_->accesses) {
      const auto fit = [&](std::vector<int64_t>& v) { v.back() = 0, v.resize(k.space.size(), 0); };
      fit(a.strides);
      for (Guard& g : a.guards) fit(g.coeffs);
      for (IndexTerm& t : a.terms) t.expr += exprs;
      k.accesses.push_back(std::move(a));
    }
    Expr key{.op = ExprOp::index, .type = Scalar::i64};
    key.integer = static_cast<int64_t>(along);
    const int32_t at = add(k, key), number = keys_->stores[0].expr + exprs;
    const int32_t there = add(k, {.op = ExprOp::lt, .type = Scalar::boolean, .in = {at, number, -1}});
    return add(k, {.op = ExprOp::select, .type = Scalar::f32, .in = {there, x, add_number(k, other)}});
  }

  // `logs`: where the log of the sum of each row's exponentials is stored too; -1: nowhere.
  BoundKernel softmax(const std::vector<int64_t>& space, int from, int to, int logs) const {
    BoundKernel b = reader(bound(outer_), "_softmax");
    Kernel& k = b.kernel;
    k.contraction = nullptr;
    k.space = space;
    k.row_dims = 1;
    const double infinity = std::numeric_limits<double>::infinity();
    const int32_t score = add_load(k, scratch_access(b, from, space, false));
    const int32_t x = where_keys(k, space.size() - 1, score, -infinity);
    const int32_t top = add_reduce(k, Reduction::max, x);
    const int32_t power = add_op(k, ExprOp::exp, add_op(k, ExprOp::sub, x, top));
    const int32_t sum = add_reduce(k, Reduction::sum, power);
    int32_t weight = add_op(k, ExprOp::div, power, sum);
    const auto unless_masked = [&](double masked, int32_t otherwise) {
      const int32_t none = add_number(k, -infinity);
      const int32_t is_masked = add(k, {.op = ExprOp::eq, .type = Scalar::boolean, .in = {top, none, -1}});
      return add(k, {.op = ExprOp::select, .type = Scalar::f32, .in = {is_masked, add_number(k, masked), otherwise}});
    };
    if (outer_.contraction->masked_rows_are_zero) weight = unless_masked(0, weight);
    k.stores = {{scratch_access(b, to, space, true), weight, false}};
    if (logs >= 0) {
      const int32_t log = add_op(k, ExprOp::add, top, add_op(k, ExprOp::log, sum));
      Access along = scratch_access(b, logs, {space.begin(), space.end() - 1}, true);
      along.strides.push_back(0);
      k.stores.push_back({std::move(along), unless_masked(-infinity, log), false});
    }
    return b;
  }

  const Kernel& outer_;
  std::optional<Kernel> keys_;  // how many there are, for the steps behind the scores
  Unfused result_;
};

}  // namespace

Unfused unfuse(const Kernel& kernel) { return Unfuser(kernel).run(); }

Unfused split_sum(const Kernel& kernel, size_t along, int64_t parts) { return Unfuser(kernel).split(along, parts); }

Unfused pack_operand(const Kernel& kernel, const std::vector<int>& order, int64_t padding) {
  return Unfuser(kernel).pack(order, padding);
}

Unfused attention_products(const Kernel& kernel, DType weights) { return Unfuser(kernel).products(weights); }

void replace_step(Unfused& unfused, size_t arguments, size_t n, Unfused inner) {
  const std::vector<int> values = unfused.steps[n].values;
  const auto first = static_cast<int>(arguments + unfused.scratch.size());
  for (BoundKernel& step : inner.steps)
    for (int& value : step.values)
      value = static_cast<size_t>(value) < values.size() ? values[static_cast<size_t>(value)]
                                                         : first + value - static_cast<int>(values.size());
  unfused.scratch.insert(unfused.scratch.end(), inner.scratch.begin(), inner.scratch.end());
  unfused.steps.erase(unfused.steps.begin() + static_cast<ptrdiff_t>(n));
  unfused.steps.insert(unfused.steps.begin() + static_cast<ptrdiff_t>(n), inner.steps.begin(), inner.steps.end());
}

Kernel only_step(const Kernel& kernel, const BoundKernel& step) {
  Kernel whole = step.kernel;
  whole.args = kernel.args;
  const auto rename = [&](Access& a) { a.arg = step.values[static_cast<size_t>(a.arg)]; };
  for (Access& a : whole.accesses) rename(a);
  for (Store& s : whole.stores) rename(s.access);
  return whole;
}

}  // namespace npusim
