// Layouts of images under a target's rules: padded and tiled channels, conversions at the graph's ends, refusals.
#include <algorithm>

#include "base/error.h"
#include "passes/image_layout.h"
#include "passes/run_graph.h"

namespace npusim {
namespace {

using test::GraphRun;
using test::run_graph;
using test::RunOptions;

// Two convolutions with a residual, a depthwise one, a pooling, a concatenation and a classifier; batch 2.
constexpr const char* network =
    "input %x: float32[2, 3, 9, 9]\n"
    "weight %w1: float32[24, 3, 3, 3] = \"w1\"\nweight %b1: float32[24] = \"b1\"\n"
    "weight %w2: float32[24, 24, 3, 3] = \"w2\"\n"
    "weight %w3: float32[24, 1, 3, 3] = \"w3\"\n"
    "weight %w4: float32[10, 48] = \"w4\"\n"
    "%c1: float32[2, 24, 9, 9] = aten.conv2d.default(%x, %w1, %b1, padding=[1, 1])\n"
    "%r1: float32[2, 24, 9, 9] = aten.relu.default(%c1)\n"
    "%c2: float32[2, 24, 9, 9] = aten.conv2d.default(%r1, %w2, None, padding=[1, 1])\n"
    "%s: float32[2, 24, 9, 9] = aten.add.Tensor(%c2, %r1)\n"
    "%d: float32[2, 24, 9, 9] = aten.conv2d.default(%s, %w3, None, padding=[1, 1], groups=24)\n"
    "%k: float32[2, 48, 9, 9] = aten.cat.default([%s, %d], dim=1)\n"
    "%p: float32[2, 48, 4, 4] = aten.max_pool2d.default(%k, kernel_size=[2, 2])\n"
    "%m: float32[2, 48] = aten.mean.dim(%p, dim=[2, 3])\n"
    "%y: float32[2, 10] = aten.linear.default(%m, %w4, None)\n"
    "output %y\n";

// Extents in memory of the buffer of that name; none when it is row-major.
Shape stored(const GraphRun& run, const std::string& name) {
  for (const Buffer& b : run.program->buffers)
    if (b.name == name) return b.stored;
  ADD_FAILURE() << "no buffer " << name;
  return {};
}

RunOptions with(std::function<void(TargetConfig&)> configure, DType dtype = DType::f32) {
  RunOptions options;
  options.dtype = dtype;
  options.tolerance = dtype == DType::f32 ? 2e-6 : 2e-2;
  options.configure = std::move(configure);
  return options;
}

TEST(Layout, DenseChannelsLastByDefault) {
  const GraphRun run = run_graph(network);
  EXPECT_EQ(stored(run, "s"), (Shape{2, 9, 9, 24}));
  for (const Buffer& b : run.program->buffers)
    EXPECT_EQ(stored_elements(b.type, b.stored), element_count(b.type.shape));
}

// Every reader and writer follows the padded strides, for more than one image too, and the graph's
// own images are converted.
TEST(Layout, PaddedChannels) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    const int64_t channels = dtype == DType::f32 ? 16 : 32;
    const GraphRun run = run_graph(network, with([](TargetConfig& c) { c.channel_alignment_bytes = 64; }, dtype));
    // The input is float32 whatever the compute dtype; an image that is rounded to bfloat16 is a value of our own.
    const bool rounded = dtype == DType::bf16;
    EXPECT_EQ(stored(run, rounded ? "x_bfloat16" : "x_image"), (Shape{2, 9, 9, rounded ? 32 : 16}));
    EXPECT_EQ(stored(run, "s"), (Shape{2, 9, 9, 32}));
    EXPECT_EQ(stored(run, "k"), (Shape{2, 9, 9, (48 + channels - 1) / channels * channels}));
  }
}

TEST(Layout, PaddedChannelsFirst) {
  const GraphRun run = run_graph(network, with([](TargetConfig& c) {
                                   c.channel_alignment_bytes = 64;
                                   c.image_layout = ImageLayout::channels_first;
                                 }));
  EXPECT_EQ(stored(run, "s"), (Shape{2, 32, 9, 9}));
}

