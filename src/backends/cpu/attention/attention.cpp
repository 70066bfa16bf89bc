// Flash attention over packed or direct tiles of keys and values.
#include "backends/cpu/attention/attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "backends/cpu/attention/score.h"
#include "backends/cpu/attention/simd.h"
#include "backends/cpu/loops/loops.h"
#include "backends/cpu/product/blocking.h"
#include "backends/cpu/product/epilogue.h"
#include "backends/cpu/product/gemv/few_rows.h"
#include "backends/cpu/product/simd.h"
#include "base/error.h"
#include "base/threads.h"
#include "kernel/facts/attention_axes.h"
#include "kernel/facts/depend.h"
#include "kernel/facts/key_count.h"
#include "kernel/facts/score_form.h"
#include "kernel/facts/score_kernel.h"

namespace npusim::cpu::attention {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr int64_t tile_keys = product::narrow_depth;
constexpr int64_t max_block_rows = 256, shared_block_rows = 128;
constexpr int64_t direct_rows = 8;  // up to here keys and values are read where they lie, not packed
// Long rows of keys are summed in parts, as many for any number of threads, which add up to fewer roundings.
constexpr int64_t least_part_tiles = 4, most_parts = 32;
// A mask value from which on a key counts only where a row has no other: exp(score − top) is exactly 0 as long as
// |q·k| stays far below it.
constexpr float hopeless = -1e30f;

// Floats a thread needs, each part 64-byte aligned.
struct Layout {
  int64_t q = 0, s = 0, k = 0, v = 0, mask = 0, limit = 0, total = 0;
};
// A block of rows of a batch.
struct Rows {
  int64_t batch, begin, end;
  int64_t count() const { return end - begin; }
};
// One block of results: rows x columns, then the rows' maximum, sum and last factor.
struct Result {
  float *o, *top, *sum, *factor;
};

const Score& score_of(const product::Problem& p) { return *p.kernel.contraction->score; }

product::Operand bind(const product::Problem& p, const Access& access, const std::array<Axis, 3>& axes) {
  const auto arg = static_cast<size_t>(access.arg);
  return product::make_operand(access, p.kernel.args[arg].dtype, p.args[arg].data, axes);
}

// What stores the log of a row's sum, which is the same along the columns, has no say: a thread has whole rows.
int threads_for(const product::Problem& p) {
  Kernel values = p.kernel;
  std::erase_if(values.stores, [&](const Store& s) {
    return !s.accumulate && is_log_of_sum(values.exprs[static_cast<size_t>(s.expr)]);
  });
  return usable_threads(values, p.context);
}

class AttentionStep final : public BoundStep {
 public:
  AttentionStep(const product::Problem& p, const AttentionAxes& axes)
      : q_(bind(p, axes.swapped ? score_of(p).b : score_of(p).a, {axes.batch, axes.rows, axes.depth})),
        k_(bind(p, axes.swapped ? score_of(p).a : score_of(p).b, {axes.batch, axes.keys, axes.depth})),
        v_(bind(p, p.kernel.contraction->b, {axes.batch, axes.value_keys, axes.columns})),
        rows_(q_.size(1)),
        keys_(k_.size(1)),
        depth_(k_.size(2)),
        columns_(v_.size(2)),
        threads_(threads_for(p)),
        safe_(p.kernel.contraction->masked_rows_are_zero),
        logs_(takes_log(p.kernel)),
        value_tile_(columns_ > product::tall_tile().columns ? product::wide_tile() : product::tall_tile()),
        ld_(product::ceil_div(columns_, value_tile_.columns) * value_tile_.columns + 16),
        epilogue_(p.kernel, p.args, axes.batch, axes.rows, axes.columns, ld_, threads_) {
    const Score& score = score_of(p);
    auto score_operand = [&](int index) {
      return bind(p, score.accesses[static_cast<size_t>(index)], {axes.batch, axes.rows, axes.keys});
    };
    auto form = score_form(p.kernel);
    if (form && form->kept >= 0) {
      kept_ = score_operand(form->kept);
      if (kept_.step[1] == -1 || kept_.step[2] != 1) form.reset();  // booleans are read where they lie
    }
    if (form)
      form_ = *form;
    else
      make_score(p.kernel, p.args, axes);
    if (form_.mask >= 0) mask_ = score_operand(form_.mask);
    if (form_.limited) {
      form_.limit_coeffs.resize(score.space.size(), 0);
      limit_ = product::make_operand({0, form_.limit_offset, form_.limit_coeffs, {}, {}}, DType::f32, nullptr,
                                     {axes.batch, axes.rows, Axis{}});
    }
    auto direct = [](const product::Operand& o) {
      return o.bounds.empty() && o.step[2] == 1 && o.step[1] != -1 &&
             (o.dtype == DType::f32 || o.dtype == DType::f16 || o.dtype == DType::bf16);
    };
    direct_ = rows_ <= direct_rows && direct(k_) && direct(v_);
    plan();
    if (score.keys >= 0) count_keys(p);
  }

