// Roles of the dimensions of products, convolutions and attention.
#include "kernel/facts/product_axes.h"

#include <gtest/gtest.h>

#include "kernel/contractions.h"
#include "kernel/facts/attention_axes.h"

namespace npusim {
namespace {

using Dims = std::vector<int>;
using Extents = std::vector<int64_t>;

TEST(ProductAxes, RolesFromWhatOperandsDependOn) {
  KernelBuilder b({2, 3, 4, 5});
  const int x = b.input({DType::f32, {2, 3, 6}}), w = b.input({DType::f32, {2, 4, 6}});
  const int out = b.output({DType::f32, {2, 3, 4, 5}});
  b.store(out, b.contract(ContractionKind::matmul, {6}, x, Coords{b.dim(0), b.dim(1), b.dim(4)}, w,
                          Coords{b.dim(0), b.dim(2), b.dim(4)}));
  const ProductAxes axes = product_axes(b.finish("product"));
  EXPECT_EQ(axes.batch.dims, Dims{0});
  EXPECT_EQ(axes.rows.dims, Dims{1});
  EXPECT_EQ(axes.columns.dims, Dims{2});  // 3 is in no axis
  EXPECT_EQ(axes.depth.dims, Dims{4});
  EXPECT_EQ(axes.rows.size(), 3);
  EXPECT_EQ(axes.depth.extents, Extents{6});
}

TEST(ProductAxes, AConvolutionIsAProductOfItsPixels) {
  const ProductAxes axes = product_axes(conv({.groups = 2}, plain));  // padded: pixels are reached through guards only
  EXPECT_EQ(axes.batch.dims, Dims{1});
  EXPECT_EQ(axes.rows.dims, (Dims{0, 3, 4}));
  EXPECT_EQ(axes.columns.dims, Dims{2});
  EXPECT_EQ(axes.depth.dims, (Dims{5, 6, 7}));
  EXPECT_EQ(axes.depth.extents, (Extents{4, 3, 3}));
}

TEST(ProductAxes, WalksMemoryForward) {
  const Kernel kernel = conv({.channels_last = true}, plain);
  ProductAxes axes = product_axes(kernel);
  walk_forward(axes.depth, kernel.contraction->a);
  EXPECT_EQ(axes.depth.dims, (Dims{6, 7, 5}));  // kernel rows, columns, channels
  EXPECT_EQ(axes.depth.extents, (Extents{3, 3, 4}));
}

TEST(AttentionAxes, RolesFromKeysAndValues) {
  const auto score = [](KernelBuilder&, Ex leaf, Ex) { return leaf; };
  Kernel kernel = attention({.batch = 2, .group = 3}, DType::f32, score);
  auto axes = attention_axes(kernel);
  ASSERT_TRUE(axes);
  EXPECT_FALSE(axes->swapped);
  EXPECT_EQ(axes->batch.dims, (Dims{0, 1}));
  EXPECT_EQ(axes->rows.dims, (Dims{2, 3}));  // a group of heads shares its keys
  EXPECT_EQ(axes->keys.dims, Dims{4});
  EXPECT_EQ(axes->keys.extents, Extents{40});
  EXPECT_EQ(axes->columns.extents, Extents{16});
  EXPECT_EQ(axes->value_keys.dims, Dims{5});
  EXPECT_EQ(axes->depth.dims, Dims{5});

  const auto with_operands = [&](bool keys_in_a, bool keys_in_b) {
    auto outer = std::make_shared<Contraction>(*kernel.contraction);
    auto inner = std::make_shared<Score>(*outer->score);
    const Access q = inner->a, k = inner->b;
    inner->a = keys_in_a ? k : q, inner->b = keys_in_b ? k : q;
    outer->score = inner;
    Kernel result = kernel;
    result.contraction = outer;
    return result;
  };
  axes = attention_axes(with_operands(true, false));
  ASSERT_TRUE(axes);
  EXPECT_TRUE(axes->swapped);
  EXPECT_EQ(axes->rows.dims, (Dims{2, 3}));
  EXPECT_FALSE(attention_axes(with_operands(true, true)));
}

}  // namespace
}  // namespace npusim
