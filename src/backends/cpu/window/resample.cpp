// Sums along one dimension after the other: rows are resampled along themselves once, and then added for all rows of
// the result that they are part of. Offsets and weights are tables, each of the indices along one dimension.
#include "backends/cpu/window/resample.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <optional>
#include <vector>

#include "backends/cpu/loops/loops.h"
#include "backends/cpu/window/resample_rows.h"
#include "backends/cpu/window/weigh.h"
#include "base/error.h"
#include "base/shape.h"
#include "base/threads.h"
#include "kernel/facts/compact.h"
#include "kernel/facts/depend.h"

namespace npusim::cpu::window {
namespace {

constexpr size_t most_axes = 3;
constexpr int most_tries = 4;  // sums whose tables are made

// A dimension of the space, and of each index along it `taps` offsets, in elements, and weights: tables by tap, then
// index. Dimensions that are not resampled have one offset and no weight.
struct Axis {
  size_t dim = 0;
  int64_t taps = 1;
  std::vector<int32_t> weights = {};  // expressions
  std::vector<int64_t> offsets = {};
  std::vector<float> weight = {};
};

struct Resampling {
  int arg = -1;
  int64_t offset = 0;
  std::vector<Axis> axes;   // the last one along the rows
  std::vector<Axis> fixed;  // all other dimensions
  Kernel rest;              // with the sums as its argument behind all others, row-major
};

// sum = Σ over the taps of the first axis of (sum over those of the others) · weight; or a load.
class Matcher {
 public:
  explicit Matcher(const Kernel& k) : k_(k), depends_(dependence_of(k)) {}

  std::optional<Resampling> run() {
    if (k_.space.empty()) return std::nullopt;
    int left = most_tries;
    for (size_t i = k_.exprs.size(); i-- > 0 && left > 0;) {
      if (k_.exprs[i].op != ExprOp::add || k_.exprs[i].type != Scalar::f32) continue;
      r_ = {}, leaves_.clear();
      if (!visit(static_cast<int32_t>(i), 0) || r_.axes.empty() || r_.axes.back().dim + 1 != k_.space.size()) continue;
      --left;
      if (!fill_tables()) continue;
      make_rest(static_cast<int32_t>(i));
      const auto reads = [&](const Access& a) { return a.arg == r_.arg; };
      if (std::none_of(r_.rest.accesses.begin(), r_.rest.accesses.end(), reads)) return std::move(r_);
    }
    return std::nullopt;
  }

 private:
  const Expr& expr(int32_t i) const { return k_.exprs[static_cast<size_t>(i)]; }
  const Access& access(int32_t load) const { return k_.accesses[static_cast<size_t>(expr(load).integer)]; }

  // The dimension along which alone an expression of no loads varies; -1: none, or not such.
  int dim_of(int32_t i) {
    const DimSet dims = depends_.dims[static_cast<size_t>(i)];
    return std::popcount(dims) == 1 && !loads(i) ? std::countr_zero(dims) : -1;
  }
  bool loads(int32_t i) {
    if (loads_.empty()) {
      for (const Expr& e : k_.exprs) {
        bool any = e.op == ExprOp::load;
        for (int n = 0; n < expr_arity(e.op); ++n)
          any = any || loads_[static_cast<size_t>(e.in[static_cast<size_t>(n)])];
        loads_.push_back(any);
      }
    }
    return loads_[static_cast<size_t>(i)];
  }