  void run() override {
    if (count_) now_ = keys_now();
    parts_ = parts_of(now_);
    const int64_t blocks = q_.size(0) * row_blocks_, items = spreads_ ? blocks * parts_ : blocks;
    on_threads(threads_, [&](int thread) {
      for (int64_t i = items * thread / threads_; i < items * (thread + 1) / threads_; ++i)
        spreads_ ? part(i / parts_, i % parts_, result(i), thread) : whole(i, thread);
    });
    if (spreads_)
      on_threads(threads_, [&](int thread) {
        for (int64_t i = blocks * thread / threads_; i < blocks * (thread + 1) / threads_; ++i) merge_parts(i, thread);
      });
    if (score_) score_->check();
    epilogue_.check();
  }

  std::string describe() const override {
    return fmt::format("attention {}x{} rows, {}{} keys x {}, {} values{}{}{}", q_.size(0), rows_,
                       count_ ? "up to " : "", keys_, depth_, columns_, direct_ ? " direct" : "",
                       most_ > 1 ? fmt::format(" in {} parts", most_) : "", score_ ? " general score" : "");
  }

 private:
  void make_score(const Kernel& kernel, std::span<const Binding> args, const AttentionAxes& axes) {
    const size_t rank = kernel.space.size();
    const Kernel score = score_on_tile(kernel, tile_strides(rank, axes.rows, axes.keys, product::narrow_stride));
    std::vector<Binding> bindings;
    for (size_t i = 0; i < args.size(); ++i)
      if (!kernel.args[i].written) bindings.push_back(args[i]);
    bindings.push_back({});
    score_ = std::make_unique<product::TileEpilogue>(score, bindings, axes.batch, axes.rows, axes.keys,
                                                     product::narrow_stride, threads_, true);
  }

  // The number of keys as a kernel with one point, which stores it in `counted_`.
  void count_keys(const product::Problem& p) {
    Kernel k = key_count(p.kernel);
    k.space.assign(k.space.size(), 1);
    for (size_t i = 0; i < k.args.size(); ++i) count_args_.push_back(p.args[i].data);
    k.stores[0].access = {static_cast<int>(k.args.size()), 0, std::vector<int64_t>(k.space.size(), 0), {}, {}};
    k.args.push_back({DType::i64, 1, true, -1});
    count_args_.push_back(&counted_);
    count_ = std::make_unique<loops::Loops>(k, 1);
  }

  int64_t keys_now() {
    if (!count_->run(count_args_.data())) fail(ErrorKind::bad_input, "{}", count_->trap_message());
    return std::clamp<int64_t>(counted_, 0, keys_);
  }

  static int64_t tiles_of(int64_t keys) { return product::ceil_div(keys, tile_keys); }
  static int64_t parts_of(int64_t keys) {
    return std::clamp<int64_t>(tiles_of(keys) / least_part_tiles, 1, most_parts);
  }

