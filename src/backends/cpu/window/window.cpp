// A line of windows at a time: the rows that they see are folded into one, then the windows along it. Each element of a
// row is read once for all windows of the line. What a kernel makes of its windows loops do behind all of them.
#include "backends/cpu/window/window.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "backends/cpu/loops/loops.h"
#include "backends/cpu/window/match.h"
#include "base/error.h"
#include "base/shape.h"
#include "base/threads.h"

namespace npusim::cpu::window {
namespace {

int64_t aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

class WindowStep final : public BoundStep {
 public:
  WindowStep(SlidingWindow window, std::span<const Binding> args, const Context& context)
      : w_(std::move(window)),
        memory_(static_cast<const std::byte*>(args[static_cast<size_t>(w_.arg)].data)),
        dtype_(w_.rest.args[static_cast<size_t>(w_.arg)].dtype),
        top_size_(static_cast<int64_t>(dtype_size(w_.top))),
        rest_(w_.rest, context.threads) {
    for (const Binding& binding : args) args_.push_back(binding.data);
    args_.resize(args.size() + 2);
    w_.along ? make_line() : make_plain_line();
    line_.from = from_.data(), line_.count = count_.data(), line_.index = line_index_.data();
    points_ = element_count(w_.space);
    lines_ = points_ / w_.space[w_.line];
    for (size_t t = 0; t < row_dims(); ++t) taps_ *= w_.dims[t].size;
    finds_ = w_.fold == WindowFold::argmax;
    find_targets();
    const double elements = static_cast<double>(lines_ * taps_ * width_ + points_ * line_.taps);
    const double ns = elements * 0.3 + static_cast<double>(lines_) * 20;
    threads_ = ns >= worth_sharing_ns ? std::max(context.threads, 1) : 1;
    before_bytes_ = aligned(line_.before * top_size_);
    sums_bytes_ = before_bytes_ + aligned((width_ + line_.after + window_slack) * top_size_);
    row_bytes_ = aligned(width_ * top_size_), line_bytes_ = aligned(line_.windows * 8),
    taps_bytes_ = aligned(taps_ * 8);
    index_bytes_ = finds_ && !target_index_ ? aligned(points_ * 8) : 0;
    top_bytes_ = target_ ? 0 : aligned(points_ * top_size_);
    thread_bytes_ = sums_bytes_ + 2 * row_bytes_ + 3 * line_bytes_ + 2 * taps_bytes_;
    scratch_bytes_ = static_cast<size_t>(top_bytes_ + index_bytes_ + threads_ * thread_bytes_);
  }

  void run() override {
    on_threads(threads_, [this](int thread) {
      for (int64_t i = lines_ * thread / threads_; i < lines_ * (thread + 1) / threads_; ++i)
        w_.top == DType::f64   ? fold_line<double>(i, thread)
        : w_.top == DType::i64 ? fold_line<int64_t>(i, thread)
                               : fold_line<float>(i, thread);
    });
    if (!target_ && !rest_.run(args_.data())) fail(ErrorKind::bad_input, "{}", rest_.trap_message());
  }
  void set_scratch(void* scratch) override {
    BoundStep::set_scratch(scratch);
    args_[args_.size() - 2] = scratch_;
    args_.back() = scratch_ + top_bytes_;
  }
  std::string describe() const override {
    return fmt::format("windows of {}x{} in lines of {}", taps_, line_.taps, line_.windows);
  }

 private:
  size_t row_dims() const { return w_.dims.size() - (w_.along ? 1 : 0); }