  bool visit(int32_t i, size_t level) {
    if (expr(i).op == ExprOp::load) {
      leaves_.push_back(i);
      return level == r_.axes.size();
    }
    if (level == most_axes) return false;
    std::vector<int32_t> parts;  // the last one first
    for (int32_t at = i;; at = expr(at).in[0]) {
      if (parts.size() == static_cast<size_t>(most_resampled)) return false;
      const bool sum = expr(at).op == ExprOp::add;
      parts.push_back(sum ? expr(at).in[1] : at);
      if (!sum) break;
    }
    if (parts.size() < 2) return false;
    std::reverse(parts.begin(), parts.end());
    Axis axis{.taps = static_cast<int64_t>(parts.size())};
    std::vector<int32_t> inner;
    for (int32_t part : parts) {
      if (expr(part).op != ExprOp::mul) return false;
      const size_t w = dim_of(expr(part).in[1]) >= 0 ? 1 : 0;
      const int dim = dim_of(expr(part).in[w]);
      if (dim < 0 || (!axis.weights.empty() && axis.dim != static_cast<size_t>(dim))) return false;
      axis.dim = static_cast<size_t>(dim);
      axis.weights.push_back(expr(part).in[w]);
      inner.push_back(expr(part).in[1 - w]);
    }
    if (level == r_.axes.size()) {
      const auto same = [&](const Axis& other) { return other.dim == axis.dim; };  // resampled twice along one
      if (!leaves_.empty() || std::any_of(r_.axes.begin(), r_.axes.end(), same)) return false;
      r_.axes.push_back(axis);
    } else if (r_.axes[level].weights != axis.weights) {
      return false;
    }
    return std::all_of(inner.begin(), inner.end(), [&](int32_t x) { return visit(x, level + 1); });
  }

  // The values of an expression of dim_of() at all indices.
  template <typename T>
  std::vector<T> values(int32_t i, size_t dim, DType dtype) const {
    Kernel k;
    k.name = "table";
    k.space = {k_.space[dim]};
    k.exprs.assign(k_.exprs.begin(), k_.exprs.begin() + i + 1);
    k.accesses = k_.accesses;  // of loads that are not needed
    for (Expr& e : k.exprs)
      if (e.op == ExprOp::index) e.integer = 0;
    k.args = {{dtype, k.space[0], true, -1}};
    k.stores = {{{0, 0, {1}, {}, {}}, i, false}};
    drop_dead(k);
    std::vector<T> table(static_cast<size_t>(k.space[0]) + 16);
    void* args[] = {table.data()};
    if (!loops::Loops(k, 1).run(args)) fail(ErrorKind::internal, "a table of constants traps");
    table.resize(static_cast<size_t>(k.space[0]));
    return table;
  }

  // What a leaf's address has of a dimension; nullopt: an index term varies along others too, or leaves its extent.
  std::optional<std::vector<int64_t>> offsets_of(const Access& a, size_t dim) {
    std::vector<int64_t> all(static_cast<size_t>(k_.space[dim]));
    for (size_t o = 0; o < all.size(); ++o) all[o] = a.strides[dim] * static_cast<int64_t>(o);
    for (const IndexTerm& t : a.terms) {
      const int of = dim_of(t.expr);
      if (of < 0) return std::nullopt;
      if (static_cast<size_t>(of) != dim) continue;
      const std::vector<int64_t> index = values<int64_t>(t.expr, dim, DType::i64);
      for (size_t o = 0; o < all.size(); ++o) {
        if (index[o] < 0 || index[o] >= t.extent) return std::nullopt;
        all[o] += t.stride * index[o];
      }
    }
    return all;
  }

