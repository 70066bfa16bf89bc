// Convolution steps against the scalar interpreter: geometries, layouts, types, fused epilogues.
#include <limits>

#include "backends/cpu/product/check.h"
#include "backends/cpu/product/onednn/onednn.h"
#include "backends/cpu/product/simd.h"
#include "kernel/contractions.h"

namespace npusim::cpu::product {
namespace {

using Case = ConvCase;

Ex block(KernelBuilder&, Ex leaf, Ex bias, Ex residual) { return max(leaf + bias + residual, 0.0); }

void check_fused(const Kernel& kernel) {
  ContractionRun run = prepare(kernel, {1, 2}, make_context(2));
  if (!library_has_avx512()) return;  // it then leaves some epilogues to us (onednn.cpp)
  const std::string step = run.step->describe();
  EXPECT_EQ(step.find("epilogue"), std::string::npos) << step << to_text(kernel);
  const bool product = kernel.contraction->reduce[1] == 1;  // pointwise, channels last
  EXPECT_TRUE(step.starts_with("conv") || step.starts_with("depthwise") || product) << step;
}

TEST(ContractionConv, Geometries) {
  for (bool last : {true, false})
    for (Case c :
         {Case{}, Case{.batch = 2, .stride = {2, 2}}, Case{.pad = {0, 0}}, Case{.stride = {2, 1}, .pad = {0, 2}},
          Case{.pad = {2, 2}, .dilation = {2, 2}}, Case{.kernel = {1, 1}, .pad = {0, 0}},
          Case{.batch = 2,
          .in_channels = 16,
          .out_channels = 32,
          .input = {8, 8},
          .kernel = {1, 1},
          .stride = {2, 2},
          .pad = {0, 0}},
          Case{.groups = 2}, Case{.groups = 20, .in_channels = 1, .out_channels = 1},
          Case{.groups = 3, .in_channels = 1, .out_channels = 2},
          Case{.in_channels = 3,
          .out_channels = 16,
          .input = {23, 17},
          .kernel = {7, 7},
          .stride = {2, 2},
          .pad = {3, 3}},
          Case{.in_channels = 1, .out_channels = 1}, Case{.input = {1, 1}},
          Case{.input = {5, 5}, .kernel = {5, 5}, .pad = {0, 0}}}) {
      c.channels_last = last;
      check_contraction(conv(c, plain), {1});
      check_contraction(conv(c, block), {1, 2});
      if (last) check_fused(conv(c, block));
    }
}

TEST(ContractionConv, OneAndThreeDimensions) {
  for (bool last : {true, false}) {
    check_contraction(conv({.batch = 2,
                            .input = {40},
                            .kernel = {5},
                            .stride = {2},
                            .pad = {2},
                            .dilation = {1},
                            .channels_last = last},
                           block),
                      {1, 2});
    check_contraction(conv({.groups = 4,
                            .in_channels = 1,
                            .out_channels = 1,
                            .input = {40},
                            .kernel = {4},
                            .stride = {1},
                            .pad = {3},
                            .dilation = {1},
                            .channels_last = last},
                           plain),
                      {1});
    check_contraction(conv({.input = {5, 6, 7},
                            .kernel = {3, 2, 3},
                            .stride = {1, 2, 1},
                            .pad = {1, 0, 1},
                            .dilation = {1, 1, 1},
                            .channels_last = last},
                           block),
                      {1, 2});
  }
}

// Rows that are computed in pieces.
TEST(ContractionConv, LongRows) {
  const auto bias = [](KernelBuilder&, Ex x, Ex bias, Ex) { return max(x + bias, 0.0); };
  std::mt19937 random(11);
  const auto any = [&](std::initializer_list<int64_t> of) { return of.begin()[random() % of.size()]; };
  for (int n = 0; n < 30; ++n) {
    const int64_t outputs = any({4095, 4096, 4097, 5000, 8192, 8193, 12290});
    Case c{
        .batch = any({1, 2}), .groups = any({1, 1, 2}), .in_channels = any({1, 3, 4}), .out_channels = any({1, 2, 8})};
    const int64_t taps = any({2, 3, 7}), stride = any({1, 1, 2, 3}), dilation = any({1, 1, 2}),
                  reach = (taps - 1) * dilation;
    const int64_t pad = any({0, 0, 1, reach});
    c.kernel = {taps}, c.stride = {stride}, c.dilation = {dilation}, c.pad = {std::min(pad, reach)};
    c.input = {std::max<int64_t>(1, (outputs - 1) * stride + reach + 1 - 2 * c.pad[0] + any({0, 1}))};
    if (any({0, 1})) {
      c.kernel.insert(c.kernel.begin(), 1), c.stride.insert(c.stride.begin(), 1),
          c.dilation.insert(c.dilation.begin(), 1);
      c.pad.insert(c.pad.begin(), 0), c.input.insert(c.input.begin(), 1);
    }
    c.type = c.weight_type = any({0, 0, 1}) ? DType::bf16 : DType::f32;
    c.channels_last = any({0, 1}) != 0;
    switch (n % 3) {
      case 0:
        check_contraction(conv(c, plain), {1});
        break;
      case 1:
        check_contraction(conv(c, bias), {1, 2});
        break;
      default:
        check_contraction(conv(c, block), {2});  // the weight is an input
    }
  }
}

// Images of planes, whose rows hold tiles, and results of such.
TEST(ContractionConv, Planes) {
  const auto bias = [](KernelBuilder&, Ex x, Ex bias, Ex) { return max(x + bias, 0.0); };
  const auto residual = [](KernelBuilder&, Ex x, Ex, Ex residual) { return x + residual; };
  const auto wave = [](KernelBuilder&, Ex x, Ex bias, Ex residual) { return tanh(x + bias) + residual; };
  std::mt19937 random(12);
  const auto any = [&](std::initializer_list<int64_t> of) { return of.begin()[random() % of.size()]; };
  int planes = 0;
  for (int n = 0; n < 60; ++n) {
    Case c{.batch = any({1, 2}), .in_channels = any({1, 3, 5, 9}), .out_channels = any({8, 9, 15, 16, 21})};
    c.kernel = {any({2, 3, 5})}, c.stride = {1}, c.dilation = {any({1, 1, 2})}, c.pad = {any({0, 1, c.kernel[0] - 1})};
    const int64_t reach = (c.kernel[0] - 1) * c.dilation[0];
    c.input = {any({48, 49, 63, 64, 100, 150, 700}) + reach - 2 * c.pad[0]};
    for (int64_t more = any({0, 1, 1, 2}); more > 0; --more) {
      const int64_t taps = any({1, 2, 3});
      c.kernel.insert(c.kernel.begin(), taps), c.stride.insert(c.stride.begin(), any({1, 2}));
      c.dilation.insert(c.dilation.begin(), any({1, 2})), c.pad.insert(c.pad.begin(), any({0, taps - 1}));
      c.input.insert(c.input.begin(), any({4, 5, 7}) + (taps - 1));
    }
    c.channels_last = false;
    const Kernel kernel = n % 4 == 0   ? conv(c, plain)
                          : n % 4 == 1 ? conv(c, bias)
                          : n % 4 == 2 ? conv(c, residual)
                                       : conv(c, wave);
    std::vector<int> constant;  // the weight, the bias, both or neither
    for (const int arg : {1, 2})
      if (any({0, 1})) constant.push_back(arg);
    check_contraction(kernel, constant);
    planes += prepare(kernel, constant, make_context(1)).step->describe().starts_with("planes");
  }
  EXPECT_GT(planes, 20);
}

// Every second element of an image twice as large.
Kernel thinned(Kernel kernel) {
  auto contraction = std::make_shared<Contraction>(*kernel.contraction);
  Access& image = contraction->a;
  image.offset *= 2;
  for (int64_t& stride : image.strides) stride *= 2;
  for (Guard& guard : image.guards) guard.stride *= 2;
  kernel.args[static_cast<size_t>(image.arg)].elements *= 2;
  kernel.contraction = std::move(contraction);
  return kernel;
}

// Groups with few planes of the result, and windows of one tap: rows shorter and longer than tiles, planes that are one
// row, windows outside the image, in one to three dimensions.
TEST(ContractionConv, FewPlanes) {
  const auto bias = [](KernelBuilder&, Ex x, Ex bias, Ex) { return max(x + bias, 0.0); };
  const auto wave = [](KernelBuilder&, Ex x, Ex bias, Ex residual) { return tanh(x + bias) + residual; };
  std::mt19937 random(14);
  const auto any = [&](std::initializer_list<int64_t> of) { return of.begin()[random() % of.size()]; };
  int found = 0;
  for (int n = 0; n < 120; ++n) {
    Case c{.batch = any({1, 1, 2}), .groups = any({1, 1, 2, 5}), .in_channels = any({1, 1, 2, 7, 33})};
    c.out_channels = any({1, 1, 2, 3, 4});
    c.input.clear(), c.kernel.clear(), c.stride.clear(), c.pad.clear(), c.dilation.clear();
    const bool alone = any({0, 0, 1});  // windows of one tap
    if (alone && c.in_channels == 1) c.out_channels = any({1, 5, 9, 16});
    for (int64_t d = 0, dims = any({1, 2, 2, 3}); d < dims; ++d) {
      const bool row = d + 1 == dims;
      const int64_t taps = alone ? 1 : any({1, 2, 3, 5, 9}), dilation = any({1, 1, 2, 3}),
                    reach = (taps - 1) * dilation;
      c.kernel.push_back(taps), c.dilation.push_back(dilation);
      c.stride.push_back(alone ? 1 : any({1, 1, 2}));
      c.pad.push_back(std::min(reach, any({0, 1, reach / 2, reach})));
      const int64_t extent = row ? any({1, 5, 8, 15, 16, 17, 23, 40, 63, 64, 65, 130, 257}) : any({1, 2, 3, 6});
      c.input.push_back(std::max<int64_t>(extent, reach + 1 - 2 * c.pad.back()));
    }
    c.channels_last = false;
    const Kernel kernel = n % 3 == 0 ? conv(c, plain) : n % 3 == 1 ? conv(c, bias) : conv(c, wave);
    std::vector<int> constant;  // the weight, the bias, both or neither
    for (const int arg : {1, 2})
      if (any({0, 1})) constant.push_back(arg);
    check_contraction(kernel, constant);
    check_contraction(thinned(kernel), constant);
    if (HasFatalFailure()) return;
    found += prepare(kernel, constant, make_context(1)).step->describe().starts_with("few planes");
  }
  EXPECT_GT(found, 60);
}

// Filters of one channel in three dimensions, channels side by side.
TEST(ContractionConv, DepthwiseVolumes) {
  const auto bias = [](KernelBuilder&, Ex x, Ex bias, Ex) { return max(x + bias, 0.0); };
  std::mt19937 random(15);
  const auto any = [&](std::initializer_list<int64_t> of) { return of.begin()[random() % of.size()]; };
  int found = 0;
  for (int n = 0; n < 60; ++n) {
    Case c{.batch = any({1, 2}), .groups = any({2, 3, 16, 17, 65, 70}), .in_channels = 1, .out_channels = 1};
    c.input.clear(), c.kernel.clear(), c.stride.clear(), c.pad.clear(), c.dilation.clear();
    for (int d = 0; d < 3; ++d) {
      const int64_t taps = d == 2 ? any({3, 3, 5}) : any({1, 2, 3, 5}), dilation = d == 2 ? 1 : any({1, 1, 2}),
                    reach = (taps - 1) * dilation;
      c.kernel.push_back(taps), c.dilation.push_back(dilation), c.stride.push_back(any({1, 1, 2}));
      c.pad.push_back(std::min(reach, any({0, 1, reach})));
      c.input.push_back(std::max<int64_t>(any({1, 3, 4, 7, 12}), reach + 1 - 2 * c.pad.back()));
    }
    c.channels_last = true;
    c.type = any({0, 0, 1}) ? DType::bf16 : any({0, 1}) ? DType::f16 : DType::f32;
    const Kernel kernel = n % 3 == 0 ? conv(c, plain) : n % 3 == 1 ? conv(c, bias) : conv(c, block);
    check_contraction(kernel, {1, 2});
    if (HasFatalFailure()) return;
    found += prepare(kernel, {1, 2}, make_context(1)).step->describe().starts_with("depthwise");
  }
  EXPECT_GT(found, 20);
}

// Where oneDNN has no code of its own it multiplies matrices, and its epilogue added a residual at wrong addresses.
TEST(ContractionConv, ResidualsOfRareGeometries) {
  for (bool last : {true, false})
    for (Case c :
         {Case{.input = {10, 11}, .kernel = {9, 9}, .pad = {4, 4}},
          Case{.groups = 4, .in_channels = 4, .out_channels = 4}, Case{.groups = 2, .kernel = {5, 5}, .pad = {2, 2}},
          Case{.input = {14, 13}, .pad = {6, 6}, .dilation = {6, 6}},
          Case{.input = {15, 14}, .kernel = {7, 7}, .pad = {6, 6}, .dilation = {2, 2}},
          Case{.input = {30}, .kernel = {11}, .stride = {1}, .pad = {5}, .dilation = {1}},
          Case{.in_channels = 2,
          .input = {9, 9, 9},
          .kernel = {9, 3, 3},
          .stride = {1, 2, 2},
          .pad = {4, 1, 1},
          .dilation = {1, 1, 1}}}) {
      c.channels_last = last;
      check_contraction(conv(c, [](KernelBuilder&, Ex x, Ex, Ex residual) { return x + residual; }), {1, 2});
      check_contraction(conv(c, block), {1, 2});
    }
}

// A window as large as the image, depthwise: oneDNN gave what it adds to the first channels to all of them.
TEST(ContractionConv, OnePixel) {
  const auto late = [](KernelBuilder&, Ex x, Ex bias, Ex residual) { return max(x + bias, 0.0) + residual; };
  const auto residual = [](KernelBuilder&, Ex x, Ex, Ex residual) { return x + residual; };
  const auto bias = [](KernelBuilder&, Ex x, Ex bias, Ex) { return x + bias; };
  for (bool last : {true, false})
    for (int64_t groups : {16, 24, 65, 130})
      for (int64_t batch : {1, 2})
        for (DType type : {DType::f32, DType::f16, DType::bf16}) {
          Case c{.batch = batch, .groups = groups, .in_channels = 1, .out_channels = 1, .input = {7, 7}};
          c.kernel = {7, 7}, c.pad = {0, 0}, c.channels_last = last, c.type = c.weight_type = type;
          for (const Kernel& kernel : {conv(c, bias), conv(c, residual), conv(c, block), conv(c, late)})
            check_contraction(kernel, {1, 2});
        }
}

TEST(ContractionConv, Types) {
  for (DType type : {DType::f32, DType::f16, DType::bf16})
    for (DType weight : {DType::f32, DType::f16, DType::bf16})
      for (int64_t groups : {1, 2})
        check_contraction(conv({.groups = groups, .type = type, .weight_type = weight}, block), {1, 2});
}

TEST(ContractionConv, Epilogues) {
  auto check = [](bool fused, auto epilogue) {
    const Kernel kernel = conv({.in_channels = 16, .out_channels = 32}, epilogue);
    check_contraction(kernel, {1, 2});
    if (fused) check_fused(kernel);
  };
  check(true, [](KernelBuilder&, Ex x, Ex bias, Ex) { return x + bias; });
  check(true, [](KernelBuilder&, Ex x, Ex bias, Ex residual) { return residual + max(bias + x, 0.0); });
  check(true, [](KernelBuilder&, Ex x, Ex bias, Ex) { return min(max(x + bias, 0.0), 6.0); });
  check(true, [](KernelBuilder&, Ex x, Ex bias, Ex) {
    x = x + bias;
    return select(x > 0.0, x, x * 0.1);
  });
  check(true, [](KernelBuilder&, Ex x, Ex bias, Ex) {
    x = x + bias;
    return x / (1.0 + exp(-x));
  });
  check(true, [](KernelBuilder&, Ex x, Ex bias, Ex) {
    x = x + bias;
    return x * 0.5 * (erf(x * 0.70710678) + 1.0);
  });
  check(true, [](KernelBuilder&, Ex x, Ex bias, Ex) {
    x = x + bias;
    return x * min(max(x + 3.0, 0.0), 6.0) / 6.0;
  });
  check(true, [](KernelBuilder&, Ex x, Ex bias, Ex) { return tanh(x * 0.25 + bias); });
  check(false, [](KernelBuilder&, Ex x, Ex bias, Ex residual) { return (x + bias) * residual; });
  check(false, [](KernelBuilder&, Ex x, Ex, Ex) { return sin(x); });
}

std::string how(const Kernel& kernel, bool bf16 = false) {
  Context context = make_context(2);
  context.bf16 = bf16;
  return prepare(kernel, {1, 2}, context).step->describe();
}
Ex capped(KernelBuilder&, Ex leaf, Ex bias, Ex) { return min(max(leaf + bias, 0.0), 6.0); }

TEST(ContractionConv, DepthwiseInSixteenBits) {
  for (DType type : {DType::f16, DType::bf16})
    for (int64_t groups : {2, 20, 64, 70, 144}) {
      for (Case c : {Case{.batch = 2}, Case{.stride = {2, 2}}, Case{.kernel = {5, 3}, .pad = {2, 0}},
                     Case{.input = {30, 40}, .stride = {2, 1}, .pad = {2, 2}, .dilation = {2, 2}},
                     Case{.input = {40}, .kernel = {4}, .stride = {1}, .pad = {3}, .dilation = {1}}}) {
        c.groups = groups, c.in_channels = c.out_channels = 1, c.type = c.weight_type = type;
        for (const Kernel& kernel : {conv(c, plain), conv(c, block), conv(c, capped)}) {
          check_contraction(kernel, {1, 2});
          EXPECT_EQ(how(kernel).find("depthwise"), 0u) << how(kernel);
        }
      }
    }
}

// Neighbours that share columns: every count of them, at one edge, at both and at none, and windows outside the image.
TEST(ContractionConv, DepthwiseNeighbours) {
  const auto swish = [](KernelBuilder&, Ex x, Ex bias, Ex residual) {
    x = x + bias;
    return max(x / (1.0 + exp(-x)) + residual, -0.125);
  };
  for (int64_t taps : {3, 5})
    for (int64_t step : {1, 2})
      for (int64_t width = 1; width <= 20; ++width) {
        Case c{.groups = width % 4 == 0 ? 65 + width : 1 + width * 9 % 70,
               .in_channels = 1,
               .out_channels = 1,
               .input = {1 + width % 4, width}};
        c.batch = 1 + width % 2, c.kernel = {3, taps}, c.stride = {1, step}, c.pad = {2, width % (taps / 2 + 2)};
        if (width + 2 * c.pad[1] < taps) continue;
        c.dilation = {1 + width % 2, 1};
        for (const Kernel& kernel : {conv(c, plain), conv(c, capped), conv(c, swish)}) {
          check_contraction(kernel, {1, 2});
          EXPECT_EQ(how(kernel).find("depthwise"), 0u) << how(kernel);
          if (::testing::Test::HasFatalFailure()) return;
        }
      }
  const Case line{.groups = 20,
                  .in_channels = 1,
                  .out_channels = 1,
                  .input = {40},
                  .kernel = {5},
                  .stride = {2},
                  .pad = {4},
                  .dilation = {1}};
  check_contraction(conv(line, swish), {1, 2});
}

// Tiles of windows within the image and outside it, in either order of its dimensions and of the result's.
TEST(ContractionConv, FewChannels) {
  std::mt19937 random(5);
  const auto pick = [&](std::initializer_list<int64_t> choices) { return choices.begin()[random() % choices.size()]; };
  size_t own = 0;
  for (int n = 0; n < 60; ++n) {
    Case c{.batch = pick({1, 2}), .in_channels = pick({1, 2, 3}), .out_channels = pick({16, 32, 50, 64})};
    c.kernel = {pick({1, 2, 3, 7}), pick({2, 3, 5, 7})}, c.stride = {pick({1, 2, 3}), pick({1, 2, 3})};
    c.dilation = {pick({1, 2}), pick({1, 1, 2})};
    c.pad = {pick({0, 1, 2, 3}), pick({0, 1, 2, 3})};
    for (size_t d : {0, 1}) c.pad[d] = std::min(c.pad[d], (c.kernel[d] - 1) * c.dilation[d]);
    c.input = {pick({13, 16, 21}), pick({17, 30, 41, n % 10 == 0 ? 300 : 29})};
    c.channels_last = n % 2 == 0;
    c.result_turned = !c.channels_last;
    const auto swish = [](KernelBuilder&, Ex x, Ex bias, Ex) {
      x = x + bias;
      return x / (1.0 + exp(-x));
    };
    const Kernel kernel = n % 3 == 0 ? conv(c, swish) : n % 3 == 1 ? conv(c, block) : conv(c, plain);
    check_contraction(kernel, {1, 2});
    if (::testing::Test::HasFatalFailure()) return;
    own += how(kernel).starts_with("few channels");
  }
  EXPECT_GE(own, many_registers() ? 8U : 25U);
}

// What is not finite reaches the windows that hold it, and no others.
TEST(ContractionConv, DepthwiseKeepsSpecialValuesInTheirWindows) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  for (double special : {infinity, -infinity, std::nan("")})
    for (int64_t at : {0, 7, 41}) {
      const Case c{.groups = 20, .in_channels = 1, .out_channels = 1, .input = {6, 7}};
      check_contraction(conv(c, plain), {1, 2}, [&](ContractionRun& run) {
        store_double(run.memory[0].data(), DType::f32, at * 20 + 3, special);
        store_double(run.memory[1].data(), DType::f32, 5 * 9 + 4, special);
      });
    }
}

// With arithmetic for bf16, which oneDNN emulates on any AVX-512, the operands are taken as they are.
TEST(ContractionConv, Bf16Operands) {
  if (!library_has_avx512()) GTEST_SKIP() << "no AVX-512, without which oneDNN has no bf16";
  const Case square{.in_channels = 32, .out_channels = 48}, strided{.in_channels = 32, .stride = {2, 2}},
      pointwise{.in_channels = 32, .out_channels = 48, .kernel = {1, 1}, .stride = {2, 2}, .pad = {0, 0}},
      grouped{.groups = 2, .in_channels = 16, .out_channels = 16}, first{.in_channels = 3, .channels_last = false};
  for (Case c : {square, strided, pointwise, grouped, first}) {
    c.type = c.weight_type = DType::bf16;
    for (const Kernel& kernel : {conv(c, plain), conv(c, block), conv(c, capped)}) {
      const std::string step = how(kernel, true);
      const bool product = c.kernel == pointwise.kernel;
      EXPECT_TRUE(step.starts_with(product ? "matmul " : "conv ")) << step << to_text(kernel);
      EXPECT_EQ(step.ends_with(" gathered"), product) << step << to_text(kernel);
      EXPECT_EQ(step.find("widened"), std::string::npos) << step << to_text(kernel);
      check_contraction(kernel, {1, 2});
    }
  }
}

// Channels are multiplied in pairs: the neighbour of an odd last one has no part in it.
TEST(ContractionConv, Bf16NeighboursThatAreNotFinite) {
  if (!library_has_avx512()) GTEST_SKIP() << "no AVX-512, without which oneDNN has no bf16";
  constexpr float inf = std::numeric_limits<float>::infinity();
  for (int64_t channels : {1, 3, 4, 5})
    for (int64_t groups : {1, 2}) {
      Case c{.groups = groups, .in_channels = channels, .out_channels = 8};
      c.type = c.weight_type = DType::bf16;
      for (const Kernel& kernel : {conv(c, plain), conv(c, capped)})
        check_contraction(kernel, {1, 2}, [&](ContractionRun& run) {
          for (int64_t e : {int64_t{7}, kernel.args[0].elements - 1})
            store_double(run.memory[0].data(), DType::bf16, e, e == 7 ? inf : std::nan(""));
        });
    }
}

// What NPUSIM_ISA takes away is taken from oneDNN too.
TEST(ContractionConv, LibraryHasTheSameInstructionSet) {
  const Case wide{.in_channels = 32, .out_channels = 32, .stride = {2, 2}};
  const std::string step =
      prepare(conv(wide, [](KernelBuilder&, Ex leaf, Ex, Ex) { return leaf; }), {1}, make_context(1)).step->describe();
  EXPECT_EQ(step.find("avx512") != std::string::npos, instruction_set() >= InstructionSet::avx512) << step;
  EXPECT_EQ(onednn::multiplies_bf16(), instruction_set() >= InstructionSet::avx512_bf16);
}

// Shapes that pay: several tiles, cut ones at the edges, partly filled panels, more channels than one slice.
TEST(ContractionConv, Winograd) {
  const auto check = [](const Kernel& kernel, double tolerance = 2e-5) {
    check_contraction(kernel, {1, 2}, {}, tolerance);
    EXPECT_EQ(how(kernel).find("winograd"), 0u) << how(kernel);
  };
  for (DType type : {DType::f32, DType::f16, DType::bf16}) {
    Case c{.batch = 2, .in_channels = 16, .out_channels = 24, .input = {20, 17}};
    c.type = c.weight_type = type;
    check(conv(c, plain));
    check(conv(c, block));
    check(conv(c, capped));
  }
  check(conv(Case{.in_channels = 32, .out_channels = 33, .input = {21, 22}, .pad = {0, 2}}, block));
  check(conv(Case{.in_channels = 16, .out_channels = 130, .input = {23, 19}, .pad = {2, 0}}, plain));
  check(conv(Case{.batch = 3, .in_channels = 528, .out_channels = 17, .input = {12, 12}}, plain));
}

// An infinity or a NaN reaches the outputs whose window holds it, and no others of their tile.
TEST(ContractionConv, WinogradKeepsSpecialValuesInTheirWindows) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  for (DType type : {DType::f32, DType::f16})
    for (double special : {infinity, -infinity, std::nan("")}) {
      const Case c{.in_channels = 16, .out_channels = 24, .input = {20, 20}, .type = type, .weight_type = type};
      EXPECT_EQ(how(conv(c, plain)).find("winograd"), 0u);
      check_contraction(
          conv(c, plain), {1, 2},
          [&](ContractionRun& run) { store_double(run.memory[0].data(), type, (7 * 20 + 9) * 16 + 3, special); }, 2e-5);
    }
}

