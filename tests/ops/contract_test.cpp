// Contractions: what becomes one matmul or conv kernel, the coordinates of its operands, and ATen's scalars and shapes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/call.h"

namespace npusim::testing_ops {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Ints = std::vector<int64_t>;

Kernel only_kernel(HandCall& call) {
  Lowering lowering = call.lowered();
  EXPECT_EQ(lowering.calls.size(), 1u);
  EXPECT_THAT(check_kernel(lowering.calls.at(0).kernel), ElementsAre());
  return lowering.calls.at(0).kernel;
}

bool is_contraction(const Kernel& kernel, ContractionKind kind) {
  return kernel.contraction && kernel.contraction->kind == kind;
}

HostTensor filled(Shape shape, double value, DType dtype = DType::f32) {
  return tensor(dtype, shape, std::vector<double>(static_cast<size_t>(element_count(shape)), value));
}

// mat2 is [k, n], and both scalars count.
TEST(Matmul, AddmmScalesBothTerms) {
  HandCall call("aten.addmm.default", {floats({2}, {1, 2}), floats({1, 2}, {1, 10}), floats({2, 2}, {1, 2, 3, 4})},
                {{"beta", 2.0}, {"alpha", int64_t{3}}});
  EXPECT_TRUE(is_contraction(only_kernel(call), ContractionKind::matmul));
  EXPECT_THAT(values(call.run()[0]), ElementsAre(2 + 3 * 31, 4 + 3 * 42));
}

// Rows 0 and 1 with the first matrix, row 2 with the third; the second group is empty.
TEST(GroupedMatmul, EachRowMeetsItsGroupsMatrix) {
  HandCall call("transformers.grouped_mm_fallback.default",
                {floats({3, 2}, {1, 2, 3, 4, 5, 6}), floats({3, 2, 1}, {1, 10, 7, 7, 2, 20}),
                 tensor(DType::i32, {3}, {2, 2, 3})});
  EXPECT_EQ(values(call.run()[0]), (std::vector<double>{21, 43, 130}));
}

TEST(Matmul, BetaZeroIgnoresTheBias) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  HandCall call("aten.addmm.default", {floats({1}, {nan}), floats({1, 1}, {2}), floats({1, 1}, {3})},
                {{"beta", int64_t{0}}});
  EXPECT_THAT(values(call.run()[0]), ElementsAre(6));
}

// The batch dimensions of both operands broadcast.
TEST(Matmul, BroadcastsBothBatches) {
  HandCall call("aten.matmul.default", {counting({2, 1, 1, 2}), counting({3, 2, 1})});
  const HostTensor result = call.run()[0];
  EXPECT_EQ(result.type.shape, (Shape{2, 3, 1, 1}));
  EXPECT_THAT(values(result), ElementsAre(1, 3, 5, 3, 13, 23));
}

// Mixed operands compute in f32; integers and f64 in their own arithmetic, without a contraction.
TEST(Matmul, KeepsItsArithmetic) {
  HandCall mixed("aten.matmul.default", {counting({2, 3}), counting({3, 2}, DType::bf16)});
  EXPECT_TRUE(is_contraction(only_kernel(mixed), ContractionKind::matmul));
  for (DType dtype : {DType::i64, DType::f64}) {
    HandCall call("aten.matmul.default", {counting({2, 3}, dtype), counting({3, 2}, dtype)});
    const Kernel kernel = only_kernel(call);
    EXPECT_FALSE(kernel.contraction);
    EXPECT_EQ(kernel.row_dims, 1);
  }
  const int64_t big = 9007199254740993;  // needs 54 bits: no double
  HandCall exact("aten.mm.default",
                 {tensor(DType::i64, {1, 2}, {0, 3}), tensor(DType::i64, {2, 1}, {0, static_cast<double>(big / 3)})});
  EXPECT_EQ(load_int(exact.run()[0].data.data(), DType::i64, 0), big);
}