  bool fill_tables() {
    const Access& first = access(leaves_[0]);
    r_.arg = first.arg, r_.offset = first.offset;
    if (k_.args[static_cast<size_t>(r_.arg)].dtype != DType::f32) return false;
    int64_t behind = 1;
    for (size_t n = r_.axes.size(); n-- > 0; behind *= r_.axes[n].taps)
      if (!fill_axis(r_.axes[n], behind)) return false;
    if (behind != static_cast<int64_t>(leaves_.size())) return false;
    for (size_t d = 0; d < k_.space.size(); ++d) {
      if (std::any_of(r_.axes.begin(), r_.axes.end(), [&](const Axis& axis) { return axis.dim == d; })) continue;
      Axis axis{.dim = d};
      auto offsets = offsets_of(first, d);
      if (!offsets) return false;
      axis.offsets = std::move(*offsets);
      r_.fixed.push_back(std::move(axis));
    }
    return std::all_of(leaves_.begin(), leaves_.end(), [&](int32_t leaf) { return same_elsewhere(access(leaf)); }) &&
           lies_along();
  }
  // `behind`: how many leaves the axes behind it have together.
  bool fill_axis(Axis& axis, int64_t behind) {
    for (int64_t t = 0; t < axis.taps; ++t) {
      const auto offsets = offsets_of(access(leaves_[static_cast<size_t>(t * behind)]), axis.dim);
      if (!offsets) return false;
      axis.offsets.insert(axis.offsets.end(), offsets->begin(), offsets->end());
      const std::vector<float> weight = values<float>(axis.weights[static_cast<size_t>(t)], axis.dim, DType::f32);
      axis.weight.insert(axis.weight.end(), weight.begin(), weight.end());
    }
    for (size_t n = 0; n < leaves_.size(); ++n) {
      const int64_t tap = static_cast<int64_t>(n) / behind % axis.taps;
      const Access& first = access(leaves_[static_cast<size_t>(tap * behind)]);
      if (!same_along(access(leaves_[n]), first, axis.dim)) return false;
    }
    return true;
  }
  bool same_along(const Access& a, const Access& b, size_t dim) {
    const auto terms = [&](const Access& of) {
      std::vector<IndexTerm> own;
      for (const IndexTerm& t : of.terms)
        if (dim_of(t.expr) == static_cast<int>(dim)) own.push_back(t);
      return own;
    };
    return a.strides[dim] == b.strides[dim] && terms(a) == terms(b);
  }
  bool same_elsewhere(const Access& a) {
    const Access& first = access(leaves_[0]);
    if (a.arg != first.arg || a.offset != first.offset || !a.guards.empty()) return false;
    return std::all_of(r_.fixed.begin(), r_.fixed.end(),
                       [&](const Axis& axis) { return same_along(a, first, axis.dim); });
  }
  // Whether what a row is made of lies together.
  bool lies_along() const {
    const std::vector<int64_t>& offsets = r_.axes.back().offsets;
    const auto [low, high] = std::minmax_element(offsets.begin(), offsets.end());
    return *high - *low < 8 * static_cast<int64_t>(offsets.size()) && *low >= 0 && *high < (int64_t{1} << 30);
  }

  void make_rest(int32_t sum) {
    Kernel& rest = r_.rest;
    rest = k_;
    const auto arg = static_cast<int>(rest.args.size());
    rest.args.push_back({DType::f32, element_count(k_.space), false, -1});
    Expr load{.op = ExprOp::load, .type = Scalar::f32};
    load.integer = static_cast<int64_t>(rest.accesses.size());
    rest.accesses.push_back({arg, 0, row_major_strides(k_.space), {}, {}});
    rest.exprs[static_cast<size_t>(sum)] = load;
    drop_dead(rest);
  }

  const Kernel& k_;
  Dependence depends_;
  Resampling r_;
  std::vector<int32_t> leaves_;
  std::vector<bool> loads_;
};

class ResampleStep final : public BoundStep {
 public:
  ResampleStep(Resampling resampling, std::span<const Binding> args, const Context& context)
      : r_(std::move(resampling)),
        memory_(static_cast<const float*>(args[static_cast<size_t>(r_.arg)].data) + r_.offset),
        rest_(r_.rest, context.threads),
        space_(r_.rest.space),
        width_(space_.back()),
        ld_((width_ + resample_block - 1) / resample_block * resample_block) {
    for (const Binding& binding : args) args_.push_back(binding.data);
    args_.push_back(nullptr);
    make_tables(r_.axes.back());
    for (size_t n = 0; n + 1 < r_.axes.size(); ++n) slots_ *= r_.axes[n].taps;
    slots_ = 2 * slots_;
    lines_ = element_count(space_) / width_;

    find_order();
    find_target();
    const auto points = static_cast<double>(lines_ * width_);
    threads_ = points >= worth_sharing_ns ? std::max(context.threads, 1) : 1;
    index_.resize(static_cast<size_t>(threads_) * order_.size() + 1);  // of no dimensions but the row's, too
    thread_bytes_ = (slots_ + most_resampled) * ld_ * 4;
    scratch_bytes_ = static_cast<size_t>(threads_ * thread_bytes_ + (target_ ? 0 : lines_ * width_ * 4));
  }

