// A row's sum for each point of one dimension: over the row, elements at the indices of one table times the weights of
// another. Lanes run along another dimension where memory does, else along the table's. What a kernel makes of its sums
// loops do behind all of them.
#include "backends/cpu/window/weigh.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>
#include <vector>

#include "backends/cpu/loops/loops.h"
#include "backends/cpu/window/weigh_rows.h"
#include "base/error.h"
#include "base/shape.h"
#include "base/threads.h"
#include "kernel/facts/compact.h"
#include "kernel/facts/depend.h"

namespace npusim::cpu::window {
namespace {

struct Weighing {
  Access source;  // its term's index is a table's
  DType dtype = DType::u8;
  Scaling scaling;
  size_t dim = 0;               // the tables' first; the row is their second
  int64_t count = 0, taps = 0;  // their extents
  Kernel tables;  // with the indices, i64, and the weights, i32, as its arguments behind all others, by tap, then index
  Kernel rest;    // with the sums, i32, as its argument behind those
  size_t lanes = 0;            // the dimension that lanes run along
  std::vector<int64_t> steps;  // of the sums, where lanes are the nearest
};

class Matcher {
 public:
  explicit Matcher(const Kernel& k) : k_(k), depends_(dependence_of(k)), row_(k.space.size() - 1) {}

  std::optional<Weighing> run() {
    for (size_t i = 0; i < k_.exprs.size(); ++i)
      if (k_.exprs[i].op == ExprOp::reduce) sums_.push_back(static_cast<int32_t>(i));
    if (sums_.size() != 1 || !wraps() || !find_product() || !find_dim()) return std::nullopt;
    find_lanes();
    make_tables();
    return make_rest() ? std::optional(std::move(w_)) : std::nullopt;
  }

 private:
  const Expr& expr(int32_t i) const { return k_.exprs[static_cast<size_t>(i)]; }
  bool rounds(const Expr& e) const { return e.op == ExprOp::round_to && e.dtype == DType::i32; }
  int32_t unrounded(int32_t i) const {
    while (rounds(expr(i))) i = expr(i).in[0];
    return i;
  }
  std::optional<int32_t> constant(int32_t i) const {
    const int64_t value = expr(i).integer;
    if (expr(i).op != ExprOp::constant || value != static_cast<int32_t>(value)) return std::nullopt;
    return static_cast<int32_t>(value);
  }

  // Whether nothing sees more of the sum than 32 bits.
  bool wraps() const {
    const Expr& sum = expr(sums_[0]);
    if (sum.reduction != Reduction::sum || sum.type != Scalar::i64) return false;
    for (const Expr& e : k_.exprs)
      for (int n = 0; n < expr_arity(e.op); ++n)
        if (e.in[static_cast<size_t>(n)] == sums_[0] && !rounds(e)) return false;
    for (const Access& a : k_.accesses)
      if (std::any_of(a.terms.begin(), a.terms.end(), [&](const IndexTerm& t) { return t.expr == sums_[0]; }))
        return false;
    return std::all_of(k_.stores.begin(), k_.stores.end(), [&](const Store& s) {
      return s.expr != sums_[0] || k_.args[static_cast<size_t>(s.access.arg)].dtype == DType::i32;
    });
  }

