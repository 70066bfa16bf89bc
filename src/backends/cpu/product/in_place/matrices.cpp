// Tiles of two matrices where they lie, their sums ended in registers, compiled once per instruction set.
#include "backends/cpu/product/in_place/matrices.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "backends/cpu/product/blocking.h"
#include "backends/cpu/product/epilogue.h"
#include "backends/cpu/product/gemv/gemv.h"
#include "backends/cpu/product/in_place/rows.h"
#include "backends/cpu/product/simd.h"
#include "backends/cpu/product/tile_end.h"
#include "backends/cpu/vector_targets.h"
#include "base/threads.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/product/in_place/matrices.cpp"
#include <hwy/foreach_target.h>

#include "backends/cpu/product/tile_end-inl.h"

#ifndef NPUSIM_MATRICES_IN_PLACE
#define NPUSIM_MATRICES_IN_PLACE
namespace npusim::cpu::product::in_place {

// What all products of a batch share. Element (r, k) of a is at r·a_row + k·a_step, (k, n) of b at k·b_row + n.
struct MatricesProduct {
  int64_t depth = 0, a_row = 0, a_step = 0, b_row = 0;
  int64_t width = 0;  // of a tile, in vectors at most
  TileEnd end;
};
// A rectangle of one of them. Without masks rows of b have whole vectors. The bias has them, or is null.
struct MatricesPart {
  const float *a = nullptr, *b = nullptr, *bias = nullptr;
  const std::byte* residual = nullptr;  // null: none
  std::byte* out = nullptr;
  int64_t rows = 0, columns = 0;
};

}  // namespace npusim::cpu::product::in_place
#endif

HWY_BEFORE_NAMESPACE();
namespace npusim::cpu::product::in_place {
namespace HWY_NAMESPACE {
using namespace product::HWY_NAMESPACE;

constexpr int64_t lanes = finish_lanes;
constexpr bool has_many = HWY_TARGET == HWY_AVX3;

// Rows of a tile by the vectors of its width: sums fill the registers but for a step's operands.
constexpr int most_vectors = has_many ? 4 : 3;
constexpr std::array<int, 5> rows_of = has_many ? std::array{0, 24, 12, 8, 6} : std::array{0, 12, 6, 4, 0};

// One tile, whose last vector has `last` columns.
template <int rows, int vectors>
void tile(const MatricesProduct& p, const float* a, const float* HWY_RESTRICT b, const float* HWY_RESTRICT bias,
          const std::byte* residual, std::byte* out, int64_t last) {
  const F f;
  VF sum[rows][vectors];
#pragma GCC unroll 24
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) sum[r][v] = hn::Zero(f);
  constexpr int groups = (rows + 2) / 3;  // a pointer for three rows: the processor adds one or two strides by itself
  const int64_t row = p.a_row, step = p.a_step, b_row = p.b_row;
  const float* at[groups];
#pragma GCC unroll 8
  for (int g = 0; g < groups; ++g) at[g] = a + 3 * g * row;
  // For few rows with a mask all of them, too: the compiler would load them again for each row.
  constexpr bool is_low = rows < 4;
  const auto there = hn::FirstN(f, static_cast<size_t>(last)),
             all = hn::FirstN(f, static_cast<size_t>(std::max(last, lanes)));
  // Unrolled, compilers move sums from register to register, and some to memory.
#pragma GCC unroll 1
  for (int64_t k = 0; k < p.depth; ++k, b += b_row) {
    VF x[vectors];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v)
      if (has_many && (is_low || v == vectors - 1))
        x[v] = hn::MaskedLoad(v == vectors - 1 ? there : all, f, b + v * lanes);
      else
        x[v] = hn::LoadU(f, b + v * lanes);
#pragma GCC unroll 24
    for (int r = 0; r < rows; ++r) {
      const VF y = hn::Set(f, at[r / 3][r % 3 * row]);
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) sum[r][v] = hn::MulAdd(y, x[v], sum[r][v]);
    }
#pragma GCC unroll 8
    for (int g = 0; g < groups; ++g) at[g] += step;
  }
  end_tile(sum, p.end, bias, residual, out, last);
}

