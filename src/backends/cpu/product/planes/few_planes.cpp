// Tiles of a few channels by many neighbouring pixels, which are read where they lie: outside the image a mask makes
// zeros of what is there, and rows of taps above and below it are left out.
#include "backends/cpu/product/planes/few_planes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "backends/cpu/memory.h"
#include "backends/cpu/product/blocking.h"
#include "backends/cpu/product/finish.h"
#include "backends/cpu/product/planes/plane_form.h"
#include "backends/cpu/product/tile_end.h"
#include "backends/cpu/vector_targets.h"
#include "base/threads.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/product/planes/few_planes.cpp"
#include <hwy/foreach_target.h>

#include "backends/cpu/product/tile_end-inl.h"

#ifndef NPUSIM_FEW_PLANES
#define NPUSIM_FEW_PLANES
namespace npusim::cpu::product::planes {

constexpr int64_t tile_planes = 4;        // channels of a tile
constexpr int64_t most_tile_vectors = 8;  // and vectors of pixels
// So many that sums and a tap's operands fit 16 registers, by channels.
constexpr std::array<int64_t, tile_planes> vectors_of_planes{8, 6, 4, 3};

// A row of taps that lies within the image: what its first column reads, and its weights, from channel 0's.
struct TapLine {
  int64_t image = 0, weight = 0;
};

// A tile: pixels of one row, of some channels of a group.
struct PlanesTile {
  const float* image = nullptr;  // what column 0 of the taps reads for the first pixel, of channel and line 0
  const TapLine* lines = nullptr;
  int64_t line_count = 0, in_channels = 0, columns = 0;
  int64_t channel_step = 0, column_step = 0, weight_step = 0;  // in elements; of weights, between channels
  const int32_t* mask = nullptr;  // null: all is within the image; [column][vector][lane · step], 0 or −1
  int64_t mask_step = 0;          // between columns
  unsigned masked = 0;            // of each vector a bit: whether it needs its masks
  const float *weight = nullptr, *bias = nullptr;  // [in channel][line][column][channel], [channel]
  const std::byte* residual = nullptr;             // null: none
  std::byte* out = nullptr;
  int64_t last = 0;  // pixels of the last vector
};

}  // namespace npusim::cpu::product::planes
#endif

