// Blocked matrix products over packed operands.
#include "backends/cpu/product/blocks/matmul.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "backends/cpu/memory.h"
#include "backends/cpu/product/blocking.h"
#include "backends/cpu/product/epilogue.h"
#include "backends/cpu/product/finish.h"
#include "backends/cpu/product/packed_weight.h"
#include "backends/cpu/product/simd.h"
#include "base/threads.h"

namespace npusim::cpu::product::blocks {
namespace {

// Rows that meet columns packed in the same run, which are still near, leave more of L2 to these.
constexpr int64_t max_block_rows = 256, max_tiled_rows = 128;
constexpr int64_t max_block_floats = 2 << 20;  // of all slices of the rows, which L3 holds

constexpr int64_t max_packed_bytes = 64 << 20;  // of columns that are packed whole

int64_t align_up(int64_t bytes) { return (bytes + 63) / 64 * 64; }

class MatmulStep final : public BoundStep {
 public:
  MatmulStep(Problem& problem, Pairing pairing, TileSums* sums)
      : MatmulStep(problem, matrices_of(problem), pairing, sums) {}
  MatmulStep(const Problem& p, Matrices& m, Pairing pairing, TileSums* sums)
      : pairing_(pairing),
        sums_(sums),
        threads_(usable_threads(p.kernel, p.context)),
        a_(std::move(m.a)),
        b_(std::move(m.b)),
        rows_(a_.size(1)),
        columns_(b_.size(1)),
        depth_(a_.size(2)),
        blocking_(pairing == Pairing::product ? choose_blocking(a_, columns_) : blocking_of_pairs()),
        width_(blocking_.tile.columns),
        ld_(blocking_.group_columns + 16),
        panels_(ceil_div(columns_, width_)),
        grid_(choose_grid(a_.size(0), rows_, panels_, threads_)),
        slices_(std::max<int64_t>(1, ceil_div(depth_, blocking_.slice_depth))),
        epilogue_(m.kernel, p.args, m.axes.batch, m.axes.rows, m.axes.columns, ld_, threads_) {
    if (m.constant)
      weight_ = packed_weight(b_, width_, p.context);
    else if ((shared_ = shared_input(b_, width_, p.context)))
      weight_ = shared_->packed;
    if (!sums) finishes_ = match_finishes(m.kernel, p.args, m.axes, p.chain);
    const int64_t row_floats = blocking_.rows == Blocking::by_row ? slices_ * blocking_.row_stride : depth_;
    const int64_t fitting = std::max(blocking_.tile.rows, max_block_floats / row_floats);
    const bool is_tiled = pairing == Pairing::product && blocking_.rows == Blocking::by_tile && !weight_;
    const int64_t most_rows = is_tiled ? max_tiled_rows : max_block_rows;
    block_rows_ = std::min({most_rows, fitting, ceil_div(rows_, grid_.rows)});
    a_bytes_ = blocking_.rows == Blocking::in_place ? 0 : align_up(block_rows_ * row_floats * 4);
    const int64_t panel_bytes = align_up(panels_ * width_ * depth_ * 4);
    if (!weight_ && rows_ > block_rows_ && panel_bytes * grid_.batches <= max_packed_bytes) b_bytes_ = panel_bytes;
    const bool ready = b_bytes_ > 0 || (weight_ && weight_->dtype == DType::f32);
    pass_bytes_ = ready ? 0 : align_up(blocking_.slice_depth * blocking_.pass_columns * 4);
    thread_bytes_ = pass_bytes_ + align_up(block_rows_ * ld_ * 4) + (shares_rows() ? 0 : a_bytes_);
    scratch_bytes_ =
        static_cast<size_t>(thread_bytes_ * threads_ + (shares_rows() ? a_bytes_ : 0) + b_bytes_ * grid_.batches);
  }