  // Windows that slide along memory: the positions that count, from the first one that any sees.
  void make_line() {
    const WindowDim& x = w_.dims.back();
    const int64_t windows = w_.space[w_.line];
    const auto counts = [](int64_t at) { return at != WindowDim::outside; };
    first_ = std::numeric_limits<int64_t>::max();
    int64_t last = 0;
    for (int64_t at : x.address)
      if (counts(at)) first_ = std::min(first_, at), last = std::max(last, at);
    width_ = last - first_ + 1;
    line_ = {.windows = windows, .taps = x.size};
    for (int64_t o = 0; o < windows; ++o) {
      const int64_t* at = x.addresses(o);
      const int64_t tap = std::find_if(at, at + x.size, counts) - at;
      from_.push_back(static_cast<int32_t>(tap < x.size ? at[tap] - first_ : 0));
      count_.push_back(static_cast<int32_t>(std::count_if(at, at + x.size, counts)));
      if (count_.back() > 1) line_.step = at[tap + 1] - at[tap];
      int64_t argmax = x.position.empty() || tap == x.size ? 0 : x.positions(o)[tap];
      if (!w_.index_of.empty() && !w_.index_of[w_.line].empty()) argmax += w_.index_of[w_.line][static_cast<size_t>(o)];
      line_index_.push_back(argmax);
    }
    if (!x.position.empty() && x.size > 1) line_.tap_index = static_cast<int32_t>(x.position[1] - x.position[0]);
    find_inner();
  }
  // The longest run of windows that see all their positions and are evenly apart, from the first such one.
  void find_inner() {
    const auto full = [&](int64_t o) { return count_[static_cast<size_t>(o)] == line_.taps; };
    const auto apart = [&](int64_t o) {
      return static_cast<int64_t>(from_[static_cast<size_t>(o)]) - from_[static_cast<size_t>(o - 1)];
    };
    while (line_.inner < line_.windows && !full(line_.inner)) ++line_.inner;
    line_.inner_end = std::min(line_.inner + 1, line_.windows);
    if (line_.inner_end < line_.windows) line_.stride = apart(line_.inner_end);
    while (line_.inner_end < line_.windows && full(line_.inner_end) && apart(line_.inner_end) == line_.stride)
      ++line_.inner_end;
    if (line_.inner < line_.inner_end) line_.inner_from = from_[static_cast<size_t>(line_.inner)];
    if (w_.fold != WindowFold::argmax) widen_inner();
    if (line_.inner_end - line_.inner < line_.taps) line_.inner_end = line_.inner;  // windows one by one are faster
  }
  // The position behind the last one that window o sees.
  int64_t end_of(int64_t o) const {
    return from_[static_cast<size_t>(o)] + (count_[static_cast<size_t>(o)] - 1) * line_.step + 1;
  }
  // By neighbours of them that would see as many, were there positions in front of the row and behind it.
  void widen_inner() {
    const int64_t first = line_.inner, from = line_.inner_from, run = (line_.taps - 1) * line_.step + 1;
    if (first == line_.inner_end) return;
    if (first > 0 && line_.inner_end - first == 1) line_.stride = end_of(first) - end_of(first - 1);
    if (line_.stride <= 0) return;
    const auto begin_of = [&](int64_t o) { return from + (o - first) * line_.stride; };
    const auto sees_what_is_there = [&](int64_t o) {
      const int64_t begin = begin_of(o);
      int64_t tap = 0, end = line_.taps;
      while (tap < end && begin + tap * line_.step < 0) ++tap;
      while (end > tap && begin + (end - 1) * line_.step >= width_) --end;
      return end > tap && begin + tap * line_.step == from_[static_cast<size_t>(o)] &&
             end - tap == count_[static_cast<size_t>(o)];
    };
    while (line_.inner > 0 && sees_what_is_there(line_.inner - 1)) --line_.inner;
    while (line_.inner_end < line_.windows && sees_what_is_there(line_.inner_end)) ++line_.inner_end;
    line_.inner_from = begin_of(line_.inner);
    line_.before = std::max<int64_t>(-line_.inner_from, 0);
    line_.after = std::max<int64_t>(begin_of(line_.inner_end - 1) + run - width_, 0);
  }
  // Windows side by side, of one position each.
  void make_plain_line() {
    width_ = w_.space[w_.line];
    w_.strides[w_.line] = 0;
    line_ = {.windows = width_, .inner_end = width_};
    for (int64_t o = 0; o < width_; ++o) {
      from_.push_back(static_cast<int32_t>(o)), count_.push_back(1);
      const bool moves = !w_.index_of.empty() && !w_.index_of[w_.line].empty();
      line_index_.push_back(moves ? w_.index_of[w_.line][static_cast<size_t>(o)] : 0);
    }
  }

  // Where the kernel stores the folds as they are: nothing is left to loops.
  void find_targets() {
    const Kernel& k = w_.rest;
    const std::vector<int64_t> strides = row_major_strides(w_.space);
    std::byte *top = nullptr, *argmax = nullptr;
    for (const Store& s : k.stores) {
      const Expr& e = k.exprs[static_cast<size_t>(s.expr)];
      const KernelArg& arg = k.args[static_cast<size_t>(s.access.arg)];
      if (e.op != ExprOp::load || !s.access.guards.empty() || !s.access.terms.empty() || arg.updates >= 0) return;
      for (size_t d = 0; d < strides.size(); ++d)
        if (w_.space[d] > 1 && s.access.strides[d] != strides[d]) return;
      const auto from = static_cast<size_t>(k.accesses[static_cast<size_t>(e.integer)].arg);
      const bool is_top = from == k.args.size() - 2, is_argmax = from == k.args.size() - 1;
      if (!(is_top && arg.dtype == w_.top && !top) && !(is_argmax && arg.dtype == DType::i64 && !argmax)) return;
      (is_top ? top : argmax) = static_cast<std::byte*>(args_[static_cast<size_t>(s.access.arg)]) +
                                s.access.offset * static_cast<int64_t>(dtype_size(arg.dtype));
    }
    if (!top || (finds_ && !argmax)) return;
    target_ = top, target_index_ = reinterpret_cast<int64_t*>(argmax);
  }