  // Threads share blocks of rows, and their parts of the keys where there are too few blocks.
  void plan() {
    // Every block packs the keys and values again; smaller ones where threads would go without.
    row_blocks_ = product::ceil_div(rows_, q_.size(0) >= 2 * threads_ ? max_block_rows : shared_block_rows);
    block_rows_ = product::ceil_div(rows_, row_blocks_);
    most_ = parts_of(keys_);
    const int64_t blocks = q_.size(0) * row_blocks_, few = block_rows_ <= 16 ? 4 * threads_ : threads_;
    spreads_ = most_ > 1 && blocks < few && blocks % threads_ != 0;
    const int64_t slices = product::ceil_div(depth_, product::narrow_depth);
    slices_ = std::max<int64_t>(1, slices);
    auto take = [this](int64_t floats) {
      const int64_t at = layout_.total;
      layout_.total += (floats + 15) / 16 * 16;
      return at;
    };
    q_stride_ = direct_ ? slices_ * product::narrow_stride : product::narrow_stride;
    layout_.q = take(slices_ * block_rows_ * product::narrow_stride);
    layout_.s = take(block_rows_ * product::narrow_stride + 16);
    layout_.k = take(direct_ ? 0
                             : product::ceil_div(tile_keys, product::wide_tile().columns) *
                                   product::wide_tile().columns * depth_);
    layout_.v = take(direct_ ? 0 : (ld_ - 16) * tile_keys);
    layout_.mask = take(form_.mask >= 0 ? block_rows_ * product::narrow_stride : 0);
    result_floats_ = block_rows_ * ld_ + 3 * ((block_rows_ + 15) / 16 * 16);
    result_floats_ = (result_floats_ + 15) / 16 * 16;
    const int64_t results = spreads_ ? blocks * most_ : most_ > 1 ? 2 * threads_ : threads_;
    scratch_bytes_ = static_cast<size_t>(layout_.total * threads_ + result_floats_ * results) * 4;
  }

  float* scratch(int thread) const { return reinterpret_cast<float*>(scratch_) + thread * layout_.total; }
  Result result(int64_t index) const {
    const int64_t padded = (block_rows_ + 15) / 16 * 16;
    float* o = reinterpret_cast<float*>(scratch_) + threads_ * layout_.total + index * result_floats_;
    float* top = o + block_rows_ * ld_;
    return {o, top, top + padded, top + 2 * padded};
  }
  Rows rows_of(int64_t block) const {
    const int64_t at = block % row_blocks_;
    return {block / row_blocks_, rows_ * at / row_blocks_, rows_ * (at + 1) / row_blocks_};
  }

  // A part of a block's keys, but for its tiles of hopeless keys.
  void part(int64_t block, int64_t index, const Result& out, int thread) {
    const Rows rows = rows_of(block);
    const int64_t tiles = tiles_of(now_), t0 = tiles * index / parts_, t1 = tiles * (index + 1) / parts_;
    const int64_t padded = (block_rows_ + 15) / 16 * 16;
    std::memset(out.o, 0, static_cast<size_t>(rows.count() * ld_) * 4);
    std::fill(out.top, out.top + padded, -infinity);
    std::fill(out.sum, out.sum + padded, 0.0f);
    std::fill(out.factor, out.factor + padded, 0.0f);
    if (spreads_ || index == 0) pack_queries(rows, thread);
    for (int64_t t = t0; t < t1; ++t) tile(rows, t, out, thread, false);
  }

  void whole(int64_t block, int thread) {
    const Result all = result(most_ > 1 ? 2 * thread : thread);
    part(block, 0, all, thread);
    for (int64_t i = 1; i < parts_; ++i) {
      const Result next = result(2 * thread + 1);
      part(block, i, next, thread);
      merge(rows_of(block).count(), all, next);
    }
    finish(block, all, thread);
  }