using Tile = void (*)(const MatricesProduct&, const float*, const float*, const float*, const std::byte*, std::byte*,
                      int64_t);
using Tiles = std::array<Tile, static_cast<size_t>(rows_of[1])>;  // by rows
template <int vectors, int... r>
constexpr Tiles tiles_of(std::integer_sequence<int, r...>) {
  return {tile<r + 1, vectors>...};
}
template <int... v>
constexpr std::array<Tiles, sizeof...(v)> all_tiles(std::integer_sequence<int, v...>) {
  return {tiles_of<v + 1>(std::make_integer_sequence<int, rows_of[v + 1]>())...};
}

// Columns of a tile's width after the other, each time all rows: both as even as can be.
void multiply_matrices(const MatricesProduct& p, const MatricesPart& part) {
  static constexpr auto tiles = all_tiles(std::make_integer_sequence<int, most_vectors>());
  const auto size = static_cast<int64_t>(dtype_size(p.end.dtype));
  const int64_t vectors = (part.columns + lanes - 1) / lanes, groups = (vectors + p.width - 1) / p.width;
  for (int64_t g = 0, v0 = 0, v1 = 0; g < groups; ++g, v0 = v1) {
    v1 = vectors * (g + 1) / groups;
    const auto wide = static_cast<size_t>(v1 - v0);
    const int64_t n = v0 * lanes, last = std::min(lanes, part.columns - (v1 - 1) * lanes);
    const int64_t blocks = (part.rows + rows_of[wide] - 1) / rows_of[wide];
    for (int64_t i = 0, r0 = 0, r1 = 0; i < blocks; ++i, r0 = r1) {
      r1 = part.rows * (i + 1) / blocks;
      tiles[wide - 1][static_cast<size_t>(r1 - r0 - 1)](
          p, part.a + r0 * p.a_row, part.b + n, part.bias ? part.bias + n : nullptr,
          part.residual ? part.residual + (r0 * p.end.residual_stride + n) * size : nullptr,
          part.out + (r0 * p.end.out_stride + n) * size, last);
    }
  }
}