  void run() override {
    const int64_t batches = a_.size(0);
    if (shared_) renew(*shared_, b_, width_, threads_);
    if (shares_rows()) on_threads(threads_, [this](int thread) { pack_share(thread); });
    if (b_bytes_ > 0 && grid_.batches == 1) {
      for (int64_t batch = 0; batch < batches; ++batch) {
        on_threads(threads_, [&](int thread) { pack_columns(batch, thread, threads_, b_packed(0)); });
        on_threads(threads_, [&](int thread) { part(thread, batch, batch + 1); });
      }
    } else {
      on_threads(threads_, [&](int thread) { part(thread, 0, batches); });
    }
    epilogue_.check();
  }

  std::string describe() const override {
    return fmt::format("{} {}x{}x{}x{} b {}{}{}", pairing_ == Pairing::product ? "matmul" : "distances", a_.size(0),
                       rows_, columns_, depth_, dtype_name(b_.dtype), weight_ ? " packed" : "",
                       finishes_.empty() ? " + epilogue" : "");
  }

 private:
  // All threads read the same rows: they pack them together.
  bool shares_rows() const {
    return blocking_.rows != Blocking::in_place && grid_.panels > 1 && a_.size(0) == 1 && rows_ <= block_rows_;
  }
  void pack_share(int thread) {
    auto* a = reinterpret_cast<float*>(scratch_ + thread_bytes_ * threads_);
    for (int64_t slice = 0; slice < slices_; ++slice) pack_slice(0, 0, rows_, slice, a, thread, threads_);
  }

  // Where the columns of a batch lie packed, of the threads that share one.
  float* b_packed(int64_t at_batch) const {
    const int64_t shared = shares_rows() ? a_bytes_ : 0;
    return reinterpret_cast<float*>(scratch_ + thread_bytes_ * threads_ + shared + b_bytes_ * at_batch);
  }
  void pack_columns(int64_t batch, int64_t share, int64_t shares, float* to) const {
    for (int64_t p = panels_ * share / shares; p < panels_ * (share + 1) / shares; ++p)
      pack_panel(b_, width_, batch, p * width_, 0, depth_, to + p * width_ * depth_);
  }

  // This thread's rows and panels of its batches in [first, last).
  void part(int thread, int64_t first, int64_t last) {
    const int64_t at_panels = thread % grid_.panels, at_rows = thread / grid_.panels % grid_.rows;
    const int64_t at_batch = thread / (grid_.panels * grid_.rows);
    if (at_batch >= grid_.batches) return;
    const int64_t batches = last - first;
    const int64_t p0 = panels_ * at_panels / grid_.panels, p1 = panels_ * (at_panels + 1) / grid_.panels;
    const int64_t r0 = rows_ * at_rows / grid_.rows, r1 = rows_ * (at_rows + 1) / grid_.rows;
    if (p0 == p1) return;
    for (int64_t batch = first + batches * at_batch / grid_.batches;
         batch < first + batches * (at_batch + 1) / grid_.batches; ++batch) {
      if (b_bytes_ > 0 && grid_.batches > 1) pack_columns(batch, 0, 1, b_packed(at_batch));
      for (int64_t blocks = ceil_div(r1 - r0, block_rows_), i = 0; i < blocks; ++i)
        block(batch, r0 + (r1 - r0) * i / blocks, r0 + (r1 - r0) * (i + 1) / blocks, p0, p1, thread);
    }
  }

  // Panels [p0, p1) of b at depths [k0, k1).
  struct Pass {
    int64_t p0, p1, k0, k1;
  };