// Rotary angles: one reduced element is a product, not a contraction.
TEST(Matmul, OfOneReducedElementIsAProduct) {
  HandCall call("aten.matmul.default", {counting({1, 4, 1}), counting({1, 1, 3})});
  EXPECT_FALSE(only_kernel(call).contraction);
}

TEST(Matmul, OfNothingIsTheBias) {
  HandCall call("aten.addmm.default", {floats({2}, {1, 2}), counting({3, 0}), counting({0, 2})});
  EXPECT_THAT(values(call.run()[0]), ElementsAre(1, 2, 1, 2, 1, 2));
}

// CPU ATen has no kernel for these overloads, so they have no golden.
TEST(Matmul, TakesTheNamedDtype) {
  const HandCall::Attrs f32{{"out_dtype", DType::f32}};
  const HostTensor a = counting({1, 2, 2}, DType::f16), m = counting({2, 2}, DType::f16);
  for (const HostTensor& result :
       {HandCall("aten.mm.dtype", {m, m}, f32).run()[0], HandCall("aten.bmm.dtype", {a, a}, f32).run()[0],
        HandCall("aten.addmm.dtype", {floats({1}, {0}), m, m}, f32).run()[0],
        HandCall("aten.baddbmm.dtype", {floats({1}, {0}), a, a}, f32).run()[0]}) {
    EXPECT_EQ(result.type.dtype, DType::f32);
    EXPECT_THAT(values(result), ElementsAre(2, 3, 6, 11));
  }
}

TEST(Matmul, NamesWhatDoesNotFit) {
  EXPECT_THAT(problem("aten.mm.default", {counting({2, 3}), counting({2, 3})}),
              HasSubstr("float32[2, 3] and float32[2, 3] do not fit"));
  EXPECT_THAT(problem("aten.bmm.default", {counting({2, 3}), counting({3, 2})}), HasSubstr("3 dimensions"));
}

TEST(Einsum, OfTwoOperandsIsOneMatmul) {
  for (const char* equation : {"bhid,bhjd->bhij", "...ij,...kj->...ik", "bhid,bhjd->bijh"}) {
    HandCall call("aten.einsum.default", {counting({2, 3, 4, 5}), counting({2, 3, 6, 5})},
                  {{"equation", std::string(equation)}}, {2});
    EXPECT_TRUE(is_contraction(only_kernel(call), ContractionKind::matmul)) << equation;
  }
}

TEST(Einsum, SumsLabelsOfOneOperandFirst) {
  HandCall call("aten.einsum.default", {filled({2, 3}, 1), filled({2, 4}, 1)}, {{"equation", std::string("ij,ik->k")}},
                {2});
  EXPECT_EQ(call.lowered().calls.size(), 2u);
  EXPECT_THAT(values(call.run()[0]), ElementsAre(6, 6, 6, 6));
}

// [n, group, out channel, out…] over [in channel, kernel…], padding as guards of the image.
TEST(Conv, HasItsSpaceAndGuards) {
  HandCall call("aten.conv2d.default", {counting({2, 4, 5, 6}), counting({6, 2, 3, 3}), counting({6})},
                {{"stride", Ints{2, 1}}, {"padding", Ints{1, 2}}, {"dilation", Ints{1, 2}}, {"groups", int64_t{2}}});
  const Kernel kernel = only_kernel(call);
  ASSERT_TRUE(is_contraction(kernel, ContractionKind::conv));
  EXPECT_EQ(kernel.space, (Shape{2, 2, 3, 3, 6}));
  EXPECT_EQ(kernel.contraction->reduce, (Ints{2, 3, 3}));
  ASSERT_EQ(kernel.contraction->a.guards.size(), 2u);
  EXPECT_EQ(kernel.contraction->a.guards[0].coeffs, (Ints{0, 0, 0, 2, 0, 0, 1, 0}));
  EXPECT_EQ(kernel.contraction->a.guards[1].coeffs, (Ints{0, 0, 0, 0, 1, 0, 0, 2}));
  EXPECT_EQ(kernel.contraction->a.guards[1].offset, -2);
  EXPECT_TRUE(kernel.contraction->b.guards.empty());
}