  void pack_queries(const Rows& rows, int thread) const {
    float* to = scratch(thread) + layout_.q;
    const int64_t count = rows.count();
    for (int64_t slice = 0; slice < slices_; ++slice) {
      float* dst = to + slice * (direct_ ? product::narrow_depth : block_rows_ * product::narrow_stride);
      const int64_t d0 = slice * product::narrow_depth, d1 = std::min(depth_, d0 + product::narrow_depth);
      product::pack(q_, {rows.batch, rows.begin, rows.end, d0, d1}, dst, q_stride_);
      if (form_.scale == 1) continue;
      for (int64_t r = 0; r < count; ++r)
        for (int64_t d = 0; d < d1 - d0; ++d) dst[r * q_stride_ + d] *= form_.scale;
    }
  }

  // Adds one tile of keys, unless it cannot count. Tiles of hopeless keys are for the second pass (`late`).
  void tile(const Rows& block, int64_t t, const Result& out, int thread, bool late) {
    const auto [batch, r0, r1] = block;
    float* const base = scratch(thread);
    float *const s = base + layout_.s, *const mask = base + layout_.mask;
    const int64_t k0 = t * tile_keys, k1 = std::min(now_, k0 + tile_keys), rows = r1 - r0;
    const bool one_mask = form_.mask >= 0 && mask_.step[1] == 0;  // broadcast along rows
    float best = 0;
    if (form_.mask >= 0) {
      const int64_t mask_rows = one_mask ? 1 : rows;
      product::pack(mask_, {batch, r0, r0 + mask_rows, k0, k1}, mask, product::narrow_stride);
      best = -infinity;
      for (int64_t r = 0; r < mask_rows; ++r)
        best = std::max(best, largest(mask + r * product::narrow_stride, k1 - k0));
    }
    const auto mask_all = [&] { best = form_.added ? best + form_.masked : std::min(best, form_.masked); };
    if (form_.limited) {
      int64_t highest = 0;
      for (int64_t r = r0; r < r1; ++r) highest = std::max(highest, limit(batch, r));
      if (highest <= k0) mask_all();
    }
    if (form_.kept >= 0 && !any_kept(batch, r0, r1, k0, k1)) mask_all();
    // A weight of 0 does not make up for a key or value that is infinite or no number.
    const bool idle = best <= hopeless && is_finite(batch, k0, k1, base);
    if ((idle && best == -infinity) || idle != late) return;
    scores(batch, r0, r1, k0, k1, base);
    if (form_.mask >= 0) add_mask(s, mask, one_mask ? 0 : product::narrow_stride, rows, k1 - k0);
    if (form_.kept >= 0)
      keep_scores(s, kept_row(batch, r0, k0), kept_.step[1], form_.keeps, {form_.masked, form_.added}, rows, k1 - k0);
    if (form_.limited)
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t j = std::max<int64_t>(0, limit(batch, r0 + r) - k0); j < k1 - k0; ++j) {
          float& score = s[r * product::narrow_stride + j];
          score = form_.added ? score + form_.masked : form_.masked;
        }
    if (score_) score_->run(s, batch, r0, r1, k0, k1, thread);
    softmax_tile(s, rows, k1 - k0, out.top, out.sum, out.factor);
    scale_rows(out.o, ld_, rows, columns_, out.factor);
    values(batch, rows, k0, k1, out.o, base);
  }

  // Whether keys [k0, k1) and their values are all finite.
  bool is_finite(int64_t batch, int64_t k0, int64_t k1, float* base) const {
    if (direct_)
      return product::all_finite(k_.dtype, k_.at(batch, k0, 0), k_.step[1], k1 - k0, depth_) &&
             product::all_finite(v_.dtype, v_.at(batch, k0, 0), v_.step[1], k1 - k0, columns_);
    for (const auto& [operand, columns] : {std::pair(&k_, depth_), std::pair(&v_, columns_)})
      for (int64_t d = 0; d < columns; d += product::narrow_depth) {
        const int64_t count = std::min(product::narrow_depth, columns - d);
        float* part = base + layout_.s;  // where the scores will be: block_rows_ rows
        for (int64_t k = k0; k < k1; k += block_rows_) {
          const int64_t rows = std::min(block_rows_, k1 - k);
          product::pack(*operand, {batch, k, k + rows, d, d + count}, part, product::narrow_stride);
          if (!product::all_finite(DType::f32, part, product::narrow_stride, rows, count)) return false;
        }
      }
    return true;
  }

