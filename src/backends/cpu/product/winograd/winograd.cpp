// Winograd's products, in blocks of tiles that stay in cache.
#include "backends/cpu/product/winograd/winograd.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>

#include "backends/cpu/memory.h"
#include "backends/cpu/product/blocking.h"
#include "backends/cpu/product/finish.h"
#include "backends/cpu/product/onednn/conv.h"
#include "backends/cpu/product/onednn/nan_guard.h"
#include "backends/cpu/product/packed_weight.h"
#include "backends/cpu/product/simd.h"
#include "backends/cpu/product/winograd/tile.h"
#include "base/threads.h"

namespace npusim::cpu::product::winograd {
namespace {

constexpr int64_t group_columns = 128;  // output channels of one pass over a block of tiles
constexpr int64_t ld = group_columns + 16;
constexpr int64_t cached_floats = 110 << 10;  // of a block of tiles: half of a small L2
constexpr int64_t weight_floats = 96 << 10;   // of the weight, fetched for every block, for each of its tiles

class WinogradStep final : public BoundStep {
 public:
  WinogradStep(const Problem& p, Finish finish, std::unique_ptr<BoundStep> direct)
      : threads_(usable_threads(p.kernel, p.context)),
        spec_(p.conv.spec),
        finish_(std::move(finish)),
        direct_(std::move(direct)),
        rows_(ceil_div(spec_.output[0], out_edge)),
        columns_(ceil_div(spec_.output[1], out_edge)),
        tiles_(spec_.batch * rows_ * columns_),
        panels_(ceil_div(spec_.out_channels, tall_tile().columns)),
        grid_(choose_grid(1, tiles_, panels_, threads_)),
        slices_(ceil_div(spec_.in_channels, wide_depth)),
        narrow_(spec_.in_channels <= narrow_depth) {
    const Access& image = p.kernel.contraction->a;
    const auto arg = static_cast<size_t>(image.arg);
    dtype_ = p.kernel.args[arg].dtype;
    image_ = static_cast<const std::byte*>(p.args[arg].data) + image.offset * static_cast<int64_t>(dtype_size(dtype_));
    outside_ = aligned_bytes(static_cast<size_t>(spec_.in_channels) * 4, true);
    weight_ = cached_weight(p);
    set_block();
    scratch_bytes_ = std::max(static_cast<size_t>(thread_floats_ * threads_) * 4, direct_->scratch_bytes());
  }

  void set_scratch(void* scratch) override {
    BoundStep::set_scratch(scratch);
    direct_->set_scratch(scratch);
  }

  void run() override {
    finite_ = true;
    on_threads(threads_, [this](int thread) { part(thread); });
    if (!finite_) direct_->run();
  }

  std::string describe() const override {
    return fmt::format("winograd {} tiles {}x{} of {}", tiles_, spec_.in_channels, spec_.out_channels,
                       dtype_name(dtype_));
  }

 private:
  // A block's rows are a whole number of register tiles where there are enough of them. It stays in L2, unless the
  // weight is so large that more tiles must meet each part of it.
  void set_block() {
    const int64_t floats = positions * (spec_.in_channels + std::min(group_columns, spec_.out_channels));
    const int64_t edge = tall_tile().rows, weight = positions * spec_.in_channels * spec_.out_channels;
    const int64_t fitting = std::max(cached_floats / floats, weight / weight_floats);
    block_ = std::min(std::max(edge, fitting / edge * edge), ceil_div(tiles_, grid_.rows));
    row_stride_ = narrow_ ? narrow_stride : wide_stride;
    slice_stride_ = block_ * row_stride_;
    // Positions an odd number of cache lines apart do not share cache sets.
    position_stride_ = slices_ * slice_stride_ + (slices_ * slice_stride_ / 16 % 2 == 0 ? 16 : 0);
    sums_stride_ = block_ * ld + (block_ * ld / 16 % 2 == 0 ? 16 : 0);
    thread_floats_ = positions * (position_stride_ + sums_stride_) + out_edge * out_edge * ld;
  }

