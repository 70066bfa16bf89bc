// Convolutions of each channel by itself: windows of every kind, one pixel to a thread or several.
#include "backends/cuda/codegen/products/depthwise.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "backends/cuda/codegen/choose/parts.h"
#include "backends/cuda/codegen/text.h"
#include "backends/cuda/harness/check.h"
#include "backends/cuda/harness/tiled.h"
#include "kernel/contractions.h"

namespace npusim {
namespace {

ConvCase depthwise(std::vector<int64_t> input, std::vector<int64_t> kernel, DType type, int64_t channels = 24) {
  ConvCase c;
  c.type = c.weight_type = type;
  c.batch = 2, c.groups = channels, c.in_channels = c.out_channels = 1;
  c.input = std::move(input), c.kernel = std::move(kernel);
  const size_t rank = c.input.size();
  c.stride.assign(rank, 1), c.dilation.assign(rank, 1), c.pad.assign(rank, 1);
  return c;
}

Case with_pixels(std::string name, const ConvCase& c, int pixels) {
  Kernel kernel = conv(c, gelu);
  const Unfused parts = cuda::codegen::choose::find_parts(kernel, any);
  const bool one_tap = std::all_of(c.kernel.begin(), c.kernel.end(), [](int64_t taps) { return taps == 1; });
  EXPECT_EQ(parts.steps.size(), one_tap ? 0U : 2U) << name;  // the weight is packed
  if (!one_tap) kernel = parts.steps.back().kernel;
  kernel.name = name;
  std::string why;
  auto product = plan::find_product(kernel, why);
  EXPECT_TRUE(product) << why;
  const plan::Contracted known = plan::contracted(kernel);
  EXPECT_EQ(cuda::codegen::products::no_depthwise(kernel, known), "");
  EXPECT_TRUE(cuda::codegen::products::depthwise_packing(kernel, *known.windows).empty());
  std::vector<bool> ahead(kernel.args.size());
  product->b.ahead = ahead[static_cast<size_t>(product->b.arg)] = pixels != 2;
  cuda::codegen::GeneratedKernel made =
      cuda::codegen::products::make_depthwise(kernel, *product, *known.windows, pixels, any);
  made.symbol = cuda::codegen::function_name(kernel, *product);
  return {std::move(name), std::move(kernel), std::move(made), std::move(ahead)};
}

TEST(CudaDepthwise, OneAndSeveralPixels) {
  std::vector<Case> cases;
  for (const int pixels : {1, 2, 4})
    for (const DType type : {DType::f16, DType::bf16, DType::f32}) {
      const std::string of = fmt::format("{}_{}", pixels, dtype_name(type));
      ConvCase c = depthwise({9, 13}, {3, 3}, type);
      cases.push_back(with_pixels("three" + of, c, pixels));
      c.stride = {2, 2}, c.pad = {0, 2};
      cases.push_back(with_pixels("strided" + of, c, pixels));
      c = depthwise({10, 9}, {7, 7}, type);
      c.pad = {3, 3};
      cases.push_back(with_pixels("seven" + of, c, pixels));
    }
  check(cases);
}

TEST(CudaDepthwise, OneAndThreeDimensionsAndDilation) {
  std::vector<Case> cases;
  for (const int pixels : {1, 4}) {
    cases.push_back(with_pixels(fmt::format("line{}", pixels), depthwise({37}, {5}, DType::bf16), pixels));
    cases.push_back(with_pixels(fmt::format("space{}", pixels), depthwise({4, 5, 6}, {2, 3, 2}, DType::f16), pixels));
  }
  ConvCase c = depthwise({12, 31}, {3, 20}, DType::f16);
  c.dilation = {2, 1};
  cases.push_back(with_pixels("wide", c, 1));
  c = depthwise({12, 11}, {3, 3}, DType::f32);
  c.dilation = {2, 3}, c.pad = {2, 3};
  cases.push_back(with_pixels("dilated", c, 1));
  c = depthwise({12, 11}, {1, 1}, DType::f16);
  c.pad = {0, 0};
  cases.push_back(with_pixels("scale", c, 1));
  check(cases);
}

// What is not in words of eight channels, and groups of several, are made otherwise.
TEST(CudaDepthwise, Declines) {
  const auto declined = [](const ConvCase& c) {
    const Kernel kernel = conv(c, gelu);
    return cuda::codegen::products::no_depthwise(kernel, plan::contracted(kernel));
  };
  EXPECT_EQ(declined(depthwise({9, 9}, {3, 3}, DType::f16)), "");
  EXPECT_EQ(declined(depthwise({9, 9}, {3, 3}, DType::f16, 12)), "12 channels");
  ConvCase c = depthwise({9, 9}, {3, 3}, DType::f16);
  c.out_channels = 2;
  EXPECT_EQ(declined(c), "1 channels and 2 results of a group");
  c = depthwise({9, 9}, {3, 3}, DType::f16);
  c.channels_last = false;
  EXPECT_EQ(declined(c), "an image without words of channels");
}

// As many pixels as leave enough threads.
TEST(CudaDepthwise, PixelsOfAThread) {
  const auto pixels = [](int64_t batch, int64_t size, int64_t kernel, int64_t dilation) {
    ConvCase c = depthwise({size, size}, {kernel, kernel}, DType::f16, 64);
    c.batch = batch, c.pad = {kernel / 2, kernel / 2}, c.dilation = {dilation, dilation};
    return cuda::codegen::products::rate_depthwise(*conv_windows(conv(c, gelu)), any);
  };
  using Pixels = std::vector<int>;
  EXPECT_EQ(pixels(1, 14, 3, 1), (Pixels{1, 2, 4}));
  EXPECT_EQ(pixels(1, 140, 3, 1), (Pixels{2, 4, 1}));
  EXPECT_EQ(pixels(16, 112, 7, 1), (Pixels{4, 2, 1}));
  EXPECT_EQ(pixels(16, 112, 3, 2), Pixels{1});  // dilated: what neighbours read is not the same
  EXPECT_EQ(pixels(16, 112, 17, 1), Pixels{1});
}

}  // namespace
}  // namespace npusim