// The width of tiles, in vectors, that takes least time.
int64_t choose_width(int64_t rows, int64_t columns, int64_t depth) {
  const int64_t vectors = ceil_div(columns, lanes);
  int64_t best = 1;
  double least = 0;
  for (int64_t width = 1; width <= std::min<int64_t>(vectors, most_vectors); ++width) {
    const int64_t groups = ceil_div(vectors, width);
    double cost = 0;
    for (int64_t g = 0; g < groups; ++g) {
      const int64_t wide = vectors * (g + 1) / groups - vectors * g / groups;
      const int64_t blocks = ceil_div(rows, rows_of[static_cast<size_t>(wide)]);
      const auto v = static_cast<double>(wide);
      const double height = static_cast<double>(rows) / static_cast<double>(blocks);
      // Half cycles of a step, which has two loads and two products in a cycle; vectors of b cross cache lines, and a
      // product takes four cycles to be added to. What a tile begins and ends with takes some 30.
      const double step = std::max({height * v, height + 2 * v, 8.0});
      cost += static_cast<double>(blocks) * (static_cast<double>(depth) * step + 60);
    }
    if (least == 0 || cost < least) best = width, least = cost;
  }
  return best;
}

}  // namespace HWY_NAMESPACE
}  // namespace npusim::cpu::product::in_place
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npusim::cpu::product::in_place {
HWY_EXPORT(multiply_matrices);
HWY_EXPORT(choose_width);

namespace {

int64_t align_up(int64_t floats) { return ceil_div(floats, 16) * 16; }
// Rows an odd multiple of a cache line apart do not share cache sets.
int64_t apart(int64_t floats) { return align_up(floats) | 16; }

// Rows of float32 in places that do not share cache sets.
bool lies_well(const Operand& a) {
  constexpr int64_t page_floats = 1024;
  return a.dtype == DType::f32 && a.bounds.empty() && a.step[1] != -1 && a.step[2] != -1 &&
         (a.step[1] == 0 || a.step[1] % page_floats != 0);
}
bool has_rows(const Operand& b) {
  return many_registers() && b.dtype == DType::f32 && b.bounds.empty() && b.step[1] == 1 && b.step[2] != -1;
}

class MatricesInPlaceStep final : public BoundStep {
 public:
  MatricesInPlaceStep(const Problem& p, Matrices& m)
      : a_(std::move(m.a)),
        b_(std::move(m.b)),
        rows_(a_.size(1)),
        columns_(b_.size(1)),
        depth_(a_.size(2)),
        finishes_(match_finishes(m.kernel, p.args, m.axes, p.chain)) {
    const Finish* finish = finishes_.empty() ? nullptr : finishes_.data();
    if (finish && finish->residual.data && finish->residual.dtype != finish->out.dtype) finishes_.clear();
    const int threads = usable_threads(p.kernel, p.context);
    row_parts_ = std::clamp<int64_t>(ceil_div(threads, a_.size(0)), 1, ceil_div(rows_, least_rows));
    column_parts_ =
        std::clamp<int64_t>(ceil_div(threads, a_.size(0) * row_parts_), 1, ceil_div(columns_, least_columns));
    threads_ = static_cast<int>(std::min<int64_t>(threads, a_.size(0) * row_parts_ * column_parts_));
    block_rows_ = std::min(ceil_div(rows_, row_parts_), std::max(least_rows, block_floats / depth_));
    const int64_t most_columns = ceil_div(ceil_div(columns_, 16), column_parts_) * 16, whole = apart(most_columns);
    product_ = {.depth = depth_,
                .a_row = a_.step[1],
                .a_step = a_.step[2],
                .b_row = b_.step[2],
                .width = HWY_DYNAMIC_DISPATCH(choose_width)(block_rows_, std::min(columns_, most_columns), depth_),
                .end = {}};
    if (!lies_well(a_)) product_.a_row = apart(depth_), product_.a_step = 1, a_floats_ = block_rows_ * product_.a_row;
    if (!has_rows(b_)) product_.b_row = whole, b_floats_ = depth_ * whole;
    bias_floats_ = whole;
    if (finishes_.empty()) {
      product_.end.out_stride = whole;
      c_floats_ = block_rows_ * whole;
      epilogue_.emplace(m.kernel, p.args, m.axes.batch, m.axes.rows, m.axes.columns, whole, threads_);
    } else {
      product_.end = tile_end(finishes_[0]);
    }
    scratch_bytes_ = static_cast<size_t>(thread_floats() * threads_) * 4;
  }

  void run() override {
    on_threads(threads_, [this](int thread) { share(thread); });
    if (epilogue_) epilogue_->check();
  }

  std::string describe() const override {
    return fmt::format("matmul {}x{}x{}x{} {} times {}{}", a_.size(0), rows_, columns_, depth_,
                       a_floats_ == 0 ? "rows in place" : "packed", b_floats_ == 0 ? "columns in place" : "packed",
                       epilogue_ ? " + epilogue" : "");
  }

 private:
  static constexpr int64_t least_rows = 16, least_columns = 64;  // of a thread
  static constexpr int64_t block_floats = 6144;                  // of rows that stay in L1 while all columns come

  int64_t thread_floats() const { return a_floats_ + b_floats_ + c_floats_ + bias_floats_; }

  // What a thread has in its scratch of the product before: most biases and some matrices are of all products.
  struct Kept {
    const std::byte *b = nullptr, *bias = nullptr;
  };

  // This thread's parts of the products, those of other rows of the same columns one after the other.
  void share(int thread) {
    const int64_t parts = row_parts_ * column_parts_, all = a_.size(0) * parts, vectors = ceil_div(columns_, 16);
    Kept kept;
    for (int64_t i = all * thread / threads_; i < all * (thread + 1) / threads_; ++i) {
      const int64_t at_rows = i % row_parts_, at_columns = i % parts / row_parts_;
      const int64_t n0 = vectors * at_columns / column_parts_ * 16,
                    n1 = vectors * (at_columns + 1) / column_parts_ * 16;
      const int64_t r0 = rows_ * at_rows / row_parts_, rows = rows_ * (at_rows + 1) / row_parts_ - r0;
      const int64_t blocks = ceil_div(rows, block_rows_);
      for (int64_t n = 0; n < blocks; ++n)
        block({i / parts, r0 + rows * n / blocks, r0 + rows * (n + 1) / blocks, n0, std::min(columns_, n1)}, kept,
              thread);
    }
  }

  // Rows i and columns j of a product.
  void block(const Part& at, Kept& kept, int thread) {
    float* a = reinterpret_cast<float*>(scratch_) + thread * thread_floats();
    float *b = a + a_floats_, *c = b + b_floats_, *bias = c + c_floats_;
    MatricesPart part{.rows = at.i1 - at.i0, .columns = at.j1 - at.j0};
    part.a = a_floats_ > 0 ? a : reinterpret_cast<const float*>(a_.at(at.batch, at.i0, 0));
    if (a_floats_ > 0) pack(a_, {at.batch, at.i0, at.i1, 0, depth_}, a, product_.a_row);
    const std::byte* b_at = b_.at(at.batch, at.j0, 0);
    part.b = b_floats_ > 0 ? b : reinterpret_cast<const float*>(b_at);
    if (b_floats_ > 0 && !(kept.b == b_at && b_.bounds.empty()))
      pack_transposed(b_, {at.batch, at.j0, at.j1, 0, depth_}, b, product_.b_row), kept.b = b_at;
    if (epilogue_) {
      part.out = reinterpret_cast<std::byte*>(c);
      HWY_DYNAMIC_DISPATCH(multiply_matrices)(product_, part);
      return epilogue_->run(c, at.batch, at.i0, at.i1, at.j0, at.j1, thread);
    }
    const Finish& finish = finishes_[static_cast<size_t>(at.batch)];
    if (finish.bias.data) {
      const std::byte* bias_at = finish.bias.at(0, at.j0);
      if (kept.bias != bias_at) widen(finish.bias.dtype, bias_at, part.columns, bias);
      part.bias = bias, kept.bias = bias_at;
    }
    if (finish.residual.data) part.residual = finish.residual.at(at.i0, at.j0);
    part.out = finish.out.at(at.i0, at.j0);
    HWY_DYNAMIC_DISPATCH(multiply_matrices)(product_, part);
  }

  Operand a_, b_;  // axes: batch, rows, depth; batch, columns, depth
  int64_t rows_, columns_, depth_;
  std::vector<Finish> finishes_;          // of the batches
  std::optional<TileEpilogue> epilogue_;  // where there are none
  MatricesProduct product_;
  int64_t row_parts_ = 1, column_parts_ = 1;  // of each product
  int64_t block_rows_ = 0;
  int threads_ = 1;
  int64_t a_floats_ = 0, b_floats_ = 0, c_floats_ = 0, bias_floats_ = 0;  // of a thread's scratch; 0: in place
};

}  // namespace

Answer make_matrices_in_place_step(Problem& p) {
  Matrices& m = matrices_of(p);
  const Operand &a = m.a, &b = m.b;
  // Long sums are more exact in slices. Of b, what L2 holds next to some of the rest; few rows read it once.
  constexpr int64_t most_depth = 512, most_elements = 1 << 16, least_reread = 7, most_read = 1 << 18;
  if (m.constant) return decline("a constant operand");
  const auto is_known = [](DType type) { return type == DType::f32 || type == DType::f16 || type == DType::bf16; };
  if (!is_known(a.dtype) || !is_known(b.dtype))
    return decline(fmt::format("{} times {}", dtype_name(a.dtype), dtype_name(b.dtype)));
  if (a.size(2) == 0) return decline("a sum of nothing");
  if (packs_by_runs(m)) return decline("many rows");
  if (a.size(1) <= gemv_max_rows && (a.size(0) == 1 || !has_rows(b))) return decline(fmt::format("{} rows", a.size(1)));
  const bool few = a.size(1) > gemv_max_rows && a.size(1) < least_reread;
  if (a.size(2) > most_depth || a.size(2) * b.size(1) > (few ? most_read : most_elements))
    return decline(fmt::format("a matrix of {}x{}", a.size(2), b.size(1)));
  return accept(std::make_unique<MatricesInPlaceStep>(p, m));
}

}  // namespace npusim::cpu::product::in_place
#endif
