// Transforms of tiles, and the products between them in blocks of tiles that stay in cache.
#include "backends/cpu/product/winograd.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>

#include "backends/cpu/memory.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/product/blocking.h"
#include "backends/cpu/product/finish.h"
#include "backends/cpu/product/matmul.h"
#include "backends/cpu/product/nan_guard.h"
#include "backends/cpu/product/packed_weight.h"
#include "backends/cpu/product/simd.h"
#include "backends/cpu/vector_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/product/winograd.cpp"
#include <hwy/foreach_target.h>

#include "backends/cpu/product/simd-inl.h"

#ifndef NPUSIM_WINOGRAD_TILE
#define NPUSIM_WINOGRAD_TILE
namespace npusim::cpu {

constexpr int64_t out_edge = 4, in_edge = 6, positions = in_edge * in_edge;
constexpr int64_t channel_step = 16;  // channels of the image are a multiple: whole vectors on every machine

}  // namespace npusim::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace npusim::cpu {
namespace HWY_NAMESPACE {

constexpr int64_t winograd_lanes = static_cast<int64_t>(hn::MaxLanes(F()));

// Bᵀ x.
HWY_INLINE void transform_input(const VF* x, VF* y) {
  const F f;
  const VF four = hn::Set(f, 4.0f), five = hn::Set(f, 5.0f), two = hn::Set(f, 2.0f);
  const VF even = hn::NegMulAdd(four, x[2], x[4]), odd = hn::NegMulAdd(four, x[1], x[3]);
  const VF even2 = hn::Sub(x[4], x[2]), odd2 = hn::Mul(two, hn::Sub(x[3], x[1]));
  y[0] = hn::MulAdd(four, x[0], hn::NegMulAdd(five, x[2], x[4]));
  y[1] = hn::Add(even, odd);
  y[2] = hn::Sub(even, odd);
  y[3] = hn::Add(even2, odd2);
  y[4] = hn::Sub(even2, odd2);
  y[5] = hn::MulAdd(four, x[1], hn::NegMulAdd(five, x[3], x[5]));
}

// Aᵀ x.
HWY_INLINE void transform_output(const VF* x, VF* y) {
  const F f;
  const VF sum1 = hn::Add(x[1], x[2]), difference1 = hn::Sub(x[1], x[2]);
  const VF sum2 = hn::Add(x[3], x[4]), difference2 = hn::Sub(x[3], x[4]);
  y[0] = hn::Add(x[0], hn::Add(sum1, sum2));
  y[1] = hn::MulAdd(hn::Set(f, 2.0f), difference2, difference1);
  y[2] = hn::MulAdd(hn::Set(f, 4.0f), sum2, sum1);
  y[3] = hn::Add(x[5], hn::MulAdd(hn::Set(f, 8.0f), difference2, difference1));
}

template <class Type>
void input_tile_of(const std::byte* const* HWY_RESTRICT pixels, int64_t channels, float* HWY_RESTRICT to,
                   int64_t to_stride) {
  VF half[in_edge][in_edge], x[in_edge], y[in_edge];
  for (int64_t c = 0; c < channels; c += winograd_lanes) {
#pragma GCC unroll 6
    for (int64_t i = 0; i < in_edge; ++i) {
#pragma GCC unroll 6
      for (int64_t j = 0; j < in_edge; ++j)
        x[j] = Type::load(reinterpret_cast<const typename Type::T*>(pixels[i * in_edge + j]) + c);
      transform_input(x, half[i]);
    }
    float* position = to + c;
    for (int64_t j = 0; j < in_edge; ++j, position += to_stride) {
#pragma GCC unroll 6
      for (int64_t i = 0; i < in_edge; ++i) x[i] = half[i][j];
      transform_input(x, y);
      float* at = position;
#pragma GCC unroll 6
      for (int64_t i = 0; i < in_edge; ++i, at += in_edge * to_stride) hn::StoreU(y[i], F(), at);
    }
  }
}

// Bᵀ d B of one tile for all channels: position p goes to to[p · to_stride].
void input_tile(DType dtype, const std::byte* const* pixels, int64_t channels, float* to, int64_t to_stride) {
  with_type(dtype, [&](auto type) { input_tile_of<decltype(type)>(pixels, channels, to, to_stride); });
}

// Aᵀ m A of one tile for `channels` channels, rounded up to whole vectors: pixel p goes to to[p · to_stride]. False
// when one of the results is not finite.
bool output_tile(const float* from, int64_t from_stride, int64_t channels, float* to, int64_t to_stride) {
  const F f;
  VF half[out_edge][in_edge], x[in_edge], y[out_edge];
  VF zero = hn::Zero(f);  // while all is finite
  for (int64_t c = 0; c < channels; c += winograd_lanes) {
    for (int64_t j = 0; j < in_edge; ++j) {
#pragma GCC unroll 6
      for (int64_t i = 0; i < in_edge; ++i) x[i] = hn::LoadU(f, from + (i * in_edge + j) * from_stride + c);
      transform_output(x, y);
#pragma GCC unroll 4
      for (int64_t i = 0; i < out_edge; ++i) half[i][j] = y[i];
    }
    for (int64_t i = 0; i < out_edge; ++i) {
      transform_output(half[i], y);
#pragma GCC unroll 4
      for (int64_t j = 0; j < out_edge; ++j) {
        hn::StoreU(y[j], f, to + (i * out_edge + j) * to_stride + c);
        zero = hn::Add(zero, hn::Sub(y[j], y[j]));
      }
    }
  }
  return hn::AllTrue(f, hn::Eq(zero, hn::Zero(f)));
}

}  // namespace HWY_NAMESPACE
}  // namespace npusim::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npusim::cpu {
HWY_EXPORT(input_tile);
HWY_EXPORT(output_tile);

