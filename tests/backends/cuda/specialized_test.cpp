// Products of warp-specialized tiles: one tile after the other in a block, and several products of the same rows in one
// launch.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "backends/cuda/codegen/products/columns.h"
#include "backends/cuda/codegen/products/pair.h"
#include "backends/cuda/codegen/products/tile.h"
#include "backends/cuda/harness/check.h"
#include "backends/cuda/harness/tiled.h"
#include "kernel/contractions.h"
#include "kernel/evaluate.h"

namespace npusim {
namespace {

using cuda::codegen::GeneratedKernel;

// One tile's words are asked for while another one is multiplied or stored: fewer blocks than tiles, fewer steps than
// stages and more, with edges and without.
TEST(CudaProducts, TilesThatFollowEachOtherInABlock) {
  std::vector<Case> cases;
  for (cuda::codegen::products::TileShape s : cuda::codegen::products::tile_shapes())
    if (s.specialized)
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

Ex doubled(KernelBuilder&, Ex leaf, Ex bias, Ex) { return leaf + bias; }
Ex gated(KernelBuilder&, Ex leaf, Ex bias, Ex gate) { return gate / (1.0 + exp(-gate)) * (leaf + bias); }

// Gate and up: the first product's result is an argument of the second one, and nobody else's or kept. Rows of a gate
// that is very small or large, or no number, are divided as others are.
TEST(CudaProducts, TwoProductsOfTheSameRowsInOneKernel) {
  struct One {
    Kernel kernels[2];
    cuda::codegen::products::Pair pair;
    GeneratedKernel made;
  };
  std::vector<One> all;
  std::string functions;
  std::vector<cuda::codegen::products::TileShape> shapes;
  for (const cuda::codegen::products::TileShape& s : cuda::codegen::products::pair_tile_shapes())
    if (s.specialized) shapes.push_back(s);
  cuda::codegen::products::TileShape last_narrow = shapes.back();
  ASSERT_EQ(last_narrow.columns, 192);
  last_narrow.narrow = 128, last_narrow.wide = 1;
  shapes.push_back(last_narrow);
  for (const cuda::codegen::products::TileShape& s : shapes) {
    const bool keep = s.rows == 128;
    const int64_t m = s.narrow ? s.rows : s.rows + 5, n = s.narrow ? 96 + 2 * 64 : s.columns / 2 + 8, k = 200;
    One& one = all.emplace_back();
    one.kernels[0] = linear(m, n, k, DType::bf16, DType::bf16, DType::bf16, doubled);
    one.kernels[1] = linear(m, n, k, DType::bf16, DType::bf16, DType::bf16, gated);
    one.kernels[1].name = name_of(s) + (s.narrow ? "narrow" : "");
    const GroupStep gate{&one.kernels[0], {0, 1, 2, 3, 4}}, up{&one.kernels[1], {0, 5, 6, 4, 7}};
    std::string why;
    const auto pair = cuda::codegen::products::find_pair(gate, up, hopper, keep, why);
    ASSERT_TRUE(pair) << why;
    const auto declines = [&](const GroupStep& second, const cuda::codegen::Features& features) {
      std::string reason;
      EXPECT_FALSE(cuda::codegen::products::find_pair(gate, second, features, false, reason));
      return reason;
    };
    EXPECT_EQ(declines({&one.kernels[1], {0, 5, 6, 9, 7}}, hopper), "") << "does not read the first one's result";
    EXPECT_EQ(declines(up, any), "this device has no warpgroups");
    EXPECT_EQ(declines({&one.kernels[1], {8, 5, 6, 4, 7}}, hopper), "other rows");
    EXPECT_EQ(declines({&one.kernels[1], {0, 4, 6, 4, 7}}, hopper), "the second multiplies the first");
    EXPECT_EQ(declines({&one.kernels[1], {0, 5, 6, 4, 2}}, hopper), "the second writes what the first reads");
    one.pair = *pair;
    std::vector<bool> ahead(one.pair.kernel.args.size());
    for (size_t i = 0; i < ahead.size(); ++i) ahead[i] = keep && one.pair.given[i].second == 1;
    one.made = cuda::codegen::products::make_joined(one.pair, ahead, hopper, s);
    functions += one.made.functions;
  }
  check_nvrtc(functions, {"sm_90a"});
  TextRunner machine(functions);
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

// Six rounds of which the last has work for each block, where tiles of one width had five and two thirds; columns that
// do not end with a narrow tile, and products of one round, have tiles of one width.
TEST(CudaProducts, TheLastRoundOfAPairHasNarrowTiles) {
  const auto chosen = [](int64_t rows, int64_t columns) {
    const Kernel kernel = linear(rows, columns, 1536, DType::bf16, DType::bf16, DType::bf16, doubled);
    std::string why;
    cuda::codegen::Product product = *plan::find_product(kernel, why);
    product.second_b = 3;
    const cuda::codegen::products::TileShape shape = cuda::codegen::products::rate_pair_tiles(product, hopper)[0].shape;
    return std::tuple{shape.rows, shape.columns, shape.narrow, shape.wide,
                      cuda::codegen::products::tiles_of(product, shape)};
  };
  EXPECT_EQ(chosen(2048, 8960), (std::tuple{256, 192, 128, 82, int64_t{6 * 132}}));
  EXPECT_EQ(chosen(2048, 8952), (std::tuple{256, 192, 0, 0, int64_t{8 * 94}}));
  EXPECT_EQ(std::get<2>(chosen(2048, 1536)), 0);
}

// Queries, keys and values: of the same rows, with columns and epilogues of their own.
TEST(CudaProducts, ProductsOfTheSameRowsInOneLaunch) {
  struct One {
    Kernel kernels[3];
    GeneratedKernel made;
    std::vector<bool> ahead;
  };
  std::vector<One> all;
  std::string functions;
  for (const cuda::codegen::products::TileShape& s : cuda::codegen::products::tile_shapes()) {
    if (!s.specialized) continue;
    const int64_t m = 2 * s.rows, n = s.columns, k = 200;
    One& one = all.emplace_back();
    one.kernels[0] = linear(m, 2 * n, k, DType::bf16, DType::bf16, DType::bf16, gelu);
    one.kernels[0].name = "same_rows" + name_of(s);
    one.kernels[1] = one.kernels[2] = linear(m, n, k, DType::bf16, DType::bf16, DType::bf16, doubled);
    for (size_t n = 0; n < 15; ++n) one.ahead.push_back(all.size() % 2 && n % 5 == 1);
    std::vector<const Kernel*> kernels;
    std::vector<plan::Product> products;
    for (const Kernel& kernel : one.kernels) {
      std::string why;
      kernels.push_back(&kernel);
      products.push_back(*plan::find_product(kernel, why));
    }
    one.made = cuda::codegen::products::make_columns(kernels, products, one.ahead, hopper, s);
    functions += one.made.functions;
  }
  check_nvrtc(functions, {"sm_90a"});
  TextRunner machine(functions);
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
  std::string why;
  const auto count = [&](const std::vector<GroupStep>& steps, bool groups = true) {
    std::vector<plan::Contracted> contracted;
    for (const GroupStep& step : steps) contracted.push_back(plan::contracted(*step.kernel));
    why = {};
    return cuda::codegen::products::find_columns(steps, contracted, groups ? hopper : any, why).size();
  };
  const GroupStep q{&query, {0, 1, 2, 3, 4}}, k{&key, {0, 5, 6, 7, 8}}, v{&key, {0, 9, 10, 11, 12}};
  EXPECT_EQ(count({q, k, v}), 3u);
  EXPECT_EQ(count({q, k}), 2u);
  EXPECT_EQ(why, "");
  auto windows = std::make_shared<Contraction>(*key.contraction);
  windows->kind = ContractionKind::conv;
  Kernel conv = key;
  conv.contraction = std::move(windows);
  EXPECT_EQ(count({q, k, {&conv, {0, 9, 10, 11, 12}}}), 2u) << "what is no matmul joins none";
  EXPECT_EQ(count({q, k, v}, false), 0u);
  EXPECT_EQ(why, "this device has no warpgroups");
  EXPECT_EQ(count({q}), 0u);
  EXPECT_EQ(why, "");
  EXPECT_EQ(count({k, v}), 0u);
  EXPECT_EQ(why, "") << "equal ones are another launch";
  EXPECT_EQ(count({q, {&key, {13, 5, 6, 7, 8}}}), 0u);
  EXPECT_EQ(why, "") << "of other rows";
  for (const auto& values : {std::vector<int32_t>{0, 5, 4, 7, 8}, std::vector<int32_t>{0, 5, 6, 7, 2}}) {
    EXPECT_EQ(count({q, {&key, values}}), 0u);
    EXPECT_EQ(why, "one has to do with the other's result");
  }
  EXPECT_EQ(count({q, {&odd, {0, 5, 6, 7, 8}}}), 0u);
  EXPECT_EQ(why, "no tile fits their sizes");
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
  for (const cuda::codegen::products::TileShape& s : cuda::codegen::products::tile_shapes()) {
    if (!s.specialized) continue;
    cases.push_back(tiled("alone" + name_of(s), alone(2, s.rows + 3, s.columns + 24, 72, false), s));
    const int64_t m = s.rows + 5, n = s.columns / 2 + 8;
    const Kernel gate = alone(1, m, n, 136, false), up = alone(1, m, n, 136, true);
    std::string why;
    auto pair = cuda::codegen::products::find_pair({&gate, {0, 1, 2}}, {&up, {0, 3, 2, 4}}, hopper, false, why);
    ASSERT_EQ(pair.has_value(), true) << why;
    pair->kernel.name = "alone_pair" + name_of(s);
    cases.push_back(
        {pair->kernel.name, pair->kernel,
         cuda::codegen::products::make_joined(*pair, std::vector<bool>(pair->kernel.args.size()), hopper, s)});
    pairs.push_back({gate, up, pair->given});
  }
  std::string functions;
  for (const Case& c : cases) functions += c.made.functions;
  check_nvrtc(functions, {"sm_90a"});
  TextRunner machine(functions);
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

}  // namespace
}  // namespace npusim
