// A few vectors times a weight whose elements are neighbours along the depth or along the columns.
#include "backends/cpu/product/gemv/gemv.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "backends/cpu/product/epilogue.h"
#include "backends/cpu/product/finish.h"
#include "backends/cpu/product/gemv/few_rows.h"
#include "backends/cpu/product/simd.h"
#include "base/threads.h"

namespace npusim::cpu::product::gemv {
namespace {

// Columns of a tile of the epilogue: of strided weights more, whose rows are read from new addresses for every tile.
constexpr int64_t chunk_columns = 256, wide_chunk_columns = 1024;
constexpr int64_t least_long_row = 1024;  // columns that are read in the order of memory

class GemvStep final : public BoundStep {
 public:
  GemvStep(const Problem& p, Matrices& m)
      : a_(std::move(m.a)),
        b_(std::move(m.b)),
        rows_(a_.size(1)),
        columns_(b_.size(1)),
        depth_(a_.size(2)),
        chunk_(b_.step[2] == 1 ? chunk_columns : wide_chunk_columns),
        threads_(static_cast<int>(std::min<int64_t>(usable_threads(p.kernel, p.context), a_.size(0) * columns_))),
        epilogue_(m.kernel, p.args, m.axes.batch, m.axes.rows, m.axes.columns, chunk_, threads_),
        finishes_(match_finishes(m.kernel, p.args, m.axes, p.chain)) {
    ld_x_ = (depth_ + 31) / 16 * 16;
    thread_floats_ = rows_ * ld_x_ + rows_ * chunk_;
    scratch_bytes_ = static_cast<size_t>(thread_floats_ * threads_) * 4;
  }

  // Threads share the columns of all batches.
  void run() override {
    on_threads(threads_, [this](int thread) {
      const int64_t all = a_.size(0) * columns_, end = all * (thread + 1) / threads_;
      for (int64_t at = all * thread / threads_, next = 0; at < end; at = next) {
        const int64_t batch = at / columns_;
        next = std::min(end, (batch + 1) * columns_);
        columns_of(batch, at - batch * columns_, next - batch * columns_, thread);
      }
    });
    epilogue_.check();
  }

  std::string describe() const override {
    const std::string batches = a_.size(0) == 1 ? "" : fmt::format("{}x", a_.size(0));
    return fmt::format("gemv {}{}x{}x{} b {}", batches, rows_, columns_, depth_, dtype_name(b_.dtype));
  }

 private:
  void columns_of(int64_t batch, int64_t begin, int64_t end, int thread) {
    float* x = reinterpret_cast<float*>(scratch_) + thread * thread_floats_;
    float* out = x + rows_ * ld_x_;
    pack(a_, {batch, 0, rows_, 0, depth_}, x, ld_x_);
    for (int64_t n = begin; n < end; n += chunk_) {
      const int64_t count = std::min(chunk_, end - n);
      products(batch, n, count, x, out);
      if (!finishes_.empty())
        finish_tile(finishes_[static_cast<size_t>(batch)], out, chunk_, 0, rows_, n, n + count);
      else
        epilogue_.run(out, batch, 0, rows_, n, n + count, thread);
    }
  }

  void products(int64_t batch, int64_t n, int64_t count, const float* x, float* out) const {
    if (b_.step[2] != 1) return weighted(batch, n, count, x, out);
    // A few rows after the other meet columns that stay in L1 or L2.
    constexpr int64_t near_bytes = 64 << 10;
    const int64_t stride = b_.step[1] == -1 ? 0 : b_.step[1];  // one by one
    const int64_t near = stride == 0              ? 1
                         : rows_ <= gemv_max_rows ? count
                                                  : std::max<int64_t>(near_bytes / (depth_ * 4), 1);
    for (int64_t i = 0; i < count; i += near)
      for (int64_t r = 0; r < rows_; r += gemv_max_rows)
        dot_columns(b_.dtype, b_.at(batch, n + i, 0), stride, std::min(near, count - i), depth_, x + r * ld_x_, ld_x_,
                    std::min(gemv_max_rows, rows_ - r), out + r * chunk_ + i, chunk_);
  }

  // Columns side by side: in runs of b_.run[1], sums of parts of the depth.
  void weighted(int64_t batch, int64_t n, int64_t count, const float* x, float* out) const {
    constexpr int64_t part = 256;
    for (int64_t r = 0; r < rows_; ++r) std::fill_n(out + r * chunk_, count, -0.0f);
    // Which does not depend on how many of the columns a thread has.
    const int64_t run = b_.run[1];
    const auto add = run >= least_long_row ? add_long_rows : add_weighted;
    for (int64_t i = n, next = 0; i < n + count; i = next) {
      next = std::min(n + count, (i / run + 1) * run);
      for (int64_t k = 0; k < depth_; k += part)
        add(b_.dtype, b_.at(batch, i, k), b_.step[2], next - i, std::min(part, depth_ - k), x + k, ld_x_, rows_,
            out + (i - n), chunk_);
    }
  }

  Operand a_, b_;
  int64_t rows_, columns_, depth_, chunk_;
  int threads_;
  TileEpilogue epilogue_;
  std::vector<Finish> finishes_;  // of the batches, instead of the epilogue
  int64_t ld_x_ = 0, thread_floats_ = 0;
};

}  // namespace

Answer make_gemv_step(Problem& problem) {
  Matrices& m = matrices_of(problem);
  const Operand &a = m.a, &b = m.b;
  // Several weights that are constant lie packed, one after the other.
  if (a.size(0) != 1 && (m.constant || a.size(1) > gemv_max_rows))
    return decline(fmt::format("{} products", a.size(0)));
  // A weight that is an input would be packed by every run: for so few rows that takes longer than to multiply them,
  // where there are registers for it.
  constexpr int64_t most_unpacked_rows = 6, least_depth = 128, least_weight = 32 << 10;
  const bool unpacked = many_registers() && !m.constant && a.size(1) <= most_unpacked_rows &&
                        a.size(2) >= least_depth && a.size(2) * b.size(1) >= least_weight;
  if (a.size(1) > gemv_max_rows && !unpacked) return decline(fmt::format("{} rows", a.size(1)));
  if (a.size(2) == 0) return decline("a sum of nothing");
  // Columns side by side: long ones of a constant are read faster packed.
  constexpr int64_t least_run = 32, most_strided_depth = 32;
  const bool adjacent = b.step[2] != -1 && b.run[1] >= std::min(least_run, b.size(1)) && a.size(1) <= gemv_max_rows &&
                        (!m.constant || a.size(2) <= most_strided_depth);
  if ((b.step[2] != 1 && !adjacent) || !b.bounds.empty())
    return decline("weights of a sum that do not lie side by side, nor those of columns");
  if (b.dtype != DType::f32 && b.dtype != DType::f16 && b.dtype != DType::bf16)
    return decline(fmt::format("a weight of {}", dtype_name(b.dtype)));
  return accept(std::make_unique<GemvStep>(problem, m));
}

}  // namespace npusim::cpu::product::gemv