  // What a line is of: the rows' dimensions with the index that each has, where it begins and where it ends.
  struct Line {
    int64_t address = 0, base = 0, out = 0, out_step = 1;
    int64_t index[4] = {};
  };
  Line line_at(int64_t i) const {
    Line p{.address = w_.offset + first_, .base = w_.index_offset};
    for (size_t d = w_.space.size(), step = 1; d-- > 0; step *= static_cast<size_t>(w_.space[d])) {
      if (d == w_.line) {
        p.out_step = static_cast<int64_t>(step);
        continue;
      }
      const int64_t index = i % w_.space[d];
      i /= w_.space[d];
      p.address += index * w_.strides[d], p.out += index * static_cast<int64_t>(step);
      if (finds_ && !w_.index_of[d].empty()) p.base += w_.index_of[d][static_cast<size_t>(index)];
      for (size_t t = 0; t < row_dims(); ++t)
        if (w_.dims[t].over == static_cast<int>(d)) p.index[t] = index;
    }
    return p;
  }

  struct Rows {
    const std::byte** row;
    int32_t* index;
    int64_t count = 0;
  };
  void gather(const Line& p, size_t t, int64_t address, int64_t argmax, Rows& rows) const {
    if (t == row_dims()) {
      rows.row[rows.count] = memory_ + address * static_cast<int64_t>(dtype_size(dtype_));
      rows.index[rows.count++] = static_cast<int32_t>(argmax);
      return;
    }
    const int64_t *at = w_.dims[t].addresses(p.index[t]),
                  *positions = finds_ ? w_.dims[t].positions(p.index[t]) : nullptr;
    for (int64_t j = 0; j < w_.dims[t].size; ++j)
      if (at[j] != WindowDim::outside) gather(p, t + 1, address + at[j], argmax + (positions ? positions[j] : 0), rows);
  }

  // Line i of the lines, in the order of the space without the line's dimension.
  template <typename T>
  void fold_line(int64_t i, int thread) {
    std::byte* own = scratch_ + top_bytes_ + index_bytes_ + thread * thread_bytes_;
    const auto take = [&](int64_t bytes) { return std::exchange(own, own + bytes); };
    WindowRows<T> rows{.dtype = dtype_, .width = width_, .none = w_.nowhere};
    rows.sums = reinterpret_cast<T*>(take(sums_bytes_) + before_bytes_),
    rows.wide = reinterpret_cast<T*>(take(row_bytes_));
    rows.indices = reinterpret_cast<int32_t*>(take(row_bytes_));
    rows.found = reinterpret_cast<int32_t*>(take(line_bytes_));
    auto* line_top = reinterpret_cast<T*>(take(line_bytes_));
    auto* line_argmax = reinterpret_cast<int64_t*>(take(line_bytes_));
    Rows found{reinterpret_cast<const std::byte**>(take(taps_bytes_)), reinterpret_cast<int32_t*>(take(taps_bytes_))};
    const Line p = line_at(i);
    gather(p, 0, p.address, 0, found);
    rows.rows = found.count, rows.row = found.row, rows.row_index = found.index;
    rows.base = p.base;
    T* top = reinterpret_cast<T*>(target_ ? target_ : scratch_) + p.out;
    int64_t* argmax = nullptr;
    if (finds_) argmax = (target_ ? target_index_ : reinterpret_cast<int64_t*>(scratch_ + top_bytes_)) + p.out;
    const bool direct = p.out_step == 1;
    rows.out = direct ? top : line_top, rows.out_index = direct ? argmax : line_argmax;
    fold_windows(w_.fold, rows, line_);
    for (int64_t o = 0; o < line_.windows && !direct; ++o) {
      top[o * p.out_step] = line_top[o];
      if (finds_) argmax[o * p.out_step] = line_argmax[o];
    }
  }

  SlidingWindow w_;
  const std::byte* memory_;
  DType dtype_;
  int64_t top_size_;
  loops::Loops rest_;
  std::vector<void*> args_;
  std::byte* target_ = nullptr;
  int64_t* target_index_ = nullptr;
  WindowLine line_;
  std::vector<int32_t> from_, count_;
  std::vector<int64_t> line_index_;
  bool finds_ = false;
  int64_t first_ = 0, width_ = 0, points_ = 0, lines_ = 0, taps_ = 1;  // taps: rows of a line
  int64_t before_bytes_ = 0, sums_bytes_ = 0, row_bytes_ = 0, line_bytes_ = 0, taps_bytes_ = 0, top_bytes_ = 0,
          index_bytes_ = 0, thread_bytes_ = 0;
  int threads_ = 1;
};

}  // namespace

std::unique_ptr<BoundStep> make_window_step(const Kernel& kernel, std::span<const Binding> args,
                                            const Context& context) {
  std::optional<SlidingWindow> window = match_window(kernel);
  if (!window || window->dims.size() > 4) return nullptr;
  return std::make_unique<WindowStep>(std::move(*window), args, context);
}

}  // namespace npusim::cpu::window