namespace {

constexpr int64_t group_columns = 128;  // output channels of one pass over a block of tiles
constexpr int64_t ld = group_columns + 16;
constexpr int64_t cached_floats = 110 << 10;  // of a block of tiles: half of a small L2
constexpr int64_t weight_floats = 96 << 10;   // of the weight, fetched for every block, for each of its tiles

// G g Gᵀ.
std::array<double, positions> transform_filter(const std::array<double, 9>& g) {
  constexpr double G[in_edge][3] = {{1. / 4, 0, 0},
                                    {-1. / 6, -1. / 6, -1. / 6},
                                    {-1. / 6, 1. / 6, -1. / 6},
                                    {1. / 24, 1. / 12, 1. / 6},
                                    {1. / 24, -1. / 12, 1. / 6},
                                    {0, 0, 1}};
  std::array<double, positions> u{};
  for (size_t i = 0; i < in_edge; ++i)
    for (size_t j = 0; j < in_edge; ++j)
      for (size_t y = 0; y < 3; ++y)
        for (size_t x = 0; x < 3; ++x) u[i * in_edge + j] += G[i][y] * g[y * 3 + x] * G[j][x];
  return u;
}

class WinogradStep final : public BoundStep {
 public:
  WinogradStep(const Kernel& kernel, std::span<const Binding> args, const Context& context, const ConvSpec& spec,
               Finish finish, std::unique_ptr<BoundStep> direct)
      : threads_(usable_threads(kernel, context)),
        spec_(spec),
        finish_(std::move(finish)),
        direct_(std::move(direct)),
        rows_(ceil_div(spec.output[0], out_edge)),
        columns_(ceil_div(spec.output[1], out_edge)),
        tiles_(spec.batch * rows_ * columns_),
        panels_(ceil_div(spec.out_channels, tall_tile().columns)),
        grid_(choose_grid(1, tiles_, panels_, threads_)),
        slices_(ceil_div(spec.in_channels, wide_depth)),
        narrow_(spec.in_channels <= narrow_depth) {
    const Access& image = kernel.contraction->a;
    const auto arg = static_cast<size_t>(image.arg);
    dtype_ = kernel.args[arg].dtype;
    image_ = static_cast<const std::byte*>(args[arg].data) + image.offset * static_cast<int64_t>(dtype_size(dtype_));
    outside_ = aligned_bytes(static_cast<size_t>(spec.in_channels) * 4, true);
    weight_ = cached_weight(kernel, args, context);
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
  std::shared_ptr<const PackedWeight> cached_weight(const Kernel& kernel, std::span<const Binding> args,
                                                    const Context& context) const {
    const Access& access = kernel.contraction->b;
    const auto arg = static_cast<size_t>(access.arg);
    const DType dtype = kernel.args[arg].dtype;
    const void* data = args[arg].data;
    if (!context.weights) return pack_weight(data, dtype, access.offset);
    const std::lock_guard lock(context.weights->mutex);
    auto& entry =
        context.weights
            ->weights[fmt::format("winograd {} {} {} {}x{} {}", data, dtype_name(dtype), access.offset,
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
      pixels[static_cast<size_t>(i)] =
          inside ? image_ +
                       (tile.image * spec_.src_strides[0] + y * spec_.src_strides[2] + x * spec_.src_strides[3]) * size
                 : outside_.get();
    }
    for (int64_t slice = 0; slice < slices_; ++slice) {
      const int64_t c0 = slice * wide_depth, c1 = std::min(spec_.in_channels, c0 + wide_depth);
      HWY_DYNAMIC_DISPATCH(input_tile)(dtype_, pixels.data(), c1 - c0, to + slice * slice_stride_, position_stride_);
      if (c1 < spec_.in_channels)
        for (auto& pixel : pixels)
          if (pixel != outside_.get()) pixel += wide_depth * size;
    }
  }

  // Output channels [n0, n1) of a tile, of which the part beyond the image is dropped.
  void write_tile(int64_t t, int64_t n0, int64_t n1, const float* sums, float* outputs) {
    if (!HWY_DYNAMIC_DISPATCH(output_tile)(sums, sums_stride_, n1 - n0, outputs, ld)) finite_ = false;
    const Tile tile = tile_at(t);
    const int64_t rows = std::min(out_edge, spec_.output[0] - tile.y),
                  columns = std::min(out_edge, spec_.output[1] - tile.x);
    for (int64_t y = 0; y < rows; ++y) {
      const int64_t r = (tile.image * spec_.output[0] + tile.y + y) * spec_.output[1] + tile.x;
      finish_tile(finish_, outputs + y * out_edge * ld, ld, r, r + columns, n0, n1);
    }
  }

  int threads_;
  ConvSpec spec_;
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

}  // namespace

// In multiplications: the direct sum against 36 products, each weight fetched once from memory (worth 43
// multiplications of a core each, 24 of one that multiplies half as many at once), and 260 of a core's in the time of
// transforming a tile for one channel.
bool winograd_pays(const ConvSpec& s) {
  const auto is = [](const std::vector<int64_t>& values, int64_t value) {
    return values.size() == 2 && values[0] == value && values[1] == value;
  };
  if (s.groups != 1 || !is(s.kernel, 3) || !is(s.stride, 1) || !is(s.dilation, 1)) return false;
  const auto c = static_cast<double>(s.in_channels), k = static_cast<double>(s.out_channels);
  const auto pixels = static_cast<double>(s.batch * s.output[0] * s.output[1]);
  const auto tiles = static_cast<double>(s.batch * ceil_div(s.output[0], out_edge) * ceil_div(s.output[1], out_edge));
  const double product = 1.25, fetch = many_registers() ? 43 : 24, transform = 260;
  const double direct = 9 * c * k * (product * pixels + fetch);
  const double winograd = positions * c * k * (product * tiles + fetch) + transform * tiles * (c + k);
  return winograd < 0.75 * direct;
}

std::unique_ptr<BoundStep> make_winograd_step(const Kernel& kernel, std::span<const Binding> args,
                                              const Context& context, const ConvSpec& spec,
                                              std::unique_ptr<BoundStep>& direct) {
  if (!winograd_pays(spec) || spec.src_strides[1] != 1 || spec.in_channels % channel_step != 0) return nullptr;
  const MatmulAxes axes{
      make_axis(kernel.space, {}), make_axis(kernel.space, {0, 3, 4}), make_axis(kernel.space, {1, 2}), {}};
  auto finish = match_finish(kernel, args, axes);
  if (!finish || !repeatable(kernel)) return nullptr;
  return std::make_unique<WinogradStep>(kernel, args, context, spec, std::move(*finish), std::move(direct));
}

}  // namespace npusim::cpu
#endif
