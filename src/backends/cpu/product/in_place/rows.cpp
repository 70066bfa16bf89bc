// Tiles of rows in place times panels of a weight, their sums ended in registers, compiled once per instruction set.
#include "backends/cpu/product/in_place/rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "backends/cpu/product/blocking.h"
#include "backends/cpu/product/finish.h"
#include "backends/cpu/product/packed_weight.h"
#include "backends/cpu/product/simd.h"
#include "backends/cpu/product/tile_end.h"
#include "backends/cpu/vector_targets.h"
#include "base/threads.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/product/in_place/rows.cpp"
#include <hwy/foreach_target.h>

#include "backends/cpu/product/tile_end-inl.h"

#ifndef NPUSIM_ROWS_IN_PLACE
#define NPUSIM_ROWS_IN_PLACE
namespace npusim::cpu::product::in_place {

// What all tiles of a product share.
struct RowsProduct {
  int64_t depth = 0, width = 0;  // of the panels [panel][depth][width], zeros past the last column
  int64_t a_stride = 0;
  TileEnd end;
};

// A rectangle of it, and then a tile. The bias has whole panels.
struct RowsPart {
  const float *a = nullptr, *panels = nullptr, *bias = nullptr;
  const std::byte* residual = nullptr;  // null: none
  std::byte* out = nullptr;
  int64_t rows = 0, columns = 0;
  // What is multiplied next, prefetched into the cache meanwhile: so many bytes in a step along the depth.
  const std::byte* next = nullptr;
  int64_t pace = 0;
};

// The width of panels, in columns, and what each thread has.
struct Split {
  int64_t width = 0;
  Grid grid;
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
template <int rows, int vectors, int width>
void tile(const RowsProduct& p, const float* a, const float* HWY_RESTRICT panel, const float* HWY_RESTRICT bias,
          const std::byte* residual, std::byte* out, int64_t last, const std::byte* next, int64_t pace) {
  const F f;
  VF sum[rows][vectors];
#pragma GCC unroll 24
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) sum[r][v] = hn::Zero(f);
  constexpr int groups = (rows + 2) / 3;  // a pointer for three rows: the processor adds one or two strides by itself
  const int64_t stride = p.a_stride;
  const float* at[groups];
#pragma GCC unroll 8
  for (int g = 0; g < groups; ++g) at[g] = a + 3 * g * stride;
    // Unrolled, compilers move sums from register to register, and some to memory.
#pragma GCC unroll 1
  for (const float* end = panel + p.depth * width * lanes; panel != end; panel += width * lanes) {
    __builtin_prefetch(next, 0, 2);
    next += pace;
    VF b[vectors];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) b[v] = hn::Load(f, panel + v * lanes);
#pragma GCC unroll 24
    for (int r = 0; r < rows; ++r) {
      const VF x = hn::Set(f, at[r / 3][r % 3 * stride]);
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) sum[r][v] = hn::MulAdd(x, b[v], sum[r][v]);
    }
#pragma GCC unroll 8
    for (int g = 0; g < groups; ++g) ++at[g];
  }
  end_tile(sum, p.end, bias, residual, out, last);
}

using Tile = void (*)(const RowsProduct&, const float*, const float*, const float*, const std::byte*, std::byte*,
                      int64_t, const std::byte*, int64_t);
// Tile i has i / width + 1 rows and i % width + 1 vectors.
template <int width, int... i>
constexpr std::array<Tile, sizeof...(i)> tiles_of(std::integer_sequence<int, i...>) {
  return {tile<i / width + 1, i % width + 1, width>...};
}

