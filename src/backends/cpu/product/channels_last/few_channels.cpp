// Tiles of neighbouring windows, read where they are in the image, times panels of a weight.
#include "backends/cpu/product/channels_last/few_channels.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/cpu/memory.h"
#include "backends/cpu/product/blocking.h"
#include "backends/cpu/product/finish.h"
#include "backends/cpu/product/simd.h"
#include "backends/cpu/vector_targets.h"
#include "base/threads.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/product/channels_last/few_channels.cpp"
#include <hwy/foreach_target.h>

#include "backends/cpu/product/simd-inl.h"

#ifndef NPUSIM_FEW_CHANNELS
#define NPUSIM_FEW_CHANNELS
namespace npusim::cpu::product::channels_last {

// What a register tile has: windows that neighbour each other, and columns of a panel.
struct WindowTileShape {
  int64_t windows = 0, columns = 0;
};

// How the windows of a tile lie: tap k of window i is at[offsets[k] + i·distance].
struct WindowLayout {
  std::vector<int64_t> offsets;
  int64_t distance = 1;
};
struct WindowTile {
  const float* at = nullptr;
  const WindowLayout* layout = nullptr;
  float* sums = nullptr;  // [window][column of the panel]
};

}  // namespace npusim::cpu::product::channels_last
#endif