  void block(int64_t batch, int64_t r0, int64_t r1, int64_t p0, int64_t p1, int thread) {
    std::byte* scratch = scratch_ + thread * thread_bytes_;
    auto* buffer = reinterpret_cast<float*>(scratch);
    auto* c = reinterpret_cast<float*>(scratch + pass_bytes_);
    const bool shared = shares_rows();
    auto* a =
        reinterpret_cast<float*>(shared ? scratch_ + thread_bytes_ * threads_ : scratch + thread_bytes_ - a_bytes_);
    const int64_t groups = ceil_div((p1 - p0) * width_, blocking_.group_columns), rows = r1 - r0;
    // Groups one after the other, in each the slices, in each the parts.
    struct Position {
      int64_t group = 0, slice = 0, part = 0;
    };
    auto first = [&](int64_t group) { return p0 + (p1 - p0) * group / groups; };
    auto parts = [&](int64_t group) {
      return ceil_div((first(group + 1) - first(group)) * width_, blocking_.pass_columns);
    };
    auto pass_at = [&](const Position& i) {
      const int64_t begin = first(i.group), panels = first(i.group + 1) - begin, count = parts(i.group);
      return Pass{begin + panels * i.part / count, begin + panels * (i.part + 1) / count, depth_ * i.slice / slices_,
                  depth_ * (i.slice + 1) / slices_};
    };
    auto after = [&](Position i) {
      if (++i.part < parts(i.group)) return i;
      if (++i.slice < slices_) return Position{i.group, i.slice, 0};
      return Position{i.group + 1, 0, 0};
    };
    for (Position i, next; i.group < groups; i = next) {
      next = after(i);
      const Pass g = pass_at(i);
      const bool packs = blocking_.rows != Blocking::in_place && !shared;
      if (packs && i.group == 0 && i.part == 0) pack_slice(batch, r0, r1, i.slice, a, 0, 1);
      BlockProduct product{.tile = blocking_.tile,
                           .pairing = pairing_,
                           .a = a + slice_offset(i.slice, rows),
                           .rows = rows,
                           .c = c + (g.p0 - first(i.group)) * width_,
                           .ldc = ld_,
                           .add = g.k0 > 0};
      if (blocking_.rows == Blocking::in_place) product.a = reinterpret_cast<const float*>(a_.at(batch, r0, g.k0));
      set_panels(product, batch, g, buffer, thread);
      if (next.group < groups) set_next(product, batch, pass_at(next), thread);
      const bool last = g.k1 == depth_;
      if (last && !finishes_.empty()) {
        product.finish = &finishes_[static_cast<size_t>(batch)];
        product.row = r0, product.column = g.p0 * width_;
      }
      if (blocking_.rows == Blocking::by_tile)
        multiply_blocks(product);
      else if (many_registers())
        multiply_wide(product);
      else
        multiply_rows(product, blocking_.row_stride);
      if (!last || !finishes_.empty() || g.p1 != first(i.group + 1)) continue;
      const int64_t c0 = first(i.group) * width_, c1 = std::min(columns_, g.p1 * width_);
      if (sums_) sums_->complete(c, ld_, batch, r0, r1, c0, c1);
      epilogue_.run(c, batch, r0, r1, c0, c1, thread);
    }
  }

  // Where a slice of `rows` packed rows begins.
  int64_t slice_offset(int64_t slice, int64_t rows) const {
    return rows * (blocking_.rows == Blocking::by_tile ? depth_ * slice / slices_ : slice * blocking_.row_stride);
  }

  // One of `shares` shares of a slice of rows [r0, r1).
  void pack_slice(int64_t batch, int64_t r0, int64_t r1, int64_t slice, float* a, int share, int shares) const {
    const int64_t rows = r1 - r0, k0 = depth_ * slice / slices_, k1 = depth_ * (slice + 1) / slices_;
    const int64_t tiles = ceil_div(rows, blocking_.tile.rows);
    const int64_t first = tiles * share / shares, last = tiles * (share + 1) / shares;
    float* dst = a + slice_offset(slice, rows);
    if (blocking_.rows == Blocking::by_row) {
      const int64_t begin = rows * first / tiles, end = rows * last / tiles, stride = blocking_.row_stride;
      return pack(a_, {batch, r0 + begin, r0 + end, k0, k1}, dst + begin * stride, stride);
    }
    for (int64_t i = first; i < last; ++i) {
      const int64_t begin = rows * i / tiles, end = rows * (i + 1) / tiles;
      pack_transposed(a_, {batch, r0 + begin, r0 + end, k0, k1}, dst + begin * (k1 - k0), end - begin);
    }
  }

