// What the predecessor got wrong in single ops (docs/traps.md), one test per trap, and how kernels of rows look.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "ops/call.h"

namespace npusim {
namespace {

using namespace testing_ops;
using testing::ElementsAre;
using testing::HasSubstr;
using Ints = std::vector<int64_t>;

TEST(Traps, W08DivisionByAScalarDivides) {
  EXPECT_THAT(result("aten.div.Tensor", {floats({2}, {6, 8})}, {{"other", 2.0}}), ElementsAre(3, 4));
  EXPECT_THAT(result("aten.div.Scalar", {floats({2}, {6, 8})}, {{"other", int64_t{4}}}), ElementsAre(1.5, 2));
}

TEST(Traps, W10AlphaScalesTheSecondOperand) {
  EXPECT_THAT(result("aten.add.Tensor", {floats({2}, {1, 2}), floats({1}, {10})}, {{"alpha", int64_t{3}}}),
              ElementsAre(31, 32));
  EXPECT_THAT(result("aten.sub.Tensor", {floats({1}, {1}), floats({1}, {10})}, {{"alpha", 0.5}}), ElementsAre(-4));
  EXPECT_THAT(result("aten.rsub.Scalar", {floats({1}, {1})}, {{"other", 10.0}, {"alpha", 2.0}}), ElementsAre(8));
}

TEST(Traps, W11SoftmaxAlongAnyDimension) {
  const HostTensor x = floats({2, 2}, {0, 0, std::log(3.0), 0});
  EXPECT_THAT(result("aten.softmax.int", {x}, {{"dim", int64_t{0}}}),
              testing::Pointwise(testing::DoubleNear(1e-6), {0.25, 0.5, 0.75, 0.5}));
  EXPECT_THAT(result("aten.softmax.int", {x}, {{"dim", int64_t{-1}}}),
              testing::Pointwise(testing::DoubleNear(1e-6), {0.5, 0.5, 0.75, 0.25}));
}

TEST(Traps, W12MeanOverAnyDimensions) {
  const HostTensor x = counting({2, 3, 2});
  EXPECT_THAT(result("aten.mean.dim", {x}, {{"dim", Ints{1}}}), ElementsAre(2, 3, 8, 9));
  EXPECT_THAT(result("aten.mean.dim", {x}, {{"dim", Ints{0, 2}}, {"keepdim", true}}), ElementsAre(3.5, 5.5, 7.5));
  EXPECT_THAT(result("aten.mean.dim", {x}, {{"dim", std::monostate{}}}), ElementsAre(5.5));
  EXPECT_THAT(result("aten.mean.dim", {x}, {{"dim", Ints{}}}), ElementsAre(5.5));
  HandCall spatial("aten.mean.dim", {counting({1, 2, 2, 2})}, {{"dim", Ints{-1, -2}}});
  EXPECT_EQ(spatial.run()[0].type.shape, (Shape{1, 2}));
}

TEST(Traps, W17PoolingHonoursDilationAndCeilMode) {
  const HostTensor x = counting({1, 1, 5});
  EXPECT_THAT(
      result("aten.max_pool1d.default", {x}, {{"kernel_size", Ints{2}}, {"stride", Ints{1}}, {"dilation", Ints{3}}}),
      ElementsAre(3, 4));
  EXPECT_THAT(result("aten.max_pool1d.default", {x}, {{"kernel_size", Ints{2}}}), ElementsAre(1, 3));
  EXPECT_THAT(result("aten.max_pool1d.default", {x}, {{"kernel_size", Ints{2}}, {"ceil_mode", true}}),
              ElementsAre(1, 3, 4));
  // The last window holds one element of the input and nothing of the padding.
  EXPECT_THAT(result("aten.avg_pool1d.default", {x}, {{"kernel_size", Ints{2}}, {"ceil_mode", true}}),
              ElementsAre(0.5, 2.5, 4));
}

TEST(Traps, W18CastsConvert) {
  EXPECT_THAT(result("aten.to.dtype", {floats({4}, {-1.7, 0, 2.9, 300})}, {{"dtype", DType::i32}}),
              ElementsAre(-1, 0, 2, 300));
  EXPECT_THAT(result("aten.to.dtype", {floats({3}, {-0.5, 0, NAN})}, {{"dtype", DType::boolean}}),
              ElementsAre(1, 0, 1));
  EXPECT_THAT(result("aten.to.dtype", {tensor(DType::i64, {2}, {300, -1})}, {{"dtype", DType::u8}}),
              ElementsAre(44, 255));
  EXPECT_THAT(result("aten.to.dtype", {floats({1}, {2049})}, {{"dtype", DType::f16}}), ElementsAre(2048));
}

// Integers stay integers, however large.
TEST(Traps, W42IntegersAreExact) {
  const HostTensor x = tensor(DType::i64, {2}, {9007199254740992.0, 70000});
  EXPECT_THAT(result("aten.add.Scalar", {x}, {{"other", int64_t{2}}}), ElementsAre(9007199254740994.0, 70002));
  HandCall sum("aten.sum.default", {tensor(DType::i32, {2}, {2147483647, 1})});
  EXPECT_EQ(sum.run()[0].type.dtype, DType::i64);
  EXPECT_THAT(result("aten.sum.default", {tensor(DType::i32, {2}, {2147483647, 1})}), ElementsAre(2147483648.0));
}

TEST(Traps, W24AdaptiveWindowsEndAtTheCeiling) {
  EXPECT_THAT(result("aten.adaptive_avg_pool1d.default", {counting({1, 1, 5})}, {{"output_size", Ints{3}}}),
              ElementsAre(0.5, 2, 3.5));
}

TEST(Traps, W44W45OperandsBroadcast) {
  EXPECT_THAT(result("aten.mul.Tensor", {floats({2, 1}, {2, 3}), floats({3}, {1, 10, 100})}),
              ElementsAre(2, 20, 200, 3, 30, 300));
  EXPECT_THAT(
      result("aten.masked_fill.Scalar", {counting({2, 2}), tensor(DType::boolean, {1, 2}, {0, 1})}, {{"value", -1.0}}),
      ElementsAre(0, -1, 2, -1));
}

// Half precision rounds once, at the store.
TEST(Traps, W46HalfComputesInFloat) {
  const HostTensor x = tensor(DType::f16, {3}, {60000, 60000, -60000});
  EXPECT_THAT(result("aten.sum.default", {x}), ElementsAre(60000));
  EXPECT_THAT(result("aten.mean.default", {x}), ElementsAre(20000));
}

TEST(Traps, W48EpsIsRead) {
  const HostTensor x = floats({1, 2}, {-1, 1});
  EXPECT_THAT(result("aten.layer_norm.default", {x}, {{"normalized_shape", Ints{2}}, {"eps", 3.0}}),
              ElementsAre(-0.5, 0.5));
  EXPECT_THAT(result("aten.rms_norm.default", {x}, {{"normalized_shape", Ints{2}}, {"eps", 3.0}}),
              ElementsAre(-0.5, 0.5));
}

TEST(Traps, W54FullyMaskedRows) {
  const HostTensor x = floats({1, 2}, {-INFINITY, -INFINITY});
  EXPECT_TRUE(std::isnan(result("aten.softmax.int", {x}, {{"dim", int64_t{1}}})[0]));
  EXPECT_THAT(result("aten._safe_softmax.default", {x}, {{"dim", int64_t{1}}}), ElementsAre(0, 0));
}

// Every normalisation and softmax is one kernel whose row holds exactly what is reduced: fusion relies on it.
TEST(Rows, AreOneKernel) {
  const HostTensor x = counting({2, 4, 3, 5}), c = counting({4});
  struct Case {
    const char* name;
    std::vector<std::optional<HostTensor>> operands;
    HandCall::Attrs attrs;
    Shape space;
    int row_dims;
  };
  const Case cases[] = {
      {"aten.softmax.int", {x}, {{"dim", int64_t{1}}}, {2, 3, 5, 4}, 1},
      {"aten.layer_norm.default", {x}, {{"normalized_shape", Ints{3, 5}}}, {2, 4, 3, 5}, 2},
      {"aten.rms_norm.default", {x}, {{"normalized_shape", Ints{5}}}, {2, 4, 3, 5}, 1},
      {"aten.group_norm.default", {x, c, c}, {{"num_groups", int64_t{2}}}, {2, 2, 2, 3, 5}, 3},
      {"aten.mean.dim", {x}, {{"dim", Ints{2, 3}}}, {2, 4, 3, 5}, 2},
      {"aten.adaptive_avg_pool2d.default", {x}, {{"output_size", Ints{1, 1}}}, {2, 4, 1, 1, 3, 5}, 2},
      {"aten.var.correction", {x}, {{"dim", Ints{0}}}, {4, 3, 5, 2}, 1},
      {"aten.cumsum.default", {x}, {{"dim", int64_t{2}}}, {2, 4, 5, 3}, 1},
      {"aten.max.dim", {x}, {{"dim", int64_t{0}}}, {4, 3, 5, 2}, 1},
  };
  for (const Case& c : cases) {
    HandCall call(c.name, c.operands, c.attrs);
    const Lowering lowering = call.lowered();
    ASSERT_EQ(lowering.calls.size(), 1u) << c.name;
    EXPECT_EQ(lowering.calls[0].kernel.space, c.space) << c.name;
    EXPECT_EQ(lowering.calls[0].kernel.row_dims, c.row_dims) << c.name;
    EXPECT_THAT(check_kernel(lowering.calls[0].kernel), ElementsAre()) << c.name;
  }
}

// Windows of one size need neither guards nor computed addresses.
TEST(Rows, EvenAdaptiveWindowsAreAffine) {
  HandCall call("aten.adaptive_avg_pool2d.default", {counting({1, 2, 6, 4})}, {{"output_size", Ints{3, 2}}});
  const Kernel kernel = call.lowered().calls[0].kernel;
  ASSERT_EQ(kernel.accesses.size(), 1u);
  EXPECT_TRUE(kernel.accesses[0].guards.empty());
  EXPECT_TRUE(kernel.accesses[0].terms.empty());
}

TEST(Names, InPlaceFormsFindTheirOp) {
  const std::pair<const char*, const char*> names[] = {{"aten.relu_.default", "aten.relu.default"},
                                                       {"aten.pow_.Scalar", "aten.pow.Tensor_Scalar"},
                                                       {"aten.pow_.Tensor", "aten.pow.Tensor_Tensor"},
                                                       {"aten.__iand__.Tensor", "aten.__and__.Tensor"},
                                                       {"aten.floor_divide_.Tensor", "aten.floor_divide.default"},
                                                       {"aten.add_.Tensor", "aten.add.Tensor"}};
  for (const auto& [in_place, functional] : names) {
    const Op* op = find_op(in_place);
    ASSERT_NE(op, nullptr) << in_place;
    EXPECT_EQ(op->name(), functional);
    EXPECT_TRUE(is_in_place(in_place)) << in_place;
    EXPECT_FALSE(is_in_place(functional)) << functional;
  }
  EXPECT_EQ(find_op("aten.no_such_op.default"), nullptr);
}

}  // namespace
}  // namespace npusim