TEST(Layout, TiledChannels) {
  for (const DType dtype : {DType::f32, DType::f16}) {
    const GraphRun run = run_graph(network, with([](TargetConfig& c) { c.channel_tile = 8; }, dtype));
    EXPECT_EQ(stored(run, "s"), (Shape{2, 3, 9, 9, 8}));
    EXPECT_EQ(stored(run, "x_image"), (Shape{2, 9, 9, 8}));
    EXPECT_EQ(stored(run, "k"), (Shape{2, 6, 9, 9, 8}));
  }
  // The last of two tiles would be half full.
  EXPECT_EQ(stored(run_graph(network, with([](TargetConfig& c) { c.channel_tile = 16; })), "s"), (Shape{2, 9, 9, 32}));
}

TEST(Layout, TransposedAndOneDimensionalConvolutions) {
  const std::string text =
      "input %x: float32[2, 8, 11]\n"
      "weight %w1: float32[16, 4, 3] = \"w1\"\nweight %w2: float32[16, 8, 4] = \"w2\"\n"
      "%a: float32[2, 16, 9] = aten.conv1d.default(%x, %w1, None, groups=2)\n"
      "%t: float32[2, 16, 9] = aten.tanh.default(%a)\n"
      "%u: float32[2, 8, 20] = aten.conv_transpose1d.default(%t, %w2, None, stride=[2])\n"
      "output %u\noutput %t\n";
  for (const int64_t tile : {0, 4, 8, 16})
    for (const int64_t bytes : {1, 64}) {
      const GraphRun run = run_graph(text, with([&](TargetConfig& c) {
                                       c.channel_tile = tile;
                                       c.channel_alignment_bytes = bytes;
                                     }));
      EXPECT_EQ(run.method().outputs.size(), 2U) << tile << " " << bytes;
    }
}

// A graph output that a convolution writes: stored by the convolution in the target's layout, then converted.
TEST(Layout, OutputsAreConverted) {
  const GraphRun run = run_graph(
      "input %x: float32[2, 5, 6, 6]\nweight %w: float32[7, 5, 3, 3] = \"w\"\n"
      "%y: float32[2, 7, 4, 4] = aten.conv2d.default(%x, %w, None)\noutput %y\n",
      with([](TargetConfig& c) { c.channel_alignment_bytes = 32; }));
  EXPECT_EQ(stored(run, "x_image"), (Shape{2, 6, 6, 8}));
  EXPECT_EQ(stored(run, "y_image"), (Shape{2, 4, 4, 8}));
  EXPECT_EQ(run.steps(), 3U);
}

// A convolution that finds channels side by side already gets no other layout: the transposed result of a norm.
// An image of weights alone, which an update beside the convolution makes late for a while: it is prepared at load,
// row-major.
TEST(Layout, ImagesOfWeightsStayAsTheyAre) {
  run_graph(
      "input %x: float32[1, 2, 1, 4]\n"
      "weight %w: float32[1, 2, 4, 4] = \"w\"\nweight %v: float32[2, 3, 3, 3] = \"v\"\n"
      "constant %i: int64[1] = [2]\nconstant %c: float32[] = [0.5]\n"
      "%image: float32[1, 2, 4, 4] = aten.clamp_max.Tensor(%w, %c)\n"
      "%added: float32[1, 2, 4, 4] = aten.index_add.default(%image, %i, %x, dim=2)\n"
      "%y: float32[1, 3, 6, 6] = aten.conv_transpose2d.input(%image, %v, None)\n"
      "output %added\noutput %y\n",
      with([](TargetConfig& c) { c.channel_alignment_bytes = 64, c.pad_channels = true; }));
}

TEST(Layout, TransposedImagesStayAsTheyAre) {
  const GraphRun run = run_graph(
      "input %x: float32[1, 6, 6, 16]\nweight %w: float32[16, 1, 3, 3] = \"w\"\n"
      "%n: float32[1, 6, 6, 16] = aten.softmax.int(%x, dim=3)\n"
      "%p: float32[1, 16, 6, 6] = aten.permute.default(%n, dims=[0, 3, 1, 2])\n"
      "%c: float32[1, 16, 6, 6] = aten.conv2d.default(%p, %w, None, padding=[1, 1], groups=16)\n"
      "%t: float32[1, 16, 6, 6] = aten.tanh.default(%c)\n"
      "output %t\n");
  EXPECT_EQ(stored(run, "n"), Shape{});
}