  void run() override {
    on_threads(threads_, [this](int thread) { part(thread); });
    if (!target_ && !rest_.run(args_.data())) fail(ErrorKind::bad_input, "{}", rest_.trap_message());
  }
  void set_scratch(void* scratch) override {
    BoundStep::set_scratch(scratch);
    args_.back() = scratch_ + threads_ * thread_bytes_;
  }
  std::string describe() const override { return fmt::format("resampled along {} dimensions", r_.axes.size()); }

 private:
  // Of the last axis, by tap, `ld_` of each; behind the row of offsets that are read and count for nothing.
  void make_tables(const Axis& x) {
    along_.resize(static_cast<size_t>(x.taps * ld_)), weight_along_.resize(along_.size());
    for (int64_t t = 0; t < x.taps; ++t) {
      std::transform(x.offsets.begin() + t * width_, x.offsets.begin() + (t + 1) * width_, along_.begin() + t * ld_,
                     [](int64_t offset) { return static_cast<int32_t>(offset); });
      std::fill_n(along_.begin() + t * ld_ + width_, ld_ - width_, along_[0]);
      std::copy_n(x.weight.begin() + t * width_, width_, weight_along_.begin() + t * ld_);
    }
  }
  // Lines in the order of the space but for their own dimension: those along which rows are added are the innermost.
  void find_order() {
    for (const Axis& axis : r_.fixed) order_.push_back(&axis);
    for (size_t n = 0; n + 1 < r_.axes.size(); ++n) order_.push_back(&r_.axes[n]);
    steps_ = row_major_strides(space_);
  }
  // Where the kernel stores the sums as they are.
  void find_target() {
    const Kernel& k = r_.rest;
    if (k.stores.size() != 1) return;
    const Store& s = k.stores[0];
    const Expr& e = k.exprs[static_cast<size_t>(s.expr)];
    const KernelArg& to = k.args[static_cast<size_t>(s.access.arg)];
    if (e.op != ExprOp::load || k.accesses[static_cast<size_t>(e.integer)].arg + 1 != static_cast<int>(k.args.size()))
      return;
    if (s.accumulate || !s.access.guards.empty() || !s.access.terms.empty() || to.updates >= 0 ||
        to.dtype != DType::f32)
      return;
    for (size_t d = 0; d < space_.size(); ++d)
      if (s.access.strides[d] != steps_[d] && space_[d] > 1) return;
    target_ = static_cast<float*>(args_[static_cast<size_t>(s.access.arg)]) + s.access.offset;
  }

  // Rows that are resampled along themselves, by their address.
  struct Cache {
    float* rows = nullptr;
    std::array<int64_t, 2 * most_resampled * most_resampled> key, used;
    int64_t now = 0;
    size_t next = 0;
  };
  const float* row_at(Cache& cache, int64_t address) const {
    const auto slots = static_cast<size_t>(slots_);
    for (size_t n = 0; n < slots; ++n)
      if (cache.key[n] == address) {
        cache.used[n] = cache.now;
        return cache.rows + static_cast<int64_t>(n) * ld_;
      }
    while (cache.used[cache.next] == cache.now) cache.next = (cache.next + 1) % slots;
    const size_t n = cache.next;
    cache.next = (n + 1) % slots;
    cache.key[n] = address, cache.used[n] = cache.now;
    float* row = cache.rows + static_cast<int64_t>(n) * ld_;
    along(memory_ + address, row);
    return row;
  }

  void along(const float* from, float* to) const {
    resample_along(from, along_.data(), weight_along_.data(), ld_, r_.axes.back().taps, width_, to);
  }

