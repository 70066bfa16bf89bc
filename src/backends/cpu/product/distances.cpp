// Kernels that reduce distances, as products of another pairing: their reduction becomes a contraction's leaf.
#include "backends/cpu/product/distances.h"

#include <algorithm>

#include "kernel/facts/compact.h"
#include "kernel/facts/depend.h"

namespace npusim::cpu {
namespace {

struct PairedReduction {
  size_t at = 0;  // the expression
  Pairing pairing = Pairing::squares;
  const Access *a = nullptr, *b = nullptr;
};

class Matcher {
 public:
  explicit Matcher(const Kernel& kernel) : k_(kernel) {}

  std::optional<PairedReduction> match() const {
    std::optional<PairedReduction> found;
    for (size_t i = 0; i < k_.exprs.size(); ++i) {
      const Expr& e = k_.exprs[i];
      if (e.op == ExprOp::scan || e.op == ExprOp::order) return std::nullopt;
      if (e.op != ExprOp::reduce) continue;
      if (found || e.type != Scalar::f32) return std::nullopt;
      found = reduction(i);
      if (!found) return std::nullopt;
    }
    return found;
  }

 private:
  const Expr& expr(int32_t i) const { return k_.exprs[static_cast<size_t>(i)]; }

  std::optional<PairedReduction> reduction(size_t i) const {
    const Expr &e = k_.exprs[i], &x = expr(e.in[0]);
    const bool square = x.op == ExprOp::mul && x.in[0] == x.in[1];
    if (!square && x.op != ExprOp::abs) return std::nullopt;
    if (e.reduction != Reduction::sum && (square || e.reduction != Reduction::max)) return std::nullopt;
    const Expr& apart = expr(x.in[0]);
    if (apart.op != ExprOp::sub || expr(apart.in[0]).op != ExprOp::load || expr(apart.in[1]).op != ExprOp::load)
      return std::nullopt;
    const auto access = [&](int32_t load) { return &k_.accesses[static_cast<size_t>(expr(load).integer)]; };
    return PairedReduction{i,
                           square                          ? Pairing::squares
                           : e.reduction == Reduction::max ? Pairing::farthest
                                                           : Pairing::distances,
                           access(apart.in[0]), access(apart.in[1])};
  }

  const Kernel& k_;
};

// Elements that are read as they lie, in types that products widen.
bool is_plain(const Kernel& k, const Access& a) {
  const DType dtype = k.args[static_cast<size_t>(a.arg)].dtype;
  return a.guards.empty() && a.terms.empty() && (dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16);
}

// Whether tiles have enough rows and columns: dimensions along which only the one varies, or only the other.
bool fills_tiles(const Kernel& k, const PairedReduction& r) {
  constexpr int64_t least = 8;
  int64_t rows = 1, columns = 1, depth = 1;
  for (size_t d = 0; d < k.space.size(); ++d) {
    const bool a = r.a->strides[d] != 0, b = r.b->strides[d] != 0;
    if (d + static_cast<size_t>(k.row_dims) >= k.space.size()) {
      if (!a || !b) return false;
      depth *= k.space[d];
    } else {
      if (a && !b) rows *= k.space[d];
      if (b && !a) columns *= k.space[d];
    }
  }
  return std::min(rows, columns) >= least && depth >= 4;
}

// The kernel with the contraction instead of the reduction and what only that needs.
Kernel contracted(const Kernel& from, const PairedReduction& r) {
  Kernel k = from;
  const auto outer = static_cast<std::ptrdiff_t>(k.space.size()) - k.row_dims;
  auto contraction = std::make_shared<Contraction>();
  contraction->reduce.assign(k.space.begin() + outer, k.space.end());
  contraction->a = *r.a, contraction->b = *r.b;
  k.contraction = std::move(contraction);
  k.exprs[r.at] = {.op = ExprOp::contraction, .type = Scalar::f32};
  drop_dead(k);
  k.space.resize(static_cast<size_t>(outer));
  k.row_dims = 0;
  const auto cut = [&](Access& a) {
    a.strides.resize(static_cast<size_t>(outer));
    for (Guard& g : a.guards) g.coeffs.resize(static_cast<size_t>(outer));
  };
  for (Access& a : k.accesses) cut(a);
  for (Store& s : k.stores) cut(s.access);
  return k;
}

}  // namespace

std::unique_ptr<BoundStep> make_distances_step(const Kernel& kernel, std::span<const Binding> args,
                                               const Context& context) {
  if (kernel.row_dims == 0 || element_count(kernel.space) == 0) return nullptr;
  const std::optional<PairedReduction> found = Matcher(kernel).match();
  if (!found || !is_plain(kernel, *found->a) || !is_plain(kernel, *found->b) || !fills_tiles(kernel, *found))
    return nullptr;
  // What varies along the row beside the reduction has no place in a product's epilogue.
  const Dependence depends = dependence_of(kernel);
  for (const Store& s : kernel.stores)
    if (s.accumulate || ((dims_of(s.access, depends) | depends.dims[static_cast<size_t>(s.expr)]) & row_of(kernel)))
      return nullptr;
  const Kernel product = contracted(kernel, *found);
  Problem problem = make_problem(product, args, context);
  return make_paired_step(problem, found->pairing);
}

}  // namespace npusim::cpu