  bool find_product() {
    const Expr& product = expr(unrounded(expr(sums_[0]).in[0]));
    if (product.op != ExprOp::mul) return false;
    for (size_t n = 0; n < 2; ++n)
      if (find_source(product.in[n])) {
        weight_ = product.in[1 - n];
        return true;
      }
    return false;
  }
  // A load by one term, scaled; the steps of that from the last to the first.
  bool find_source(int32_t i) {
    Scaling s;
    int stage = 4;       // what may still come: a sum, a shift, a bound below, one above
    bool exact = false;  // what is asked for may have no more than 32 bits
    for (;; i = expr(i).in[0]) {
      const Expr& e = expr(i);
      if (rounds(e)) {
        exact = false;
        continue;
      }
      if (e.op == ExprOp::load) break;
      if (expr_arity(e.op) != 2) return false;
      const auto by = constant(e.in[1]);
      if (!by) return false;
      if (e.op == ExprOp::min && stage > 3) {
        s.high = *by, stage = 3, exact = true;
      } else if (e.op == ExprOp::max && stage > 2) {
        s.low = *by, stage = 2, exact = true;
      } else if (e.op == ExprOp::shr && stage > 1 && *by >= 0 && *by < 32) {
        s.shift = *by, stage = 1, exact = true;
      } else if (e.op == ExprOp::add && stage > 0 && !exact) {
        s.add = *by, stage = 0;
      } else {
        return false;
      }
    }
    const Access& a = k_.accesses[static_cast<size_t>(expr(i).integer)];
    w_.dtype = k_.args[static_cast<size_t>(a.arg)].dtype;
    if (a.terms.size() != 1 || !a.guards.empty() || (w_.dtype != DType::u8 && w_.dtype != DType::i32)) return false;
    w_.source = a, w_.scaling = s;
    return true;
  }

  // Indices and weights are those of one dimension and the row, along which nothing else of the address goes.
  bool find_dim() {
    const IndexTerm& term = w_.source.terms[0];
    const DimSet dims = depends_.dims[static_cast<size_t>(term.expr)] | depends_.dims[static_cast<size_t>(weight_)];
    const DimSet rest = dims & ~(DimSet{1} << row_);
    if (std::popcount(rest) != 1 || w_.source.strides[row_] != 0) return false;
    w_.dim = static_cast<size_t>(std::countr_zero(rest));
    w_.count = k_.space[w_.dim], w_.taps = k_.space[row_];
    constexpr int64_t most = std::numeric_limits<int32_t>::max();
    return w_.source.strides[w_.dim] == 0 && term.stride > 0 && term.extent > 0 && term.stride <= most / term.extent &&
           w_.count * w_.taps < most;
  }

  // Lanes run along memory where it is long enough.
  void find_lanes() {
    constexpr int64_t enough = 16;
    w_.lanes = w_.dim;
    for (size_t d = 0; d < row_; ++d)
      if (w_.source.strides[d] == 1 && k_.space[d] >= enough) w_.lanes = d;
    w_.steps.assign(row_, 1);
    int64_t step = k_.space[w_.lanes];
    for (size_t d = row_; d-- > 0;)
      if (d != w_.lanes) w_.steps[d] = step, step *= k_.space[d];
  }

  void make_tables() {
    Kernel& t = w_.tables;
    t = k_;
    t.space = {w_.count, w_.taps}, t.row_dims = 0;
    for (Expr& e : t.exprs)
      if (e.op == ExprOp::index) e.integer = e.integer == static_cast<int64_t>(row_);
    for (Access& a : t.accesses) {
      a.strides = {a.strides[w_.dim], a.strides[row_]};
      for (Guard& g : a.guards) g.coeffs = {g.coeffs[w_.dim], g.coeffs[row_]};
    }
    const auto arg = static_cast<int>(t.args.size());
    const int64_t elements = w_.count * w_.taps;
    t.args.push_back({DType::i64, elements, true, -1}), t.args.push_back({DType::i32, elements, true, -1});
    t.stores.clear();
    t.stores.push_back({{arg, 0, {1, w_.count}, {}, {}}, w_.source.terms[0].expr, false});
    t.stores.push_back({{arg + 1, 0, {1, w_.count}, {}, {}}, weight_, false});
    drop_dead(t);
  }

