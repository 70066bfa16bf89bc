// Sums over the taps of a window, 64 channels of a pixel at a time.
#include "backends/cpu/product/depthwise.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "backends/cpu/memory.h"
#include "backends/cpu/product/finish.h"
#include "backends/cpu/product/simd.h"
#include "backends/cpu/vector_targets.h"
#include "base/threads.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/product/depthwise.cpp"
#include <hwy/foreach_target.h>

#include "backends/cpu/product/simd-inl.h"

#ifndef NPUSIM_DEPTHWISE_PIXEL
#define NPUSIM_DEPTHWISE_PIXEL
namespace npusim::cpu {

constexpr int64_t channel_block = 64;

// The taps of a window that touch the image, and what they read.
struct Pixel {
  const std::byte* image = nullptr;  // the first tap, at the first channel of the block
  const float* weight = nullptr;     // [tap][channel], likewise
  int64_t rows = 0, columns = 0;     // of taps
  int64_t row_stride = 0, column_stride = 0, weight_row = 0, weight_column = 0;  // in elements
};

}  // namespace npusim::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace npusim::cpu {
namespace HWY_NAMESPACE {

constexpr int neighbours = HWY_TARGET == HWY_AVX3 ? 8 : 4;

template <class Type, int vectors, bool part>
HWY_INLINE void sum_taps(const Pixel& p, int64_t channels, float* out) {
  constexpr int64_t lanes = static_cast<int64_t>(hn::MaxLanes(F()));
  VF sum[vectors];
#pragma GCC unroll 16
  for (int v = 0; v < vectors; ++v) sum[v] = hn::Zero(F());
  const auto* image_row = reinterpret_cast<const typename Type::T*>(p.image);
  const float* weight_row = p.weight;
  for (int64_t i = 0; i < p.rows; ++i, image_row += p.row_stride, weight_row += p.weight_row) {
    const auto* image = image_row;
    const float* weight = weight_row;
    for (int64_t j = 0; j < p.columns; ++j, image += p.column_stride, weight += p.weight_column) {
#pragma GCC unroll 16
      for (int v = 0; v < vectors; ++v) {
        VF x;
        if (part && v == vectors - 1) {
          HWY_ALIGN typename Type::T some[lanes] = {};
          std::memcpy(some, image + v * lanes, static_cast<size_t>(channels - v * lanes) * sizeof(typename Type::T));
          x = Type::load(some);
        } else {
          x = Type::load(image + v * lanes);
        }
        sum[v] = hn::MulAdd(x, hn::LoadU(F(), weight + v * lanes), sum[v]);
      }
    }
  }
#pragma GCC unroll 16
  for (int v = 0; v < vectors; ++v) hn::StoreU(sum[v], F(), out + v * lanes);
}

template <class Type, int vectors>
HWY_INLINE void sum_vectors(const Pixel& p, int64_t channels, float* out) {
  constexpr int64_t lanes = static_cast<int64_t>(hn::MaxLanes(F()));
  if (channels == vectors * lanes) return sum_taps<Type, vectors, false>(p, channels, out);
  if constexpr (vectors > 1)
    if (channels <= (vectors - 1) * lanes) return sum_vectors<Type, vectors - 1>(p, channels, out);
  sum_taps<Type, vectors, true>(p, channels, out);
}

// Neighbouring windows of three taps, each pixel loaded and widened once for all of them.
template <class Type>
HWY_INLINE void sum_neighbours(const Pixel& p, float* out) {
  VF sum[neighbours];
#pragma GCC unroll 8
  for (int n = 0; n < neighbours; ++n) sum[n] = hn::Zero(F());
  const auto* image_row = reinterpret_cast<const typename Type::T*>(p.image);
  const float* weight_row = p.weight;
  for (int64_t i = 0; i < p.rows; ++i, image_row += p.row_stride, weight_row += p.weight_row) {
    const VF w0 = hn::LoadU(F(), weight_row), w1 = hn::LoadU(F(), weight_row + p.weight_column),
             w2 = hn::LoadU(F(), weight_row + 2 * p.weight_column);
    const auto* image = image_row;
#pragma GCC unroll 16
    for (int j = 0; j < neighbours + 2; ++j, image += p.column_stride) {
      const VF x = Type::load(image);
      if (j < neighbours) sum[j] = hn::MulAdd(x, w0, sum[j]);
      if (j >= 1 && j <= neighbours) sum[j - 1] = hn::MulAdd(x, w1, sum[j - 1]);
      if (j >= 2) sum[j - 2] = hn::MulAdd(x, w2, sum[j - 2]);
    }
  }
#pragma GCC unroll 8
  for (int n = 0; n < neighbours; ++n) hn::StoreU(sum[n], F(), out + n * channel_block);
}

// Whether the windows from `first` on are neighbours of three taps each.
HWY_INLINE bool are_neighbours(const Pixel* first, int64_t count, int64_t size) {
  if (count < neighbours) return false;
  const Pixel &a = first[0], &b = first[neighbours - 1];
  return a.columns == 3 && b.columns == 3 && b.image - a.image == (neighbours - 1) * a.column_stride * size &&
         first[1].columns == 3 && first[1].image - a.image == a.column_stride * size;
}

// out[i, c] = Σ over the taps of pixel i, for `channels` <= channel_block channels.
void sum_pixels(DType dtype, const Pixel* pixels, int64_t count, int64_t channels, float* out) {
  constexpr int64_t lanes = static_cast<int64_t>(hn::MaxLanes(F()));
  constexpr int64_t most = std::min<int64_t>(4, channel_block / lanes);
  with_type(dtype, [&](auto type) {
    using Type = decltype(type);
    const auto size = static_cast<int64_t>(sizeof(typename Type::T));
    for (int64_t i = 0; i < count;) {
      const bool together = channels % lanes == 0 && are_neighbours(pixels + i, count - i, size);
      const int64_t width = together ? lanes : most * lanes;
      for (int64_t c = 0; c < channels; c += width) {
        Pixel part = pixels[i];
        part.image += c * size, part.weight += c;
        if (together)
          sum_neighbours<Type>(part, out + i * channel_block + c);
        else
          sum_vectors<Type, most>(part, std::min(width, channels - c), out + i * channel_block + c);
      }
      i += together ? neighbours : 1;
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace npusim::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npusim::cpu {
HWY_EXPORT(sum_pixels);

namespace {

constexpr int64_t pixel_block = 16;

// One spatial dimension, and for each output which taps touch the image.
struct Line {
  int64_t extent = 1, taps = 1, step = 1, dilation = 1, pad = 0, stride = 0;
  struct Taps {
    int64_t begin = 0, end = 0, first = 0;  // tap `begin` reads coordinate `first`
  };
  std::vector<Taps> at;  // by output
};

Line make_line(const ConvWindows& s, size_t i) {
  Line line{s.input[i], s.kernel[i], s.stride[i], s.dilation[i], s.pad_low[i], s.image_strides[2 + i], {}};
  for (int64_t out = 0; out < s.output[i]; ++out) {
    const int64_t base = out * line.step - line.pad;
    Line::Taps taps;
    while (taps.begin < line.taps && base + taps.begin * line.dilation < 0) ++taps.begin;
    taps.end = line.taps;
    while (taps.end > taps.begin && base + (taps.end - 1) * line.dilation >= line.extent) --taps.end;
    taps.first = base + taps.begin * line.dilation;
    line.at.push_back(taps);
  }
  return line;
}

class DepthwiseStep final : public BoundStep {
 public:
  DepthwiseStep(const Kernel& kernel, std::span<const Binding> args, const Context& context, const ConvWindows& spec,
                Finish finish)
      : threads_(usable_threads(kernel, context)),
        channels_(spec.groups),
        batch_(spec.batch),
        batch_stride_(spec.image_strides[0]),
        finish_(std::move(finish)) {
    const Access& image = kernel.contraction->a;
    const auto arg = static_cast<size_t>(image.arg);
    dtype_ = kernel.args[arg].dtype;
    image_ = static_cast<const std::byte*>(args[arg].data) + image.offset * static_cast<int64_t>(dtype_size(dtype_));
    y_ = spec.input.size() == 2 ? make_line(spec, 0) : Line{.at = {{0, 1, 0}}};
    x_ = make_line(spec, spec.input.size() - 1);
    pack_weight(kernel, args, spec);
    scratch_bytes_ = static_cast<size_t>(threads_ * pixel_block * channel_block) * 4;
  }

  void run() override {
    on_threads(threads_, [this](int thread) {
      float* sums = reinterpret_cast<float*>(scratch_) + thread * pixel_block * channel_block;
      const int64_t rows = batch_ * static_cast<int64_t>(y_.at.size());
      for (int64_t row = rows * thread / threads_; row < rows * (thread + 1) / threads_; ++row)
        for (int64_t c = 0; c < channels_; c += channel_block) row_of(row, c, sums);
    });
  }

  std::string describe() const override {
    return fmt::format("depthwise {}x{} taps {} channels {}", y_.taps, x_.taps, channels_, dtype_name(dtype_));
  }

 private:
  // The weight as f32 [tap][channel], channels padded to whole blocks.
  void pack_weight(const Kernel& kernel, std::span<const Binding> args, const ConvWindows& spec) {
    const Access& access = kernel.contraction->b;
    const auto arg = static_cast<size_t>(access.arg);
    const DType dtype = kernel.args[arg].dtype;
    weight_row_ = (channels_ + channel_block - 1) / channel_block * channel_block;
    const size_t size = static_cast<size_t>(y_.taps * x_.taps * weight_row_) * 4;
    weight_ = aligned_bytes(size, true);
    auto* to = reinterpret_cast<float*>(weight_.get());
    const int64_t y_stride = spec.input.size() == 2 ? spec.weight_strides[3] : 0, x_stride = spec.weight_strides.back();
    for (int64_t y = 0; y < y_.taps; ++y)
      for (int64_t x = 0; x < x_.taps; ++x, to += weight_row_)
        for (int64_t c = 0; c < channels_; ++c)
          to[c] = static_cast<float>(load_double(
              args[arg].data, dtype, access.offset + c * spec.weight_strides[0] + y * y_stride + x * x_stride));
  }

  // One row of the output, at a block of channels.
  void row_of(int64_t row, int64_t channel, float* sums) {
    const auto height = static_cast<int64_t>(y_.at.size()), width = static_cast<int64_t>(x_.at.size());
    const auto size = static_cast<int64_t>(dtype_size(dtype_));
    const int64_t count = std::min(channel_block, channels_ - channel);
    const Line::Taps& y = y_.at[static_cast<size_t>(row % height)];
    const int64_t start = row / height * batch_stride_ + y.first * y_.stride + channel;
    std::array<Pixel, pixel_block> pixels;
    pixels.fill({.rows = y.end - y.begin,
                 .row_stride = y_.dilation * y_.stride,
                 .column_stride = x_.dilation * x_.stride,
                 .weight_row = x_.taps * weight_row_,
                 .weight_column = weight_row_});
    const auto* weight = reinterpret_cast<const float*>(weight_.get()) + y.begin * x_.taps * weight_row_ + channel;
    for (int64_t x0 = 0; x0 < width; x0 += pixel_block) {
      const int64_t x1 = std::min(width, x0 + pixel_block);
      for (int64_t i = x0; i < x1; ++i) {
        const Line::Taps& x = x_.at[static_cast<size_t>(i)];
        Pixel& p = pixels[static_cast<size_t>(i - x0)];
        p.columns = x.end - x.begin;
        p.image = image_ + (start + x.first * x_.stride) * size;
        p.weight = weight + x.begin * weight_row_;
      }
      HWY_DYNAMIC_DISPATCH(sum_pixels)(dtype_, pixels.data(), x1 - x0, count, sums);
      finish_tile(finish_, sums, channel_block, row * width + x0, row * width + x1, channel, channel + count);
    }
  }

  int threads_;
  int64_t channels_, batch_, batch_stride_;
  Finish finish_;
  DType dtype_ = DType::f32;
  const std::byte* image_ = nullptr;
  Line y_, x_;
  int64_t weight_row_ = 0;
  std::shared_ptr<std::byte> weight_;
};

}  // namespace

Answer make_depthwise_step(Problem& p) {
  if (!p.conv.declined.empty()) return decline(p.conv.declined);
  if (!p.conv.constant) return decline("the weight is no constant");
  const Kernel& kernel = p.kernel;
  const ConvWindows& spec = p.conv.spec;
  if (spec.groups == 1 || spec.out_channels != 1 || spec.in_channels != 1)
    return decline("filters that see more than one channel");
  // oneDNN needs a 16-bit image widened before and the result rounded after, in passes of their own.
  if (kernel.args[static_cast<size_t>(kernel.contraction->a.arg)].dtype == DType::f32)
    return decline("a float32 image, which oneDNN takes as it is");
  if (spec.image_strides[1] != 1) return decline("channels of the image that do not lie side by side");
  if (spec.input.size() > 2) return decline("3 spatial dimensions");
  std::vector<int> rows{0};
  for (size_t d = 3; d < kernel.space.size(); ++d) rows.push_back(static_cast<int>(d));
  const ProductAxes axes{
      make_axis(kernel.space, {}), make_axis(kernel.space, rows), make_axis(kernel.space, {1, 2}), {}};
  auto finish = match_finish(kernel, p.args, axes, p.chain);
  if (!finish) return decline(p.chain ? "an epilogue that tiles do not end with" : no_chain(kernel));
  return accept(std::make_unique<DepthwiseStep>(kernel, p.args, p.context, spec, std::move(*finish)));
}

}  // namespace npusim::cpu
#endif
