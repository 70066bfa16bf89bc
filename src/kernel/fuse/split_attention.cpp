// Pieces are a dimension before the last one of the space.
#include "kernel/fuse/split_attention.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <numeric>

#include "base/shape.h"
#include "kernel/facts/attention_axes.h"
#include "kernel/facts/rename.h"
#include "kernel/fuse/simplify.h"

namespace npusim {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

int32_t add(Kernel& k, const Expr& e) {
  k.exprs.push_back(e);
  return static_cast<int32_t>(k.exprs.size()) - 1;
}
int32_t f32(Kernel& k, ExprOp op, int32_t a, int32_t b = -1, int32_t c = -1) {
  return add(k, {.op = op, .type = Scalar::f32, .in = {a, b, c}});
}
int32_t number(Kernel& k, double value) {
  return add(k, {.op = ExprOp::constant, .type = Scalar::f32, .number = value});
}
int32_t load(Kernel& k, Access access) {
  k.accesses.push_back(std::move(access));
  Expr e{.op = ExprOp::load, .type = Scalar::f32};
  e.integer = static_cast<int64_t>(k.accesses.size()) - 1;
  return add(k, e);
}
int32_t equals(Kernel& k, int32_t a, int32_t b) {
  return add(k, {.op = ExprOp::eq, .type = Scalar::boolean, .in = {a, b, -1}});
}

// Expressions of `old` behind those of `k`; `replace` gives what becomes of one, or -1: a copy.
template <typename Replace>
std::vector<int32_t> append(Kernel& k, const std::vector<Expr>& old, Replace&& replace) {
  std::vector<int32_t> to;
  for (const Expr& e : old) {
    int32_t at = replace(e);
    if (at < 0) {
      Expr copy = e;
      rename_operands(copy, to);
      at = add(k, copy);
    }
    to.push_back(at);
  }
  return to;
}

class Splitter {
 public:
  Splitter(const Kernel& outer, int64_t pieces)
      : outer_(outer), pieces_(pieces), piece_(outer.contraction->reduce[0] / pieces), last_(outer.space.size() - 1) {
    // Results in the order in which they are stored, all of one piece together.
    order_.resize(last_ + 1);
    std::iota(order_.begin(), order_.end(), size_t{0});
    const std::vector<int64_t>& steps = outer.stores[0].access.strides;
    std::stable_sort(order_.begin(), order_.end(),
                     [&](size_t a, size_t b) { return std::abs(steps[a]) > std::abs(steps[b]); });
    int64_t step = 1, of_log = 1;
    result_steps_.resize(last_ + 2), log_steps_.resize(last_ + 2);
    for (size_t n = order_.size(); n-- > 0;) {
      result_steps_[order_[n]] = step, step *= outer.space[order_[n]];
      if (order_[n] != last_) log_steps_[order_[n]] = of_log, of_log *= outer.space[order_[n]];
    }
    result_steps_.back() = step, log_steps_.back() = of_log;
    result_.scratch = {{DType::f32, step * pieces}, {DType::f32, of_log * pieces}};
  }

  Unfused run() {
    result_.steps.push_back(parts());
    result_.steps.push_back(merge());
    for (BoundKernel& step : result_.steps) order_args(step), simplify(step);
    return std::move(result_);
  }

 private:
  BoundKernel bound() const {
    BoundKernel b{outer_, {}};
    b.values.resize(outer_.args.size());
    std::iota(b.values.begin(), b.values.end(), 0);
    return b;
  }
  // Scratch 0 or 1 as an argument; `steps` by the dimensions of outer's space and the pieces.
  Access scratch(BoundKernel& b, size_t which, bool written, std::vector<int64_t> steps) const {
    b.kernel.args.push_back({DType::f32, result_.scratch[which].elements, written, -1});
    b.values.push_back(static_cast<int>(outer_.args.size() + which));
    return {static_cast<int>(b.kernel.args.size()) - 1, 0, std::move(steps), {}, {}};
  }

