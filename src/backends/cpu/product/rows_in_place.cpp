// Tiles of rows in place times panels of a weight, their sums ended in registers, compiled once per instruction set.
#include "backends/cpu/product/rows_in_place.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "backends/cpu/parallel.h"
#include "backends/cpu/product/blocking.h"
#include "backends/cpu/product/finish.h"
#include "backends/cpu/product/packed_weight.h"
#include "backends/cpu/vector_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/product/rows_in_place.cpp"
#include <hwy/foreach_target.h>

#include "backends/cpu/product/finish-inl.h"

#ifndef NPUSIM_ROWS_IN_PLACE
#define NPUSIM_ROWS_IN_PLACE
namespace npusim::cpu {

// What all tiles of a product share.
struct RowsProduct {
  int64_t depth = 0, width = 0;  // of the panels [panel][depth][width], zeros past the last column
  int64_t a_stride = 0, out_stride = 0, residual_stride = 0;
  float low = 0, high = 0;
};

// A rectangle of it, and then a tile. The bias has whole panels.
struct RowsPart {
  const float *a = nullptr, *panels = nullptr, *bias = nullptr, *residual = nullptr;  // residual null: none
  float* out = nullptr;
  int64_t rows = 0, columns = 0;
  // What is multiplied next, brought into the cache meanwhile: so many bytes in a step along the depth.
  const std::byte* next = nullptr;
  int64_t pace = 0;
};

// The width of panels, in columns, and what each thread has.
struct Split {
  int64_t width = 0;
  Grid grid;
};

}  // namespace npusim::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace npusim::cpu {
namespace HWY_NAMESPACE {

constexpr int64_t lanes = finish_lanes;
constexpr bool has_many = HWY_TARGET == HWY_AVX3;

// Rows of a tile by the vectors of its width: sums fill the registers but for a step's operands.
constexpr int most_vectors = has_many ? 4 : 3;
constexpr std::array<int, 5> rows_of = has_many ? std::array{0, 24, 12, 8, 6} : std::array{0, 12, 6, 4, 0};

// The last vector of a row, of which `count` elements are there.
HWY_INLINE VF load_last(const float* from, int64_t count) {
  if constexpr (has_many) return hn::MaskedLoad(hn::FirstN(F(), static_cast<size_t>(count)), F(), from);
  return count == lanes ? hn::LoadU(F(), from) : load_some<F32>(from, count);
}
HWY_INLINE void store_last(VF x, float* to, int64_t count) {
  if constexpr (has_many) {
    hn::BlendedStore(x, hn::FirstN(F(), static_cast<size_t>(count)), F(), to);
  } else if (count == lanes) {
    hn::StoreU(x, F(), to);
  } else {
    HWY_ALIGN float some[lanes];
    hn::Store(x, F(), some);
    std::memcpy(to, some, static_cast<size_t>(count) * 4);
  }
}

// One tile, whose last vector has `last` columns.
template <int rows, int vectors, int width>
void tile(const RowsProduct& p, const float* a, const float* HWY_RESTRICT panel, const float* HWY_RESTRICT bias,
          const float* residual, float* out, int64_t last, const std::byte* next, int64_t pace) {
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
  const VF low = hn::Set(f, p.low), high = hn::Set(f, p.high);
  const int64_t residual_stride = p.residual_stride, out_stride = p.out_stride;
#pragma GCC unroll 4
  for (int v = 0; v < vectors; ++v) {
    const VF x = hn::Load(f, bias + v * lanes);
#pragma GCC unroll 24
    for (int r = 0; r < rows; ++r) sum[r][v] = hn::Add(sum[r][v], x);
  }
  if (residual) {
#pragma GCC unroll 24
    for (int r = 0; r < rows; ++r, residual += residual_stride) {
#pragma GCC unroll 4
      for (int v = 0; v + 1 < vectors; ++v) sum[r][v] = hn::Add(sum[r][v], hn::LoadU(f, residual + v * lanes));
      constexpr int v = vectors - 1;
      sum[r][v] = hn::Add(sum[r][v], load_last(residual + v * lanes, last));
    }
  }
#pragma GCC unroll 24
  for (int r = 0; r < rows; ++r, out += out_stride) {
#pragma GCC unroll 4
    for (int v = 0; v + 1 < vectors; ++v) hn::StoreU(clamp(sum[r][v], low, high), f, out + v * lanes);
    constexpr int v = vectors - 1;
    store_last(clamp(sum[r][v], low, high), out + v * lanes, last);
  }
}

using Tile = void (*)(const RowsProduct&, const float*, const float*, const float*, const float*, float*, int64_t,
                      const std::byte*, int64_t);
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
    const float *a = part.a, *residual = part.residual;
    const std::byte* next = part.next;
    float* out = part.out;
    for (int64_t i = 0, over = 0; i < blocks; ++i) {  // as even as can be
      over += rest;
      const int64_t rows = share + (over >= blocks);
      if (over >= blocks) over -= blocks;
      const Tile* row = tiles.data() + (rows - 1) * width;
      for (int64_t n = 0; n < part.columns; n += panel_width) {
        const int64_t vectors = std::min<int64_t>(width, (part.columns - n + lanes - 1) / lanes);
        row[vectors - 1](p, a, part.panels + n * p.depth, part.bias + n, residual ? residual + n : nullptr, out + n,
                         std::min(lanes, part.columns - n - (vectors - 1) * lanes), next, part.pace);
        next += part.pace * p.depth;
      }
      a += rows * p.a_stride, out += rows * p.out_stride;
      if (residual) residual += rows * p.residual_stride;
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
      // beside products too. A vector of a panel is brought into the cache once.
      const auto step = [&](int64_t v) {
        const double loads = height + static_cast<double>(v), products = height * static_cast<double>(v);
        return std::max(loads, products) + 0.3 * height + 0.8 * static_cast<double>(v) + 1;
      };
      const double cost = static_cast<double>(blocks) *
                              (static_cast<double>(my_vectors / width) * step(width) + (last ? step(last) : 0)) +
                          2 * static_cast<double>(my_vectors);
      if (least == 0 || cost < least) best = {width * lanes, {1, parts, panels}}, least = cost;
    }
  return best;
}

}  // namespace HWY_NAMESPACE
}  // namespace npusim::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npusim::cpu {
HWY_EXPORT(multiply_in_place);
HWY_EXPORT(choose_split);