  const uint8_t* kept_row(int64_t batch, int64_t r, int64_t k) const {
    return reinterpret_cast<const uint8_t*>(kept_.at(batch, r, k));
  }
  bool any_kept(int64_t batch, int64_t r0, int64_t r1, int64_t k0, int64_t k1) const {
    const int64_t rows = kept_.step[1] == 0 ? 1 : r1 - r0;
    for (int64_t r = 0; r < rows; ++r) {
      const uint8_t* row = kept_row(batch, r0 + r, k0);
      bool any = false;
      for (int64_t j = 0; j < k1 - k0; ++j) any |= (row[j] != 0) == form_.keeps;
      if (any) return true;
    }
    return false;
  }

  int64_t limit(int64_t batch, int64_t r) const {
    return limit_.offset + limit_.offsets[0][static_cast<size_t>(batch)] + limit_.offsets[1][static_cast<size_t>(r)];
  }

  // s[r, j] = q[r] · k[k0 + j]
  void scores(int64_t batch, int64_t r0, int64_t r1, int64_t k0, int64_t k1, float* base) const {
    const float* q = base + layout_.q;
    float *s = base + layout_.s, *panels = base + layout_.k;
    const int64_t rows = r1 - r0, width = product::wide_tile().columns;
    if (direct_)
      return product::gemv::dot_columns(k_.dtype, k_.at(batch, k0, 0), k_.step[1], k1 - k0, depth_, q, q_stride_, rows,
                                        s, product::narrow_stride);
    for (int64_t j = k0; j < k1; j += width) {
      const int64_t count = std::min(width, k1 - j);
      float* panel = panels;
      for (int64_t slice = 0; slice < slices_; ++slice) {
        const int64_t d0 = slice * product::narrow_depth, d1 = std::min(depth_, d0 + product::narrow_depth);
        product::pack_transposed(k_, {batch, j, j + count, d0, d1}, panel, width);
        product::multiply_narrow({.tile = product::wide_tile(),
                                  .a = q + slice * block_rows_ * product::narrow_stride,
                                  .rows = rows,
                                  .panels = panel,
                                  .columns = count,
                                  .depth = d1 - d0,
                                  .c = s + (j - k0),
                                  .ldc = product::narrow_stride,
                                  .add = slice > 0});
      }
    }
  }

  // o[r] += Σ_j s[r, j] · v[k0 + j]
  void values(int64_t batch, int64_t rows, int64_t k0, int64_t k1, float* o, float* base) const {
    const float* s = base + layout_.s;
    if (direct_)
      return product::gemv::add_weighted(v_.dtype, v_.at(batch, k0, 0), v_.step[1], columns_, k1 - k0, s,
                                         product::narrow_stride, rows, o, ld_);
    float* panel = base + layout_.v;
    const int64_t width = value_tile_.columns;
    for (int64_t n = 0; n < columns_; n += width) {
      const int64_t count = std::min(width, columns_ - n);
      if (count % 16 != 0) std::memset(panel, 0, static_cast<size_t>((k1 - k0) * width) * 4);
      product::pack(v_, {batch, k0, k1, n, n + count}, panel, width);
      product::multiply_narrow({.tile = value_tile_,
                                .a = s,
                                .rows = rows,
                                .panels = panel,
                                .columns = count,
                                .depth = k1 - k0,
                                .c = o + n,
                                .ldc = ld_,
                                .add = true});
    }
  }