TEST(ContractionConv, WinogradLeavesOthersAlone) {
  const Case pays{.in_channels = 32, .out_channels = 32, .input = {24, 24}};
  EXPECT_EQ(how(conv(pays, plain)).find("winograd"), 0u);
  for (auto change :
       std::vector<void (*)(Case&)>{[](Case& c) {
                                      c.stride = {2, 1};
                                    },
                                    [](Case& c) {
                                      c.dilation = {1, 2};
                                    },
                                    [](Case& c) { c.groups = 2; }, [](Case& c) { c.channels_last = false; },
                                    [](Case& c) {
                                      c.kernel = {3, 1};
                                    },
                                    [](Case& c) { c.in_channels = 40; },
                                    [](Case& c) {
                                      c.input = {6, 6};
                                    }}) {
    Case c = pays;
    change(c);
    EXPECT_EQ(how(conv(c, plain)).find("winograd"), std::string::npos) << how(conv(c, plain));
  }
  const auto odd = [](KernelBuilder&, Ex x, Ex, Ex) { return sin(x); };
  EXPECT_EQ(how(conv(pays, odd)).find("winograd"), std::string::npos);
}

TEST(ContractionConv, PointwiseInSixteenBitsIsAMatmul) {
  for (DType type : {DType::f16, DType::bf16})
    for (int64_t channels : {8, 32, 50})
      for (int64_t stride : {1, 2}) {
        const Case c{.batch = 2,
                     .in_channels = 40,
                     .out_channels = channels,
                     .kernel = {1, 1},
                     .stride = {stride, stride},
                     .pad = {0, 0},
                     .type = type,
                     .weight_type = type};
        for (const Kernel& kernel : {conv(c, plain), conv(c, block), conv(c, capped)}) {
          check_contraction(kernel, {1, 2});
          EXPECT_EQ(how(kernel).find("matmul"), 0u) << how(kernel);
          EXPECT_EQ(how(kernel).find("epilogue"), std::string::npos) << how(kernel);
        }
      }
}