namespace {

constexpr int64_t least_rows = 16;          // below, the weight's way from memory counts
constexpr int64_t most_depth = 4096;        // of a panel that L2 holds
constexpr int64_t group_bytes = 256 << 10;  // of panels that stay in L2 while the rows come

class RowsInPlaceStep final : public BoundStep {
 public:
  RowsInPlaceStep(const Context& context, const Operand& a, const Operand& b, const Finish& finish, int threads)
      : threads_(threads), a_(reinterpret_cast<const float*>(a.at(0, 0, 0))), rows_(a.size(1)), columns_(b.size(1)) {
    const auto at = [](const Finish::Tensor& t) { return reinterpret_cast<float*>(t.data); };
    bias_ = at(finish.bias), residual_ = at(finish.residual), out_ = at(finish.out);
    const Split split = HWY_DYNAMIC_DISPATCH(choose_split)(rows_, columns_, threads_);
    grid_ = split.grid;
    product_ = {.depth = a.size(2),
                .width = split.width,
                .a_stride = a.step[1],
                .out_stride = finish.out.row_step,
                .residual_stride = finish.residual.row_step,
                .low = finish.low,
                .high = finish.high};
    weight_ = packed_weight(b, product_.width, context);
    panels_ = ceil_div(columns_, product_.width);
    group_ = std::max<int64_t>(1, group_bytes / (product_.depth * product_.width * 4));
    scratch_bytes_ = static_cast<size_t>(threads_ * bias_floats()) * 4;
  }

  void run() override {
    on_threads(threads_, [this](int thread) { part(thread); });
  }

  std::string describe() const override {
    return fmt::format("matmul {}x{}x{} rows in place, panels of {}", rows_, columns_, product_.depth, product_.width);
  }

