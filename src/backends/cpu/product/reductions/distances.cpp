// Kernels that reduce distances, as products of another pairing: their reduction becomes a contraction's leaf.
#include "backends/cpu/product/reductions/distances.h"

#include <algorithm>
#include <vector>

#include "backends/cpu/product/gemv/few_rows.h"
#include "backends/cpu/product/reductions/squares.h"
#include "base/threads.h"
#include "kernel/facts/compact.h"
#include "kernel/facts/depend.h"

namespace npusim::cpu::product::reductions {
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
    const std::optional<Pair> pair = pair_of_distances(k_, k_.exprs[i]);
    if (!pair || expr(pair->a).op != ExprOp::load || expr(pair->b).op != ExprOp::load) return std::nullopt;
    const auto access = [&](int32_t load) { return &k_.accesses[static_cast<size_t>(expr(load).integer)]; };
    return PairedReduction{i, pair->pairing, access(pair->a), access(pair->b)};
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
  cut_row(k);
  return k;
}

// Many squared distances from products, and those that products lose by themselves. Where a sample says that these are
// not few, all are sums of squares.
class SquaresStep final : public BoundStep, private blocks::TileSums {
 public:
  SquaresStep(Problem& problem, std::unique_ptr<BoundStep> exact) : exact_(std::move(exact)) {
    const Matrices& m = matrices_of(problem);
    a_ = m.a, b_ = m.b;
    threads_ = usable_threads(problem.kernel, problem.context);
    a_lengths_.resize(static_cast<size_t>(a_.size(0) * a_.size(1)));
    b_lengths_.resize(static_cast<size_t>(b_.size(0) * b_.size(1)));
    products_ = blocks::make_paired_step(problem, Pairing::product, this);
    scratch_bytes_ = std::max(exact_->scratch_bytes(), products_->scratch_bytes());
  }
  static bool takes(const Matrices& m) {
    constexpr int64_t least = 64, least_depth = 32;
    const auto plain = [](const Operand& o) { return o.dtype == DType::f32 && o.bounds.empty() && o.step[2] == 1; };
    return plain(m.a) && plain(m.b) && m.a.size(1) >= least && m.b.size(1) >= least && m.a.size(2) >= least_depth;
  }

  void run() override {
    on_threads(threads_, [this](int thread) {
      lengths(a_, a_lengths_, thread);
      lengths(b_, b_lengths_, thread);
    });
    (many_are_near() ? exact_ : products_)->run();
  }
  void set_scratch(void* scratch) override {
    exact_->set_scratch(scratch);
    products_->set_scratch(scratch);
  }
  std::string describe() const override { return exact_->describe() + " by products"; }

 private:
  static const float* row(const Operand& o, int64_t batch, int64_t i) {
    return reinterpret_cast<const float*>(o.at(batch, i, 0));
  }
  void lengths(const Operand& o, std::vector<float>& lengths, int64_t thread) const {
    const int64_t rows = o.size(0) * o.size(1), depth = o.size(2);
    for (int64_t i = rows * thread / threads_; i < rows * (thread + 1) / threads_; ++i) {
      const float* x = row(o, i / o.size(1), i % o.size(1));
      gemv::dot_columns(DType::f32, x, 0, 1, depth, x, 0, 1, &lengths[static_cast<size_t>(i)], 1);
    }
  }
  const float* lengths_of(const Operand& o, const std::vector<float>& lengths, int64_t batch) const {
    return &lengths[static_cast<size_t>(batch * o.size(1))];
  }

  // Of pairs all over the matrix.
  bool many_are_near() const {
    constexpr int64_t pairs = 256, most = 8;
    const int64_t batches = a_.size(0), rows = a_.size(1), columns = b_.size(1), depth = a_.size(2);
    int64_t lost = 0;
    for (int64_t i = 0; i < pairs; ++i) {
      const int64_t batch = batches * i / pairs, r = i * 7919 % rows, c = (i * 104729 + i / 7) % columns;
      float product = 0;
      gemv::dot_columns(DType::f32, row(a_, batch, r), 0, 1, depth, row(b_, batch, c), 0, 1, &product, 1);
      lost +=
          squares_of_products(&product, lengths_of(a_, a_lengths_, batch)[r], lengths_of(b_, b_lengths_, batch) + c, 1);
    }
    return lost > most;
  }

  void complete(float* sums, int64_t ld, int64_t batch, int64_t r0, int64_t r1, int64_t c0, int64_t c1) override {
    const float *lengths = lengths_of(a_, a_lengths_, batch), *others = lengths_of(b_, b_lengths_, batch) + c0;
    for (int64_t r = r0; r < r1; ++r, sums += ld) {
      if (!squares_of_products(sums, lengths[r], others, c1 - c0)) continue;
      for (int64_t c = c0; c < c1; ++c)
        if (float& sum = sums[c - c0]; sum != sum) sum = square_of(row(a_, batch, r), row(b_, batch, c), a_.size(2));
    }
  }

  std::unique_ptr<BoundStep> exact_, products_;
  Operand a_, b_;  // axes: batch, rows, depth; batch, columns, depth
  int threads_ = 1;
  std::vector<float> a_lengths_, b_lengths_;
};

}  // namespace

std::unique_ptr<BoundStep> make_distances_step(const Kernel& kernel, std::span<const Binding> args,
                                               const Context& context) {
  if (kernel.row_dims == 0 || element_count(kernel.space) == 0) return nullptr;
  const std::optional<PairedReduction> found = Matcher(kernel).match();
  if (!found || !is_plain(kernel, *found->a) || !is_plain(kernel, *found->b) || !fills_tiles(kernel, *found))
    return nullptr;
  // What varies along the row outside the reduction cannot be in a product's epilogue.
  const Dependence depends = dependence_of(kernel);
  for (const Store& s : kernel.stores)
    if (s.accumulate || ((dims_of(s.access, depends) | depends.dims[static_cast<size_t>(s.expr)]) & row_of(kernel)))
      return nullptr;
  const Kernel product = contracted(kernel, *found);
  Problem problem = make_problem(product, args, context);
  const bool products = found->pairing == Pairing::squares && SquaresStep::takes(matrices_of(problem));
  auto step = blocks::make_paired_step(problem, found->pairing);
  if (!products) return step;
  Problem again = make_problem(product, args, context);
  return std::make_unique<SquaresStep>(again, std::move(step));
}

}  // namespace npusim::cpu::product::reductions
