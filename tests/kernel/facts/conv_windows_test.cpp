// Windows recovered from the accesses of convolutions.
#include "kernel/facts/conv_windows.h"

#include <gtest/gtest.h>

#include "kernel/contractions.h"

namespace npusim {
namespace {

using List = std::vector<int64_t>;

TEST(ConvWindows, AreThoseTheKernelWasMadeOf) {
  const ConvCase cases[] = {
      {},
      {.batch = 2, .channels_last = false},
      {.groups = 3, .stride = {2, 2}},
      {.kernel = {5, 3}, .stride = {2, 3}, .pad = {2, 1}},
      {.pad = {2, 2}, .dilation = {2, 2}},
      {.pad = {0, 0}},
      {.kernel = {2, 2}, .stride = {2, 2}, .pad = {0, 0}},
      {.groups = 6, .in_channels = 1, .out_channels = 1},
      {.input = {30}, .kernel = {4}, .stride = {3}, .pad = {2}, .dilation = {1}},
      {.input = {5, 6, 7}, .kernel = {3, 1, 2}, .stride = {1, 1, 1}, .pad = {1, 0, 1}, .dilation = {1, 1, 1}},
  };
  for (const ConvCase& c : cases) {
    const Kernel kernel = conv(c, plain);
    SCOPED_TRACE(to_text(kernel));
    const auto found = conv_windows(kernel);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->batch, c.batch);
    EXPECT_EQ(found->groups, c.groups);
    EXPECT_EQ(found->in_channels, c.in_channels);
    EXPECT_EQ(found->out_channels, c.out_channels);
    EXPECT_EQ(found->kernel, c.kernel);
    EXPECT_EQ(found->stride, c.stride);
    EXPECT_EQ(found->dilation, c.dilation);
    EXPECT_EQ(found->pad_low, c.pad);
    EXPECT_EQ(found->output, List(kernel.space.begin() + 3, kernel.space.end()));
    for (size_t i = 0; i < c.input.size(); ++i) {
      if (c.pad[i] > 0) {
        EXPECT_EQ(found->input[i], c.input[i]);
      }
      EXPECT_EQ(found->pad_high[i], (found->output[i] - 1) * c.stride[i] + (c.kernel[i] - 1) * c.dilation[i] + 1 -
                                        found->input[i] - c.pad[i]);
    }
    const int64_t channels = c.groups * c.in_channels;
    EXPECT_EQ(found->image_strides[1], c.channels_last ? 1 : element_count(c.input));
    EXPECT_EQ(found->image_strides.back(), c.channels_last ? channels : 1);
    EXPECT_EQ(found->weight_strides[1], c.in_channels * element_count(c.kernel));
    EXPECT_EQ(found->weight_strides.back(), 1);
  }
}

// What no window leaves out shows in the next larger stride, as far as windows reach.
TEST(ConvWindows, WithoutPaddingTheImageIsWhatFitsTheWindows) {
  EXPECT_EQ(conv_windows(conv({.pad = {0, 0}}, plain))->input, (List{9, 8}));
  // 9 rows under windows of 2, 2 apart: the last row is seen by none, but a row of the batch leaves room for it.
  const ConvCase c{.batch = 2, .input = {9, 8}, .kernel = {2, 2}, .stride = {2, 2}, .pad = {0, 0}};
  const auto found = conv_windows(conv(c, plain));
  EXPECT_EQ(found->input, (List{9, 8}));
  EXPECT_EQ(found->pad_high, (List{-1, 0}));
}

// Every extent, padding (also a cut) and distance, counted tap by tap.
TEST(ConvWindows, TapsWithinTheImageAreThoseCounted) {
  for (int64_t extent = 1; extent < 6; ++extent)
    for (int64_t taps = 1; taps < 5; ++taps)
      for (int64_t dilation = 1; dilation < 4; ++dilation)
        for (int64_t pad = -2; pad < 9; ++pad) {
          ConvWindows windows;
          windows.input = {extent}, windows.output = {8}, windows.kernel = {taps};
          windows.stride = {2}, windows.dilation = {dilation}, windows.pad_low = {pad};
          const auto found = taps_within(windows, 0);
          ASSERT_EQ(found.size(), 8u);
          for (int64_t out = 0; out < 8; ++out) {
            const TapRange& range = found[static_cast<size_t>(out)];
            int64_t count = 0;
            for (int64_t k = 0; k < taps; ++k) {
              const int64_t sees = out * 2 - pad + k * dilation;
              const bool within = sees >= 0 && sees < extent;
              count += within;
              EXPECT_EQ(within, k >= range.begin && k < range.end) << extent << taps << dilation << pad << out;
            }
            EXPECT_EQ(range.end - range.begin, count);
            EXPECT_EQ(range.first, out * 2 - pad + range.begin * dilation);
          }
        }
}

TEST(ConvWindows, OtherAccessesAreNone) {
  const auto changed = [](auto change) {
    Kernel kernel = conv({.batch = 2, .groups = 2}, plain);
    auto contraction = std::make_shared<Contraction>(*kernel.contraction);
    change(*contraction, kernel);
    kernel.contraction = contraction;
    return conv_windows(kernel).has_value();
  };
  EXPECT_TRUE(changed([](Contraction&, Kernel&) {}));
  EXPECT_FALSE(changed([](Contraction& c, Kernel&) { c.a.strides[2] = 1; }));   // another image per out channel
  EXPECT_FALSE(changed([](Contraction& c, Kernel&) { c.b.strides[0] = 1; }));   // a weight per image
  EXPECT_FALSE(changed([](Contraction& c, Kernel&) { c.b.strides[3] = 1; }));   // a weight per pixel
  EXPECT_FALSE(changed([](Contraction& c, Kernel&) { c.a.strides[1] += 1; }));  // groups apart
  EXPECT_FALSE(changed([](Contraction& c, Kernel&) { c.a.guards[0].coeffs[0] = 1; }));
  EXPECT_FALSE(changed([](Contraction& c, Kernel&) { c.a.guards.push_back(c.a.guards[0]); }));
  EXPECT_FALSE(changed([](Contraction&, Kernel& k) { k.space[0] = 0; }));
}

}  // namespace
}  // namespace npusim
