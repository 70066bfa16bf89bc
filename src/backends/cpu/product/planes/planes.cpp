// Tiles of channels by pixels: a tap of the weight, one number for each channel, times neighbouring pixels of a plane.
#include "backends/cpu/product/planes/planes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "backends/cpu/memory.h"
#include "backends/cpu/product/blocking.h"
#include "backends/cpu/product/finish.h"
#include "backends/cpu/product/planes/plane_form.h"
#include "backends/cpu/product/tile_end.h"
#include "backends/cpu/vector_targets.h"
#include "base/threads.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/product/planes/planes.cpp"
#include <hwy/foreach_target.h>

#include "backends/cpu/product/tile_end-inl.h"

#ifndef NPUSIM_PLANES
#define NPUSIM_PLANES
namespace npusim::cpu::product::planes {

struct PlanesTileShape {
  int64_t channels = 0, pixels = 0, lanes = 0;
};

// Pixels [0, pixels) of a row of the result, all channels. Tap k of pixel i is at patch[offsets[k] + i].
struct PlanesPart {
  const float* patch = nullptr;
  const int64_t* offsets = nullptr;
  int64_t taps = 0;
  const float *weight = nullptr, *bias = nullptr;  // [tile of channels][tap][channel], [channel]
  const std::byte* residual = nullptr;             // null: none
  std::byte* out = nullptr;
  int64_t channels = 0, pixels = 0;
};

}  // namespace npusim::cpu::product::planes
#endif

