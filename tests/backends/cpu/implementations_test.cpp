// The order in which implementations are asked, and what they say when they decline.
#include "backends/cpu/implementations.h"

#include "backends/cpu/product/check.h"
#include "backends/cpu/product/simd.h"
#include "kernel/contractions.h"

namespace npusim::cpu {
namespace {

// "gemv: 128 rows; onednn matmul: no operand is constant; then matmul …", up to the description's first word.
std::string choice_of(const Kernel& kernel, const std::vector<int>& constant, const Context& context) {
  std::vector<std::vector<std::byte>> memory;
  std::vector<Binding> bindings;
  for (size_t i = 0; i < kernel.args.size(); ++i) {
    memory.emplace_back(static_cast<size_t>(kernel.args[i].elements) * dtype_size(kernel.args[i].dtype) + 64);
    bindings.push_back({memory.back().data(), std::count(constant.begin(), constant.end(), static_cast<int>(i)) > 0});
  }
  const Choice choice = choose_implementation(kernel, bindings, context);
  std::string text;
  for (const auto& [implementation, reason] : choice.declined) text += implementation + ": " + reason + "; ";
  const std::string how = choice.step->describe();
  return text + "then " + how.substr(0, how.find(' '));
}

// On a machine without arithmetic for bfloat16 and with two threads.
Context plain_context() {
  Context context = make_context(2);
  context.bf16 = false;
  return context;
}

Kernel product(int64_t m, int64_t n, int64_t k, DType type = DType::f32) {
  return linear(m, n, k, type, type, type, plain);
}

TEST(ContractionChoice, Products) {
  const Context context = plain_context();
  const std::vector<int> weight{1};
  const std::string two = "side by side: one product; ", one = two + "matrices in place: a constant operand; ";
  EXPECT_EQ(choice_of(product(1, 32, 64), weight, context), one + "then gemv");
  EXPECT_EQ(choice_of(product(120, 32, 64), {}, context), two + "then matmul");  // where they lie
  EXPECT_EQ(choice_of(product(120, 320, 640), {}, context),
            two +
                "matrices in place: a matrix of 640x320; gemv: 120 rows; rows in place: no operand is constant; onednn "
                "matmul: no operand is constant; then matmul");
  EXPECT_EQ(choice_of(product(128, 32, 64), weight, context), one + "gemv: 128 rows; then matmul");
  EXPECT_TRUE(choice_of(product(128, 32, 5000), weight, context)
                  .starts_with(one + "gemv: 128 rows; rows in place: sums of 5000; "));
  EXPECT_EQ(
      choice_of(product(128, 32, 64, DType::f16), weight, context),
      one +
          "gemv: 128 rows; rows in place: float16 times float16; onednn matmul: no arithmetic for float16 on this "
          "machine; then matmul");
  EXPECT_EQ(choice_of(product(8, 32, 16), weight, context),
            one + "gemv: 8 rows; rows in place: 8 rows; onednn matmul: 8 rows; then matmul");
  EXPECT_EQ(choice_of(product(128, 32, 0), weight, context),
            one + "gemv: 128 rows; rows in place: a sum of nothing; onednn matmul: a sum of nothing; then matmul");
  EXPECT_EQ(choice_of(product(0, 32, 64), weight, context), "then empty");
  EXPECT_EQ(
      choice_of(
          linear(128, 32, 16, DType::f32, DType::f32, DType::f32, [](KernelBuilder&, Ex x, Ex, Ex) { return x * x; }),
          weight, context),
      one +
          "gemv: 128 rows; rows in place: an epilogue with other operations than those of a chain; onednn matmul: an "
          "epilogue with other operations than those of a chain; then matmul");
  Kernel adding = product(128, 32, 16);
  adding.stores[0].accumulate = true;
  EXPECT_EQ(
      choice_of(adding, weight, context),
      one +
          "gemv: 128 rows; rows in place: a result that is added to memory; onednn matmul: a result that is added to "
          "memory; then matmul");
  EXPECT_EQ(choice_of(product(128, 32, 64), {}, context),
            two + "matrices in place: many rows; gemv: 128 rows; then matmul");  // whose weight is packed by runs
}

TEST(ContractionChoice, Convolutions) {
  const Context context = plain_context();
  const std::vector<int> weight{1};
  const auto dense = [](const std::string& why) {
    return "depthwise: filters that see more than one channel; few channels: " + why + "; ";
  };
  const std::string apart =
      "planes: pixels that do not lie side by side; few planes: pixels that do not lie side by side; ";
  const ConvCase large{.in_channels = 64, .out_channels = 64, .input = {32, 32}};
  const auto choice = [&](const ConvCase& c) { return choice_of(conv(c, plain), weight, context); };
  EXPECT_EQ(choice(large), dense("64 channels") + "then winograd");
  ConvCase c = large;
  c.stride = {2, 2};
  EXPECT_EQ(choice(c), dense("64 channels") + "winograd: stride 2x2; " + apart + "then conv");
  c = large;
  c.kernel = {5, 3}, c.pad = {2, 1};
  EXPECT_EQ(choice(c), dense("64 channels") + "winograd: windows of 5x3; " + apart + "then conv");
  c = large;
  c.groups = 2;
  EXPECT_EQ(choice(c),
            dense("2 groups") +
                "winograd: 2 groups; planes: 2 groups; few planes: pixels that do not lie side by side; then conv");
  EXPECT_EQ(choice({}), dense("4 channels") +
                            "winograd: 9x8 pixels of 4 to 6 channels do not pay for the transforms; " + apart +
                            "then conv");
  c = large;
  c.channels_last = false;
  EXPECT_TRUE(
      choice(c).starts_with(dense("64 channels") + "winograd: channels of the image that do not lie side by side; "));
  ConvCase depthwise{.groups = 16, .in_channels = 1, .out_channels = 1};
  EXPECT_EQ(choice(depthwise), "then depthwise");
  depthwise.dilation = {1, 2};
  EXPECT_EQ(
      choice(depthwise),
      "depthwise: a float32 image with other windows than of 3 or 5 columns side by side, which oneDNN takes as it "
      "is; few channels: 16 groups; winograd: 16 groups; planes: 16 groups; few planes: pixels that do not lie side by "
      "side; then conv");
  depthwise.type = depthwise.weight_type = DType::f16;
  EXPECT_EQ(choice(depthwise), "then depthwise");
  EXPECT_TRUE(
      choice_of(conv({}, plain), {}, context)
          .starts_with(
              "depthwise: the weight is no constant; few channels: 4 channels; winograd: the weight is no constant; "));
}

// Images of few channels, in any order, are taken where oneDNN would have them transposed; with many registers where
// one panel has all channels of the result.
TEST(ContractionChoice, FewChannels) {
  ConvCase c{.in_channels = 3, .out_channels = 32, .input = {30, 30}, .stride = {2, 2}};
  const Context context = plain_context();  // which limits the instruction set, if that is asked for
  const std::string before = "depthwise: filters that see more than one channel; ";
  for (bool last : {true, false}) {
    c.channels_last = last, c.result_turned = !last;
    const std::string choice = choice_of(conv(c, plain), {1}, context);
    EXPECT_TRUE(choice.starts_with(before + "then few")) << choice;
  }
  c.out_channels = 64;
  const std::string choice = choice_of(conv(c, plain), {1}, context),
                    why = "few channels: 64 channels of the result, more than a panel: oneDNN is quicker; ";
  EXPECT_TRUE(choice.starts_with(before + (product::many_registers() ? why : "then few"))) << choice;
  c.out_channels = 32;
  c.input = {20, 5};
  EXPECT_TRUE(choice_of(conv(c, plain), {1}, context).starts_with(before + "few channels: rows of 3 windows; "));
}

// What oneDNN has its reference for is given to it in another form, and the reason says so.
TEST(ContractionChoice, NoReference) {
  const ConvCase transposed{
      .in_channels = 32, .out_channels = 32, .input = {64, 64}, .stride = {2, 2}, .result_turned = true};
  const std::string choice = choice_of(conv(transposed, plain), {1}, plain_context());
  EXPECT_NE(choice.find("onednn conv: oneDNN has its reference implementation only; then conv"), std::string::npos)
      << choice;
}

// Images of planes into planes, where rows hold tiles and copying them costs less than turning image and result.
TEST(ContractionChoice, Planes) {
  const Context context = plain_context();
  ConvCase c{.in_channels = 16, .out_channels = 16, .input = {12, 96}, .kernel = {3, 3}, .pad = {1, 1}};
  c.channels_last = false;
  const auto why = [&](const ConvCase& of) {
    const std::string choice = choice_of(conv(of, plain), {1}, context);
    const size_t at = choice.find("planes");
    return at == std::string::npos ? choice : choice.substr(at, choice.find(';', at) - at);
  };
  EXPECT_EQ(why(c), "planes");
  const auto with = [&](const std::function<void(ConvCase&)>& change) {
    ConvCase other = c;
    change(other);
    return why(other);
  };
  EXPECT_EQ(with([](ConvCase& o) { o.stride = {2, 1}; }), "planes");
  EXPECT_EQ(with([](ConvCase& o) { o.stride = {1, 2}; }), "planes: windows that are 2 pixels apart");
  EXPECT_EQ(with([](ConvCase& o) { o.input = {12, 8}; }), "planes: rows of 8 pixels");
  EXPECT_EQ(with([](ConvCase& o) { o.out_channels = 2; }), "planes: 2 channels of the result");
  EXPECT_EQ(with([](ConvCase& o) { o.in_channels = 200; }), "planes: turning image and result costs less");
  EXPECT_EQ(with([](ConvCase& o) { o.type = o.weight_type = DType::f16; }), "planes: an operand of float16");
}

// What no implementation by windows takes is said by all of them, and computed as a product.
TEST(ContractionChoice, ConvolutionsAsProducts) {
  const Context context = plain_context();
  const auto by_windows = [](const std::string& why) {
    return "depthwise: " + why + "; few channels: " + why + "; winograd: " + why + "; planes: " + why +
           "; few planes: " + why + "; onednn conv: " + why + "; onednn conv + epilogue: " + why + "; ";
  };
  const ConvCase pointwise{.kernel = {1, 1}, .pad = {0, 0}};
  EXPECT_TRUE(
      choice_of(conv(pointwise, plain), {1}, context)
          .starts_with(by_windows("windows of one pixel: a product of matrices is faster") + "gemv: 72 rows; "));
  const ConvCase patches{.input = {8, 8}, .kernel = {4, 4}, .stride = {4, 4}, .pad = {0, 0}};
  EXPECT_TRUE(choice_of(conv(patches, plain), {1}, context)
                  .starts_with(by_windows("windows side by side: a product of matrices is faster")));
  EXPECT_TRUE(choice_of(conv({.input = {9, 1}, .kernel = {3, 1}, .pad = {1, 1}}, plain), {1}, context)
                  .starts_with(by_windows("windows outside the image")));
}

TEST(ContractionChoice, Attention) {
  const Kernel kernel = attention({}, DType::f32, [](KernelBuilder&, Ex x, Ex) { return x; });
  EXPECT_EQ(choice_of(kernel, {}, plain_context()), "then attention");
  auto outer = std::make_shared<Contraction>(*kernel.contraction);
  auto score = std::make_shared<Score>(*outer->score);
  score->a = score->b;
  outer->score = score;
  Kernel strange = kernel;
  strange.contraction = outer;
  EXPECT_EQ(choice_of(strange, {}, plain_context()), "attention: keys in both operands of the score; then attention");
  std::vector<std::vector<std::byte>> memory;
  std::vector<Binding> bindings;
  for (const KernelArg& arg : strange.args) {
    memory.emplace_back(static_cast<size_t>(arg.elements) * dtype_size(arg.dtype));
    bindings.push_back({memory.back().data(), false});
  }
  const std::string how = choose_implementation(strange, bindings, plain_context()).step->describe();
  EXPECT_NE(how.find("reference implementation"), std::string::npos) << how;
}

}  // namespace
}  // namespace npusim::cpu