 private:
  int64_t bias_floats() const { return ceil_div(panels_ * product_.width, 16) * 16; }

  // This thread's rows and panels, a group of panels after the other.
  void part(int thread) {
    const int64_t at_panels = thread % grid_.panels, at_rows = thread / grid_.panels;
    if (at_rows >= grid_.rows) return;
    const int64_t p0 = panels_ * at_panels / grid_.panels, p1 = panels_ * (at_panels + 1) / grid_.panels;
    const int64_t r0 = rows_ * at_rows / grid_.rows, r1 = rows_ * (at_rows + 1) / grid_.rows;
    if (p0 == p1 || r0 == r1) return;
    float* bias = reinterpret_cast<float*>(scratch_) + thread * bias_floats();
    const int64_t width = product_.width, n0 = p0 * width, n1 = std::min(columns_, p1 * width);
    if (bias_)
      std::copy(bias_ + n0, bias_ + n1, bias);
    else  // what leaves every sum as it is
      std::fill_n(bias, n1 - n0, -0.0f);
    std::fill(bias + (n1 - n0), bias + (p1 - p0) * width, -0.0f);
    const auto* panels = reinterpret_cast<const float*>(weight_->data.get());
    const int64_t groups = ceil_div(p1 - p0, group_);
    for (int64_t g = 0; g < groups; ++g) {
      const int64_t n = (p0 + (p1 - p0) * g / groups) * width, end = (p0 + (p1 - p0) * (g + 1) / groups) * width;
      const bool more = g + 1 < groups;
      HWY_DYNAMIC_DISPATCH(multiply_in_place)
      (product_, {.a = a_ + r0 * product_.a_stride,
                  .panels = panels + n * product_.depth,
                  .bias = bias + (n - n0),
                  .residual = residual_ ? residual_ + r0 * product_.residual_stride + n : nullptr,
                  .out = out_ + r0 * product_.out_stride + n,
                  .rows = r1 - r0,
                  .columns = std::min(columns_, end) - n,
                  .next = reinterpret_cast<const std::byte*>(panels + (more ? end : n) * product_.depth),
                  .pace = more ? width * 4 / ceil_div(r1 - r0, 8) : 0});
    }
  }

  int threads_;
  const float *a_, *bias_, *residual_;
  float* out_;
  int64_t rows_, columns_;
  RowsProduct product_;
  int64_t panels_ = 0, group_ = 1;
  Grid grid_;
  std::shared_ptr<const PackedWeight> weight_;
};

}  // namespace

Answer make_rows_in_place_step(Problem& p) {
  const Matrices& m = matrices_of(p);
  const Operand &a = m.a, &b = m.b;
  if (!m.constant) return decline("no operand is constant");
  if (a.dtype != DType::f32 || b.dtype != DType::f32)
    return decline(fmt::format("{} times {}", dtype_name(a.dtype), dtype_name(b.dtype)));
  if (a.size(0) != 1) return decline(fmt::format("{} products", a.size(0)));
  if (a.size(1) < least_rows) return decline(fmt::format("{} rows", a.size(1)));
  if (a.size(2) == 0) return decline("a sum of nothing");
  if (a.size(2) > most_depth) return decline(fmt::format("sums of {}", a.size(2)));
  if (!a.bounds.empty() || !b.bounds.empty()) return decline("an operand with padding");
  if (a.step[1] == -1 || a.step[2] != 1) return decline("rows that do not lie densely");
  const auto finish = match_finish(m.kernel, p.args, m.axes, p.chain);
  if (!finish) return decline(p.chain ? "an epilogue of another form or order" : no_chain(p.kernel));
  if (finish->activation != Activation::linear) return decline("an activation");
  for (const Finish::Tensor* t : {&finish->bias, &finish->residual, &finish->out})
    if (t->data && t->dtype != DType::f32) return decline(fmt::format("{} in the epilogue", dtype_name(t->dtype)));
  return accept(std::make_unique<RowsInPlaceStep>(p.context, a, b, *finish, usable_threads(p.kernel, p.context)));
}

}  // namespace npusim::cpu
#endif