  // Dimension `keys` becomes the pieces, as the last but one of the space, and the keys of one.
  void split(std::vector<int64_t>& factors, size_t keys) const {
    factors.insert(factors.begin() + static_cast<ptrdiff_t>(last_), factors[keys] * piece_);
  }
  void split(Access& a, size_t keys) const {
    split(a.strides, keys);
    for (Guard& g : a.guards) split(g.coeffs, keys);
  }

  BoundKernel parts() const {
    BoundKernel b = bound();
    Kernel& k = b.kernel;
    k.name += "_part";
    for (KernelArg& arg : k.args) arg.updates = -1;
    k.accesses.clear(), k.stores.clear();
    k.space.insert(k.space.end() - 1, pieces_);
    auto contraction = std::make_shared<Contraction>(*outer_.contraction);
    contraction->reduce[0] = piece_;
    contraction->masked_rows_are_zero = true;  // what no key has a share in counts nothing
    split(contraction->b, last_ + 1);
    contraction->score = std::make_shared<Score>(score());
    k.contraction = contraction;
    k.exprs = {{.op = ExprOp::contraction, .type = Scalar::f32}, {.op = ExprOp::contraction, .type = Scalar::f32}};
    k.exprs[1].integer = 1;
    const auto inner = [&](std::vector<int64_t> steps) {  // the pieces stand before the last dimension
      std::swap(steps[last_], steps[last_ + 1]);
      return steps;
    };
    k.stores = {{scratch(b, 0, true, inner(result_steps_)), 0, false},
                {scratch(b, 1, true, inner(log_steps_)), 1, false}};
    return b;
  }

  Score score() const {
    Score s = *outer_.contraction->score;
    s.space.back() = piece_;
    s.space.insert(s.space.end() - 1, pieces_);
    for (Access& a : s.accesses) split(a, last_);
    split(s.a, last_), split(s.b, last_);
    Kernel k;
    const auto index = [&](size_t dim) {
      Expr e{.op = ExprOp::index, .type = Scalar::i64};
      e.integer = static_cast<int64_t>(dim);
      return add(k, e);
    };
    const auto first_key = [&] {
      Expr size{.op = ExprOp::constant, .type = Scalar::i64};
      size.integer = piece_;
      const int32_t at = index(last_), by = add(k, size);
      return add(k, {.op = ExprOp::mul, .type = Scalar::i64, .in = {at, by, -1}});
    };
    const std::vector<int32_t> to = append(k, s.exprs, [&](const Expr& e) {
      if (e.op != ExprOp::index || static_cast<size_t>(e.integer) != last_) return -1;
      const int32_t first = first_key(), key = index(last_ + 1);
      return add(k, {.op = ExprOp::add, .type = Scalar::i64, .in = {first, key, -1}});
    });
    for (Access& a : s.accesses) rename_terms(a, to);
    s.result = to[static_cast<size_t>(s.result)];
    if (s.keys >= 0) {
      const int32_t first = first_key();
      s.keys = add(k, {.op = ExprOp::sub, .type = Scalar::i64, .in = {to[static_cast<size_t>(s.keys)], first, -1}});
    }
    s.exprs = std::move(k.exprs);
    return s;
  }