  // This thread's lines, each after its neighbour.
  void part(int thread) {
    Cache cache;
    cache.rows = reinterpret_cast<float*>(scratch_ + thread * thread_bytes_);
    cache.key.fill(std::numeric_limits<int64_t>::min()), cache.used.fill(-1);
    float* sums = cache.rows + slots_ * ld_;
    float* results = target_ ? target_ : reinterpret_cast<float*>(scratch_ + threads_ * thread_bytes_);
    int64_t* at = &index_[static_cast<size_t>(thread) * order_.size()];
    int64_t rest = lines_ * thread / threads_;
    for (size_t n = order_.size(); n-- > 0; rest /= space_[order_[n]->dim]) at[n] = rest % space_[order_[n]->dim];
    const size_t fixed = r_.fixed.size();
    for (int64_t i = lines_ * thread / threads_; i < lines_ * (thread + 1) / threads_; ++i) {
      int64_t address = 0, out = 0;
      for (size_t n = 0; n < order_.size(); ++n) {
        out += at[n] * steps_[order_[n]->dim];
        if (n < fixed) address += order_[n]->offsets[static_cast<size_t>(at[n])];
      }
      cache.now = i;
      line(cache, address, &at[fixed], sums, results + out);
      for (size_t n = order_.size(); n-- > 0 && ++at[n] == space_[order_[n]->dim];) at[n] = 0;
    }
  }

  void line(Cache& cache, int64_t address, const int64_t* index, float* sums, float* to) const {
    const size_t rows = r_.axes.size() - 1;
    if (rows == 0) return along(memory_ + address, to);
    if (rows == 1) return add_rows(cache, address, 0, index, to);
    const Axis& outer = r_.axes[0];
    const float* parts[most_resampled];
    float weights[most_resampled];
    for (int64_t t = 0; t < outer.taps; ++t) {
      const int64_t n = t * space_[outer.dim] + index[0];
      add_rows(cache, address + outer.offsets[static_cast<size_t>(n)], 1, index, sums + t * ld_);
      parts[t] = sums + t * ld_, weights[t] = outer.weight[static_cast<size_t>(n)];
    }
    resample_rows(parts, weights, outer.taps, width_, to);
  }
  void add_rows(Cache& cache, int64_t address, size_t level, const int64_t* index, float* to) const {
    const Axis& axis = r_.axes[level];
    const float* rows[most_resampled];
    float weights[most_resampled];
    for (int64_t t = 0; t < axis.taps; ++t) {
      const int64_t n = t * space_[axis.dim] + index[level];
      rows[t] = row_at(cache, address + axis.offsets[static_cast<size_t>(n)]);
      weights[t] = axis.weight[static_cast<size_t>(n)];
    }
    resample_rows(rows, weights, axis.taps, width_, to);
  }

  Resampling r_;
  const float* memory_;
  loops::Loops rest_;
  std::vector<int64_t> space_;
  int64_t width_, ld_;
  std::vector<void*> args_;
  std::vector<int32_t> along_;  // the last axis's offsets
  std::vector<float> weight_along_;
  std::vector<const Axis*> order_;  // of all dimensions but the last
  std::vector<int64_t> steps_;      // of the results
  std::vector<int64_t> index_;      // of each thread's line, in that order
  float* target_ = nullptr;
  int64_t slots_ = 1, lines_ = 1, thread_bytes_ = 0;
  int threads_ = 1;
};

}  // namespace

std::unique_ptr<BoundStep> make_resample_step(const Kernel& kernel, std::span<const Binding> args,
                                              const Context& context) {
  if (kernel.row_dims > 0) return make_weighing_step(kernel, args, context);
  if (kernel.contraction || kernel.call || element_count(kernel.space) == 0) return nullptr;
  for (const Store& s : kernel.stores)
    if (s.accumulate) return nullptr;
  std::optional<Resampling> found = Matcher(kernel).run();
  if (!found) return nullptr;
  return std::make_unique<ResampleStep>(std::move(*found), args, context);
}

}  // namespace npusim::cpu::window
