// Sums over the taps of a window: of float32 for neighbouring pixels at once, of others 64 channels of a pixel at a
// time.
#include "backends/cpu/product/channels_last/depthwise.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "backends/cpu/memory.h"
#include "backends/cpu/product/finish.h"
#include "backends/cpu/product/simd.h"
#include "backends/cpu/vector_targets.h"
#include "base/threads.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/product/channels_last/depthwise.cpp"
#include <hwy/foreach_target.h>

#include "backends/cpu/product/finish-inl.h"

#ifndef NPUSIM_DEPTHWISE_PIXEL
#define NPUSIM_DEPTHWISE_PIXEL
namespace npusim::cpu::product::channels_last {

constexpr int64_t channel_block = 64;

// The taps of a window that touch the image, and what they read.
struct Pixel {
  const std::byte* image = nullptr;           // the first tap, at the first channel of the block
  const float* weight = nullptr;              // [tap][channel], likewise
  int64_t planes = 1, rows = 0, columns = 0;  // of taps
  // In elements.
  int64_t plane_stride = 0, row_stride = 0, column_stride = 0, weight_plane = 0, weight_row = 0, weight_column = 0;
};

constexpr int64_t most_neighbours = 8;
constexpr int64_t cached_bytes = 1 << 20;  // of an image that is in L2 since it was written
constexpr int64_t enough_rows = 4;         // of a thread, so that one row more is little
constexpr int64_t most_channels = 64;      // of such an image at once: what the next row reads again stays in L1

// Neighbouring float32 pixels of a row, all their channels in [0, channels), and how their sums end. What tap 0 of the
// first pixel reads may lie before the image: its columns [low_column, high_column), counted from there, are read.
struct Neighbours {
  const float *image = nullptr, *weight = nullptr;  // at channel 0; the weight has whole vectors
  int64_t planes = 1, rows = 0;                     // of taps, all within the image
  int64_t plane_stride = 0, row_stride = 0, column_stride = 0, weight_plane = 0, weight_row = 0, weight_column = 0;
  int64_t low_column = 0, high_column = 0;
  int64_t channels = 0;
  // Rows of taps from `fresh` on that are read for the first time, and come from memory: the next neighbours' pixels,
  // whose channels all lie side by side, are prefetched into the cache meanwhile.
  int64_t fresh = 0;
  const float* bias = nullptr;  // whole vectors
  Activation activation = Activation::linear;
  const float* residual = nullptr;  // null: none
  float low = 0, high = 0;
  float* out = nullptr;
  int64_t residual_stride = 0, out_stride = 0;  // between pixels
};

}  // namespace npusim::cpu::product::channels_last
#endif

