// Pieces stand before all other dimensions of the space, their results one behind the other.
#include "kernel/fuse/split_combining.h"

#include <algorithm>

#include "kernel/facts/memory.h"
#include "kernel/facts/visit.h"
#include "kernel/fuse/simplify.h"
#include "kernel/scalar.h"

namespace npusim {
namespace {

int32_t add(Kernel& k, const Expr& e) { return add_expr(k, e); }

class CombiningSplitter {
 public:
  CombiningSplitter(const Kernel& outer, int dim, int64_t pieces)
      : outer_(outer), to_(outer.stores[0].access.arg), d_(static_cast<size_t>(dim)) {
    const KernelArg& arg = outer.args[static_cast<size_t>(to_)];
    elements_ = arg.elements;
    dtype_ = arg.dtype == DType::f16 || arg.dtype == DType::bf16 ? DType::f32 : arg.dtype;
    const int64_t extent = outer.space[d_];
    inner_ = (extent + pieces - 1) / pieces;
    pieces_ = (extent + inner_ - 1) / inner_;
    result_.scratch.assign(2, {dtype_, pieces_ * elements_});  // before and after: a value is made once
  }

  Unfused run() {
    for (BoundKernel step : {begin(), combine_pieces(), combine_all()}) {
      order_args(step), simplify(step);
      result_.steps.push_back(std::move(step));
    }
    return std::move(result_);
  }

 private:
  int scratch(bool after) const { return static_cast<int>(outer_.args.size()) + (after ? 1 : 0); }
  // A kernel of these arguments, which stand for these values.
  static BoundKernel bound(std::string name, std::vector<int64_t> space, int row_dims) {
    BoundKernel b;
    b.kernel.name = std::move(name);
    b.kernel.space = std::move(space), b.kernel.row_dims = row_dims;
    return b;
  }
  static int add_arg(BoundKernel& b, const KernelArg& arg, int value) {
    b.kernel.args.push_back(arg);
    b.values.push_back(value);
    return static_cast<int>(b.kernel.args.size()) - 1;
  }
  KernelArg of_scratch(bool written, int updates = -1) const { return {dtype_, pieces_ * elements_, written, updates}; }
  static int32_t load(Kernel& k, Scalar type, Access a) {
    k.accesses.push_back(std::move(a));
    return add(k, {.op = ExprOp::load, .type = type, .integer = static_cast<int64_t>(k.accesses.size()) - 1});
  }

  BoundKernel begin() const {
    BoundKernel b = bound(outer_.name + "_begin", {pieces_ * elements_}, 0);
    const int out = add_arg(b, of_scratch(true), scratch(false));
    const int32_t none = add(b.kernel, identity_of(outer_.stores[0].reduction, scalar_of(dtype_)));
    b.kernel.stores.push_back({{out, 0, {1}, {}, {}}, none, false});
    return b;
  }

  // Old dimensions behind that of the pieces.
  std::vector<int64_t> in_pieces(const std::vector<int64_t>& steps) const {
    std::vector<int64_t> to{steps[d_] * inner_};
    to.insert(to.end(), steps.begin(), steps.end());
    return to;
  }
  bool is_even() const { return inner_ * pieces_ == outer_.space[d_]; }
  // Where the last piece is shorter, what is behind it is not reached: of the store no matter where it leads.
  void split(Access& a, bool always) const {
    if (!is_even() && (always || a.strides[d_] != 0)) {
      Guard g{std::vector<int64_t>(outer_.space.size(), 0), 0, outer_.space[d_], a.strides[d_]};
      g.coeffs[d_] = 1;
      a.strides[d_] = 0;
      a.guards.push_back(std::move(g));
    }
    a.strides = in_pieces(a.strides);
    for (Guard& g : a.guards) g.coeffs = in_pieces(g.coeffs);
  }

