// Products as the CUDA target makes them, executed (on the CPU where there is no GPU) and compared with the reference:
// every tile and every split of dot products, operands in every order of memory, edges of every kind.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "backends/cuda/codegen/choose/parts.h"
#include "backends/cuda/codegen/products/dot.h"
#include "backends/cuda/codegen/products/tile.h"
#include "backends/cuda/codegen/text.h"
#include "backends/cuda/harness/check.h"
#include "backends/cuda/harness/machine.h"
#include "backends/cuda/harness/tiled.h"
#include "kernel/contractions.h"
#include "kernel/evaluate.h"
#include "print/print.h"

namespace npusim {
namespace {

using cuda::codegen::GeneratedKernel;

TEST(CudaProducts, EveryTileOfALinearLayer) {
  std::vector<Case> cases;
  for (const cuda::codegen::products::TileShape& s : cuda::codegen::products::tile_shapes())
    for (const auto& [m, n, k] : {std::tuple{1, 8, 8}, {70, 72, 200}, {131, 136, 64}})
      cases.push_back(tiled(fmt::format("linear{}_{}x{}x{}", name_of(s), m, n, k),
                            linear(m, n, k, DType::f16, DType::f16, DType::f16, gelu), s));
  check(cases);
}

// More steps than stages, and an edge on every side.
TEST(CudaProducts, ManyStages) {
  std::vector<Case> cases;
  const auto add = [&](const cuda::codegen::products::TileShape& s) {
    cases.push_back(tiled(fmt::format("stages{}_{}", s.stages, name_of(s)),
                          linear(133, 264, 584, DType::bf16, DType::bf16, DType::bf16, gelu), s));
  };
  for (cuda::codegen::products::TileShape s : cuda::codegen::products::tile_shapes()) {
    if (s.groups) add(s);
    if (s.columns == 64 || s.columns == 32) s.stages = s.rows > 128 ? 5 : 7, add(s);
  }
  check(cases);
}

TEST(CudaProducts, OperandsInEveryOrderOfMemory) {
  std::vector<Case> cases;
  for (const cuda::codegen::products::TileShape& s : cuda::codegen::products::tile_shapes())
    for (const bool a : {false, true})
      for (const bool b : {false, true})
        if (!s.groups || (!a && !b))
          cases.push_back(tiled(fmt::format("orders{}_{}{}", name_of(s), a, b),
                                batched_product(2, 72, 40, 136, a, b, a ? DType::bf16 : DType::f16), s));
  check(cases);
}

// Blocks of a cluster with a piece of the depth each: as many as there are steps, more steps than stages, pieces of
// several lengths, several products at once.
TEST(CudaProducts, PiecesOfTheDepthInAClusterOfBlocks) {
  std::vector<Case> cases;
  for (cuda::codegen::products::TileShape s : cuda::codegen::products::tile_shapes())
    for (const int pieces : {2, 3, 8}) {
      if (s.specialized) break;
      if (pieces == 3 && s.rows * s.columns > 128 * 64) continue;
      s.pieces = pieces;
      const std::string name = fmt::format("pieces{}_{}", pieces, name_of(s));
      cases.push_back(
          tiled(name, linear(70, 136, pieces == 2 ? 1096 : 584, DType::bf16, DType::bf16, DType::bf16, gelu), s));
      if (s.rows == 64 && !s.groups)
        cases.push_back(tiled(name + "_odd", batched_product(2, 37, 41, 517, false, true, DType::f16), s));
    }
  check(cases);
}

// Nothing is a multiple of anything: elements one by one.
TEST(CudaProducts, OddExtents) {
  std::vector<Case> cases;
  for (const cuda::codegen::products::TileShape& s : cuda::codegen::products::tile_shapes()) {
    if (s.specialized) continue;
    cases.push_back(tiled("odd" + name_of(s), batched_product(3, 37, 41, 67, false, true, DType::f16), s));
    cases.push_back(tiled("one" + name_of(s), batched_product(1, 1, 1, 1, false, false, DType::bf16), s));
    cases.push_back(
        tiled("odd_linear" + name_of(s), linear(19, 21, 33, DType::bf16, DType::bf16, DType::f32, gelu), s));
  }
  check(cases);
}

TEST(CudaProducts, DotsOfFewRows) {
  std::vector<Case> cases;
  for (const int64_t m : {1, 3, 8})
    for (const int64_t k : {8, 264, 1536, 4096})
      for (const int64_t n : {1, 9, 260})
        cases.push_back(chosen(fmt::format("dots{}_{}_{}", m, k, n),
                               linear(m, n, k, DType::bf16, DType::bf16, DType::bf16, gelu), "dots"));
  cases.push_back(chosen("dots_columns", batched_product(1, 300, 2, 512, false, false, DType::f16), "dots"));
  cases.push_back(chosen("dots_batch", batched_product(5, 2, 70, 256, false, false, DType::f16), "dots"));
  check(cases);
}

TEST(CudaProducts, EverySplitOfDots) {
  std::vector<Case> cases;
  for (const int lines : {1, 2, 4})
    for (const int warps : {1, 2, 4, 8}) {
      Kernel kernel = linear(3, 43, 1032, DType::f16, DType::f16, DType::f16, gelu);
      kernel.name = fmt::format("split{}_{}", lines, warps);
      std::string why;
      auto product = plan::find_product(kernel, why);
      ASSERT_TRUE(product) << why;
      std::vector<bool> ahead(kernel.args.size());
      product->b.ahead = ahead[static_cast<size_t>(product->b.arg)] = lines != 2;
      GeneratedKernel made = cuda::codegen::products::make_dots(kernel, *product, {lines, warps}, any);
      made.symbol = cuda::codegen::function_name(kernel, *product);
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
  std::vector<GeneratedKernel> made;
  std::string functions;
  for (const auto& [kernel, copies, how] : all) {
    EXPECT_TRUE(cuda::codegen::choose::several_at_once(kernel, cuda::codegen::choose::analyse(kernel), any));
    made.push_back(cuda::codegen::choose::make_kernel(kernel, any, second_ahead(kernel), copies));
    EXPECT_TRUE(made.back().how.starts_with(how)) << made.back().how;
    functions += made.back().functions;
  }
  TextRunner machine(functions);
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

// Where clusters are, a long depth is one launch: never more blocks than are resident at once, never a piece without a
// step.
TEST(CudaProducts, AClusterInPlaceOfTwoKernels) {
  const Kernel kernel = linear(40, 64, 4096, DType::bf16, DType::bf16, DType::bf16, gelu);
  EXPECT_EQ(cuda::codegen::choose::find_parts(kernel, any).steps.size(), 2u);
  EXPECT_EQ(cuda::codegen::choose::find_parts(kernel, hopper).steps.size(), 0u);
  const GeneratedKernel made = cuda::codegen::choose::make_kernel(kernel, hopper, second_ahead(kernel));
  EXPECT_GT(made.pieces, 1) << made.how;
  EXPECT_EQ(made.shape.blocks % made.pieces, 0);
  EXPECT_LE(made.shape.blocks, hopper.units);
  EXPECT_EQ(cuda::codegen::choose::make_kernel(kernel, any, second_ahead(kernel)).pieces, 1);
  const Kernel shallow = linear(40, 64, 64, DType::f16, DType::f16, DType::f16, gelu);
  EXPECT_EQ(cuda::codegen::choose::make_kernel(shallow, hopper, second_ahead(shallow)).pieces, 1);
}

TEST(CudaProducts, AttentionAsProducts) {
  AttentionCase odd, decode;
  odd.type = DType::f16, odd.batch = 2, odd.group = 2, odd.queries = 21, odd.keys = 48, odd.depth = odd.columns = 20;
  decode.type = DType::bf16, decode.queries = 1, decode.group = 3, decode.keys = 520,
  decode.depth = decode.columns = 64;
  check_steps({{"odd", attention(odd, DType::f32, masked), 3, {"tiles", "rows", "tiles"}},
               {"decode", attention(decode, DType::f32, masked), 3, {"dots", "rows", "tiles"}}});
}

// Behind a vector's last element there is nothing: it is no part of a word, as a pixel with room is.
TEST(CudaProducts, AVectorOfLessThanAWord) {
  const Kernel kernel = batched_product(1, 1, 40, 5, false, true, DType::f16);
  std::string why;
  const auto vector = plan::find_product(kernel, why);
  ASSERT_TRUE(vector) << why;
  EXPECT_EQ(vector->filled, cuda::codegen::word);
  EXPECT_EQ(vector->a.words, cuda::codegen::Operand::Words::none);
  std::vector<Case> cases;
  for (const cuda::codegen::products::TileShape& s : cuda::codegen::products::tile_shapes())
    if (cuda::codegen::products::takes(s, *vector)) cases.push_back(tiled("vector" + name_of(s), kernel, s));
  check(cases);
}

// Few sums of a lane are stored from registers; others are exchanged through shared memory, and need it.
TEST(CudaProducts, ResultsFromRegistersWhereTheyAreFew) {
  std::string why;
  const auto words = plan::find_product(linear(128, 256, 64, DType::f16, DType::f16, DType::f16, gelu), why),
             elements = plan::find_product(linear(128, 250, 64, DType::f16, DType::f16, DType::f16, gelu), why);
  for (cuda::codegen::products::TileShape s : cuda::codegen::products::tile_shapes()) {
    if (s.specialized || s.rows != s.columns) continue;
    EXPECT_EQ(cuda::codegen::products::has_neighbours(*words, s), s.rows == 64) << name_of(s);
    EXPECT_EQ(cuda::codegen::products::reads_early(*words, s), s.rows == 64) << name_of(s);
    EXPECT_FALSE(cuda::codegen::products::has_neighbours(*elements, s)) << name_of(s);
    if (s.rows == 64) {
      EXPECT_EQ(cuda::codegen::products::shared_bytes_of(*words, s), 16384);  // one step's
    }
    s.pieces = 2;
    EXPECT_FALSE(cuda::codegen::products::has_neighbours(*words, s)) << name_of(s);
  }
}

}  // namespace
}  // namespace npusim