  bool make_rest() {
    Kernel& rest = w_.rest;
    rest = k_;
    const auto arg = static_cast<int>(rest.args.size()) + 2;
    std::vector<int64_t> space = k_.space;
    space.pop_back();
    rest.args.resize(rest.args.size() + 2, {DType::i32, 1, false, -1});
    rest.args.push_back({DType::i32, element_count(space), false, -1});
    Expr load{.op = ExprOp::load, .type = Scalar::i64};
    load.integer = static_cast<int64_t>(rest.accesses.size());
    std::vector<int64_t> steps = w_.steps;
    steps.push_back(0);
    rest.accesses.push_back({arg, 0, std::move(steps), {}, {}});
    rest.exprs[static_cast<size_t>(sums_[0])] = load;
    drop_dead(rest);
    const Dependence depends = dependence_of(rest);
    const auto varies = [&](DimSet set) { return (set & (DimSet{1} << row_)) != 0; };
    if (std::any_of(depends.dims.begin(), depends.dims.end(), varies)) return false;
    for (const Store& s : rest.stores)
      if (s.accumulate || varies(dims_of(s.access, depends))) return false;
    cut_row(rest);
    return std::none_of(rest.accesses.begin(), rest.accesses.end(),
                        [&](const Access& a) { return a.arg == w_.source.arg; });
  }

  const Kernel& k_;
  Dependence depends_;
  size_t row_;
  std::vector<int32_t> sums_;
  int32_t weight_ = -1;
  Weighing w_;
};

int64_t aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

class WeighingStep final : public BoundStep {
 public:
  WeighingStep(Weighing weighing, const Kernel& kernel, std::span<const Binding> args, const Context& context)
      : w_(std::move(weighing)), whole_(kernel, 1), tables_(w_.tables, 1), rest_(w_.rest, context.threads) {
    for (const Binding& binding : args) args_.push_back(binding.data);
    kernel_args_ = args_;
    const std::vector<int64_t>& space = w_.rest.space;
    for (size_t d = 0; d < space.size(); ++d)
      if (d != w_.lanes) order_.push_back(d), lines_ *= space[d];
    find_target();
    const int64_t elements = w_.count * w_.taps, points = element_count(space);
    threads_ = static_cast<double>(points * w_.taps) >= worth_sharing_ns ? std::max(context.threads, 1) : 1;
    index_bytes_ = aligned(elements * 8), table_bytes_ = aligned(elements * 4);
    row_ = w_.lanes == w_.dim ? (w_.source.terms[0].extent - 1) * w_.source.terms[0].stride + 1 : 0;
    row_bytes_ = aligned(row_ * 4);
    sums_bytes_ = target_ ? 0 : aligned(points * 4);
    scratch_bytes_ = static_cast<size_t>(index_bytes_ + 2 * table_bytes_ + sums_bytes_ + threads_ * row_bytes_);
    args_.resize(args_.size() + 3);
  }

  void run() override {
    if (!tables_.run(args_.data()) || !find_offsets()) {
      if (!whole_.run(kernel_args_.data())) fail(ErrorKind::bad_input, "{}", whole_.trap_message());
      return;
    }
    on_threads(threads_, [this](int thread) { w_.dtype == DType::u8 ? part<uint8_t>(thread) : part<int32_t>(thread); });
    if (!target_ && !rest_.run(args_.data())) fail(ErrorKind::bad_input, "{}", rest_.trap_message());
  }
  void set_scratch(void* scratch) override {
    BoundStep::set_scratch(scratch);
    const size_t first = args_.size() - 3;
    args_[first] = scratch_;
    args_[first + 1] = scratch_ + index_bytes_;
    offsets_ = reinterpret_cast<int32_t*>(scratch_ + index_bytes_ + table_bytes_);
    args_[first + 2] = scratch_ + index_bytes_ + 2 * table_bytes_;
    rows_ = scratch_ + index_bytes_ + 2 * table_bytes_ + sums_bytes_;
  }
  std::string describe() const override {
    return fmt::format("sums of {} weighed {} elements", w_.taps, w_.lanes == w_.dim ? "along" : "across");
  }