// Channels that are shuffled have five dimensions in between; convolutions behind them read channels side by side.
TEST(Layout, ShuffledChannels) {
  const std::string text =
      "input %x: float32[1, 3, 7, 6]\n"
      "weight %w1: float32[12, 3, 3, 3] = \"w1\"\nweight %w2: float32[8, 12, 1, 1] = \"w2\"\n"
      "weight %w3: float32[12, 1, 3, 3] = \"w3\"\n"
      "%a: float32[1, 12, 7, 6] = aten.conv2d.default(%x, %w1, None, padding=[1, 1])\n"
      "%b: float32[1, 12, 7, 6] = aten.relu.default(%a)\n"
      "%v: float32[1, 2, 6, 7, 6] = aten.view.default(%b, size=[1, 2, 6, 7, 6])\n"
      "%t: float32[1, 6, 2, 7, 6] = aten.transpose.int(%v, dim0=1, dim1=2)\n"
      "%c: float32[1, 6, 2, 7, 6] = aten.clone.default(%t)\n"
      "%s: float32[1, 12, 7, 6] = aten.view.default(%c, size=[1, 12, 7, 6])\n"
      "%y: float32[1, 8, 7, 6] = aten.conv2d.default(%s, %w2, None)\n"
      "%z: float32[1, 12, 7, 6] = aten.conv2d.default(%s, %w3, None, padding=[1, 1], groups=12)\n"
      "output %y\noutput %z\n";
  const GraphRun run = run_graph(text);
  for (const Step& step : run.method().steps) {
    const Kernel& kernel = run.program->kernels[static_cast<size_t>(step.kernel)];
    if (!kernel.contraction || kernel.contraction->reduce[0] == 3) continue;
    EXPECT_EQ(read_channel_stride(kernel), 1) << to_text(kernel);
  }
}

std::string refusal(const std::string& text, const RunOptions& options) {
  try {
    run_graph(text, options);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported);
    return error.what();
  }
  return "";
}

// All violations together.
TEST(Constraints, MisalignedChannelsAreRefusedWherePaddingIsNot) {
  const RunOptions options = with([](TargetConfig& c) {
    c.channel_alignment_bytes = 64;
    c.pad_channels = false;
  });
  EXPECT_EQ(refusal(network, options),
            "node c1: 'x' has 3 channels of float32: target cpu takes multiples of 16 (64 bytes) and does not pad\n"
            "node c1: 'c1' has 24 channels of float32: target cpu takes multiples of 16 (64 bytes) and does not pad\n"
            "node c2: 'r1' has 24 channels of float32: target cpu takes multiples of 16 (64 bytes) and does not pad\n"
            "node c2: 'c2' has 24 channels of float32: target cpu takes multiples of 16 (64 bytes) and does not pad\n"
            "node d: 's' has 24 channels of float32: target cpu takes multiples of 16 (64 bytes) and does not pad\n"
            "node d: 'd' has 24 channels of float32: target cpu takes multiples of 16 (64 bytes) and does not pad");
}

TEST(Constraints, RanksAreLimited) {
  const RunOptions options = with([](TargetConfig& c) { c.max_rank = 3; });
  EXPECT_EQ(
      refusal("input %x: float32[1, 2, 3, 4]\n%y: float32[1, 2, 3, 4] = aten.tanh.default(%x)\noutput %y\n", options),
      "node y: 'x' has 4 dimensions: target cpu takes at most 3\n"
      "node y: 'y' has 4 dimensions: target cpu takes at most 3");
}

TEST(Layout, StorageOfImages) {
  TargetConfig config;
  config.channel_alignment_bytes = 64;
  const auto extents = [&](const Shape& shape) { return image_storage({DType::f16, shape}, config).extents; };
  EXPECT_EQ(extents({1, 1, 5, 5}), (Shape{1, 5, 5, 32}));
  EXPECT_EQ(extents({2, 33, 5}), (Shape{2, 5, 64}));
  EXPECT_EQ(extents({2, 64, 5}), (Shape{2, 5, 64}));
  config.channel_tile = 16;
  EXPECT_EQ(extents({2, 48, 5}), (Shape{2, 4, 5, 16}));  // three tiles, aligned to 64 channels
  EXPECT_EQ(extents({2, 16, 5}), (Shape{2, 5, 32}));
  config.pad_channels = false;
  EXPECT_EQ(extents({2, 48, 5}), (Shape{2, 3, 5, 16}));
  EXPECT_EQ(extents({2, 40, 5}), (Shape{2, 5, 48}));
}

}  // namespace
}  // namespace npusim