HWY_BEFORE_NAMESPACE();
namespace npusim::cpu::product::channels_last {
namespace HWY_NAMESPACE {
using namespace product::HWY_NAMESPACE;

constexpr int neighbours = HWY_TARGET == HWY_AVX3 ? 8 : 4;

// Walks the rows of taps, plane by plane, in elements from the first one.
template <class Taps>
struct Lines {
  HWY_INLINE explicit Lines(const Taps& taps) : of(taps) {}
  HWY_INLINE bool here() const { return plane < of.planes && row < of.rows; }
  HWY_INLINE void next() {
    image += of.row_stride, weight += of.weight_row;
    if (++row < of.rows) return;
    row = 0, ++plane;
    image = plane * of.plane_stride, weight = plane * of.weight_plane;
  }
  const Taps& of;
  int64_t plane = 0, row = 0, image = 0, weight = 0;
};

template <class Type, int vectors, bool part>
HWY_INLINE void sum_taps(const Pixel& p, int64_t channels, float* out) {
  constexpr int64_t lanes = static_cast<int64_t>(hn::MaxLanes(F()));
  VF sum[vectors];
#pragma GCC unroll 16
  for (int v = 0; v < vectors; ++v) sum[v] = hn::Zero(F());
  for (Lines at(p); at.here(); at.next()) {
    const auto* image = reinterpret_cast<const typename Type::T*>(p.image) + at.image;
    const float* weight = p.weight + at.weight;
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
  for (Lines at(p); at.here(); at.next()) {
    const float* weight_row = p.weight + at.weight;
    const VF w0 = hn::LoadU(F(), weight_row), w1 = hn::LoadU(F(), weight_row + p.weight_column),
             w2 = hn::LoadU(F(), weight_row + 2 * p.weight_column);
    const auto* image = reinterpret_cast<const typename Type::T*>(p.image) + at.image;
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

// What stands for a pixel outside the image.
HWY_ALIGN constexpr float no_pixel[finish_lanes] = {};

// `there` channels of a vector, all of them where it is whole.
template <bool whole>
HWY_INLINE VF load_channels(const float* from, int64_t there) {
  if constexpr (whole) return hn::LoadU(F(), from);
  if constexpr (HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3)  // which touch nothing else
    return hn::MaskedLoad(hn::FirstN(F(), static_cast<size_t>(there)), F(), from);
  return load_some<F32>(from, there);
}

// Adds the bias, applies the activation, adds the residual, and stores `there` of a vector's channels from c on.
template <bool whole, int count>
HWY_INLINE void finish(VF (&sum)[count], const Neighbours& p, int64_t c, int64_t there) {
  constexpr int64_t lanes = finish_lanes;
  const VF bias = hn::LoadU(F(), p.bias + c);
#pragma GCC unroll 8
  for (int n = 0; n < count; ++n) sum[n] = hn::Add(sum[n], bias);
  if (p.activation != Activation::linear) {
    HWY_ALIGN float values[count * lanes];
#pragma GCC unroll 8
    for (int n = 0; n < count; ++n) hn::Store(sum[n], F(), values + n * lanes);
    activate_values(p.activation, values, count * lanes);
#pragma GCC unroll 8
    for (int n = 0; n < count; ++n) sum[n] = hn::Load(F(), values + n * lanes);
  }
  if (p.residual) {
    const float* residual = p.residual + c;
#pragma GCC unroll 8
    for (int n = 0; n < count; ++n, residual += p.residual_stride)
      sum[n] = hn::Add(sum[n], load_channels<whole>(residual, there));
  }
  const VF low = hn::Set(F(), p.low), high = hn::Set(F(), p.high);
  float* out = p.out + c;
#pragma GCC unroll 8
  for (int n = 0; n < count; ++n, out += p.out_stride) {
    const VF x = clamp(sum[n], low, high);
    if constexpr (whole) {
      hn::StoreU(x, F(), out);
    } else {
      HWY_ALIGN float some[lanes];
      hn::Store(x, F(), some);
      std::memcpy(out, some, static_cast<size_t>(there) * 4);
    }
  }
}

// A vector of channels of windows of `taps` columns, `step` columns apart: each column of the image is loaded once for
// all of them. At an edge columns that are not `present`, which only the first and the last can be, are zeros.
template <int taps, int step, int count, bool edge, bool whole>
HWY_INLINE void sum_vector(const Neighbours& p, const bool* present, int64_t c, int64_t there) {
  constexpr int64_t lanes = finish_lanes;
  constexpr int columns = (count - 1) * step + taps;
  VF sum[count];
#pragma GCC unroll 8
  for (int n = 0; n < count; ++n) sum[n] = hn::Zero(F());
  for (Lines at(p); at.here(); at.next()) {
    const float *image_row = p.image + c + at.image, *weight_row = p.weight + c + at.weight;
    VF weight[taps];
#pragma GCC unroll 8
    for (int t = 0; t < taps; ++t) weight[t] = hn::LoadU(F(), weight_row + t * p.weight_column);
    const float* image = image_row;
    if (at.row >= p.fresh)
      for (int line = 0; line < count * step * lanes / 16; ++line)
        __builtin_prefetch(image_row - c + count * step * (p.column_stride + c) + line * 16, 0, 2);
#pragma GCC unroll 24
    for (int j = 0; j < columns; ++j, image += p.column_stride) {
      const bool may_miss = edge && (j < taps - 1 || j > columns - taps);
      const VF x = load_channels<whole>(may_miss && !present[j] ? no_pixel : image, there);
#pragma GCC unroll 8
      for (int t = 0; t < taps; ++t) {
        if (j < t || (j - t) % step != 0 || (j - t) / step >= count) continue;
        sum[(j - t) / step] = hn::MulAdd(x, weight[t], sum[(j - t) / step]);
      }
    }
  }
  finish<whole>(sum, p, c, there);
}

// The channels that fill no vector, of one window after the other.
template <int taps, int step>
HWY_NOINLINE void sum_some(Neighbours p, int count, int64_t c) {
  for (int n = 0; n < count; ++n) {
    bool present[taps];
    for (int j = 0; j < taps; ++j) present[j] = j >= p.low_column && j < p.high_column;
    sum_vector<taps, step, 1, true, false>(p, present, c, p.channels - c);
    p.image += step * p.column_stride, p.low_column -= step, p.high_column -= step, p.out += p.out_stride;
    if (p.residual) p.residual += p.residual_stride;
  }
}

template <int taps, int step, int count, bool edge>
void sum_row(const Neighbours& p) {
  constexpr int64_t lanes = finish_lanes;
  constexpr int columns = (count - 1) * step + taps;
  bool present[columns];
  for (int j = 0; edge && j < columns; ++j) present[j] = j >= p.low_column && j < p.high_column;
  for (int64_t next = 0; next < p.channels; next += lanes) {
    // The last vector begins earlier where it would be partly filled, unless what it adds may be what was stored.
    const int64_t c = p.residual ? next : std::max<int64_t>(0, std::min(next, p.channels - lanes));
    if (p.channels - c >= lanes)
      sum_vector<taps, step, count, edge, true>(p, present, c, lanes);
    else
      sum_some<taps, step>(p, count, c);
  }
}

using SumRow = void (*)(const Neighbours&);
template <int taps, int step, bool edge, int... i>
constexpr std::array<SumRow, most_neighbours> rows_of(std::integer_sequence<int, i...>) {
  return {sum_row<taps, step, i + 1, edge>...};
}
template <int taps, int step>
HWY_INLINE void sum_any(const Neighbours& p, int64_t count) {
  constexpr auto all = std::make_integer_sequence<int, most_neighbours>();
  static constexpr auto within = rows_of<taps, step, false>(all), across_edge = rows_of<taps, step, true>(all);
  const bool edge = p.low_column > 0 || p.high_column < (count - 1) * step + taps;
  (edge ? across_edge : within)[static_cast<size_t>(count - 1)](p);
}

// `taps` is 3 or 5, `step` 1 or 2, `count` 1 to most_neighbours.
void sum_neighbours_of(const Neighbours& p, int64_t taps, int64_t step, int64_t count) {
  if (taps == 3)
    step == 1 ? sum_any<3, 1>(p, count) : sum_any<3, 2>(p, count);
  else
    step == 1 ? sum_any<5, 1>(p, count) : sum_any<5, 2>(p, count);
}

}  // namespace HWY_NAMESPACE
}  // namespace npusim::cpu::product::channels_last
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npusim::cpu::product::channels_last {
HWY_EXPORT(sum_pixels);
HWY_EXPORT(sum_neighbours_of);

namespace {

constexpr int64_t pixel_block = 16;

// One spatial dimension, and for each output which taps touch the image.
struct Line {
  int64_t extent = 1, taps = 1, step = 1, dilation = 1, pad = 0, stride = 0;
  std::vector<TapRange> at;  // by output
};

Line make_line(const ConvWindows& s, size_t i) {
  return {s.input[i], s.kernel[i], s.stride[i], s.dilation[i], s.pad_low[i], s.image_strides[2 + i], taps_within(s, i)};
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
    const size_t dims = spec.input.size();
    if (dims > 2) z_ = make_line(spec, 0);
    if (dims > 1) y_ = make_line(spec, dims - 2);
    x_ = make_line(spec, dims - 1);
    pack_weight(kernel, args, spec);
    if (dtype_ == DType::f32) {
      const auto rows = batch_ * static_cast<int64_t>(z_.at.size() * y_.at.size());
      fetches_ = x_.stride == channels_ && spec.input.size() == 2 &&
                 spec.input[0] * spec.input[1] * channels_ * 4 > cached_bytes;
      shares_ = fetches_ ? 1 : (channels_ + most_channels - 1) / most_channels;
      // A thread finds in its cache the rows of pixels that it made of the product before, and leaves those that it
      // reads behind this one. Few rows that do not divide are shared by their channels.
      by_rows_ = rows % threads_ == 0 || rows >= enough_rows * threads_;
      if (!by_rows_) shares_ = std::max(shares_, std::min<int64_t>(threads_, weight_row_ / channel_block));
    }
    thread_floats_ = dtype_ == DType::f32 ? weight_row_ : pixel_block * channel_block;
    scratch_bytes_ = static_cast<size_t>(threads_ * thread_floats_) * 4;
  }

  void run() override {
    on_threads(threads_, [this](int thread) {
      float* own = reinterpret_cast<float*>(scratch_) + thread * thread_floats_;
      if (dtype_ == DType::f32) {
        std::fill_n(own, thread_floats_, -0.0f);  // leaves every sum as it is
        if (finish_.bias.data) widen(finish_.bias.dtype, finish_.bias.at(0, 0), channels_, own);
      }
      const auto height = static_cast<int64_t>(y_.at.size()),
                 rows = batch_ * static_cast<int64_t>(z_.at.size()) * height;
      const auto part = [&](int64_t all) { return std::pair(all * thread / threads_, all * (thread + 1) / threads_); };
      if (dtype_ != DType::f32) {
        const auto [begin, end] = part(rows);
        for (int64_t row = begin; row < end; ++row)
          for (int64_t c = 0; c < channels_; c += channel_block) row_of(row, c, own);
      } else if (by_rows_) {
        // Of each image all rows of a share of the channels, which stay in L1, then those of the next.
        for (auto [row, end] = part(rows); row < end;) {
          const int64_t next = std::min(end, (row / height + 1) * height);
          for (int64_t share = 0; share < shares_; ++share)
            for (int64_t i = row; i < next; ++i) neighbours_of(i, share, own);
          row = next;
        }
      } else {
        const auto [begin, end] = part(rows * shares_);
        for (int64_t i = begin; i < end; ++i)
          neighbours_of(i / (height * shares_) * height + i % height, i / height % shares_, own);
      }
    });
  }

  std::string describe() const override {
    return fmt::format("depthwise {}{}x{} taps {} channels {}", z_.taps > 1 ? fmt::format("{}x", z_.taps) : "", y_.taps,
                       x_.taps, channels_, dtype_name(dtype_));
  }

 private:
  // The weight as f32 [tap][channel], channels padded to whole blocks.
  void pack_weight(const Kernel& kernel, std::span<const Binding> args, const ConvWindows& spec) {
    const Access& access = kernel.contraction->b;
    const auto arg = static_cast<size_t>(access.arg);
    const DType dtype = kernel.args[arg].dtype;
    weight_row_ = (channels_ + channel_block - 1) / channel_block * channel_block;
    const size_t size = static_cast<size_t>(z_.taps * y_.taps * x_.taps * weight_row_) * 4, dims = spec.input.size();
    weight_ = aligned_bytes(size, true);
    auto* to = reinterpret_cast<float*>(weight_.get());
    const int64_t z_stride = dims > 2 ? spec.weight_strides[3] : 0, x_stride = spec.weight_strides.back();
    const int64_t y_stride = dims > 1 ? spec.weight_strides[3 + dims - 2] : 0;
    for (int64_t line = 0; line < z_.taps * y_.taps; ++line)
      for (int64_t x = 0; x < x_.taps; ++x, to += weight_row_)
        for (int64_t c = 0; c < channels_; ++c)
          to[c] =
              static_cast<float>(load_double(args[arg].data, dtype,
                                             access.offset + c * spec.weight_strides[0] + line / y_.taps * z_stride +
                                                 line % y_.taps * y_stride + x * x_stride));
  }

  // What the first taps of a row of the output that are within the image read, in elements, and their weights.
  struct RowTaps {
    int64_t image = 0, weight = 0;
    const TapRange &z, &y;
  };
  RowTaps taps_of(int64_t row) const {
    const auto height = static_cast<int64_t>(y_.at.size()), depth = static_cast<int64_t>(z_.at.size());
    const TapRange &z = z_.at[static_cast<size_t>(row / height % depth)], &y = y_.at[static_cast<size_t>(row % height)];
    return {row / height / depth * batch_stride_ + z.first * z_.stride + y.first * y_.stride,
            (z.begin * y_.taps + y.begin) * x_.taps * weight_row_, z, y};
  }

  // A share of the channels of one row of the output in float32: neighbours, as many at once as can be.
  void neighbours_of(int64_t row, int64_t share, const float* bias) {
    const auto width = static_cast<int64_t>(x_.at.size());
    const auto [image_at, weight_at, z, y] = taps_of(row);
    const float* image = reinterpret_cast<const float*>(image_) + image_at;
    const float* weight = reinterpret_cast<const float*>(weight_.get()) + weight_at;
    Neighbours p{.planes = z.end - z.begin,
                 .rows = y.end - y.begin,
                 .plane_stride = z_.dilation * z_.stride,
                 .row_stride = y_.dilation * y_.stride,
                 .column_stride = x_.stride,
                 .weight_plane = y_.taps * x_.taps * weight_row_,
                 .weight_row = x_.taps * weight_row_,
                 .weight_column = weight_row_,
                 .fresh = fetches_ ? y_.taps - y_.step - y.begin : y_.taps,
                 .activation = finish_.activation,
                 .low = finish_.low,
                 .high = finish_.high,
                 .residual_stride = finish_.residual.row_step,
                 .out_stride = finish_.out.row_step};
    const int64_t lines = (channels_ + 15) / 16, c = lines * share / shares_ * 16;
    p.channels = std::min(channels_, lines * (share + 1) / shares_ * 16) - c;
    p.weight = weight + c, p.bias = bias + c;
    const int64_t groups = (width + most_neighbours - 1) / most_neighbours;
    for (int64_t g = 0; g < groups; ++g) {
      const int64_t x0 = width * g / groups, x1 = width * (g + 1) / groups, first = x0 * x_.step - x_.pad;
      p.image = image + first * x_.stride + c;
      p.low_column = -first, p.high_column = x_.extent - first;
      if (finish_.residual.data) p.residual = reinterpret_cast<const float*>(finish_.residual.at(row * width + x0, c));
      p.out = reinterpret_cast<float*>(finish_.out.at(row * width + x0, c));
      HWY_DYNAMIC_DISPATCH(sum_neighbours_of)(p, x_.taps, x_.step, x1 - x0);
    }
  }

  // One row of the output, at a block of channels.
  void row_of(int64_t row, int64_t channel, float* sums) {
    const auto width = static_cast<int64_t>(x_.at.size());
    const auto size = static_cast<int64_t>(dtype_size(dtype_));
    const int64_t count = std::min(channel_block, channels_ - channel);
    const auto [image_at, weight_at, z, y] = taps_of(row);
    const int64_t start = image_at + channel;
    std::array<Pixel, pixel_block> pixels;
    pixels.fill({.planes = z.end - z.begin,
                 .rows = y.end - y.begin,
                 .plane_stride = z_.dilation * z_.stride,
                 .row_stride = y_.dilation * y_.stride,
                 .column_stride = x_.dilation * x_.stride,
                 .weight_plane = y_.taps * x_.taps * weight_row_,
                 .weight_row = x_.taps * weight_row_,
                 .weight_column = weight_row_});
    const auto* weight = reinterpret_cast<const float*>(weight_.get()) + weight_at + channel;
    for (int64_t x0 = 0; x0 < width; x0 += pixel_block) {
      const int64_t x1 = std::min(width, x0 + pixel_block);
      for (int64_t i = x0; i < x1; ++i) {
        const TapRange& x = x_.at[static_cast<size_t>(i)];
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
  Line z_{.at = {{0, 1, 0}}}, y_{.at = {{0, 1, 0}}}, x_;
  int64_t weight_row_ = 0, thread_floats_ = 0, shares_ = 1;
  bool fetches_ = false, by_rows_ = true;
  std::shared_ptr<std::byte> weight_;
};

// Why the windows are not those that neighbours in float32 share columns of; empty: they are.
std::string refuse_neighbours(const ConvWindows& spec, const Finish& finish) {
  const int64_t taps = spec.kernel.back(), step = spec.stride.back();
  if ((taps != 3 && taps != 5) || step > 2 || spec.dilation.back() != 1)
    return "a float32 image with other windows than of 3 or 5 columns side by side, which oneDNN takes as it is";
  const int64_t pad = spec.pad_low.back(), end = (spec.output.back() - 1) * step - pad + taps;
  if (pad >= taps || end - spec.input.back() >= taps) return "windows of float32 that lie outside the image altogether";
  if (finish.out.dtype != DType::f32 || (finish.residual.data && finish.residual.dtype != DType::f32))
    return "a float32 image with a result or residual of another type";
  return {};
}

}  // namespace

Answer make_depthwise_step(Problem& p) {
  if (!p.conv.declined.empty()) return decline(p.conv.declined);
  if (!p.conv.constant) return decline("the weight is no constant");
  const Kernel& kernel = p.kernel;
  const ConvWindows& spec = p.conv.spec;
  if (spec.groups == 1 || spec.out_channels != 1 || spec.in_channels != 1)
    return decline("filters that see more than one channel");
  if (spec.image_strides[1] != 1) return decline("channels of the image that do not lie side by side");
  std::vector<int> rows{0};
  for (size_t d = 3; d < kernel.space.size(); ++d) rows.push_back(static_cast<int>(d));
  const ProductAxes axes{
      make_axis(kernel.space, {}), make_axis(kernel.space, rows), make_axis(kernel.space, {1, 2}), {}};
  auto finish = match_finish(kernel, p.args, axes, p.chain);
  if (!finish) return decline(p.chain ? "an epilogue that tiles do not end with" : no_chain(kernel));
  if (kernel.args[static_cast<size_t>(kernel.contraction->a.arg)].dtype == DType::f32)
    if (std::string why = refuse_neighbours(spec, *finish); !why.empty()) return decline(std::move(why));
  return accept(std::make_unique<DepthwiseStep>(kernel, p.args, p.context, spec, std::move(*finish)));
}

}  // namespace npusim::cpu::product::channels_last
#endif