TEST(Conv, SamePadsTheOddElementAtTheEnd) {
  HandCall call("aten.conv1d.padding", {floats({1, 1, 3}, {1, 2, 3}), floats({1, 1, 2}, {10, 1})},
                {{"padding", std::string("same")}});
  EXPECT_THAT(values(call.run()[0]), ElementsAre(12, 23, 30));
}

TEST(Conv, TakesSinglesForLists) {
  HandCall call("aten.conv2d.default", {counting({1, 3, 3}), filled({2, 1, 2, 2}, 1)},
                {{"stride", Ints{1}}, {"padding", int64_t{0}}});
  const HostTensor result = call.run()[0];
  EXPECT_EQ(result.type.shape, (Shape{2, 2, 2}));  // without a batch
  EXPECT_THAT(values(result), ElementsAre(8, 12, 20, 24, 8, 12, 20, 24));
}

TEST(Conv, OfFloat64IsAReduction) {
  HandCall call("aten.conv1d.default", {counting({1, 1, 3}, DType::f64), filled({1, 1, 2}, 1, DType::f64)},
                {{"padding", Ints{1}}});
  EXPECT_FALSE(only_kernel(call).contraction);
  EXPECT_THAT(values(call.run()[0]), ElementsAre(0, 1, 3, 2));
}

TEST(ConvTranspose, OfStrideOneIsOneConv) {
  HandCall call("aten.conv_transpose1d.default", {floats({1, 1, 2}, {1, 10}), floats({1, 1, 3}, {1, 2, 3})});
  EXPECT_TRUE(is_contraction(only_kernel(call), ContractionKind::conv));
  EXPECT_THAT(values(call.run()[0]), ElementsAre(1, 12, 23, 30));
}

TEST(ConvTranspose, ThatTilesIsOneMatmul) {
  HandCall call("aten.conv_transpose2d.input", {floats({1, 1, 1, 2}, {1, 10}), floats({1, 1, 2, 2}, {1, 2, 3, 4})},
                {{"stride", Ints{2, 2}}});
  HandCall larger("aten.conv_transpose2d.input", {counting({1, 4, 3, 3}), counting({4, 2, 2, 2})},
                  {{"stride", Ints{2, 2}}, {"groups", int64_t{2}}});
  EXPECT_TRUE(is_contraction(only_kernel(larger), ContractionKind::matmul));
  EXPECT_THAT(values(call.run()[0]), ElementsAre(1, 2, 10, 20, 3, 4, 30, 40));
}

TEST(ConvTranspose, SpreadsAStridedImage) {
  HandCall call("aten.conv_transpose1d.default", {floats({1, 1, 2}, {1, 10}), floats({1, 1, 3}, {1, 2, 3})},
                {{"stride", Ints{2}}, {"padding", Ints{1}}, {"output_padding", Ints{1}}});
  const Lowering lowering = call.lowered();
  for (const Lowering::Call& step : lowering.calls) EXPECT_THAT(check_kernel(step.kernel), ElementsAre());
  EXPECT_THAT(values(call.run()[0]), ElementsAre(2, 13, 20, 30));
}

TEST(Conv, NamesWhatDoesNotFit) {
  EXPECT_THAT(problem("aten.conv2d.default", {counting({1, 3, 4, 4}), counting({2, 4, 3, 3})}),
              HasSubstr("do not fit 1 groups"));
  EXPECT_THAT(problem("aten.conv1d.default", {counting({1, 1, 2}), counting({1, 1, 3})}),
              HasSubstr("does not fit input"));
  EXPECT_THAT(problem("aten.conv1d.padding", {counting({1, 1, 4}), counting({1, 1, 3})},
                      {{"padding", std::string("same")}, {"stride", Ints{2}}}),
              HasSubstr("stride of 1"));
}

}  // namespace
}  // namespace npusim::testing_ops
