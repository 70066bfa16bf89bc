// Products as the CUDA target makes them, executed (on the CPU where there is no GPU) and compared with the reference:
// every tile and every split of dot products, operands in every order of memory, edges of every kind.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "backends/cuda/target/columns.h"
#include "backends/cuda/target/dot.h"
#include "backends/cuda/target/pair.h"
#include "backends/cuda/target/parts.h"
#include "backends/cuda/target/patch.h"
#include "backends/cuda/target/text.h"
#include "backends/cuda/target/tile.h"
#include "cuda/harness/check.h"
#include "cuda/harness/machine.h"
#include "kernel/contractions.h"
#include "kernel/evaluate.h"
#include "print/print.h"

namespace npusim {
namespace {

using cuda::Made;

Case tiled(std::string name, Kernel kernel, const cuda::TileShape& shape) {
  kernel.name = name;
  std::string why;
  auto product = cuda::find_product(kernel, why);
  EXPECT_TRUE(product) << name << ": " << why;
  EXPECT_EQ(cuda::tiles_decline(*product), "");
  EXPECT_TRUE(cuda::takes(shape, *product)) << name;
  std::vector<bool> ahead(kernel.args.size());
  const size_t number = name.size() % 3;  // none, one or the other
  product->a.ahead = number == 1, product->b.ahead = number == 2;
  for (const cuda::Operand* o : {&product->a, &product->b}) ahead[static_cast<size_t>(o->arg)] = o->ahead;
  Made made = cuda::make_tiles(kernel, *product, shape);
  made.symbol = cuda::function_name(kernel, *product);
  return {std::move(name), std::move(kernel), std::move(made), std::move(ahead)};
}

Ex gelu(KernelBuilder&, Ex leaf, Ex bias, Ex residual) {
  Ex x = leaf + bias;
  return x * 0.5 * (1.0 + erf(x * 0.70710678)) + residual;
}

// a [batch, m, k] or [batch, k, m], b [batch, n, k] or [batch, k, n].
Kernel product(int64_t batch, int64_t m, int64_t n, int64_t k, bool a_across, bool b_across, DType type) {
  KernelBuilder b({batch, m, n});
  const int x = b.input({type, a_across ? Shape{batch, k, m} : Shape{batch, m, k}}),
            w = b.input({type, b_across ? Shape{batch, k, n} : Shape{batch, n, k}}),
            out = b.output({DType::f32, {batch, m, n}});
  const Coord z = b.dim(0), i = b.dim(1), j = b.dim(2), r = b.dim(3);
  const Coords x_at = a_across ? Coords{z, r, i} : Coords{z, i, r}, w_at = b_across ? Coords{z, r, j} : Coords{z, j, r};
  b.store(out, b.contract(ContractionKind::matmul, {k}, x, x_at, w, w_at));
  return b.finish("product");
}

std::string name_of(const cuda::TileShape& s) {
  return fmt::format("{}{}x{}", s.fed ? "fed" : s.groups ? "groups" : "", s.rows, s.columns);
}

TEST(CudaProducts, EveryTileOfALinearLayer) {
  std::vector<Case> cases;
  for (const cuda::TileShape& s : cuda::tile_shapes())
    for (const auto& [m, n, k] : {std::tuple{1, 8, 8}, {70, 72, 200}, {131, 136, 64}})
      cases.push_back(tiled(fmt::format("linear{}_{}x{}x{}", name_of(s), m, n, k),
                            linear(m, n, k, DType::f16, DType::f16, DType::f16, gelu), s));
  check(cases);
}

// More steps than stages, and an edge on every side.
TEST(CudaProducts, ManyStages) {
  std::vector<Case> cases;
  const auto add = [&](const cuda::TileShape& s) {
    cases.push_back(tiled(fmt::format("stages{}_{}", s.stages, name_of(s)),
                          linear(133, 264, 584, DType::bf16, DType::bf16, DType::bf16, gelu), s));
  };
  for (cuda::TileShape s : cuda::tile_shapes()) {
    if (s.groups) add(s);
    if (s.columns == 64 || s.columns == 32) s.stages = s.rows > 128 ? 5 : 7, add(s);
  }
  check(cases);
}

// One tile's words are asked for while another one is multiplied or stored: fewer blocks than tiles, fewer steps than
// stages and more, with edges and without.
TEST(CudaProducts, TilesThatFollowEachOtherInABlock) {
  std::vector<Case> cases;
  for (cuda::TileShape s : cuda::tile_shapes())
    if (s.fed)
      for (const auto& [m, n, k, blocks] :
           {std::tuple{2 * s.rows, 2 * s.columns, 128, 3}, {s.rows + 5, s.columns + 8, 328, 1}}) {
        s.stages = blocks + 1;
        cases.push_back(tiled(fmt::format("followed{}_{}", blocks, name_of(s)),
                              linear(m, n, k, DType::f16, DType::f16, DType::f16, gelu), s));
        EXPECT_GT(cases.back().made.shape.blocks, blocks);
        cases.back().made.shape.blocks = blocks;
      }
  check(cases);
}

TEST(CudaProducts, OperandsInEveryOrderOfMemory) {
  std::vector<Case> cases;
  for (const cuda::TileShape& s : cuda::tile_shapes())
    for (const bool a : {false, true})
      for (const bool b : {false, true})
        if (!s.groups || (!a && !b))
          cases.push_back(tiled(fmt::format("orders{}_{}{}", name_of(s), a, b),
                                product(2, 72, 40, 136, a, b, a ? DType::bf16 : DType::f16), s));
  check(cases);
}

// Blocks of a cluster with a piece of the depth each: as many as there are steps, more steps than stages, pieces of
// several lengths, several products at once.
TEST(CudaProducts, PiecesOfTheDepthInAClusterOfBlocks) {
  std::vector<Case> cases;
  for (cuda::TileShape s : cuda::tile_shapes())
    for (const int pieces : {2, 3, 8}) {
      if (s.fed) break;
      if (pieces == 3 && s.rows * s.columns > 128 * 64) continue;
      s.pieces = pieces;
      const std::string name = fmt::format("pieces{}_{}", pieces, name_of(s));
      cases.push_back(
          tiled(name, linear(70, 136, pieces == 2 ? 1096 : 584, DType::bf16, DType::bf16, DType::bf16, gelu), s));
      if (s.rows == 64 && !s.groups)
        cases.push_back(tiled(name + "_odd", product(2, 37, 41, 517, false, true, DType::f16), s));
    }
  check(cases);
}

// Nothing is a multiple of anything: elements one by one.
TEST(CudaProducts, OddExtents) {
  std::vector<Case> cases;
  for (const cuda::TileShape& s : cuda::tile_shapes()) {
    if (s.fed) continue;
    cases.push_back(tiled("odd" + name_of(s), product(3, 37, 41, 67, false, true, DType::f16), s));
    cases.push_back(tiled("one" + name_of(s), product(1, 1, 1, 1, false, false, DType::bf16), s));
    cases.push_back(
        tiled("odd_linear" + name_of(s), linear(19, 21, 33, DType::bf16, DType::bf16, DType::f32, gelu), s));
  }
  check(cases);
}

// The product behind the packing of its weight.
Kernel packed(const Kernel& kernel) {
  const Unfused parts = cuda::find_parts(kernel, {true});
  EXPECT_EQ(parts.steps.size(), 2u);
  return parts.steps.back().kernel;
}

TEST(CudaProducts, Convolutions) {
  std::vector<Case> cases;
  const auto add = [&](const std::string& name, const ConvCase& c, const cuda::TileShape& s) {
    cases.push_back(tiled(name, s.fed ? packed(conv(c, gelu)) : conv(c, gelu), s));
  };
  int number = 0;
  for (const cuda::TileShape& s : cuda::tile_shapes()) {
    ConvCase c;
    c.type = c.weight_type = DType::f16;
    c.in_channels = 16, c.out_channels = 24, c.batch = 2;
    const std::string of = std::to_string(number++);
    add("conv" + of, c, s);
    if (s.groups) continue;  // nothing of what differs below is theirs
    c.stride = {2, 2}, c.kernel = {7, 7}, c.pad = {3, 3}, c.in_channels = 3, c.input = {15, 14};
    add("stem" + of, c, s);
    if (s.rows != 64) continue;  // which coordinates there are is the same for all
    c.groups = 2, c.in_channels = 8, c.out_channels = 8, c.dilation = {2, 1}, c.kernel = {3, 3}, c.pad = {2, 1};
    add("grouped" + of, c, s);
    c.channels_last = false, c.type = c.weight_type = DType::bf16;
    add("channels_first" + of, c, s);
  }
  check(cases);
}

// Five channels of eight that an image has room for: what is in the others is nobody's.
TEST(CudaProducts, ChannelsThatFillWordsInPart) {
  ConvCase image;
  image.type = image.weight_type = DType::f16;
  image.in_channels = 8, image.out_channels = 24, image.input = {21, 18}, image.stride = {2, 2}, image.kernel = {7, 7};
  image.pad = {3, 3};
  Kernel stem = conv(image, gelu);
  auto contraction = std::make_shared<Contraction>(*stem.contraction);
  contraction->reduce[0] = 5;
  stem.contraction = contraction;
  std::vector<Case> cases;
  for (const cuda::TileShape& s : cuda::tile_shapes())
    if (s.rows == 64 || s.groups) {
      cases.push_back(tiled("stem" + name_of(s), s.fed ? packed(stem) : stem, s));
      cases.back().given = [](std::vector<HostTensor>& memory) {
        for (int64_t i = 0; i < 21 * 18 * 8; ++i)
          if (i % 8 > 4) store_double(memory[0].data.data(), DType::f16, i, std::nan(""));
      };
    }
  check(cases);
  check_steps({{"packed_stem", stem, 2, {"rows", "tiles of 32x32, 8 stages, words by words"}}});
}

TEST(CudaProducts, DotsOfFewRows) {
  std::vector<Case> cases;
  for (const int64_t m : {1, 3, 8})
    for (const int64_t k : {8, 264, 1536, 4096})
      for (const int64_t n : {1, 9, 260})
        cases.push_back(chosen(fmt::format("dots{}_{}_{}", m, k, n),
                               linear(m, n, k, DType::bf16, DType::bf16, DType::bf16, gelu), "dots"));
  cases.push_back(chosen("dots_columns", product(1, 300, 2, 512, false, false, DType::f16), "dots"));
  cases.push_back(chosen("dots_batch", product(5, 2, 70, 256, false, false, DType::f16), "dots"));
  check(cases);
}

TEST(CudaProducts, EverySplitOfDots) {
  std::vector<Case> cases;
  for (const int lines : {1, 2, 4})
    for (const int warps : {1, 2, 4, 8}) {
      Kernel kernel = linear(3, 43, 1032, DType::f16, DType::f16, DType::f16, gelu);
      kernel.name = fmt::format("split{}_{}", lines, warps);
      std::string why;
      auto product = cuda::find_product(kernel, why);
      ASSERT_TRUE(product) << why;
      std::vector<bool> ahead(kernel.args.size());
      product->b.ahead = ahead[static_cast<size_t>(product->b.arg)] = lines != 2;
      Made made = cuda::make_dots(kernel, *product, {lines, warps});
      made.symbol = cuda::function_name(kernel, *product);
      cases.push_back({kernel.name, kernel, std::move(made), std::move(ahead)});
    }
  check(cases);
}

// Each copy has memory of its own, and none of the others'.
TEST(CudaProducts, SeveralAtOnce) {
  struct Several {
    Kernel kernel;
    int copies;
    std::string how;
  };
  std::vector<Several> all{{linear(40, 72, 136, DType::f16, DType::f16, DType::f16, gelu), 3, "tiles"},
                           {linear(130, 64, 64, DType::bf16, DType::bf16, DType::bf16, gelu), 2, "tiles"},
                           {linear(1, 43, 264, DType::bf16, DType::bf16, DType::bf16, gelu), 4, "dots"}};
  std::vector<Made> made;
  std::string functions;
  for (const auto& [kernel, copies, how] : all) {
    EXPECT_TRUE(cuda::several_at_once(kernel));
    made.push_back(cuda::make_kernel(kernel, {}, second_ahead(kernel), copies));
    EXPECT_TRUE(made.back().how.starts_with(how)) << made.back().how;
    functions += made.back().functions;
  }
  Machine machine(functions);
  ASSERT_EQ(machine.error(), "");
  for (size_t n = 0; n < all.size(); ++n) {
    const Kernel& kernel = all[n].kernel;
    Case joined{"several", kernel, made[n]};
    joined.kernel.args.clear();
    for (int c = 0; c < all[n].copies; ++c) {
      joined.kernel.args.insert(joined.kernel.args.end(), kernel.args.begin(), kernel.args.end());
      const std::vector<bool> ahead = second_ahead(kernel);
      joined.ahead.insert(joined.ahead.end(), ahead.begin(), ahead.end());
    }
    const std::vector<HostTensor> given = random_memory(joined.kernel, static_cast<unsigned>(n));
    std::vector<HostTensor> expected = given;
    for (size_t first = 0; first < expected.size(); first += kernel.args.size()) {
      std::vector<void*> args;
      for (size_t i = 0; i < kernel.args.size(); ++i) args.push_back(expected[first + i].data.data());
      evaluate(kernel, args);
    }
    EXPECT_EQ(difference(joined, expected, execute(joined, machine, given, mslx::Order::random)), "");
  }
}

Ex doubled(KernelBuilder&, Ex leaf, Ex bias, Ex) { return leaf + bias; }
Ex gated(KernelBuilder&, Ex leaf, Ex bias, Ex gate) { return gate / (1.0 + exp(-gate)) * (leaf + bias); }

// Gate and up: the first product's result is an argument of the second one, and nobody else's or kept. Rows of a gate
// that is very small or large, or no number, are divided as others are.
TEST(CudaProducts, TwoProductsOfTheSameRowsInOneKernel) {
  struct One {
    Kernel kernels[2];
    cuda::Pair pair;
    Made made;
  };
  std::vector<One> all;
  std::string functions;
  for (cuda::TileShape s : cuda::tile_shapes()) {
    if (!s.fed) continue;
    const bool keep = s.rows == 128;
    const int64_t m = s.rows + 5, n = s.columns / 2 + 8, k = 200;
    One& one = all.emplace_back();
    one.kernels[0] = linear(m, n, k, DType::bf16, DType::bf16, DType::bf16, doubled);
    one.kernels[1] = linear(m, n, k, DType::bf16, DType::bf16, DType::bf16, gated);
    one.kernels[1].name = name_of(s);
    const GroupStep gate{&one.kernels[0], {0, 1, 2, 3, 4}}, up{&one.kernels[1], {0, 5, 6, 4, 7}};
    const auto pair = cuda::find_pair(gate, up, {true}, keep);
    ASSERT_TRUE(pair);
    EXPECT_FALSE(cuda::find_pair(up, gate, {true}));
    EXPECT_FALSE(cuda::find_pair(gate, up, {false}));
    EXPECT_FALSE(cuda::find_pair(gate, {&one.kernels[1], {8, 5, 6, 4, 7}}, {true})) << "of other rows";
    EXPECT_FALSE(cuda::find_pair(gate, {&one.kernels[1], {0, 4, 6, 4, 7}}, {true})) << "the result is multiplied";
    EXPECT_FALSE(cuda::find_pair(gate, {&one.kernels[1], {0, 5, 6, 4, 2}}, {true})) << "over what the first one reads";
    one.pair = *pair;
    std::vector<bool> ahead(one.pair.kernel.args.size());
    for (size_t i = 0; i < ahead.size(); ++i) ahead[i] = keep && one.pair.given[i].second == 1;
    one.made = cuda::make_joined(one.pair, ahead, s);
    functions += one.made.functions;
  }
  check_nvrtc(functions, {"sm_90a"});
  Machine machine(functions);
  ASSERT_EQ(machine.error(), "");
  for (One& one : all) {
    Case c{one.pair.kernel.name, one.pair.kernel, one.made};
    std::vector<HostTensor> values = random_memory(one.kernels[0], 1);
    for (HostTensor& t : random_memory(one.kernels[1], 2)) values.push_back(std::move(t));  // 5 to 9
    const std::vector<double> odd{0, -0.0, 1e-30, -1e-30, 1e30, -1e30, INFINITY, -INFINITY, NAN, -80, -100, 100};
    for (size_t i = 0; i < odd.size(); ++i) store_double(values[2].data.data(), DType::f32, 3 * i, odd[i]);
    const auto place = [](size_t step, size_t arg) -> size_t {
      return step == 0 || arg == 0 ? arg : arg == 3 ? 4 : 5 + arg;
    };
    std::vector<HostTensor> given, expected;
    for (const auto& [step, arg] : one.pair.given) {
      given.push_back(values[place(step, arg)]);
      c.ahead.push_back(one.made.symbol.find("_b") != std::string::npos && arg == 1);
    }
    for (size_t step : {0, 1}) {
      std::vector<void*> args;
      for (size_t arg = 0; arg < 5; ++arg) args.push_back(values[place(step, arg)].data.data());
      evaluate(one.kernels[step], args);
    }
    for (const auto& [step, arg] : one.pair.given) expected.push_back(values[place(step, arg)]);
    for (const int64_t blocks : {one.made.shape.blocks, int64_t{1}}) {
      c.made.shape.blocks = blocks;
      EXPECT_EQ(difference(c, expected, execute(c, machine, given, mslx::Order::random)), "");
    }
  }
}

// Queries, keys and values: of the same rows, with columns and epilogues of their own.
TEST(CudaProducts, ProductsOfTheSameRowsInOneLaunch) {
  struct One {
    Kernel kernels[3];
    Made made;
    std::vector<bool> ahead;
  };
  std::vector<One> all;
  std::string functions;
  for (const cuda::TileShape& s : cuda::tile_shapes()) {
    if (!s.fed) continue;
    const int64_t m = 2 * s.rows, n = s.columns, k = 200;
    One& one = all.emplace_back();
    one.kernels[0] = linear(m, 2 * n, k, DType::bf16, DType::bf16, DType::bf16, gelu);
    one.kernels[0].name = "same_rows" + name_of(s);
    one.kernels[1] = one.kernels[2] = linear(m, n, k, DType::bf16, DType::bf16, DType::bf16, doubled);
    for (size_t n = 0; n < 15; ++n) one.ahead.push_back(all.size() % 2 && n % 5 == 1);
    one.made =
        cuda::make_columns(std::vector<const Kernel*>{&one.kernels[0], &one.kernels[1], &one.kernels[2]}, one.ahead, s);
    functions += one.made.functions;
  }
  check_nvrtc(functions, {"sm_90a"});
  Machine machine(functions);
  ASSERT_EQ(machine.error(), "");
  for (One& one : all) {
    Case c{one.kernels[0].name, one.kernels[0], one.made, one.ahead};
    c.kernel.args.clear();
    std::vector<HostTensor> given, expected;
    for (const Kernel& kernel : one.kernels) {
      c.kernel.args.insert(c.kernel.args.end(), kernel.args.begin(), kernel.args.end());
      std::vector<HostTensor> memory = random_memory(kernel, static_cast<unsigned>(given.size()));
      if (!given.empty()) memory[0] = given[0];
      for (HostTensor& t : memory) given.push_back(std::move(t));
    }
    expected = given;
    for (size_t n = 0; n < 3; ++n) {
      std::vector<void*> args;
      for (size_t i = 0; i < 5; ++i) args.push_back(expected[5 * n + i].data.data());
      evaluate(one.kernels[n], args);
    }
    for (const int64_t blocks : {one.made.shape.blocks, int64_t{3}}) {
      c.made.shape.blocks = blocks;
      EXPECT_EQ(difference(c, expected, execute(c, machine, given, mslx::Order::random)), "");
    }
  }
}

TEST(CudaProducts, WhichProductsHaveTheSameRows) {
  const Kernel query = linear(2048, 1536, 1536, DType::bf16, DType::bf16, DType::bf16, gelu),
               key = linear(2048, 256, 1536, DType::bf16, DType::bf16, DType::bf16, doubled),
               odd = linear(2048, 264, 1536, DType::bf16, DType::bf16, DType::bf16, doubled);
  const auto count = [](const std::vector<GroupStep>& steps, bool groups = true) {
    return cuda::count_columns(steps, {groups});
  };
  const GroupStep q{&query, {0, 1, 2, 3, 4}}, k{&key, {0, 5, 6, 7, 8}}, v{&key, {0, 9, 10, 11, 12}};
  EXPECT_EQ(count({q, k, v}), 3u);
  EXPECT_EQ(count({q, k}), 2u);
  EXPECT_EQ(count({q, k, v}, false), 1u) << "there are no fed tiles";
  EXPECT_EQ(count({q}), 1u);
  EXPECT_EQ(count({k, v}), 1u) << "equal ones";
  EXPECT_EQ(count({q, {&key, {13, 5, 6, 7, 8}}}), 1u) << "other rows";
  EXPECT_EQ(count({q, {&key, {0, 5, 4, 7, 8}}}), 1u) << "what the first one writes is read";
  EXPECT_EQ(count({q, {&key, {0, 5, 6, 7, 2}}}), 1u) << "what the first one reads is written";
  EXPECT_EQ(count({q, {&odd, {0, 5, 6, 7, 8}}}), 1u) << "no whole tiles";
}

// Of a batch, and of a pair without other values; nothing but the sums is read.
TEST(CudaProducts, ResultsOfTheirSumsAlone) {
  const auto alone = [](int64_t batch, int64_t m, int64_t n, int64_t k, bool gated) {
    KernelBuilder b({batch, m, n});
    const int x = b.input({DType::bf16, {batch, m, k}}), w = b.input({DType::bf16, {batch, n, k}}),
              gate = gated ? b.input({DType::bf16, {batch, m, n}}) : -1, out = b.output({DType::bf16, {batch, m, n}});
    const Coord z = b.dim(0), i = b.dim(1), j = b.dim(2), r = b.dim(3);
    Ex leaf = b.contract(ContractionKind::matmul, {k}, x, Coords{z, i, r}, w, Coords{z, j, r});
    if (gated) {
      const Ex g = b.load(gate, Coords{z, i, j});
      b.store(out, g / (1.0 + exp(-g)) * leaf);
    } else {
      b.store(out, leaf * 0.25);
    }
    return b.finish("alone");
  };
  std::vector<Case> cases;
  struct Both {
    Kernel gate, up;
    std::vector<std::pair<size_t, size_t>> given;
  };
  std::vector<Both> pairs;
  for (const cuda::TileShape& s : cuda::tile_shapes()) {
    if (!s.fed) continue;
    cases.push_back(tiled("alone" + name_of(s), alone(2, s.rows + 3, s.columns + 24, 72, false), s));
    const int64_t m = s.rows + 5, n = s.columns / 2 + 8;
    const Kernel gate = alone(1, m, n, 136, false), up = alone(1, m, n, 136, true);
    auto pair = cuda::find_pair({&gate, {0, 1, 2}}, {&up, {0, 3, 2, 4}}, {true});
    ASSERT_EQ(pair.has_value(), true);
    pair->kernel.name = "alone_pair" + name_of(s);
    cases.push_back(
        {pair->kernel.name, pair->kernel, cuda::make_joined(*pair, std::vector<bool>(pair->kernel.args.size()), s)});
    pairs.push_back({gate, up, pair->given});
  }
  std::string functions;
  for (const Case& c : cases) functions += c.made.functions;
  check_nvrtc(functions, {"sm_90a"});
  Machine machine(functions);
  ASSERT_EQ(machine.error(), "");
  for (size_t n = 0; n < cases.size(); ++n) {
    const Case& c = cases[n];
    std::vector<HostTensor> given = random_memory(c.kernel, static_cast<unsigned>(n)), expected;
    // Sums that are exact in any order: what one product hands over to the other is rounded the same way everywhere.
    for (HostTensor& t : given)
      for (int64_t e = 0; e < element_count(t.type.shape); ++e)
        store_double(t.data.data(), DType::bf16, e, std::round(load_double(t.data.data(), DType::bf16, e) * 4) / 4);
    expected = given;
    if (n % 2 == 0) {
      std::vector<void*> args;
      for (HostTensor& t : expected) args.push_back(t.data.data());
      evaluate(c.kernel, args);
    } else {  // rows, gate's matrix, what it hands over, up's matrix, the result
      const Both& pair = pairs[n / 2];
      std::vector<HostTensor> values(5);
      const std::vector<size_t> of[2] = {{0, 1, 2}, {0, 3, 2, 4}};
      for (size_t i = 0; i < given.size(); ++i) values[of[pair.given[i].first][pair.given[i].second]] = given[i];
      values[2] = values[4];
      for (size_t step : {0, 1}) {
        std::vector<void*> args;
        for (size_t value : of[step]) args.push_back(values[value].data.data());
        for (size_t i = 0; i < given.size() && step == 0; ++i)
          given[i] = values[of[pair.given[i].first][pair.given[i].second]];
        evaluate(step == 0 ? pair.gate : pair.up, args);
      }
      for (size_t i = 0; i < given.size(); ++i) expected[i] = values[of[pair.given[i].first][pair.given[i].second]];
    }
    EXPECT_EQ(difference(c, expected, execute(c, machine, given, mslx::Order::random)), "");
  }
}

TEST(CudaProducts, PackedWeightsAndPiecesOfTheDepth) {
  ConvCase late;  // few pixels, a long depth
  late.type = late.weight_type = DType::f16;
  late.in_channels = 512, late.out_channels = 32, late.input = {4, 4};
  ConvCase early = late;
  early.in_channels = 16, early.out_channels = 40, early.input = {20, 18}, early.stride = {2, 2};
  check_steps(
      {{"late_conv", conv(late, gelu), 3, {"rows", "tiles", "rows"}},
       {"early_conv", conv(early, gelu), 2, {"rows", "tiles of 32x32, 8 stages, words by words"}},
       {"long_linear", linear(40, 64, 8192, DType::bf16, DType::bf16, DType::bf16, gelu), 2, {"tiles", "rows"}}});
}

// Where clusters are, a long depth is one launch: never more blocks than find a place, never a piece without a step.
TEST(CudaProducts, AClusterInPlaceOfTwoKernels) {
  const Kernel kernel = linear(40, 64, 4096, DType::bf16, DType::bf16, DType::bf16, gelu);
  const cuda::Features hopper{true};
  EXPECT_EQ(cuda::find_parts(kernel, {}).steps.size(), 2u);
  EXPECT_EQ(cuda::find_parts(kernel, hopper).steps.size(), 0u);
  const Made made = cuda::make_kernel(kernel, hopper, second_ahead(kernel));
  EXPECT_GT(made.pieces, 1) << made.how;
  EXPECT_EQ(made.shape.blocks % made.pieces, 0);
  EXPECT_LE(made.shape.blocks, cuda::multiprocessors);
  EXPECT_EQ(cuda::make_kernel(kernel, {}, second_ahead(kernel)).pieces, 1);
  const Kernel shallow = linear(40, 64, 64, DType::f16, DType::f16, DType::f16, gelu);
  EXPECT_EQ(cuda::make_kernel(shallow, hopper, second_ahead(shallow)).pieces, 1);
}

Ex masked(KernelBuilder&, Ex leaf, Ex mask) { return leaf * 0.25 + mask; }

TEST(CudaProducts, AttentionAsProducts) {
  AttentionCase odd, decode;
  odd.type = DType::f16, odd.batch = 2, odd.group = 2, odd.queries = 21, odd.keys = 48, odd.depth = odd.columns = 20;
  decode.type = DType::bf16, decode.queries = 1, decode.group = 3, decode.keys = 520,
  decode.depth = decode.columns = 64;
  check_steps({{"odd", attention(odd, DType::f32, masked), 3, {"tiles", "rows", "tiles"}},
               {"decode", attention(decode, DType::f32, masked), 3, {"dots", "rows", "tiles"}}});
}

// Few sums of a lane are stored from registers; others change places through shared memory, and need it.
TEST(CudaProducts, ResultsFromRegistersWhereTheyAreFew) {
  std::string why;
  const auto words = cuda::find_product(linear(128, 256, 64, DType::f16, DType::f16, DType::f16, gelu), why),
             elements = cuda::find_product(linear(128, 250, 64, DType::f16, DType::f16, DType::f16, gelu), why);
  for (cuda::TileShape s : cuda::tile_shapes()) {
    if (s.fed || s.rows != s.columns) continue;
    EXPECT_EQ(cuda::has_neighbours(*words, s), s.rows == 64) << name_of(s);
    EXPECT_EQ(cuda::reads_early(*words, s), s.rows == 64) << name_of(s);
    EXPECT_FALSE(cuda::has_neighbours(*elements, s)) << name_of(s);
    if (s.rows == 64) {
      EXPECT_EQ(cuda::shared_bytes_of(*words, s), 16384);  // one step's
    }
    s.pieces = 2;
    EXPECT_FALSE(cuda::has_neighbours(*words, s)) << name_of(s);
  }
}

struct PatchCase {
  std::string name;
  ConvCase conv;
  int64_t channels = 3;  // of those that the image has room for
  bool lines = false;    // neighbours of a channel lie side by side
};

// The product behind the packing of its weight. Results are channels last, whatever the image is.
Case patched(const PatchCase& p, const cuda::PatchShape& shape) {
  const auto& [name, c, channels, lines] = p;
  Kernel kernel = conv(c, gelu);
  auto contraction = std::make_shared<Contraction>(*kernel.contraction);
  contraction->reduce[0] = channels;
  if (lines) {
    const int64_t strides[] = {c.input[1], 1};
    for (size_t i = 0; i < 2; ++i) {
      if (contraction->a.guards.empty()) {
        contraction->a.strides[3 + i] = strides[i] * c.stride[i];
        contraction->a.strides[6 + i] = strides[i] * c.dilation[i];
      } else {
        contraction->a.guards[i].stride = strides[i];
      }
    }
    contraction->a.strides[5] = c.input[0] * c.input[1];
  }
  kernel.contraction = contraction;
  kernel = packed(kernel);
  kernel.name = name;
  EXPECT_EQ(check_kernel(kernel), std::vector<std::string>{}) << name;
  std::string why;
  auto product = cuda::find_product(kernel, why);
  EXPECT_TRUE(product) << name << ": " << why;
  EXPECT_EQ(cuda::patches_decline(kernel, *product), "") << name;
  std::vector<bool> ahead(kernel.args.size());
  ahead[static_cast<size_t>(product->b.arg)] = product->b.ahead = name.size() % 2;
  Made made = cuda::make_patches(kernel, *product, shape);
  made.symbol = cuda::function_name(kernel, *product);
  return {name, std::move(kernel), std::move(made), std::move(ahead)};
}

// Patches of every shape, whose windows are wider and narrower than words, begin at every pixel or at even ones, and
// reach beyond the image; several patches for a block and columns for several blocks.
TEST(CudaProducts, PatchesOfFewChannels) {
  std::vector<PatchCase> all;
  ConvCase c;
  c.type = c.weight_type = DType::f16;
  c.in_channels = 3, c.out_channels = 24, c.input = {21, 24}, c.stride = {2, 2}, c.kernel = {7, 7}, c.pad = {3, 3};
  all.push_back({"lines", c, 3, true});
  all.push_back({"elements", c, 3, false});
  c.stride = {1, 1}, c.kernel = {3, 3}, c.pad = {1, 1}, c.batch = 2, c.out_channels = 72;
  all.push_back({"every_pixel", c, 3, true});
  c.type = c.weight_type = DType::bf16;
  c.in_channels = 8, c.stride = {3, 4}, c.kernel = {2, 5}, c.pad = {0, 2}, c.dilation = {2, 1};
  all.push_back({"room", c, 3, false});
  c.in_channels = 4, c.stride = {1, 3}, c.kernel = {5, 6}, c.pad = {4, 0}, c.input = {9, 40};
  all.push_back({"room_for_four", c, 2, false});
  c.in_channels = 1, c.pad = {0, 0}, c.kernel = {1, 9}, c.dilation = {1, 1};
  all.push_back({"one_channel", c, 1, true});
  c.in_channels = 4, c.stride = {2, 2}, c.kernel = {4, 4}, c.pad = {1, 1}, c.out_channels = 8;
  all.push_back({"four_channels", c, 4, true});
  std::vector<Case> cases;
  for (PatchCase p : all) {
    const std::string name = p.name;
    for (const cuda::PatchShape& s : cuda::patch_shapes()) {
      if (s.lines * s.across != (s.columns == 64 ? 128 : 64) && name != "lines") continue;
      p.name = fmt::format("{}{}x{}x{}x{}", name, s.lines, s.across, s.columns, s.warps);
      cases.push_back(patched(p, s));
      Case& last = cases.back();
      if (s.lines == 8) last.made.shape.blocks = (p.conv.out_channels + s.columns - 1) / s.columns;
      const int64_t room = p.lines ? 0 : p.conv.in_channels, filled = p.channels;
      if (room > filled)  // what is in the others is nobody's
        last.given = [room, filled, type = p.conv.type](std::vector<HostTensor>& memory) {
          const auto elements = static_cast<int64_t>(memory[0].data.size() / 2);
          for (int64_t i = 0; i < elements; ++i)
            if (i % room >= filled) store_double(memory[0].data.data(), type, i, std::nan(""));
        };
    }
  }
  check(cases);
}

// The pixels right of a window are multiplied by nothing: what is no finite number there does not come into its sum.
TEST(CudaProducts, APatchWithoutFiniteNumbers) {
  ConvCase c;
  c.type = c.weight_type = DType::f16;
  c.in_channels = 3, c.out_channels = 8, c.input = {16, 48}, c.stride = {2, 2}, c.pad = {1, 1};
  std::vector<Case> cases;
  for (const int64_t width : {1, 2, 3, 5, 6, 7}) {
    c.kernel = {2, width};
    cases.push_back(patched({fmt::format("infinite{}", width), c, 3, true}, cuda::patch_shapes()[1]));
    cases.back().given = [](std::vector<HostTensor>& memory) {
      for (int64_t i = 0; i < 3 * 16 * 48; i += 97)
        store_double(memory[0].data.data(), DType::f16, i, i % 2 ? INFINITY : std::nan(""));
    };
  }
  check(cases);
}

// What patches decline, and which image is read as it lies.
TEST(CudaProducts, ConvolutionsThatAreNoPatches) {
  ConvCase stem;
  stem.type = stem.weight_type = DType::f16;
  stem.in_channels = 3, stem.out_channels = 16, stem.input = {32, 32}, stem.stride = {2, 2}, stem.channels_last = false;
  const auto find = [](const ConvCase& c, std::string& why) { return cuda::find_patch_conv(conv(c, gelu), why); };
  std::string why;
  ASSERT_TRUE(find(stem, why)) << why;
  EXPECT_EQ(find(stem, why)->pixels, cuda::PatchConv::Pixels::lines);
  ConvCase odd = stem;
  odd.input[1] = 33;
  EXPECT_EQ(find(odd, why)->pixels, cuda::PatchConv::Pixels::elements);
  const auto declines = [&](const std::string& reason, auto&& change) {
    ConvCase c = stem;
    change(c);
    EXPECT_FALSE(find(c, why)) << reason;
    EXPECT_EQ(why, reason);
  };
  declines("5 channels", [](ConvCase& c) { c.in_channels = 5; });
  declines("2 groups", [](ConvCase& c) { c.groups = 2; });
  declines("12 output channels", [](ConvCase& c) { c.out_channels = 12; });
  declines("its taps are not neighbours", [](ConvCase& c) { c.dilation = {1, 2}; });
  declines("windows too large for a block's memory", [](ConvCase& c) {
    c.kernel = c.stride = {32, 32}, c.pad = {0, 0};
  });
  declines("1 spatial dimensions",
           [](ConvCase& c) { c.input = {32}, c.kernel = {3}, c.stride = {2}, c.pad = {1}, c.dilation = {1}; });
}

}  // namespace
}  // namespace npusim