template <int width>
void multiply(const RowsProduct& p, const RowsPart& part) {
  constexpr int most = rows_of[width];
  if constexpr (most > 0) {
    static constexpr auto tiles = tiles_of<width>(std::make_integer_sequence<int, most * width>());
    constexpr int64_t panel_width = width * lanes;
    const int64_t blocks = (part.rows + most - 1) / most, share = part.rows / blocks, rest = part.rows % blocks;
    const float* a = part.a;
    const std::byte *next = part.next, *residual = part.residual;
    std::byte* out = part.out;
    const auto size = static_cast<int64_t>(dtype_size(p.end.dtype));
    for (int64_t i = 0, over = 0; i < blocks; ++i) {  // as even as can be
      over += rest;
      const int64_t rows = share + (over >= blocks);
      if (over >= blocks) over -= blocks;
      const Tile* row = tiles.data() + (rows - 1) * width;
      for (int64_t n = 0; n < part.columns; n += panel_width) {
        const int64_t vectors = std::min<int64_t>(width, (part.columns - n + lanes - 1) / lanes);
        row[vectors - 1](p, a, part.panels + n * p.depth, part.bias + n, residual ? residual + n * size : nullptr,
                         out + n * size, std::min(lanes, part.columns - n - (vectors - 1) * lanes), next, part.pace);
        next += part.pace * p.depth;
      }
      a += rows * p.a_stride, out += rows * p.end.out_stride * size;
      if (residual) residual += rows * p.end.residual_stride * size;
    }
  }
}

void multiply_in_place(const RowsProduct& p, const RowsPart& part) {
  constexpr std::array multiplies{multiply<1>, multiply<2>, multiply<3>, multiply<4>};
  multiplies[static_cast<size_t>(p.width / lanes - 1)](p, part);
}