  // The weight as f32 [position][panel][in channel][columns of a panel].
  std::shared_ptr<const PackedWeight> cached_weight(const Problem& p) const {
    const Access& access = p.kernel.contraction->b;
    const auto arg = static_cast<size_t>(access.arg);
    const DType dtype = p.kernel.args[arg].dtype;
    const void* data = p.args[arg].data;
    WeightCache* const cache = p.context.weights.get();
    if (!cache) return pack_weight(data, dtype, access.offset);
    const std::lock_guard lock(cache->mutex);
    auto& entry =
        cache->weights[fmt::format("winograd {} {} {} {}x{} {}", data, dtype_name(dtype), access.offset,
                                   spec_.out_channels, spec_.in_channels, fmt::join(spec_.weight_strides, ","))];
    if (!entry) entry = pack_weight(data, dtype, access.offset);
    return entry;
  }

  std::shared_ptr<const PackedWeight> pack_weight(const void* data, DType dtype, int64_t offset) const {
    const int64_t width = tall_tile().columns, panel = spec_.in_channels * width;
    auto packed = std::make_shared<PackedWeight>();
    packed->data = aligned_bytes(static_cast<size_t>(positions * panels_ * panel) * 4, true);
    auto* to = reinterpret_cast<float*>(packed->data.get());
    const std::vector<int64_t>& strides = spec_.weight_strides;  // group, out channel, in channel, y, x
    on_threads(threads_, [&](int thread) {
      for (int64_t k = spec_.out_channels * thread / threads_; k < spec_.out_channels * (thread + 1) / threads_; ++k)
        for (int64_t c = 0; c < spec_.in_channels; ++c) {
          std::array<double, 9> g;
          for (int64_t i = 0; i < 9; ++i)
            g[static_cast<size_t>(i)] = load_double(
                data, dtype, offset + k * strides[1] + c * strides[2] + i / 3 * strides[3] + i % 3 * strides[4]);
          const std::array<double, positions> u = transform_filter(g);
          for (int64_t p = 0; p < positions; ++p)
            to[(p * panels_ + k / width) * panel + c * width + k % width] =
                static_cast<float>(u[static_cast<size_t>(p)]);
        }
    });
    return packed;
  }

  // This thread's tiles and panels.
  void part(int thread) {
    const int64_t at_panels = thread % grid_.panels, at_rows = thread / grid_.panels;
    if (at_rows >= grid_.rows) return;
    const int64_t p0 = panels_ * at_panels / grid_.panels, p1 = panels_ * (at_panels + 1) / grid_.panels;
    const int64_t t0 = tiles_ * at_rows / grid_.rows, t1 = tiles_ * (at_rows + 1) / grid_.rows;
    if (p0 == p1) return;
    float* scratch = reinterpret_cast<float*>(scratch_) + thread * thread_floats_;
    for (int64_t blocks = ceil_div(t1 - t0, block_), i = 0; i < blocks; ++i)
      block(t0 + (t1 - t0) * i / blocks, t0 + (t1 - t0) * (i + 1) / blocks, p0, p1, scratch);
  }

  void block(int64_t t0, int64_t t1, int64_t p0, int64_t p1, float* inputs) {
    float *sums = inputs + positions * position_stride_, *outputs = sums + positions * sums_stride_;
    for (int64_t t = t0; t < t1; ++t) read_tile(t, inputs + (t - t0) * row_stride_);
    const int64_t width = tall_tile().columns, group = group_columns / width;
    for (int64_t p = p0; p < p1; p += group) {
      const int64_t end = std::min(p1, p + group);
      multiply(t1 - t0, p, end, inputs, sums);
      for (int64_t t = t0; t < t1; ++t)
        write_tile(t, p * width, std::min(spec_.out_channels, end * width), sums + (t - t0) * ld, outputs);
    }
  }