HWY_BEFORE_NAMESPACE();
namespace npusim::cpu::product::channels_last {
namespace HWY_NAMESPACE {
using namespace product::HWY_NAMESPACE;

// Sums fill the registers but for a tap's operands.
constexpr int windows = HWY_TARGET == HWY_AVX3 ? 12 : 6, panel_columns = HWY_TARGET == HWY_AVX3 ? 32 : 16;
WindowTileShape window_tile_shape() { return {windows, panel_columns}; }

// The tiles' sums with `columns` of one panel [tap][column], in steps of so many vectors.
template <int vectors>
void multiply_columns(const WindowTile* tiles, int64_t count, const float* HWY_RESTRICT panel, int64_t columns) {
  const hn::CappedTag<float, panel_columns / 2> f;
  using Vector = hn::Vec<decltype(f)>;
  constexpr int64_t lanes = static_cast<int64_t>(hn::MaxLanes(decltype(f)()));
  constexpr int groups = windows / 3;  // a pointer for three windows: the processor adds one or two distances by itself
  for (int64_t t = 0; t < count; ++t)
    for (int64_t n = 0; n < columns; n += vectors * lanes) {
      const WindowTile& tile = tiles[t];
      const int64_t distance = tile.layout->distance;
      Vector sum[windows][vectors];
#pragma GCC unroll 12
      for (int i = 0; i < windows; ++i)
#pragma GCC unroll 2
        for (int v = 0; v < vectors; ++v) sum[i][v] = hn::Zero(f);
      const float* weight = panel + n;
#pragma GCC unroll 1
      for (const int64_t offset : tile.layout->offsets) {
        const float* at[groups];
#pragma GCC unroll 4
        for (int g = 0; g < groups; ++g) at[g] = tile.at + offset + 3 * g * distance;
        Vector b[vectors];
#pragma GCC unroll 2
        for (int v = 0; v < vectors; ++v) b[v] = hn::Load(f, weight + v * lanes);
        weight += panel_columns;
#pragma GCC unroll 12
        for (int i = 0; i < windows; ++i) {
          const Vector x = hn::Set(f, at[i / 3][i % 3 * distance]);
#pragma GCC unroll 2
          for (int v = 0; v < vectors; ++v) sum[i][v] = hn::MulAdd(x, b[v], sum[i][v]);
        }
      }
#pragma GCC unroll 12
      for (int i = 0; i < windows; ++i)
#pragma GCC unroll 2
        for (int v = 0; v < vectors; ++v) hn::Store(sum[i][v], f, tile.sums + i * panel_columns + n + v * lanes);
    }
}

void multiply_windows(const WindowTile* tiles, int64_t count, const float* panel, int64_t columns) {
  columns <= panel_columns / 2 ? multiply_columns<1>(tiles, count, panel, columns)
                               : multiply_columns<2>(tiles, count, panel, columns);
}

}  // namespace HWY_NAMESPACE
}  // namespace npusim::cpu::product::channels_last
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npusim::cpu::product::channels_last {
HWY_EXPORT(multiply_windows);
HWY_EXPORT(window_tile_shape);

namespace {

constexpr int64_t most_channels = 3, most_taps = 256, vector_columns = 16;
constexpr int64_t block_floats = 2048;  // sums of the windows of a row at once, which stay in L1

class FewChannelsStep final : public BoundStep {
 public:
  FewChannelsStep(const Problem& p, Finish finish)
      : threads_(usable_threads(p.kernel, p.context)),
        spec_(p.conv.spec),
        tile_(HWY_DYNAMIC_DISPATCH(window_tile_shape)()),
        finish_(std::move(finish)) {
    const Access& image = p.kernel.contraction->a;
    image_ = static_cast<const float*>(p.args[static_cast<size_t>(image.arg)].data) + image.offset;
    const int64_t rows = spec_.in_channels * spec_.kernel[0];
    piece_ = (tile_.windows - 1) * spec_.stride[1] + (spec_.kernel[1] - 1) * spec_.dilation[1] + 1;
    within_.distance = spec_.stride[1] * spec_.image_strides[3], copied_.distance = spec_.stride[1];
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t x = 0; x < spec_.kernel[1]; ++x) {
        const int64_t c = r / spec_.kernel[0], y = r % spec_.kernel[0];
        within_.offsets.push_back(c * spec_.image_strides[1] + y * spec_.dilation[0] * spec_.image_strides[2] +
                                  x * spec_.dilation[1] * spec_.image_strides[3]);
        copied_.offsets.push_back(r * piece_ + x * spec_.dilation[1]);
      }
    pack_weight(p);
    blocks_ = ceil_div(spec_.output[1], block_floats / tile_.columns);
    tiles_ = ceil_div(ceil_div(spec_.output[1], blocks_), tile_.windows);
    copy_floats_ = ceil_div(rows * piece_, 16) * 16;
    thread_floats_ = tiles_ * (copy_floats_ + tile_.windows * tile_.columns);
    scratch_bytes_ = static_cast<size_t>(threads_ * thread_floats_) * 4;
    memory_.resize(static_cast<size_t>(threads_ * tiles_));
  }

  void run() override {
    on_threads(threads_, [this](int thread) {
      const int64_t rows = spec_.batch * spec_.output[0], width = spec_.output[1];
      for (int64_t row = rows * thread / threads_; row < rows * (thread + 1) / threads_; ++row)
        for (int64_t i = 0; i < blocks_; ++i) block(thread, row, width * i / blocks_, width * (i + 1) / blocks_);
    });
  }

  std::string describe() const override {
    return fmt::format("few channels {}x{} taps {} to {} channels", spec_.kernel[0], spec_.kernel[1], spec_.in_channels,
                       spec_.out_channels);
  }

 private:
  // [panel][channel, tap][column], zeros past the last column.
  void pack_weight(const Problem& p) {
    const Access& access = p.kernel.contraction->b;
    const auto* from = static_cast<const float*>(p.args[static_cast<size_t>(access.arg)].data) + access.offset;
    const std::vector<int64_t>& strides = spec_.weight_strides;
    const auto taps = static_cast<int64_t>(within_.offsets.size());
    const int64_t panels = ceil_div(spec_.out_channels, tile_.columns);
    weight_ = aligned_bytes(static_cast<size_t>(panels * taps * tile_.columns) * 4, true);
    for (int64_t n = 0; n < spec_.out_channels; ++n)
      for (int64_t k = 0; k < taps; ++k) {
        const int64_t x = k % spec_.kernel[1], y = k / spec_.kernel[1] % spec_.kernel[0],
                      c = k / spec_.kernel[1] / spec_.kernel[0];
        panel(n / tile_.columns)[k * tile_.columns + n % tile_.columns] =
            from[n * strides[1] + c * strides[2] + y * strides[3] + x * strides[4]];
      }
  }
  float* panel(int64_t i) const {
    return reinterpret_cast<float*>(weight_.get()) + i * static_cast<int64_t>(within_.offsets.size()) * tile_.columns;
  }

  // Windows [x0, x1) of a row. The last tile begins earlier where the others leave it less.
  void block(int64_t thread, int64_t row, int64_t x0, int64_t x1) {
    const int64_t y = row % spec_.output[0] * spec_.stride[0] - spec_.pad_low[0];
    const float* image = image_ + row / spec_.output[0] * spec_.image_strides[0];
    const bool rows_within = y >= 0 && y + (spec_.kernel[0] - 1) * spec_.dilation[0] < spec_.input[0];
    float* copies = reinterpret_cast<float*>(scratch_) + thread * thread_floats_;
    float* sums = copies + tiles_ * copy_floats_;
    WindowTile* tiles = memory_.data() + thread * tiles_;
    const int64_t count = ceil_div(x1 - x0, tile_.windows);
    for (int64_t t = 0; t < count; ++t) {
      const int64_t first = std::min(x0 + t * tile_.windows, x1 - tile_.windows),
                    x = first * spec_.stride[1] - spec_.pad_low[1];
      tiles[t].sums = sums + (first - x0) * tile_.columns;
      if (rows_within && x >= 0 && x + piece_ <= spec_.input[1]) {
        tiles[t].at = image + y * spec_.image_strides[2] + x * spec_.image_strides[3], tiles[t].layout = &within_;
      } else {
        copy(image, y, x, copies + t * copy_floats_);
        tiles[t].at = copies + t * copy_floats_, tiles[t].layout = &copied_;
      }
    }
    const int64_t at = row * spec_.output[1];
    for (int64_t n = 0; n < spec_.out_channels; n += tile_.columns) {
      const int64_t end = std::min(n + tile_.columns, spec_.out_channels);
      HWY_DYNAMIC_DISPATCH(multiply_windows)(tiles, count, panel(n / tile_.columns), end - n);
      finish_tile(finish_, sums, tile_.columns, at + x0, at + x1, n, end);
    }
  }

  // The part of the image that a tile's windows see from (y, x) on, with zeros outside it: [channel, row of
  // taps][column].
  void copy(const float* image, int64_t y, int64_t x, float* to) const {
    const int64_t begin = std::clamp<int64_t>(-x, 0, piece_), end = std::clamp(spec_.input[1] - x, begin, piece_);
    for (int64_t c = 0; c < spec_.in_channels; ++c)
      for (int64_t r = 0; r < spec_.kernel[0]; ++r, to += piece_) {
        const int64_t at = y + r * spec_.dilation[0];
        std::fill_n(to, piece_, 0.0f);
        if (at < 0 || at >= spec_.input[0]) continue;
        const float* from = image + c * spec_.image_strides[1] + at * spec_.image_strides[2];
        for (int64_t i = begin; i < end; ++i) to[i] = from[(x + i) * spec_.image_strides[3]];
      }
  }

  int threads_;
  ConvWindows spec_;
  WindowTileShape tile_;
  Finish finish_;
  const float* image_ = nullptr;
  WindowLayout within_, copied_;  // of tiles within the image, and of those that reach outside it
  std::shared_ptr<std::byte> weight_;
  int64_t piece_ = 0;  // columns of the image that a tile sees
  int64_t blocks_ = 1, tiles_ = 0, copy_floats_ = 0, thread_floats_ = 0;
  std::vector<WindowTile> memory_;  // of each thread
};

}  // namespace