// What takes the slowest thread least time. The weights of loads are a Zen 5's.
Split choose_split(int64_t rows, int64_t columns, int64_t threads) {
  const int64_t vectors = ceil_div(columns, lanes);
  Split best;
  double least = 0;
  for (int64_t width = vectors == 1 ? 1 : 2; width <= most_vectors; ++width)
    for (int64_t parts = 1; parts <= threads; ++parts) {
      const int64_t panels = threads / parts, my_rows = ceil_div(rows, parts),
                    my_panels = ceil_div(ceil_div(vectors, width), panels);
      const int64_t my_vectors = std::min(vectors, my_panels * width), last = my_vectors % width;
      const int64_t blocks = ceil_div(my_rows, rows_of[static_cast<size_t>(width)]);
      const double height = static_cast<double>(my_rows) / static_cast<double>(blocks);
      // Half cycles of a step along the depth, which has two loads and two products in a cycle; loads cost a little
      // next to products too. Panels come from memory, and rows from the cache of whoever wrote them: mostly the thread
      // that has the same share of rows, and all of them where threads share the panels.
      const auto step = [&](int64_t v) {
        const double loads = height + static_cast<double>(v), products = height * static_cast<double>(v);
        return std::max(loads, products) + 0.3 * height + 0.8 * static_cast<double>(v) + 1;
      };
      const double cost = static_cast<double>(blocks) *
                              (static_cast<double>(my_vectors / width) * step(width) + (last ? step(last) : 0)) +
                          3 * static_cast<double>(my_vectors) + 0.7 * static_cast<double>(my_rows);
      if (least == 0 || cost < least) best = {width * lanes, {1, parts, panels}}, least = cost;
    }
  return best;
}

}  // namespace HWY_NAMESPACE
}  // namespace npusim::cpu::product::in_place
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npusim::cpu::product::in_place {
HWY_EXPORT(multiply_in_place);
HWY_EXPORT(choose_split);

namespace {

constexpr int64_t least_rows = 16;             // below, loading the weight from memory counts
constexpr int64_t most_depth = 4096;           // of a panel that L2 holds
constexpr int64_t group_bytes = 256 << 10;     // of panels that stay in L2 while the rows come, or of widened rows
constexpr int64_t low_block_bytes = 24 << 10;  // of widened rows that stay in L1 while a small weight comes

class RowsInPlaceStep final : public BoundStep {
 public:
  RowsInPlaceStep(const Context& context, const Operand& a, const Operand& b, bool constant, const Finish& finish,
                  int threads)
      : threads_(threads),
        dtype_(a.dtype),
        a_(a.at(0, 0, 0)),
        stride_(a.step[1]),
        rows_(a.size(1)),
        columns_(b.size(1)),
        finish_(finish) {
    const Split split = HWY_DYNAMIC_DISPATCH(choose_split)(rows_, columns_, threads_);
    grid_ = split.grid;
    product_ = {.depth = a.size(2), .width = split.width, .a_stride = stride_, .end = tile_end(finish)};
    panels_ = ceil_div(columns_, product_.width);
    if (constant)
      weight_ = packed_weight(b, product_.width, context);
    else
      b_ = b, packed_floats_ = panels_ * product_.depth * product_.width;
    const int64_t panel_bytes = product_.depth * product_.width * 4;
    group_ = std::max<int64_t>(1, group_bytes / panel_bytes);
    block_rows_ = ceil_div(rows_, grid_.rows);
    if (dtype_ != DType::f32) {
      product_.a_stride = ceil_div(product_.depth, 16) * 16;
      const int64_t fitting = panels_ * panel_bytes <= group_bytes ? low_block_bytes : group_bytes;
      block_rows_ = std::min(block_rows_, std::max(least_rows, fitting / 4 / product_.a_stride));
    }
    scratch_bytes_ = static_cast<size_t>(threads_ * thread_floats() + packed_floats_) * 4;
  }

  void run() override {
    if (!weight_) on_threads(threads_, [this](int thread) { pack_panels(thread); });
    on_threads(threads_, [this](int thread) { part(thread); });
  }

  std::string describe() const override {
    return fmt::format("matmul {}x{}x{} rows {}, panels of {}{}", rows_, columns_, product_.depth,
                       dtype_ == DType::f32 ? "in place" : "widened", product_.width, weight_ ? "" : " packed by runs");
  }

 private:
  int64_t bias_floats() const { return ceil_div(panels_ * product_.width, 16) * 16; }
  int64_t thread_floats() const { return bias_floats() + (dtype_ == DType::f32 ? 0 : block_rows_ * product_.a_stride); }

  // A weight that is an input, behind what threads have of their own.
  float* packed() const { return reinterpret_cast<float*>(scratch_) + threads_ * thread_floats(); }
  void pack_panels(int thread) const {
    for (int64_t p = panels_ * thread / threads_; p < panels_ * (thread + 1) / threads_; ++p)
      pack_panel(b_, product_.width, 0, p * product_.width, 0, product_.depth,
                 packed() + p * product_.width * product_.depth);
  }

  // This thread's rows and panels, a block of rows after the other.
  void part(int thread) {
    const int64_t at_panels = thread % grid_.panels, at_rows = thread / grid_.panels;
    if (at_rows >= grid_.rows) return;
    const int64_t p0 = panels_ * at_panels / grid_.panels, p1 = panels_ * (at_panels + 1) / grid_.panels;
    const int64_t r0 = rows_ * at_rows / grid_.rows, r1 = rows_ * (at_rows + 1) / grid_.rows;
    if (p0 == p1 || r0 == r1) return;
    float* bias = reinterpret_cast<float*>(scratch_) + thread * thread_floats();
    const int64_t n0 = p0 * product_.width, count = std::min(columns_, p1 * product_.width) - n0;
    std::fill_n(bias, bias_floats(), -0.0f);  // leaves every sum as it is
    if (finish_.bias.data) widen(finish_.bias.dtype, finish_.bias.at(0, n0), count, bias);
    for (int64_t blocks = ceil_div(r1 - r0, block_rows_), i = 0; i < blocks; ++i)
      block(r0 + (r1 - r0) * i / blocks, r0 + (r1 - r0) * (i + 1) / blocks, p0, p1, bias);
  }

  // A group of panels after the other. `bias` is panel p0's; the widened rows lie behind it.
  void block(int64_t r0, int64_t r1, int64_t p0, int64_t p1, float* bias) {
    const std::byte* rows = a_ + r0 * stride_ * static_cast<int64_t>(dtype_size(dtype_));
    const auto* a = reinterpret_cast<const float*>(rows);
    if (dtype_ != DType::f32) {
      float* wide = bias + bias_floats();
      widen_rows(dtype_, rows, stride_, r1 - r0, product_.depth, wide, product_.a_stride);
      a = wide;
    }
    const float* panels = weight_ ? reinterpret_cast<const float*>(weight_->data.get()) : packed();
    const int64_t groups = ceil_div(p1 - p0, group_), width = product_.width;
    for (int64_t g = 0; g < groups; ++g) {
      const int64_t n = (p0 + (p1 - p0) * g / groups) * width, end = (p0 + (p1 - p0) * (g + 1) / groups) * width;
      const bool more = g + 1 < groups;
      HWY_DYNAMIC_DISPATCH(multiply_in_place)
      (product_, {.a = a,
                  .panels = panels + n * product_.depth,
                  .bias = bias + (n - p0 * width),
                  .residual = finish_.residual.data ? finish_.residual.at(r0, n) : nullptr,
                  .out = finish_.out.at(r0, n),
                  .rows = r1 - r0,
                  .columns = std::min(columns_, end) - n,
                  .next = reinterpret_cast<const std::byte*>(panels + (more ? end : n) * product_.depth),
                  .pace = more ? width * 4 / ceil_div(r1 - r0, 8) : 0});
    }
  }

  int threads_;
  DType dtype_;  // of the rows
  const std::byte* a_;
  int64_t stride_, rows_, columns_;
  Finish finish_;
  RowsProduct product_;
  int64_t panels_ = 0, group_ = 1, block_rows_ = 0;
  Grid grid_;
  std::shared_ptr<const PackedWeight> weight_;  // null: b_ is packed by every run
  Operand b_;
  int64_t packed_floats_ = 0;
};

}  // namespace

// Wider matrices have tiles of their own, and long sums are more exact in slices.
bool packs_by_runs(const Matrices& m) {
  constexpr int64_t least = 128, most_columns = 256, most_depth_packed = 256;
  const Operand &a = m.a, &b = m.b;
  return !m.constant && a.size(0) == 1 && a.size(1) >= least && b.size(1) <= most_columns &&
         a.size(2) <= most_depth_packed && a.step[2] == 1 && b.dtype == DType::f32;
}

Answer make_rows_in_place_step(Problem& p) {
  const Matrices& m = matrices_of(p);
  const Operand &a = m.a, &b = m.b;
  if (!m.constant && !packs_by_runs(m)) return decline("no operand is constant");
  const auto is_known = [](DType type) { return type == DType::f32 || type == DType::f16 || type == DType::bf16; };
  if (!is_known(a.dtype) || b.dtype != DType::f32)
    return decline(fmt::format("{} times {}", dtype_name(a.dtype), dtype_name(b.dtype)));
  if (a.size(0) != 1) return decline(fmt::format("{} products", a.size(0)));
  if (a.size(1) < least_rows) return decline(fmt::format("{} rows", a.size(1)));
  if (a.size(2) == 0) return decline("a sum of nothing");
  if (a.size(2) > most_depth) return decline(fmt::format("sums of {}", a.size(2)));
  if (!a.bounds.empty() || !b.bounds.empty()) return decline("an operand with padding");
  if (a.step[1] == -1 || a.step[2] != 1) return decline("rows that do not lie densely");
  const auto finish = match_finish(m.kernel, p.args, m.axes, p.chain);
  if (!finish) return decline(p.chain ? "an epilogue of another form or order" : no_chain(p.kernel));
  if (finish->residual.data && finish->residual.dtype != finish->out.dtype)
    return decline(fmt::format("a residual of {}", dtype_name(finish->residual.dtype)));
  return accept(
      std::make_unique<RowsInPlaceStep>(p.context, a, b, m.constant, *finish, usable_threads(p.kernel, p.context)));
}

}  // namespace npusim::cpu::product::in_place
#endif