  void multiply(int64_t tiles, int64_t p0, int64_t p1, const float* inputs, float* sums) const {
    const int64_t width = tall_tile().columns, panel = spec_.in_channels * width;
    const auto* weight = reinterpret_cast<const float*>(weight_->data.get());
    for (int64_t position = 0; position < positions; ++position)
      for (int64_t slice = 0; slice < slices_; ++slice) {
        const int64_t k0 = slice * wide_depth, k1 = std::min(spec_.in_channels, k0 + wide_depth);
        BlockProduct product{.tile = tall_tile(),
                             .a = inputs + position * position_stride_ + slice * slice_stride_,
                             .rows = tiles,
                             .panels = weight + (position * panels_ + p0) * panel + k0 * width,
                             .panel_stride = panel,
                             .columns = std::min(spec_.out_channels, p1 * width) - p0 * width,
                             .depth = k1 - k0,
                             .c = sums + position * sums_stride_,
                             .ldc = ld,
                             .add = slice > 0};
        if (position + 1 < positions && slices_ == 1) {
          product.next = reinterpret_cast<const std::byte*>(product.panels + panels_ * panel);
          product.next_stride = product.next_bytes = panel * 4;
        }
        if (narrow_)
          multiply_narrow(product);
        else
          multiply_wide(product);
      }
  }

  struct Tile {
    int64_t image, y, x;  // of its first output
  };
  Tile tile_at(int64_t t) const {
    return {t / (rows_ * columns_), t / columns_ % rows_ * out_edge, t % columns_ * out_edge};
  }

  void read_tile(int64_t t, float* to) const {
    const Tile tile = tile_at(t);
    const auto size = static_cast<int64_t>(dtype_size(dtype_));
    std::array<const std::byte*, positions> pixels;
    for (int64_t i = 0; i < positions; ++i) {
      const int64_t y = tile.y + i / in_edge - spec_.pad_low[0], x = tile.x + i % in_edge - spec_.pad_low[1];
      const bool inside = y >= 0 && y < spec_.input[0] && x >= 0 && x < spec_.input[1];
      pixels[static_cast<size_t>(i)] = inside ? image_ + (tile.image * spec_.image_strides[0] +
                                                          y * spec_.image_strides[2] + x * spec_.image_strides[3]) *
                                                             size
                                              : outside_.get();
    }
    for (int64_t slice = 0; slice < slices_; ++slice) {
      const int64_t c0 = slice * wide_depth, c1 = std::min(spec_.in_channels, c0 + wide_depth);
      input_tile(dtype_, pixels.data(), c1 - c0, to + slice * slice_stride_, position_stride_);
      if (c1 < spec_.in_channels)
        for (auto& pixel : pixels)
          if (pixel != outside_.get()) pixel += wide_depth * size;
    }
  }

  // Output channels [n0, n1) of a tile, of which the part beyond the image is dropped.
  void write_tile(int64_t t, int64_t n0, int64_t n1, const float* sums, float* outputs) {
    if (!output_tile(sums, sums_stride_, n1 - n0, outputs, ld)) finite_ = false;
    const Tile tile = tile_at(t);
    const int64_t rows = std::min(out_edge, spec_.output[0] - tile.y),
                  columns = std::min(out_edge, spec_.output[1] - tile.x);
    for (int64_t y = 0; y < rows; ++y) {
      const int64_t r = (tile.image * spec_.output[0] + tile.y + y) * spec_.output[1] + tile.x;
      finish_tile(finish_, outputs + y * out_edge * ld, ld, r, r + columns, n0, n1);
    }
  }