  // Where the packed weight has depth k0 of panel p.
  const std::byte* packed(int64_t batch, int64_t p, int64_t k0) const {
    return weight_->data.get() + ((batch * panels_ + p) * depth_ + k0) * panel_row_bytes();
  }
  int64_t panel_row_bytes() const { return width_ * static_cast<int64_t>(dtype_size(weight_->dtype)); }

  // The panels as f32: as they are packed, or a copy in `buffer`.
  void set_panels(BlockProduct& product, int64_t batch, const Pass& g, float* buffer, int thread) const {
    product.columns = std::min(columns_, g.p1 * width_) - g.p0 * width_;
    product.depth = g.k1 - g.k0;
    if (weight_ && weight_->dtype == DType::f32) {
      product.panels = reinterpret_cast<const float*>(packed(batch, g.p0, g.k0));
      product.panel_stride = depth_ * width_;
      return;
    }
    if (b_bytes_ > 0) {
      product.panels = packed_now(g, thread);
      product.panel_stride = depth_ * width_;
      return;
    }
    product.panels = buffer;
    product.panel_stride = product.depth * width_;
    for (int64_t p = g.p0; p < g.p1; ++p, buffer += product.panel_stride)
      if (weight_)
        widen(weight_->dtype, packed(batch, p, g.k0), product.panel_stride, buffer);
      else
        pack_panel(b_, width_, batch, p * width_, g.k0, g.k1, buffer);
  }

  // What this run packs as the pass comes is in the cache anyhow.
  void set_next(BlockProduct& product, int64_t batch, const Pass& g, int thread) const {
    if (!weight_ && b_bytes_ == 0) return;
    const int64_t row_bytes = weight_ ? panel_row_bytes() : width_ * 4;
    product.next = weight_ ? packed(batch, g.p0, g.k0) : reinterpret_cast<const std::byte*>(packed_now(g, thread));
    product.next_stride = depth_ * row_bytes;
    product.next_bytes = (g.k1 - g.k0) * row_bytes;
  }

  // Where the columns that this run packs whole have a pass.
  const float* packed_now(const Pass& g, int thread) const {
    return b_packed(thread / (grid_.panels * grid_.rows)) + (g.p0 * depth_ + g.k0) * width_;
  }

  Pairing pairing_;
  TileSums* sums_;
  int threads_;
  Operand a_, b_;  // axes: batch, rows, depth; batch, columns, depth
  int64_t rows_, columns_, depth_;
  Blocking blocking_;
  int64_t width_, ld_, panels_;  // columns of a panel, distance of rows of sums, panels of b
  Grid grid_;
  int64_t slices_;  // of the depth
  TileEpilogue epilogue_;
  std::vector<Finish> finishes_;  // of the batches, instead of the epilogue
  std::shared_ptr<const PackedWeight> weight_;
  std::shared_ptr<SharedInput> shared_;  // whose weight that is
  int64_t block_rows_ = 0, a_bytes_ = 0, pass_bytes_ = 0, thread_bytes_ = 0;
  int64_t b_bytes_ = 0;  // of all columns of a batch, packed once where several blocks of rows meet them
};

}  // namespace

Answer make_matmul_step(Problem& problem) {
  return accept(std::make_unique<MatmulStep>(problem, Pairing::product, nullptr));
}
std::unique_ptr<BoundStep> make_paired_step(Problem& problem, Pairing pairing, TileSums* sums) {
  return std::make_unique<MatmulStep>(problem, pairing, sums);
}

}  // namespace npusim::cpu::product::blocks
