// Products of float32: tiles whose sums are made by fma, and dot products, in words of four.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backends/cuda/codegen/choose/parts.h"
#include "backends/cuda/codegen/products/tile.h"
#include "backends/cuda/harness/check.h"
#include "backends/cuda/harness/tiled.h"
#include "kernel/contractions.h"

namespace npusim {
namespace {

std::vector<cuda::codegen::products::TileShape> float_shapes() {
  std::vector<cuda::codegen::products::TileShape> shapes;
  for (const cuda::codegen::products::TileShape& s : cuda::codegen::products::tile_shapes())
    if (!s.groups) shapes.push_back(s);
  return shapes;
}

// 128x128, 32x64 and 16x64: lines of 4, 8, 16 and 32 words, from 16 to 64 rows of a warp.
std::vector<cuda::codegen::products::TileShape> some_shapes() {
  std::vector<cuda::codegen::products::TileShape> some;
  for (const cuda::codegen::products::TileShape& s : float_shapes())
    if (s.rows == 128 ? s.columns == 128 : s.columns == 64 && s.rows < 64) some.push_back(s);
  return some;
}

// a [batch, m, k] or [batch, k, m], b [batch, n, k] or [batch, k, n].
Kernel product(int64_t batch, int64_t m, int64_t n, int64_t k, bool a_across, bool b_across) {
  KernelBuilder b({batch, m, n});
  const int x = b.input({DType::f32, a_across ? Shape{batch, k, m} : Shape{batch, m, k}}),
            w = b.input({DType::f32, b_across ? Shape{batch, k, n} : Shape{batch, n, k}}),
            out = b.output({DType::f32, {batch, m, n}});
  const Coord z = b.dim(0), i = b.dim(1), j = b.dim(2), r = b.dim(3);
  const Coords x_at = a_across ? Coords{z, r, i} : Coords{z, i, r}, w_at = b_across ? Coords{z, r, j} : Coords{z, j, r};
  b.store(out, b.contract(ContractionKind::matmul, {k}, x, x_at, w, w_at));
  return b.finish("product");
}

Kernel floats(int64_t m, int64_t n, int64_t k) { return linear(m, n, k, DType::f32, DType::f32, DType::f32, gelu); }

TEST(CudaFloats, EveryTileOfALinearLayer) {
  std::vector<Case> cases;
  for (cuda::codegen::products::TileShape s : float_shapes())
    for (const auto& [m, n, k] : {std::tuple{1, 8, 4}, {70, 72, 200}, {133, 264, 292}})
      for (const int pieces : {1, 3}) {
        if (pieces > 1 && (k < 200 || s.rows != 32)) continue;
        s.pieces = pieces;
        cases.push_back(tiled(fmt::format("linear{}_{}x{}x{}_{}", name_of(s), m, n, k, pieces), floats(m, n, k), s));
      }
  check(cases);
}

TEST(CudaFloats, OperandsInEveryOrderOfMemory) {
  std::vector<Case> cases;
  for (const cuda::codegen::products::TileShape& s : some_shapes())
    for (const bool a : {false, true})
      for (const bool b : {false, true})
        cases.push_back(tiled(fmt::format("orders{}_{}{}", name_of(s), a, b), product(2, 72, 44, 140, a, b), s));
  check(cases);
}

// Nothing is a multiple of anything: elements one by one.
TEST(CudaFloats, OddExtents) {
  std::vector<Case> cases;
  for (const cuda::codegen::products::TileShape& s : some_shapes()) {
    cases.push_back(tiled("odd" + name_of(s), product(3, 37, 41, 67, false, true), s));
    cases.push_back(tiled("one" + name_of(s), product(1, 1, 1, 1, false, false), s));
    cases.push_back(tiled("odd_linear" + name_of(s), floats(19, 21, 33), s));
  }
  check(cases);
}

TEST(CudaFloats, Convolutions) {
  std::vector<Case> cases;
  int number = 0;
  for (const cuda::codegen::products::TileShape& s : some_shapes()) {
    ConvCase c;
    c.type = c.weight_type = DType::f32;
    c.in_channels = 16, c.out_channels = 24, c.batch = 2;
    const std::string of = std::to_string(number++);
    cases.push_back(tiled("conv" + of, conv(c, gelu), s));
    if (s.rows != 32) continue;  // which coordinates there are is the same for all
    c.stride = {2, 2}, c.kernel = {7, 7}, c.pad = {3, 3}, c.in_channels = 3, c.input = {15, 14};
    cases.push_back(tiled("stem" + of, conv(c, gelu), s));
    c.groups = 2, c.in_channels = 8, c.out_channels = 8, c.dilation = {2, 1}, c.kernel = {3, 3}, c.pad = {2, 1};
    cases.push_back(tiled("grouped" + of, conv(c, gelu), s));
    c.channels_last = false;
    cases.push_back(tiled("channels_first" + of, conv(c, gelu), s));
  }
  check(cases);
}

TEST(CudaFloats, DotsOfFewRows) {
  std::vector<Case> cases;
  for (const int64_t m : {1, 3, 8})
    for (const int64_t k : {4, 268, 1536})
      for (const int64_t n : {1, 9, 260})
        cases.push_back(chosen(fmt::format("dots{}_{}_{}", m, k, n), floats(m, n, k), "dots"));
  cases.push_back(chosen("dots_columns", product(1, 300, 2, 512, false, false), "dots"));
  cases.push_back(chosen("dots_batch", product(5, 2, 70, 260, false, false), "dots"));
  check(cases);
}

// What the target makes of whole kernels: weights that are packed, a depth in pieces, an attention as products.
TEST(CudaFloats, Parts) {
  ConvCase late;
  late.type = late.weight_type = DType::f32;
  late.in_channels = 512, late.out_channels = 32, late.input = {4, 4};
  AttentionCase odd, decode;
  odd.batch = 2, odd.group = 2, odd.queries = 21, odd.keys = 48, odd.depth = odd.columns = 20;
  decode.queries = 1, decode.group = 3, decode.keys = 520, decode.depth = decode.columns = 64;
  check_steps({{"late_conv", conv(late, gelu), 3, {"rows", "tiles", "rows"}},
               {"long_linear", floats(40, 64, 2048), 2, {"tiles", "rows"}},
               {"odd", attention(odd, DType::f32, masked), 3, {"tiles", "rows", "tiles"}},
               {"decode", attention(decode, DType::f32, masked), 3, {"dots", "rows", "tiles"}}});
}

// Four channels of which an image has three: what is in the fourth is nobody's.
TEST(CudaFloats, ChannelsThatFillWordsInPart) {
  ConvCase image;
  image.type = image.weight_type = DType::f32;
  image.in_channels = 4, image.out_channels = 24, image.input = {21, 18}, image.stride = {2, 2}, image.kernel = {7, 7};
  image.pad = {3, 3};
  Kernel stem = conv(image, gelu);
  auto contraction = std::make_shared<Contraction>(*stem.contraction);
  contraction->reduce[0] = 3;
  stem.contraction = contraction;
  std::vector<Case> cases;
  for (const cuda::codegen::products::TileShape& s : some_shapes()) {
    cases.push_back(tiled("stem" + name_of(s), stem, s));
    cases.back().given = [](std::vector<HostTensor>& memory) {
      for (int64_t i = 3; i < 21 * 18 * 4; i += 4) store_double(memory[0].data.data(), DType::f32, i, std::nan(""));
    };
  }
  check(cases);
  check_steps({{"packed_stem", stem, 2, {"rows", "tiles"}}});
}

}  // namespace
}  // namespace npusim