HWY_BEFORE_NAMESPACE();
namespace npusim::cpu::product::planes {
namespace HWY_NAMESPACE {
using namespace product::HWY_NAMESPACE;

int64_t few_planes_lanes() { return finish_lanes; }

// Every `step`-th element; of masked lanes zero, and nothing is read there.
template <int step>
HWY_INLINE VF load_masked(const float* from, const int32_t* mask) {
  const F f;
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  const auto there = [&](int64_t at) {
    const hn::RebindToSigned<F> whole;
    return hn::MaskedLoad(hn::MaskFromVec(hn::BitCast(f, hn::LoadU(whole, mask + at))), f, from + at);
  };
  if constexpr (step == 1) return there(0);
  return hn::ConcatEven(f, there(finish_lanes), there(0));
#else
  HWY_ALIGN float some[finish_lanes];
  for (int64_t at = 0; at < finish_lanes * step; at += step) some[at / step] = mask[at] ? from[at] : 0.0f;
  return hn::Load(f, some);
#endif
}
// Of a step of two, the element behind the last one is read, too.
template <int step>
HWY_INLINE VF load_plain(const float* from) {
  if constexpr (step == 1) return hn::LoadU(F(), from);
  VF even, odd;
  hn::LoadInterleaved2(F(), from, even, odd);
  return even;
}

// `together` rows of taps from `line` on of a channel of the image, each into sums of its own.
template <int together, int sets, int channels, int vectors, int step, bool masked>
HWY_INLINE void add_lines(const PlanesTile& p, int64_t channel, int64_t line, VF (&sum)[sets][channels][vectors]) {
  const F f;
  const float *at[together], *weight[together];
  for (int s = 0; s < together; ++s) {
    at[s] = p.image + channel * p.channel_step + p.lines[line + s].image;
    weight[s] = p.weight + channel * p.weight_step + p.lines[line + s].weight * channels;
  }
  const int32_t* mask = p.mask;
#pragma GCC unroll 1
  for (int64_t k = 0; k < p.columns; ++k) {
#pragma GCC unroll 2
    for (int s = 0; s < together; ++s) {
      VF w[channels];
#pragma GCC unroll 4
      for (int c = 0; c < channels; ++c) w[c] = hn::Set(f, weight[s][c]);
#pragma GCC unroll 8
      for (int v = 0; v < vectors; ++v) {
        VF x;
        if (masked && (p.masked >> v & 1) != 0)
          x = load_masked<step>(at[s] + v * finish_lanes * step, mask + v * finish_lanes * step);
        else
          x = load_plain<step>(at[s] + v * finish_lanes * step);
#pragma GCC unroll 4
        for (int c = 0; c < channels; ++c) sum[s][c][v] = hn::MulAdd(w[c], x, sum[s][c][v]);
      }
      at[s] += p.column_step, weight[s] += channels;
    }
    if constexpr (masked) mask += p.mask_step;
  }
}

// Once for all sums: its code is long.
template <int channels, int vectors>
HWY_NOINLINE void end_planes(VF (&sum)[channels][vectors], const PlanesTile& p, const TileEnd& end) {
  end_tile(sum, end, nullptr, p.residual, p.out, p.last);
}

// Of few sums there are two sets, which hide how long an addition takes.
template <int channels, int vectors, int step, bool masked>
void sum_planes(const PlanesTile& p, const TileEnd& end) {
  constexpr int sets = channels * vectors <= 4 ? 2 : 1;
  VF sum[sets][channels][vectors];
#pragma GCC unroll 4
  for (int c = 0; c < channels; ++c)
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) {
      sum[0][c][v] = hn::Set(F(), p.bias[c]);
      if constexpr (sets == 2) sum[1][c][v] = hn::Zero(F());
    }
#pragma GCC unroll 1
  for (int64_t i = 0; i < p.in_channels; ++i) {
    int64_t line = 0;
#pragma GCC unroll 1
    for (; line + sets <= p.line_count; line += sets)
      add_lines<sets, sets, channels, vectors, step, masked>(p, i, line, sum);
    if (sets == 2 && line < p.line_count) add_lines<1, sets, channels, vectors, step, masked>(p, i, line, sum);
  }
  if constexpr (sets == 2)
#pragma GCC unroll 4
    for (int c = 0; c < channels; ++c)
#pragma GCC unroll 8
      for (int v = 0; v < vectors; ++v) sum[0][c][v] = hn::Add(sum[0][c][v], sum[1][c][v]);
  end_planes(sum[0], p, end);
}

using SumPlanes = void (*)(const PlanesTile&, const TileEnd&);
// With so many vectors, or as many as there are at most.
template <int channels, int step, bool masked, int... v>
constexpr std::array<SumPlanes, most_tile_vectors> tiles_of(std::integer_sequence<int, v...>) {
  constexpr int most = static_cast<int>(vectors_of_planes[channels - 1]);
  return {sum_planes<channels, std::min(v + 1, most), step, masked>...};
}
template <int step, bool masked, int... c>
constexpr std::array<std::array<SumPlanes, most_tile_vectors>, tile_planes> all_tiles(
    std::integer_sequence<int, c...>) {
  return {tiles_of<c + 1, step, masked>(std::make_integer_sequence<int, static_cast<int>(most_tile_vectors)>())...};
}

// `step` is 1 or 2 pixels.
void sum_few_planes(const PlanesTile& p, const TileEnd& end, int64_t channels, int64_t vectors, int64_t step) {
  constexpr auto counts = std::make_integer_sequence<int, static_cast<int>(tile_planes)>();
  static constexpr std::array within{all_tiles<1, false>(counts), all_tiles<2, false>(counts)},
      across_edge{all_tiles<1, true>(counts), all_tiles<2, true>(counts)};
  const auto& tiles = (p.mask ? across_edge : within)[static_cast<size_t>(step - 1)];
  tiles[static_cast<size_t>(channels - 1)][static_cast<size_t>(vectors - 1)](p, end);
}

}  // namespace HWY_NAMESPACE
}  // namespace npusim::cpu::product::planes
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npusim::cpu::product::planes {
HWY_EXPORT(few_planes_lanes);
HWY_EXPORT(sum_few_planes);

namespace {

// Where windows are of one pixel and nothing lies between the rows of a plane, a plane is one row.
ConvWindows joined(ConvWindows s) {
  const size_t dims = s.output.size();
  bool joins = element_count(s.kernel) == 1 && s.input == s.output && s.image_strides.back() == 1;
  for (size_t d = 0; d + 1 < dims; ++d)
    joins = joins && s.stride[d] == 1 && s.pad_low[d] == 0 &&
            s.image_strides[2 + d] == s.image_strides[3 + d] * s.input[d + 1];
  if (!joins || s.pad_low.back() != 0) return s;
  const int64_t pixels = element_count(s.output);
  s.input = s.output = {pixels};
  s.kernel = s.stride = s.dilation = {1};
  s.pad_low = s.pad_high = {0};
  s.image_strides.resize(3), s.weight_strides.resize(4);
  s.image_strides[2] = 1;
  return s;
}

// One of the dimensions of rows.
struct Outer {
  std::vector<TapRange> at{{0, 1, 0}};  // by output
  int64_t taps = 1, dilation = 1, stride = 0;
};

// Some pixels of every row.
struct RowTile {
  int64_t x = 0, vectors = 0, last = 0;
  unsigned masked = 0;  // of each vector a bit: whether it needs masks
  int64_t mask = 0;     // where they are
};

class FewPlanesStep final : public BoundStep {
 public:
  FewPlanesStep(const Problem& p, PlaneForm form)
      : threads_(usable_threads(p.kernel, p.context)),
        spec_(joined(p.conv.spec)),
        form_(std::move(form)),
        end_(tile_end(form_.finishes[0])),
        constant_(p.conv.constant) {
    lanes_ = HWY_DYNAMIC_DISPATCH(few_planes_lanes)();
    width_ = spec_.output.back();
    columns_ = spec_.kernel.back();
    rows_ = element_count(spec_.output) / width_, lines_ = element_count(spec_.kernel) / columns_;
    for (size_t d = 0; d + 1 < spec_.output.size(); ++d) {
      if (d == 1) outer_[0] = std::move(outer_[1]);
      outer_[1] = {taps_within(spec_, d), spec_.kernel[d], spec_.dilation[d], spec_.image_strides[2 + d]};
    }
    if (spec_.in_channels * lines_ * columns_ == 1)
      planes_ = 1;  // nothing is read twice: planes are written one by one
    make_tiles();
    // A thread's share of a row is some of its tiles.
    blocks_ = std::min<int64_t>(static_cast<int64_t>(tiles_.size()), ceil_div(width_, pixels_of_block));
    channels_ = spec_.groups * spec_.out_channels;
    packed_floats_ = ceil_div(channels_ * spec_.in_channels * lines_ * columns_, 16) * 16;
    if (constant_) {
      constant_packed_ = aligned_bytes(static_cast<size_t>(packed_floats_) * 4, true);
      pack(reinterpret_cast<float*>(constant_packed_.get()));
    }
    lines_of_thread_.resize(static_cast<size_t>(threads_ * lines_));
    scratch_bytes_ = static_cast<size_t>(ceil_div(channels_, 16) * 16 + (constant_ ? 0 : packed_floats_)) * 4;
  }

  void run() override {
    // What is added may be another in each run, whatever the weight is.
    float* bias = reinterpret_cast<float*>(scratch_);
    read_bias(form_, spec_, bias);
    float* packed = constant_ ? reinterpret_cast<float*>(constant_packed_.get()) : bias + ceil_div(channels_, 16) * 16;
    if (!constant_) pack(packed);
    on_threads(threads_, [&](int thread) {
      const int64_t all = spec_.batch * spec_.groups * rows_ * blocks_;
      for (int64_t i = all * thread / threads_; i < all * (thread + 1) / threads_; ++i) block(i, packed, bias, thread);
    });
  }

  std::string describe() const override {
    return fmt::format("few planes {} taps of {} to {} channels{}", lines_ * columns_, spec_.in_channels,
                       spec_.out_channels, spec_.groups > 1 ? fmt::format(", {} groups", spec_.groups) : "");
  }

 private:
  static constexpr int64_t pixels_of_block = 4096;

  void make_tiles() {
    const int64_t most = vectors_of_planes[static_cast<size_t>(std::min(spec_.out_channels, planes_) - 1)];
    const int64_t vectors = ceil_div(width_, lanes_), count = ceil_div(vectors, most);
    const int64_t dilation = spec_.dilation.back(), step = spec_.stride.back(), pad = spec_.pad_low.back();
    // Behind what the last window sees there may be no memory, whatever the image's extent.
    const int64_t extent = std::min(spec_.input.back(), (width_ - 1) * step + (columns_ - 1) * dilation + 1 - pad);
    for (int64_t t = 0; t < count; ++t) {
      const int64_t v0 = vectors * t / count, v1 = vectors * (t + 1) / count;
      RowTile tile{v0 * lanes_, v1 - v0, std::min(lanes_, width_ - (v1 - 1) * lanes_)};
      const int64_t first = tile.x * step - pad, reach = (columns_ - 1) * dilation;
      for (int64_t v = 0; v < tile.vectors; ++v)
        if (const int64_t begin = first + v * lanes_ * step; begin < 0 || begin + lanes_ * step + reach > extent)
          tile.masked |= 1u << v;
      tile.mask = static_cast<int64_t>(masks_.size());
      for (int64_t k = 0; tile.masked != 0 && k < columns_; ++k)
        for (int64_t i = 0; i < tile.vectors * lanes_ * step; ++i) {
          const int64_t x = first + k * dilation + i;
          masks_.push_back(i % step == 0 && tile.x + i / step < width_ && x >= 0 && x < extent ? -1 : 0);
        }
      tiles_.push_back(tile);
    }
  }

  // By tiles of channels: [in channel][line][column][channel].
  void pack(float* to) const {
    for (int64_t g = 0; g < spec_.groups; ++g)
      for (int64_t c0 = 0; c0 < spec_.out_channels; c0 += planes_)
        for (int64_t tap = 0; tap < spec_.in_channels * lines_ * columns_; ++tap)
          for (int64_t c = c0; c < std::min(c0 + planes_, spec_.out_channels); ++c)
            *to++ = form_.weight[g * spec_.weight_strides[0] + weight_at(spec_, c, tap)];
  }

  // The rows of taps of a row of windows that are within the image, and how many those are.
  int64_t find_lines(int64_t row, TapLine* lines) const {
    const auto height = static_cast<int64_t>(outer_[1].at.size());
    const TapRange &z = outer_[0].at[static_cast<size_t>(row / height)],
                   &y = outer_[1].at[static_cast<size_t>(row % height)];
    const auto sees = [](const Outer& outer, const TapRange& range, int64_t tap) {
      return (range.first + (tap - range.begin) * outer.dilation) * outer.stride;
    };
    int64_t count = 0;
    for (int64_t i = z.begin; i < z.end; ++i)
      for (int64_t j = y.begin; j < y.end; ++j)
        lines[count++] = {sees(outer_[0], z, i) + sees(outer_[1], y, j), (i * outer_[1].taps + j) * columns_};
    return count;
  }

  // Some tiles of a row of a group's channels.
  void block(int64_t i, const float* packed, const float* bias, int thread) {
    const auto count = static_cast<int64_t>(tiles_.size());
    const int64_t t0 = count * (i % blocks_) / blocks_, t1 = count * (i % blocks_ + 1) / blocks_;
    i /= blocks_;
    const int64_t row = i % rows_, group = i / rows_ % spec_.groups, n = i / rows_ / spec_.groups;
    TapLine* lines = lines_of_thread_.data() + thread * lines_;
    const Finish& finish = form_.finishes[static_cast<size_t>(n)];
    const int64_t taps = lines_ * columns_, of_channel = spec_.in_channels * taps;
    PlanesTile p{.lines = lines,
                 .line_count = find_lines(row, lines),
                 .in_channels = spec_.in_channels,
                 .columns = columns_,
                 .channel_step = spec_.image_strides[1],
                 .column_step = spec_.dilation.back()};
    if (taps == 1) {  // then channels are what follows each other
      std::swap(p.in_channels, p.columns);
      std::swap(p.channel_step, p.column_step);
    }
    const float* image = form_.image + n * spec_.image_strides[0] + group * spec_.in_channels * spec_.image_strides[1] -
                         spec_.pad_low.back();
    for (int64_t c0 = 0; c0 < spec_.out_channels; c0 += planes_) {
      const int64_t channels = std::min(planes_, spec_.out_channels - c0), c = group * spec_.out_channels + c0;
      p.weight = packed + c * of_channel, p.weight_step = taps * channels;
      p.bias = bias + c;
      for (int64_t t = t0; t < t1; ++t) {
        const RowTile& tile = tiles_[static_cast<size_t>(t)];
        const int64_t pixel = row * width_ + tile.x;
        p.image = image + tile.x * spec_.stride.back();
        p.mask = tile.masked == 0 ? nullptr : masks_.data() + tile.mask;
        p.masked = tile.masked;
        p.mask_step = taps == 1 ? 0 : tile.vectors * lanes_ * spec_.stride.back();
        p.last = tile.last;
        p.residual = finish.residual.data ? finish.residual.at(c, pixel) : nullptr;
        p.out = finish.out.at(c, pixel);
        HWY_DYNAMIC_DISPATCH(sum_few_planes)(p, end_, channels, tile.vectors, spec_.stride.back());
      }
    }
  }

  int threads_;
  ConvWindows spec_;
  PlaneForm form_;
  TileEnd end_;
  bool constant_;
  int64_t planes_ = tile_planes;  // of a tile
  int64_t lanes_ = 1, channels_ = 1, blocks_ = 1, packed_floats_ = 0;
  int64_t width_ = 0, rows_ = 1, lines_ = 1, columns_ = 1;  // pixels of a row, rows of a plane; of a window the same
  std::array<Outer, 2> outer_;                              // the slower first
  std::vector<RowTile> tiles_;
  std::vector<int32_t> masks_;
  std::vector<TapLine> lines_of_thread_;
  std::shared_ptr<std::byte> constant_packed_;
};

}  // namespace

Answer make_few_planes_step(Problem& p) {
  const ConvWindows& spec = p.conv.spec;
  if (!p.conv.declined.empty() && !(p.conv.product && spec.in_channels == 1)) return decline(p.conv.declined);
  if (std::string why = refuse_planes(p); !why.empty()) return decline(std::move(why));
  if (spec.stride.back() > 2) return decline(fmt::format("windows that are {} pixels apart", spec.stride.back()));
  const int64_t taps = spec.in_channels * element_count(spec.kernel);
  if (spec.out_channels > tile_planes && taps > 1)
    return decline(fmt::format("{} channels of the result", spec.out_channels));
  if (spec.groups > 1 && spec.in_channels * spec.out_channels > 2 * tile_planes)
    return decline(fmt::format("groups of {} to {} channels", spec.in_channels, spec.out_channels));
  if (spec.groups > 1 && spec.in_channels == 1 && spec.out_channels == 1 && spec.output.size() == 2)
    return decline("filters of one channel in two dimensions, which oneDNN has code for");
  std::string why;
  std::optional<PlaneForm> form = plane_form(p, why);
  if (!form) return decline(std::move(why));
  return accept(std::make_unique<FewPlanesStep>(p, std::move(*form)));
}

}  // namespace npusim::cpu::product::planes
#endif