// What tiles take along keeps NaN, infinities and the sign of what rounds to zero, as the epilogue run as Loops does.
TEST(ContractionConv, FinishKeepsSpecialValues) {
  constexpr float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  for (DType type : {DType::f16, DType::bf16, DType::f32})
    for (auto epilogue : {plain, block, capped}) {
      const Case c{.in_channels = 8,
                   .out_channels = 40,
                   .input = {3, 16},
                   .kernel = {1, 1},
                   .pad = {0, 0},
                   .type = type,
                   .weight_type = type};
      const std::vector<int> constant = type == DType::f32 ? std::vector<int>{2} : std::vector<int>{1, 2};  // no oneDNN
      check_contraction(conv(c, epilogue), constant, [&](ContractionRun& run) {
        auto* bias = reinterpret_cast<float*>(run.memory[2].data());
        bias[0] = nan, bias[1] = infinity, bias[2] = -infinity, bias[33] = nan, bias[39] = infinity;
        store_double(run.memory[3].data(), type, 5, nan);
        store_double(run.memory[3].data(), type, 46, -infinity);
      });
    }
}

// Every order of image and result, weights that are constant and not, in the order they have and backwards: none runs
// by a reference.
TEST(ContractionConv, LayoutsAndWeightsThatChange) {
  std::mt19937 random(11);
  const auto pick = [&](std::initializer_list<int64_t> choices) { return choices.begin()[random() % choices.size()]; };
  for (int n = 0; n < 80; ++n) {
    Case c{.batch = pick({1, 1, 2}), .groups = pick({1, 1, 1, 3, 8})};
    const auto rank = static_cast<size_t>(pick({1, 2, 2, 3}));
    c.in_channels = pick({1, 3, 5, 17, 32}), c.out_channels = pick({1, 3, 5, 17, 32});
    if (pick({0, 0, 0, 1})) c.in_channels = c.out_channels = 1, c.groups = pick({3, 17, 32});
    c.input = c.kernel = c.stride = c.pad = c.dilation = std::vector<int64_t>(rank, 1);
    for (size_t d = 0; d < rank; ++d) {
      c.input[d] = pick({6, 9, 16}), c.kernel[d] = pick({1, 2, 3, 5}), c.stride[d] = pick({1, 1, 2});
      c.dilation[d] = pick({1, 1, 2}), c.pad[d] = std::min(pick({0, 1, 2}), (c.kernel[d] - 1) * c.dilation[d]);
      if ((c.kernel[d] - 1) * c.dilation[d] >= c.input[d]) c.kernel[d] = 3, c.dilation[d] = 1, c.pad[d] = 1;
    }
    int64_t products = c.batch * c.groups * c.in_channels * c.out_channels;
    for (size_t d = 0; d < rank; ++d) products *= c.input[d] * c.kernel[d];
    if (products > 400'000) continue;  // the reference takes its time
    c.channels_last = pick({0, 1}), c.result_turned = pick({0, 1}), c.taps_backwards = pick({0, 0, 1});
    c.type = pick({0, 0, 1}) ? DType::f16 : DType::f32;
    c.weight_type = pick({0, 0, 1}) ? DType::bf16 : c.type;
    const std::vector<int> constant = pick({0, 1}) ? std::vector<int>{1, 2} : std::vector<int>{};
    const Kernel kernel = pick({0, 1}) ? conv(c, block) : conv(c, capped);
    check_contraction(kernel, constant, {}, 2e-5);
    const std::string step = prepare(kernel, constant, make_context(2)).step->describe();
    EXPECT_EQ(step.find("ref"), std::string::npos) << step << to_text(kernel);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

TEST(ContractionConv, AsMatmul) {  // weights that are no constants, padding of a half window that starts outside
  check_contraction(conv({.groups = 2}, block));
  check_contraction(conv({.input = {6, 6}, .kernel = {2, 2}, .pad = {3, 0}, .dilation = {1, 2}}, block), {1});
}

}  // namespace
}  // namespace npusim::cpu::product