  void merge_parts(int64_t block, int thread) {
    const Result all = result(block * parts_);
    for (int64_t i = 1; i < parts_; ++i) merge(rows_of(block).count(), all, result(block * parts_ + i));
    if (lacks_keys(rows_of(block), all)) pack_queries(rows_of(block), thread);
    finish(block, all, thread);
  }

  // Adds a part to those before it.
  void merge(int64_t rows, const Result& all, const Result& next) const {
    for (int64_t r = 0; r < rows; ++r) {
      const float top = std::max(all.top[r], next.top[r]), base = top == -infinity ? 0 : top;
      const float mine = std::exp(all.top[r] - base), theirs = std::exp(next.top[r] - base);
      all.top[r] = top;
      all.sum[r] = all.sum[r] * mine + next.sum[r] * theirs;
      float *to = all.o + r * ld_, *from = next.o + r * ld_;
      for (int64_t n = 0; n < columns_; ++n) to[n] = to[n] * mine + from[n] * theirs;
    }
  }

  // Whether a row may have nothing but hopeless keys, which matter to it: exp of the difference is not 0.
  bool lacks_keys(const Rows& rows, const Result& out) const {
    const bool masked = form_.mask >= 0 || form_.limited || form_.kept >= 0;
    return masked && *std::min_element(out.top, out.top + rows.count()) < hopeless * 1e-10f;
  }

  // With all parts added. The queries are packed.
  void finish(int64_t block, const Result& out, int thread) {
    const Rows rows = rows_of(block);
    if (lacks_keys(rows, out))
      for (int64_t t = 0; t < tiles_of(now_); ++t) tile(rows, t, out, thread, true);
    for (int64_t r = 0; r < rows.count(); ++r) {
      const bool zero = out.sum[r] == 0 && (safe_ || now_ == 0);
      out.factor[r] = zero ? 0 : 1 / out.sum[r];
    }
    scale_rows(out.o, ld_, rows.count(), columns_, out.factor);
    for (int64_t r = 0; logs_ && r < rows.count(); ++r)              // behind the columns, where epilogues read it
      out.o[(r + 1) * ld_ - 1] = out.top[r] + std::log(out.sum[r]);  // NaN is in the sum, not in the maximum
    epilogue_.run(out.o, rows.batch, rows.begin, rows.end, 0, columns_, thread);
  }

  product::Operand q_, k_, v_, mask_, kept_,
      limit_;  // axes: batch, rows | keys, depth | columns; masks: batch, rows, keys
  int64_t rows_, keys_, depth_, columns_;
  int64_t now_ = keys_;  // keys that there are in this run
  int64_t counted_ = 0;
  std::unique_ptr<loops::Loops> count_;
  std::vector<void*> count_args_;
  int threads_;
  bool safe_, logs_, direct_ = false;
  product::TileShape value_tile_;
  int64_t ld_;
  product::TileEpilogue epilogue_;
  ScoreForm form_;
  std::unique_ptr<product::TileEpilogue> score_;
  int64_t row_blocks_ = 1, block_rows_ = 0, slices_ = 1, q_stride_ = 0, result_floats_ = 0;
  int64_t most_ = 1, parts_ = 1;  // parts of all keys, and of those of this run
  bool spreads_ = false;          // threads share parts
  Layout layout_;
};

}  // namespace

Answer make_attention_step(product::Problem& problem) {
  const auto axes = attention_axes(problem.kernel);
  if (!axes) return decline("keys in both operands of the score");
  const Contraction& attention = *problem.kernel.contraction;
  const std::vector<int64_t>& depth = attention.score->reduce;
  if (attention.reduce[0] == 0 || std::find(depth.begin(), depth.end(), 0) != depth.end())
    return decline("no keys, or heads of no elements");
  if (attention.score->keys >= 0 &&
      dependence_of(score_kernel(problem.kernel)).dims[static_cast<size_t>(attention.score->keys)] != 0)
    return decline("rows with different numbers of keys");
  return accept(std::make_unique<AttentionStep>(problem, *axes));
}

}  // namespace npusim::cpu::attention