  // Over outer's space in the order of the results, and the pieces as its row.
  BoundKernel merge() const {
    BoundKernel b = bound();
    Kernel& k = b.kernel;
    k.contraction = nullptr;
    k.row_dims = 1;
    k.exprs.clear();
    const auto ordered = [&](std::vector<int64_t>& v) {
      const std::vector<int64_t> old = v;
      v.assign(last_ + 2, 0);
      for (size_t n = 0; n < order_.size(); ++n) v[n] = old[order_[n]];
    };
    const auto visit = [&](Access& a) {
      ordered(a.strides);
      for (Guard& g : a.guards) ordered(g.coeffs);
    };
    const auto renumbered = [&](Expr e) {  // of an index
      e.integer = std::find(order_.begin(), order_.end(), static_cast<size_t>(e.integer)) - order_.begin();
      return e;
    };
    ordered(k.space);
    k.space.back() = pieces_;
    for (Access& a : k.accesses) visit(a);
    for (Store& s : k.stores) visit(s.access);
    const size_t accesses = k.accesses.size();
    const auto in_order = [&](std::vector<int64_t> steps) {
      const int64_t piece = steps.back();
      ordered(steps);
      steps.back() = piece;
      return steps;
    };

    const int32_t part = load(k, scratch(b, 0, false, in_order(result_steps_))),
                  log = load(k, scratch(b, 1, false, in_order(log_steps_)));
    const auto reduce = [&](Reduction reduction, int32_t x) {
      return add(k, {.op = ExprOp::reduce, .type = Scalar::f32, .reduction = reduction, .in = {x, -1, -1}});
    };
    const int32_t none = number(k, -infinity), zero = number(k, 0), top = reduce(Reduction::max, log);
    const int32_t share =
        f32(k, ExprOp::select, equals(k, log, none), zero, f32(k, ExprOp::exp, f32(k, ExprOp::sub, log, top)));
    const int32_t sum = reduce(Reduction::sum, f32(k, ExprOp::mul, share, part));
    int32_t value = f32(k, ExprOp::div, sum, reduce(Reduction::sum, share));
    if (outer_.contraction->masked_rows_are_zero) value = f32(k, ExprOp::select, equals(k, top, none), sum, value);
    if (const Score& score = *outer_.contraction->score; score.keys >= 0) {
      const auto first = static_cast<int64_t>(k.accesses.size());
      const std::vector<int32_t> to = append(k, score.exprs, [&](const Expr& e) {
        if (e.op == ExprOp::contraction) return zero;  // the number of keys does not depend on it
        if (e.op == ExprOp::index) return add(k, renumbered(e));
        if (e.op != ExprOp::load) return -1;
        Expr moved = e;
        moved.integer += first;
        return add(k, moved);
      });
      for (Access a : score.accesses) {
        a.strides[last_] = 0;  // where the keys stood, the columns stand
        for (Guard& g : a.guards) g.coeffs[last_] = 0;
        visit(a);
        rename_terms(a, to);
        k.accesses.push_back(std::move(a));
      }
      const int32_t nothing = add(k, {.op = ExprOp::constant, .type = Scalar::i64});
      const int32_t any =
          add(k, {.op = ExprOp::lt, .type = Scalar::boolean, .in = {nothing, to[static_cast<size_t>(score.keys)], -1}});
      value = f32(k, ExprOp::select, any, value, zero);
    }
    int32_t sum_of_weights = -1;
    if (takes_log(outer_)) {
      const int32_t all = f32(k, ExprOp::add, top, f32(k, ExprOp::log, reduce(Reduction::sum, share)));
      sum_of_weights = f32(k, ExprOp::select, equals(k, top, none), none, all);
    }
    const std::vector<int32_t> to = append(k, outer_.exprs, [&](const Expr& e) {
      if (e.op == ExprOp::contraction) return e.integer == 1 ? sum_of_weights : value;
      return e.op == ExprOp::index ? add(k, renumbered(e)) : -1;
    });
    for (size_t i = 0; i < accesses; ++i) rename_terms(k.accesses[i], to);
    rename_stores(k, to);
    return b;
  }

  const Kernel& outer_;
  const int64_t pieces_, piece_;
  const size_t last_;                              // of the space: the columns, in the score the keys
  std::vector<size_t> order_;                      // of outer's dimensions
  std::vector<int64_t> result_steps_, log_steps_;  // by outer's dimensions, and of a piece
  Unfused result_;
};

}  // namespace

Unfused split_attention(const Kernel& kernel, int64_t pieces) { return Splitter(kernel, pieces).run(); }

}  // namespace npusim