HWY_BEFORE_NAMESPACE();
namespace npusim::cpu::product::planes {
namespace HWY_NAMESPACE {
using namespace product::HWY_NAMESPACE;

// Sums fill the registers but for a tap's operands.
constexpr int tile_channels = HWY_TARGET == HWY_AVX3 ? 8 : 4, tile_vectors = 3;
PlanesTileShape planes_tile_shape() { return {tile_channels, tile_vectors * finish_lanes, finish_lanes}; }

// One tile, whose last vector has `last` pixels. The patch has whole vectors.
template <int channels, int vectors>
void tile(const PlanesPart& p, const TileEnd& end, const float* HWY_RESTRICT patch, const float* HWY_RESTRICT weight,
          const float* HWY_RESTRICT bias, const std::byte* residual, std::byte* out, int64_t last) {
  const F f;
  VF sum[channels][vectors];
#pragma GCC unroll 8
  for (int c = 0; c < channels; ++c)
#pragma GCC unroll 3
    for (int v = 0; v < vectors; ++v) sum[c][v] = hn::Set(f, bias[c]);
#pragma GCC unroll 1
  for (int64_t k = 0; k < p.taps; ++k, weight += channels) {
    const float* at = patch + p.offsets[k];
    VF x[vectors];
#pragma GCC unroll 3
    for (int v = 0; v < vectors; ++v) x[v] = hn::LoadU(f, at + v * finish_lanes);
#pragma GCC unroll 8
    for (int c = 0; c < channels; ++c) {
      const VF w = hn::Set(f, weight[c]);
#pragma GCC unroll 3
      for (int v = 0; v < vectors; ++v) sum[c][v] = hn::MulAdd(w, x[v], sum[c][v]);
    }
  }
  end_tile(sum, end, nullptr, residual, out, last);
}

using Tile = void (*)(const PlanesPart&, const TileEnd&, const float*, const float*, const float*, const std::byte*,
                      std::byte*, int64_t);
template <int vectors, int... c>
constexpr std::array<Tile, sizeof...(c)> tiles_of(std::integer_sequence<int, c...>) {
  return {tile<c + 1, vectors>...};
}
template <int... v>
constexpr std::array<std::array<Tile, tile_channels>, sizeof...(v)> all_tiles(std::integer_sequence<int, v...>) {
  return {tiles_of<v + 1>(std::make_integer_sequence<int, tile_channels>())...};
}

// Channels of a tile after the other, each with all pixels: the weight of one stays near.
void multiply_planes(const PlanesPart& p, const TileEnd& end) {
  static constexpr auto tiles = all_tiles(std::make_integer_sequence<int, tile_vectors>());
  const auto size = static_cast<int64_t>(dtype_size(end.dtype));
  const int64_t vectors = (p.pixels + finish_lanes - 1) / finish_lanes,
                groups = (vectors + tile_vectors - 1) / tile_vectors;
  const int64_t blocks = (p.channels + tile_channels - 1) / tile_channels;
  for (int64_t i = 0, c0 = 0, c1 = 0; i < blocks; ++i, c0 = c1) {
    c1 = p.channels * (i + 1) / blocks;
    for (int64_t g = 0, v0 = 0, v1 = 0; g < groups; ++g, v0 = v1) {
      v1 = vectors * (g + 1) / groups;
      const int64_t x = v0 * finish_lanes, last = std::min(finish_lanes, p.pixels - (v1 - 1) * finish_lanes);
      tiles[static_cast<size_t>(v1 - v0 - 1)][static_cast<size_t>(c1 - c0 - 1)](
          p, end, p.patch + x, p.weight + c0 * p.taps, p.bias + c0,
          p.residual ? p.residual + (c0 * end.residual_stride + x) * size : nullptr,
          p.out + (c0 * end.out_stride + x) * size, last);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace npusim::cpu::product::planes
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npusim::cpu::product::planes {
HWY_EXPORT(planes_tile_shape);
HWY_EXPORT(multiply_planes);

namespace {

constexpr int64_t patch_floats = 32768;  // of what a block of pixels sees, which stays in L2

int64_t lines_of(const ConvWindows& spec) {  // of a channel, that a row of windows sees
  return element_count(spec.kernel) / spec.kernel.back();
}

// In how many blocks the pixels of a row are done.
int64_t blocks_of_row(const ConvWindows& spec, const PlanesTileShape& tile) {
  const int64_t fitting = patch_floats / (spec.in_channels * lines_of(spec)) / tile.pixels * tile.pixels;
  return ceil_div(spec.output.back(), std::max(tile.pixels, fitting));
}

// Cycles for each pixel, roughly: lines are copied, and lanes behind the last pixel stay idle, where oneDNN gets the
// image transposed and gives its result to be transposed again.
bool is_cheaper(const ConvWindows& spec, const PlanesTileShape& tile) {
  const auto lanes = static_cast<double>(tile.lanes);
  const double pixels = static_cast<double>(spec.output.back()) / static_cast<double>(blocks_of_row(spec, tile));
  const double idle = std::ceil(pixels / lanes) * lanes / pixels - 1;
  const auto in = static_cast<double>(spec.in_channels * lines_of(spec)), out = static_cast<double>(spec.out_channels);
  const double products = in * static_cast<double>(spec.kernel.back()) * out / (2 * lanes);
  return 0.75 * in + products * idle < 1.6 * (static_cast<double>(spec.in_channels) + out);
}

class PlanesStep final : public BoundStep {
 public:
  PlanesStep(const Problem& p, PlaneForm form)
      : threads_(usable_threads(p.kernel, p.context)),
        spec_(p.conv.spec),
        form_(std::move(form)),
        end_(tile_end(form_.finishes[0])),
        constant_(p.conv.constant) {
    tile_ = HWY_DYNAMIC_DISPATCH(planes_tile_shape)();
    const size_t last = spec_.output.size() - 1;
    width_ = spec_.output[last];
    for (size_t d = 0; d < last; ++d) rows_ *= spec_.output[d];
    lines_ = lines_of(spec_), blocks_ = blocks_of_row(spec_, tile_);
    reach_ = (spec_.kernel[last] - 1) * spec_.dilation[last];
    const int64_t lines = spec_.in_channels * lines_;
    // Whole vectors behind the last pixel, and a line more where lines would share cache sets.
    line_floats_ = ceil_div(ceil_div(width_, blocks_) + reach_ + 16, 16) * 16 | 16;
    for (int64_t line = 0; line < lines; ++line)
      for (int64_t x = 0; x < spec_.kernel[last]; ++x)
        offsets_.push_back(line * line_floats_ + x * spec_.dilation[last]);
    packed_floats_ = ceil_div(spec_.out_channels * static_cast<int64_t>(offsets_.size()), 16) * 16;
    bias_floats_ = ceil_div(spec_.out_channels, 16) * 16;
    if (constant_) {
      constant_packed_ = aligned_bytes(static_cast<size_t>(packed_floats_) * 4, true);
      pack(reinterpret_cast<float*>(constant_packed_.get()));
    }
    scratch_bytes_ = static_cast<size_t>(threads_ * patch_size() + bias_floats_ + (constant_ ? 0 : packed_floats_)) * 4;
  }

  void run() override {
    // What is added may be another in each run, whatever the weight is.
    float* bias = reinterpret_cast<float*>(scratch_) + threads_ * patch_size();
    read_bias(form_, spec_, bias);
    float* packed = constant_ ? reinterpret_cast<float*>(constant_packed_.get()) : bias + bias_floats_;
    if (!constant_) pack(packed);
    on_threads(threads_, [&](int thread) {
      const int64_t all = spec_.batch * rows_ * blocks_;
      for (int64_t i = all * thread / threads_; i < all * (thread + 1) / threads_; ++i) block(i, packed, bias, thread);
    });
  }

  std::string describe() const override {
    return fmt::format("planes {} taps of {} to {} channels", lines_ * spec_.kernel.back(), spec_.in_channels,
                       spec_.out_channels);
  }

 private:
  int64_t patch_size() const { return spec_.in_channels * lines_ * line_floats_; }

  // [tile of channels][tap][channel]
  void pack(float* to) const {
    const auto taps = static_cast<int64_t>(offsets_.size());
    const int64_t blocks = ceil_div(spec_.out_channels, tile_.channels);
    for (int64_t i = 0; i < blocks; ++i) {
      const int64_t c0 = spec_.out_channels * i / blocks, c1 = spec_.out_channels * (i + 1) / blocks;
      for (int64_t k = 0; k < taps; ++k)
        for (int64_t c = c0; c < c1; ++c) *to++ = form_.weight[weight_at(spec_, c, k)];
    }
  }

  // Some pixels of a row of the result.
  void block(int64_t i, const float* packed, const float* bias, int thread) const {
    const int64_t x0 = width_ * (i % blocks_) / blocks_, x1 = width_ * (i % blocks_ + 1) / blocks_;
    const int64_t row = i / blocks_ % rows_, n = i / blocks_ / rows_;
    float* patch = reinterpret_cast<float*>(scratch_) + thread * patch_size();
    fill(patch, n, row, x0, x1 - x0);
    const Finish& finish = form_.finishes[static_cast<size_t>(n)];
    const auto taps = static_cast<int64_t>(offsets_.size());
    const int64_t pixel = row * width_ + x0;
    HWY_DYNAMIC_DISPATCH(multiply_planes)
    ({.patch = patch,
      .offsets = offsets_.data(),
      .taps = taps,
      .weight = packed,
      .bias = bias,
      .residual = finish.residual.data ? finish.residual.at(0, pixel) : nullptr,
      .out = finish.out.at(0, pixel),
      .channels = spec_.out_channels,
      .pixels = x1 - x0},
     end_);
  }

  // What the windows of these pixels see: [channel, line of taps][column], with zeros outside the image.
  void fill(float* patch, int64_t n, int64_t row, int64_t x0, int64_t pixels) const {
    const size_t last = spec_.output.size() - 1;
    const int64_t first = x0 - spec_.pad_low[last], count = pixels + reach_;
    const int64_t begin = std::clamp<int64_t>(-first, 0, count),
                  end = std::clamp(spec_.input[last] - first, begin, count);
    for (int64_t line = 0; line < lines_; ++line) {
      int64_t at = n * spec_.image_strides[0] + first, tap = line, y = row;
      bool inside = true;
      for (size_t d = last; d-- > 0; tap /= spec_.kernel[d], y /= spec_.output[d]) {
        const int64_t index =
            y % spec_.output[d] * spec_.stride[d] - spec_.pad_low[d] + tap % spec_.kernel[d] * spec_.dilation[d];
        inside = inside && index >= 0 && index < spec_.input[d];
        at += index * spec_.image_strides[2 + d];
      }
      const int64_t from = inside ? begin : 0, to = inside ? end : 0;
      float* room = patch + line * line_floats_;
      for (int64_t c = 0; c < spec_.in_channels; ++c, at += spec_.image_strides[1], room += lines_ * line_floats_) {
        std::fill_n(room, from, 0.0f);
        std::copy_n(form_.image + at + from, to - from, room + from);
        std::fill(room + to, room + line_floats_, 0.0f);
      }
    }
  }

  int threads_;
  ConvWindows spec_;
  PlaneForm form_;
  TileEnd end_;
  bool constant_;
  PlanesTileShape tile_;
  int64_t width_ = 0, rows_ = 1, lines_ = 1;  // pixels of a row; rows of a plane; rows of a window
  int64_t reach_ = 0, blocks_ = 1, line_floats_ = 0, packed_floats_ = 0, bias_floats_ = 0;
  std::vector<int64_t> offsets_;  // of the taps in a patch
  std::shared_ptr<std::byte> constant_packed_;
};

}  // namespace

Answer make_planes_step(Problem& p) {
  if (!p.conv.declined.empty()) return decline(p.conv.declined);
  const ConvWindows& spec = p.conv.spec;
  if (spec.groups > 1) return decline(fmt::format("{} groups", spec.groups));
  if (std::string why = refuse_planes(p); !why.empty()) return decline(std::move(why));
  if (spec.stride.back() != 1) return decline(fmt::format("windows that are {} pixels apart", spec.stride.back()));
  if (std::all_of(spec.kernel.begin(), spec.kernel.end(), [](int64_t taps) { return taps == 1; }))
    return decline("windows of one pixel");
  const PlanesTileShape tile = HWY_DYNAMIC_DISPATCH(planes_tile_shape)();
  if (spec.out_channels < tile.channels) return decline(fmt::format("{} channels of the result", spec.out_channels));
  if (spec.output.back() < tile.pixels) return decline(fmt::format("rows of {} pixels", spec.output.back()));
  if (spec.in_channels * lines_of(spec) * tile.pixels > patch_floats)
    return decline("windows that see more than L2 holds");
  if (!is_cheaper(spec, tile)) return decline("turning image and result costs less");
  std::string why;
  std::optional<PlaneForm> form = plane_form(p, why);
  if (!form) return decline(std::move(why));
  return accept(std::make_unique<PlanesStep>(p, std::move(*form)));
}

}  // namespace npusim::cpu::product::planes
#endif
