// Batch norms: folded behind contractions where that keeps every result, and kernels of their own where it would not.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "passes/run_graph.h"

namespace npusim {
namespace {

using test::GraphRun;
using test::run_graph;
using test::RunOptions;
using test::tensor_of;
using test::values_of;

// Weights of a convolution 3 -> 5 and of a batch norm over 5 channels with random statistics.
const std::string weights =
    "input %x: float32[2, 3, 6, 6]\n"
    "weight %w: float32[5, 3, 3, 3] = \"conv.weight\"\n"
    "weight %b: float32[5] = \"conv.bias\"\n"
    "weight %scale: float32[5] = \"bn.weight\"\n"
    "weight %shift: float32[5] = \"bn.bias\"\n"
    "weight %mean: float32[5] = \"bn.running_mean\"\n"
    "weight %var: float32[5] = \"bn.running_var\"\n";

std::string conv(const std::string& name, const std::string& bias) {
  return fmt::format("%{}: float32[2, 5, 6, 6] = aten.conv2d.default(%x, %w, {}, padding=[1, 1])\n", name, bias);
}
std::string norm(const std::string& name, const std::string& input, const std::string& scale = "%scale") {
  return fmt::format(
      "%{}: float32[2, 5, 6, 6] = aten.batch_norm.default(%{}, {}, %shift, %mean, %var, training=false, momentum=0.1, "
      "eps=0.001, cudnn_enabled=false)\n",
      name, input, scale);
}
std::string relu(const std::string& name, const std::string& input) {
  return fmt::format("%{}: float32[2, 5, 6, 6] = aten.relu.default(%{})\n", name, input);
}

// What folding subtracts becomes a bias where the convolution had none.
TEST(Fold, W01ConvolutionWithoutBiasGetsOne) {
  for (const char* bias : {"None", "%b"}) {
    const GraphRun run = run_graph(weights + conv("c", bias) + norm("n", "c") + relu("y", "n") + "output %y\n");
    EXPECT_EQ(run.steps(), 1U) << bias;
    EXPECT_EQ(run.fusions.at("conv_bn_relu"), 1) << bias;
  }
}

TEST(Fold, W01NormWithoutScale) {
  const GraphRun run = run_graph(weights + conv("c", "None") + norm("y", "c", "None") + "output %y\n");
  EXPECT_EQ(run.fusions.at("conv_bn"), 1);
}

// A convolution that something else reads too, or that is a graph output, keeps its weights.
TEST(Fold, W02OnlyTheSingleReaderIsFolded) {
  const std::string start = weights + conv("c", "%b") + norm("n", "c");
  const GraphRun twice = run_graph(start + "%y: float32[2, 5, 6, 6] = aten.mul.Tensor(%n, %c)\noutput %y\n");
  EXPECT_FALSE(twice.fusions.contains("conv_bn"));
  const GraphRun output = run_graph(start + "output %c\noutput %n\n");
  EXPECT_FALSE(output.fusions.contains("conv_bn"));
}

// Two convolutions of one weight, of which one has a norm: the other reads the weight as it is.
TEST(Fold, W02SharedWeightsStay) {
  const GraphRun run = run_graph(weights +
                                 "input %z: float32[2, 3, 6, 6]\n"
                                 "%d: float32[2, 5, 6, 6] = aten.conv2d.default(%z, %w, %b, padding=[1, 1])\n" +
                                 conv("c", "%b") + norm("n", "c") + "output %n\noutput %d\n");
  EXPECT_EQ(run.fusions.at("conv_bn"), 1);
}

// A norm that is not next to a convolution is computed.
TEST(Fold, W03NormsElsewhereAreNotLost) {
  const GraphRun behind = run_graph(weights + conv("c", "None") + relu("r", "c") + norm("y", "r") + "output %y\n");
  EXPECT_FALSE(behind.fusions.contains("conv_bn"));
  run_graph(weights + conv("c", "None") + relu("r", "c") + norm("n", "r") + conv("d", "%b") + norm("m", "d") +
            "%y: float32[2, 5, 6, 6] = aten.add.Tensor(%n, %m)\noutput %y\noutput %r\n");
}

TEST(Fold, W27NormAlone) {
  const GraphRun run = run_graph(
      "input %x: float32[2, 5, 3]\n"
      "weight %scale: float32[5] = \"w\"\nweight %shift: float32[5] = \"b\"\n"
      "weight %mean: float32[5] = \"m\"\nweight %var: float32[5] = \"v\"\n"
      "%y: float32[2, 5, 3] = aten.batch_norm.default(%x, %scale, %shift, %mean, %var, training=false, momentum=0.1, "
      "eps=0.001, cudnn_enabled=false)\noutput %y\n");
  EXPECT_EQ(run.steps(), 1U);
}

// Statistics that are inputs are not known at load.
TEST(Fold, StatisticsOfARunStay) {
  std::string inputs = weights;
  inputs.replace(inputs.find("weight %var: float32[5] = \"bn.running_var\""), 43, "input %var: float32[5]\n");
  const GraphRun run = run_graph(inputs + conv("c", "None") + norm("y", "c") + "output %y\n");
  EXPECT_FALSE(run.fusions.contains("conv_bn"));
}

// Scaled weights of a bfloat16 model are rounded once and stay so, unless float32 is asked for.
TEST(Fold, WeightsKeepTheirType) {
  const std::string input = "input %x: float32[2, 3, 6, 6]\n";
  std::string narrow = weights.substr(input.size()) +
                       "%x: float32[2, 3, 6, 6] = aten.to.dtype(%given, dtype=float32)\n" + conv("c", "%b") +
                       norm("n", "c");
  for (size_t at; (at = narrow.find("float32")) != std::string::npos;) narrow.replace(at, 7, "bfloat16");
  const std::string text = "input %given: float32[2, 3, 6, 6]\n" + narrow +
                           "%y: float32[2, 5, 6, 6] = aten.to.dtype(%n, dtype=float32)\noutput %y\n";
  for (const DType dtype : {DType::bf16, DType::f32}) {
    const GraphRun run = run_graph(text, {.dtype = dtype, .tolerance = 2e-2});
    EXPECT_EQ(run.fusions.at("conv_bn"), 1);
    for (const Kernel& k : run.program->kernels) {
      if (k.contraction) {
        EXPECT_EQ(k.args[static_cast<size_t>(k.contraction->b.arg)].dtype, dtype);
      }
    }
  }
}

// Weights times scales that float16 cannot hold, in a model whose values it all holds, and in one compiled to float16.
TEST(Fold, ScaledWeightsDoNotOverflow) {
  for (const DType own : {DType::f16, DType::f32}) {
    std::string text = weights + conv("c", "None") + norm("n", "c") + "output %n\n";
    if (own == DType::f16)
      for (size_t at; (at = text.find("float32")) != std::string::npos;) text.replace(at, 7, "float16");
    const TensorType channels{own, {5}}, image{own, {2, 3, 6, 6}};
    std::vector<double> pixels(2 * 3 * 6 * 6);
    for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = 0.001 * (static_cast<double>(i * 7 % 11) - 5);
    const GraphRun run = run_graph(text, {.dtype = DType::f16,
                                          .tolerance = 2e-2,
                                          .given = {{"x", tensor_of(image, pixels)},
                                                    {"scale", tensor_of(channels, std::vector<double>(5, 4000))},
                                                    {"mean", tensor_of(channels, std::vector<double>(5, 0))},
                                                    {"var", tensor_of(channels, std::vector<double>(5, 1e-4))}}});
    EXPECT_EQ(run.fusions.at("conv_bn"), 1);
    for (double y : values_of(run.outputs[0])) EXPECT_TRUE(std::isfinite(y));
  }
}

// A scale, a product or a shift that is not finite: refused at load by name, whatever the sums would have been, and
// right where it is not folded.
TEST(Fold, WhatIsNotFiniteIsRefused) {
  const std::string text = weights + conv("c", "%b") + norm("n", "c") + "output %n\n";
  const double inf = std::numeric_limits<double>::infinity();
  const auto fold = [&](const std::string& name, double odd, const std::set<std::string>& disabled) {
    RunOptions options{.disabled = disabled};
    for (const char* channels : {"b", "scale", "shift", "mean", "var"})
      options.given[channels] = tensor_of({DType::f32, {5}}, {1, 1, 1, 1, 1});
    std::vector<double> image(5 * 3 * 3 * 3, 1e5);
    image[7] = 0;
    options.given["w"] = tensor_of({DType::f32, {5, 3, 3, 3}}, image);
    store_double(options.given.at(name).data.data(), DType::f32, 4, odd);  // of a filter the middle
    return run_graph(text, options);
  };
  const std::vector<std::pair<std::string, double>> cases{
      {"scale", inf}, {"scale", 3e38}, {"var", -1}, {"mean", -inf}, {"w", NAN}};
  for (const auto& [name, odd] : cases) {
    try {
      fold(name, odd, {});
      ADD_FAILURE() << name << " of " << odd << " is folded";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::unsupported);
      EXPECT_TRUE(std::string(error.what()).starts_with("node 'n': expected finite numbers in 'n_s")) << error.what();
      EXPECT_NE(std::string(error.what()).find("--disable-fusion conv_bn"), std::string::npos) << error.what();
    }
    fold(name, odd, {"conv_bn"});
  }
  fold("var", inf, {});  // a scale of 0
}

// Behind a linear layer the channel is the last dimension.
TEST(Fold, LinearLayers) {
  run_graph(
      "input %x: float32[4, 6]\n"
      "weight %w: float32[5, 6] = \"w\"\n"
      "weight %scale: float32[5] = \"s\"\nweight %shift: float32[5] = \"b\"\n"
      "weight %mean: float32[5] = \"m\"\nweight %var: float32[5] = \"v\"\n"
      "%l: float32[4, 5] = aten.linear.default(%x, %w, None)\n"
      "%y: float32[4, 5] = aten.batch_norm.default(%l, %scale, %shift, %mean, %var, training=false, momentum=0.1, "
      "eps=0.001, cudnn_enabled=false)\noutput %y\n");
}

}  // namespace
}  // namespace npusim