Answer make_few_channels_step(Problem& p) {
  if (!p.conv.declined.empty()) return decline(p.conv.declined);
  const ConvWindows& spec = p.conv.spec;
  if (spec.groups > 1) return decline(fmt::format("{} groups", spec.groups));
  if (spec.in_channels > most_channels) return decline(fmt::format("{} channels", spec.in_channels));
  if (!p.conv.constant) return decline("the weight is no constant");
  for (const Access* access : {&p.kernel.contraction->a, &p.kernel.contraction->b})
    if (const DType type = p.kernel.args[static_cast<size_t>(access->arg)].dtype; type != DType::f32)
      return decline(fmt::format("an operand of {}", dtype_name(type)));
  if (spec.input.size() != 2) return decline(fmt::format("{} spatial dimensions", spec.input.size()));
  if (spec.output[1] < HWY_DYNAMIC_DISPATCH(window_tile_shape)().windows)
    return decline(fmt::format("rows of {} windows", spec.output[1]));
  if (spec.in_channels * spec.kernel[0] * spec.kernel[1] > most_taps) return decline("sums that are long");
  if (spec.out_channels % vector_columns > 0 && spec.out_channels < 3 * vector_columns)
    return decline(fmt::format("{} channels of the result, which leave a panel partly empty", spec.out_channels));
  const ProductAxes axes{
      make_axis(p.kernel.space, {}), make_axis(p.kernel.space, {0, 3, 4}), make_axis(p.kernel.space, {1, 2}), {}};
  auto finish = match_finish(p.kernel, p.args, axes, p.chain);
  if (!finish) return decline(p.chain ? "an epilogue that tiles do not end with" : no_chain(p.kernel));
  if (many_registers() && spec.out_channels > 2 * vector_columns)
    return decline(fmt::format("{} channels of the result, more than a panel: oneDNN is quicker", spec.out_channels));
  return accept(std::make_unique<FewChannelsStep>(p, std::move(*finish)));
}

}  // namespace npusim::cpu::product::channels_last
#endif
