// Computed indices: updates in place, wrapping and trapping, the dimensions of x[indices], and orders by counting.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ops/call.h"

namespace npusim::testing_ops {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Ints = std::vector<int64_t>;

HostTensor indices(Shape shape, const std::vector<double>& values) {
  return tensor(DType::i64, std::move(shape), values);
}

void expect_sound(const Lowering& lowering) {
  for (const Lowering::Call& step : lowering.calls) EXPECT_THAT(check_kernel(step.kernel), ElementsAre());
}

// A KV cache: only the new rows are touched.
TEST(IndexCopy, IsOneKernelOverTheSource) {
  HandCall call("aten.index_copy.default", {counting({1, 2, 64, 4}), indices({1}, {5}), counting({1, 2, 1, 4})},
                {{"dim", int64_t{2}}});
  const Lowering lowering = call.lowered();
  expect_sound(lowering);
  ASSERT_EQ(lowering.calls.size(), 1u);
  const Kernel& kernel = lowering.calls[0].kernel;
  EXPECT_EQ(kernel.space, (Shape{1, 2, 1, 4}));
  EXPECT_EQ(kernel.args.back().updates, 0);
}

// P8: f32 cache, bf16 rows; and a result declared in another dtype than self.
TEST(IndexCopy, TakesMixedDtypes) {
  HandCall mixed("aten.index_copy.default", {counting({3}), indices({1}, {1}), tensor(DType::bf16, {1}, {9})},
                 {{"dim", int64_t{0}}});
  EXPECT_THAT(values(mixed.run()[0]), ElementsAre(0, 9, 2));
  HandCall declared("aten.index_copy.default", {counting({3}), indices({1}, {1}), tensor(DType::bf16, {1}, {9})},
                    {{"dim", int64_t{0}}});
  declared.lowered();
  OpCall call = declared.call();
  call.outputs[0].dtype = DType::bf16;
  const Lowering lowering = lower_call(call);
  expect_sound(lowering);
  EXPECT_EQ(lowering.calls.size(), 2u);
}

TEST(Indices, WrapWhereAtenWraps) {
  EXPECT_THAT(
      result("aten.index_fill.int_Scalar", {counting({3}), indices({1}, {-1})}, {{"dim", int64_t{0}}, {"value", 7.0}}),
      ElementsAre(0, 1, 7));
  EXPECT_THAT(result("aten.take.default", {counting({3}), indices({2}, {-3, 2})}), ElementsAre(0, 2));
  HandCall index("aten.index.Tensor", {counting({3}), indices({2}, {-1, 0})}, {}, {1});
  EXPECT_THAT(values(index.run()[0]), ElementsAre(2, 0));
}

TEST(Indices, TrapWhereAtenTraps) {
  for (double at : {-1.0, 3.0}) {
    HandCall embedding("aten.embedding.default", {counting({3, 2}), indices({1}, {at})});
    EXPECT_THROW(embedding.run(), Error);
    HandCall copy("aten.index_copy.default", {counting({3}), indices({1}, {at}), counting({1})}, {{"dim", int64_t{0}}});
    EXPECT_THROW(copy.run(), Error);
    HandCall gather("aten.gather.default", {counting({3}), indices({1}, {at})}, {{"dim", int64_t{0}}});
    EXPECT_THROW(gather.run(), Error);
  }
  HandCall far("aten.index.Tensor", {counting({3}), indices({1}, {-4})}, {}, {1});
  EXPECT_THROW(far.run(), Error);
}

// W-42: an id keeps every digit.
TEST(Indices, AreExact) {
  HandCall call("aten.embedding.default", {counting({70001, 1}), indices({2}, {2049, 70000})});
  EXPECT_THAT(values(call.run()[0]), ElementsAre(2049, 70000));
}

TEST(Index, NeighbouringIndicesStayInPlace) {
  const HostTensor x = counting({2, 3, 4, 5}), i = indices({6}, {0, 1, 0, 1, 0, 1});
  auto shape = [&](std::vector<std::optional<HostTensor>> operands) {
    const int count = static_cast<int>(operands.size()) - 1;
    return HandCall("aten.index.Tensor", std::move(operands), {}, {count}).run()[0].type.shape;
  };
  EXPECT_EQ(shape({x, std::nullopt, i, i}), (Shape{2, 6, 5}));
  EXPECT_EQ(shape({x, i, std::nullopt, i}), (Shape{6, 3, 5}));
  EXPECT_EQ(shape({x, std::nullopt, std::nullopt, std::nullopt, i}), (Shape{2, 3, 4, 6}));
  EXPECT_EQ(shape({x, indices({2, 1}, {0, 1}), indices({3}, {0, 1, 2})}), (Shape{2, 3, 4, 5}));
}

TEST(Index, RefusesMasksByName) {
  HandCall call("aten.index.Tensor", {counting({3}), tensor(DType::boolean, {3}, {1, 0, 1})}, {}, {1});
  EXPECT_THAT(call.problem(), HasSubstr("mask"));
}

TEST(IndexPut, TakesAMaskAndValuesInOrder) {
  HandCall call("aten.index_put.default",
                {counting({2, 2}), tensor(DType::boolean, {2, 2}, {1, 0, 1, 1}), floats({3}, {7, 8, 9})}, {}, {1});
  EXPECT_THAT(values(call.run()[0]), ElementsAre(7, 1, 8, 9));
}

TEST(IndexPut, AccumulatesDuplicates) {
  HandCall call("aten.index_put.default", {counting({2}), indices({3}, {1, 1, 0}), floats({3}, {10, 100, 1000})},
                {{"accumulate", true}}, {1});
  EXPECT_THAT(values(call.run()[0]), ElementsAre(1000, 111));
}

TEST(Scatter, OfNothingIsSelf) {
  HandCall call("aten.scatter.src", {counting({3}), indices({0}, {}), floats({0}, {})}, {{"dim", int64_t{0}}});
  EXPECT_THAT(values(call.run()[0]), ElementsAre(0, 1, 2));
}

TEST(Sort, IsStableAndPutsNanLast) {
  const double nan = std::nan("");
  HandCall call("aten.sort.default", {floats({6}, {2, nan, -1, 2, nan, 0})});
  const Lowering lowering = call.lowered();
  expect_sound(lowering);
  const auto results = call.run();
  EXPECT_THAT(values(results[1]), ElementsAre(2, 5, 0, 3, 1, 4));
  HandCall down("aten.sort.default", {floats({6}, {2, nan, -1, 2, nan, 0})}, {{"descending", true}});
  EXPECT_THAT(values(down.run()[1]), ElementsAre(1, 4, 0, 3, 5, 2));
}

TEST(Sort, TopkKeepsTheFirst) {
  HandCall call("aten.topk.default", {floats({1, 5}, {3, 1, 4, 1, 5})}, {{"k", int64_t{2}}});
  const auto results = call.run();
  EXPECT_THAT(values(results[0]), ElementsAre(5, 4));
  EXPECT_THAT(values(results[1]), ElementsAre(4, 2));
}

TEST(Sort, RefusesLongRowsByName) {
  HandCall call("aten.sort.default", {counting({5000})});
  EXPECT_THAT(call.problem(), HasSubstr("rows of 5000 elements are too long to sort"));
}

TEST(Search, FollowsTheSorter) {
  HandCall call("aten.searchsorted.Tensor",
                {floats({3}, {2, -1, 0.5}), floats({2}, {0, 0.5}), indices({3}, {1, 2, 0})});
  EXPECT_THAT(values(call.run()[0]), ElementsAre(1, 1));
}

}  // namespace
}  // namespace npusim::testing_ops