 private:
  // Where the kernel stores the sums as they are, and lanes run along memory.
  void find_target() {
    const Kernel& k = w_.rest;
    if (k.stores.size() != 1) return;
    const Access& to = k.stores[0].access;
    const Expr& e = k.exprs[static_cast<size_t>(k.stores[0].expr)];
    if (e.op != ExprOp::load || k.accesses[static_cast<size_t>(e.integer)].arg + 1 != static_cast<int>(k.args.size()) ||
        k.args[static_cast<size_t>(to.arg)].dtype != DType::i32 || !to.guards.empty() || !to.terms.empty() ||
        to.strides[w_.lanes] != 1)
      return;
    w_.steps = to.strides;
    target_ = static_cast<int32_t*>(args_[static_cast<size_t>(to.arg)]) + to.offset;
  }

  // Elements from the line's first; false where an index is outside.
  bool find_offsets() {
    const auto* indices = static_cast<const int64_t*>(args_[args_.size() - 3]);
    const IndexTerm& term = w_.source.terms[0];
    bool inside = true;
    for (int64_t n = 0; n < w_.count * w_.taps; ++n) {
      inside = inside && indices[n] >= 0 && indices[n] < term.extent;
      offsets_[n] = static_cast<int32_t>(indices[n] * term.stride);
    }
    return inside;
  }

  template <class T>
  void part(int thread) {
    const std::vector<int64_t>& space = w_.rest.space;
    const auto* memory = static_cast<const T*>(args_[static_cast<size_t>(w_.source.arg)]) + w_.source.offset;
    const auto* weights = static_cast<const int32_t*>(args_[args_.size() - 2]);
    auto* sums = target_ ? target_ : static_cast<int32_t*>(args_.back());
    auto* row = reinterpret_cast<int32_t*>(rows_ + thread * row_bytes_);
    for (int64_t i = lines_ * thread / threads_; i < lines_ * (thread + 1) / threads_; ++i) {
      const T* from = memory;
      int32_t* to = sums;
      int64_t left = i, index = 0;
      for (size_t n = order_.size(); n-- > 0;) {
        const size_t d = order_[n];
        const int64_t at = left % space[d];
        left /= space[d];
        from += at * w_.source.strides[d], to += at * w_.steps[d];
        if (d == w_.dim) index = at;
      }
      if (w_.lanes == w_.dim) {
        scale_row(from, w_.scaling, row_, row);
        weigh_along(row, offsets_, weights, w_.taps, w_.count, to);
      } else {
        weigh_rows(from, offsets_ + index, weights + index, w_.taps, w_.count, w_.scaling, space[w_.lanes], to);
      }
    }
  }

  Weighing w_;
  loops::Loops whole_, tables_, rest_;
  std::vector<void*> args_, kernel_args_;
  std::vector<size_t> order_;  // of all dimensions but that of the lanes
  int32_t* target_ = nullptr;
  int32_t* offsets_ = nullptr;
  std::byte* rows_ = nullptr;
  int64_t lines_ = 1, row_ = 0, index_bytes_ = 0, table_bytes_ = 0, sums_bytes_ = 0, row_bytes_ = 0;
  int threads_ = 1;
};

}  // namespace

std::unique_ptr<BoundStep> make_weighing_step(const Kernel& kernel, std::span<const Binding> args,
                                              const Context& context) {
  if (kernel.row_dims != 1 || kernel.space.size() < 2 || kernel.contraction || kernel.call ||
      element_count(kernel.space) == 0)
    return nullptr;
  if (std::any_of(kernel.args.begin(), kernel.args.end(), [](const KernelArg& a) { return a.updates >= 0; }))
    return nullptr;
  std::optional<Weighing> found = Matcher(kernel).run();
  if (!found) return nullptr;
  return std::make_unique<WeighingStep>(std::move(*found), kernel, args, context);
}

}  // namespace npusim::cpu::window