  BoundKernel combine_pieces() const {
    BoundKernel b{outer_, {}};
    Kernel& k = b.kernel;
    k.name += "_pieces";
    for (size_t i = 0; i < k.args.size(); ++i) b.values.push_back(static_cast<int>(i));
    const int before = k.args[static_cast<size_t>(to_)].updates;
    k.args[static_cast<size_t>(before)] = of_scratch(false);
    k.args[static_cast<size_t>(to_)] = of_scratch(true, before);
    b.values[static_cast<size_t>(before)] = scratch(false), b.values[static_cast<size_t>(to_)] = scratch(true);
    k.space[d_] = inner_;
    k.space.insert(k.space.begin(), pieces_);
    for (Access& a : k.accesses) split(a, false);
    split(k.stores[0].access, true);
    k.stores[0].access.strides[0] += elements_;

    std::vector<Expr> old = std::move(k.exprs);
    k.exprs.clear();
    std::vector<int32_t> to;
    for (Expr e : old) {
      for (int n = 0; n < expr_arity(e.op); ++n) {
        int32_t& operand = e.in[static_cast<size_t>(n)];
        operand = to[static_cast<size_t>(operand)];
      }
      if (e.op == ExprOp::index) ++e.integer;
      int32_t at = add(k, e);
      if (e.op == ExprOp::index && static_cast<size_t>(e.integer) == d_ + 1) {
        const int32_t piece = add(k, {.op = ExprOp::index, .type = Scalar::i64, .integer = 0}),
                      size = add(k, {.op = ExprOp::constant, .type = Scalar::i64, .integer = inner_}),
                      first = add(k, {.op = ExprOp::mul, .type = Scalar::i64, .in = {piece, size, -1}});
        at = add(k, {.op = ExprOp::add, .type = Scalar::i64, .in = {first, at, -1}});
      }
      to.push_back(at);
    }
    const auto rename = [&](Access& a) {
      for (IndexTerm& t : a.terms) t.expr = to[static_cast<size_t>(t.expr)];
    };
    for (Access& a : k.accesses) rename(a);
    rename(k.stores[0].access);
    k.stores[0].expr = to[static_cast<size_t>(k.stores[0].expr)];
    return b;
  }

  BoundKernel combine_all() const {
    const Reduction reduction = outer_.stores[0].reduction;
    const Scalar type = scalar_of(dtype_);
    const int value = outer_.args[static_cast<size_t>(to_)].updates;
    BoundKernel b = bound(outer_.name + "_all", {elements_, pieces_}, 1);
    Kernel& k = b.kernel;
    const int before = add_arg(b, outer_.args[static_cast<size_t>(value)], value),
              results = add_arg(b, of_scratch(false), scratch(true)),
              out = add_arg(b, outer_.args[static_cast<size_t>(to_)], to_);
    k.args[static_cast<size_t>(out)].updates = before;
    const int32_t old = load(k, type, {before, 0, {1, 0}, {}, {}}),
                  piece = load(k, type, {results, 0, {1, elements_}, {}, {}}),
                  all = add(k, {.op = ExprOp::reduce, .type = type, .reduction = reduction, .in = {piece, -1, -1}});
    constexpr ExprOp ops[] = {ExprOp::add, ExprOp::mul, ExprOp::min, ExprOp::max};
    int32_t sum = add(k, {.op = ops[static_cast<size_t>(reduction)], .type = type, .in = {old, all, -1}});
    if (reduction == Reduction::sum && type >= Scalar::f32) {  // a negative zero stays one where nothing is added
      const int32_t zero = add(k, identity_of(reduction, type)),
                    none = add(k, {.op = ExprOp::eq, .type = Scalar::boolean, .in = {all, zero, -1}});
      sum = add(k, {.op = ExprOp::select, .type = type, .in = {none, old, sum}});
    }
    k.stores.push_back({{out, 0, {1, 0}, {}, {}}, sum, false});
    return b;
  }

  const Kernel& outer_;
  const int to_;  // the argument that is stored to
  const size_t d_;
  int64_t elements_ = 0, pieces_ = 1, inner_ = 1;
  DType dtype_ = DType::f32;
  Unfused result_;
};

}  // namespace

int dim_of_combining(const Kernel& k) {
  if (k.contraction || k.call || k.row_dims > 0 || k.stores.size() != 1 || !k.stores[0].accumulate) return -1;
  const int to = k.stores[0].access.arg, from = k.args[static_cast<size_t>(to)].updates;
  const DType dtype = k.args[static_cast<size_t>(to)].dtype;
  const bool selects = k.stores[0].reduction == Reduction::min || k.stores[0].reduction == Reduction::max;
  // A product of floats that is 0 could be of a piece that is not finite.
  if (k.stores[0].reduction == Reduction::product && is_float(dtype)) return -1;
  if (from < 0 || dtype == DType::boolean || (selects && !is_float(dtype) && dtype != DType::i64)) return -1;
  for (const Access& a : k.accesses)
    if (a.arg == from || a.arg == to) return -1;
  const std::vector<bool> meets = colliding_dims(k, k.stores[0].access);
  int longest = -1;
  for (size_t d = 0; d < k.space.size(); ++d)
    if (meets[d] && (longest < 0 || k.space[d] > k.space[static_cast<size_t>(longest)])) longest = static_cast<int>(d);
  return longest;
}

Unfused split_combining(const Kernel& kernel, int64_t pieces) {
  const int d = dim_of_combining(kernel);
  if (d < 0 || pieces < 2 || kernel.space[static_cast<size_t>(d)] < 2) return {};
  return CombiningSplitter(kernel, d, pieces).run();
}

}  // namespace npusim