  int threads_;
  ConvWindows spec_;
  Finish finish_;
  std::unique_ptr<BoundStep> direct_;
  int64_t rows_, columns_, tiles_, panels_;  // tiles of one image, of all; panels of output channels
  Grid grid_;                                // of tiles and panels
  int64_t slices_;                           // of the input channels
  bool narrow_;
  DType dtype_ = DType::f32;
  const std::byte* image_ = nullptr;
  std::shared_ptr<std::byte> outside_;  // a pixel of the padding
  std::shared_ptr<const PackedWeight> weight_;
  int64_t block_ = 0;  // tiles
  int64_t row_stride_ = 0, slice_stride_ = 0, position_stride_ = 0, sums_stride_ = 0, thread_floats_ = 0;
  std::atomic<bool> finite_ = true;
};

// Whether fewer multiplications pay for four times the weight and the transforms. In multiplications: the direct sum
// against 36 products, each weight fetched once from memory (worth 43 multiplications of a core each, 24 of one that
// multiplies half as many at once), and 260 of a core's in the time of transforming a tile for one channel.
bool pays(const ConvWindows& s) {
  const auto c = static_cast<double>(s.in_channels), k = static_cast<double>(s.out_channels);
  const auto pixels = static_cast<double>(s.batch * s.output[0] * s.output[1]);
  const auto tiles = static_cast<double>(s.batch * ceil_div(s.output[0], out_edge) * ceil_div(s.output[1], out_edge));
  const double product = 1.25, fetch = many_registers() ? 43 : 24, transform = 260;
  const double direct = 9 * c * k * (product * pixels + fetch);
  const double winograd = positions * c * k * (product * tiles + fetch) + transform * tiles * (c + k);
  return winograd < 0.75 * direct;
}

std::string refuse_shape(const ConvWindows& s) {
  const auto is = [](const std::vector<int64_t>& values, int64_t value) {
    return values.size() == 2 && values[0] == value && values[1] == value;
  };
  if (s.groups != 1) return fmt::format("{} groups", s.groups);
  if (!is(s.kernel, 3)) return fmt::format("windows of {}", fmt::join(s.kernel, "x"));
  if (!is(s.stride, 1)) return fmt::format("stride {}", fmt::join(s.stride, "x"));
  if (!is(s.dilation, 1)) return fmt::format("dilation {}", fmt::join(s.dilation, "x"));
  if (!pays(s))
    return fmt::format("{}x{} pixels of {} to {} channels do not pay for the transforms", s.output[0], s.output[1],
                       s.in_channels, s.out_channels);
  if (s.image_strides[1] != 1) return "channels of the image that do not lie side by side";
  if (s.in_channels % channel_step != 0) return fmt::format("{} channels are no whole vectors", s.in_channels);
  return {};
}

}  // namespace

Answer make_winograd_step(Problem& p) {
  if (!p.conv.declined.empty()) return decline(p.conv.declined);
  if (!p.conv.constant) return decline("the weight is no constant");
  const Kernel& kernel = p.kernel;
  if (std::string why = refuse_shape(p.conv.spec); !why.empty()) return decline(std::move(why));
  const auto type_of = [&](const Access& access) { return kernel.args[static_cast<size_t>(access.arg)].dtype; };
  if (p.context.bf16 && type_of(kernel.contraction->a) == DType::bf16 && type_of(kernel.contraction->b) == DType::bf16)
    return decline("bfloat16, which this machine multiplies faster as it is");
  const ProductAxes axes{
      make_axis(kernel.space, {}), make_axis(kernel.space, {0, 3, 4}), make_axis(kernel.space, {1, 2}), {}};
  auto finish = match_finish(kernel, p.args, axes, p.chain);
  if (!finish) return decline(p.chain ? "an epilogue that tiles do not end with" : no_chain(kernel));
  if (!onednn::repeatable(kernel)) return decline("a result that overwrites what is read");
  Answer direct = onednn::make_onednn_conv_step(p);
  if (!direct.step) direct = onednn::make_onednn_sums_step(p);
  if (!direct.step) return decline("for what is not finite: " + direct.declined);
  return accept(std::make_unique<WinogradStep>(p, std::move(*finish), std::move(direct.step)));
}

}  // namespace npusim::cpu::product::winograd
