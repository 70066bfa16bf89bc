// Scaled dot product attention: the three kernels the compiler recognises, masks of every kind, grouped heads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ops/call.h"
#include "passes/recognize.h"

namespace npusim::testing_ops {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pointwise;

constexpr const char* sdpa = "aten.scaled_dot_product_attention.default";
constexpr double inf = std::numeric_limits<double>::infinity();

auto near(double error = 1e-6) { return testing::DoubleNear(error); }

std::vector<Kernel> kernels(HandCall& call) {
  std::vector<Kernel> list;
  for (const Lowering::Call& step : call.lowered().calls) {
    EXPECT_THAT(check_kernel(step.kernel), ElementsAre());
    list.push_back(step.kernel);
  }
  return list;
}

TEST(Attention, IsMatmulSoftmaxMatmul) {
  HandCall call(sdpa, {counting({2, 3, 5, 4}), counting({2, 3, 7, 4}), counting({2, 3, 7, 6})});
  const auto list = kernels(call);
  ASSERT_EQ(list.size(), 3u);
  EXPECT_EQ(list[0].contraction->kind, ContractionKind::matmul);
  EXPECT_EQ(list[2].contraction->kind, ContractionKind::matmul);
  bool safe = false;
  EXPECT_GE(softmax_argument(list[1], list[1].stores[0].expr, safe), 0);
  EXPECT_TRUE(safe);
}

// A row with everything masked gives 0, not NaN.
TEST(Attention, FullyMaskedRowsAreZero) {
  for (const HostTensor& mask : {tensor(DType::boolean, {2, 2}, {1, 0, 0, 0}), floats({2, 2}, {0, -inf, -inf, -inf})}) {
    HandCall call(sdpa, {counting({1, 1, 2, 1}), counting({1, 1, 2, 1}), floats({1, 1, 2, 1}, {5, 6}), mask});
    const auto list = kernels(call);
    bool safe = false;
    EXPECT_GE(softmax_argument(list[2], list[2].stores[0].expr, safe), 0);
    EXPECT_TRUE(safe);
    EXPECT_THAT(values(call.run()[0]), ElementsAre(5, 0));
  }
}

// So does one whose scores are all −inf by themselves.
TEST(Attention, RowsOfInfiniteScoresAreZero) {
  EXPECT_THAT(result(sdpa, {floats({1, 1, 1}, {1}), floats({1, 2, 1}, {-inf, -inf}), floats({1, 2, 1}, {5, 6})}),
              ElementsAre(0));
}

TEST(Attention, HonoursTheScale) {
  const HostTensor q = floats({1, 1, 4}, {1, 1, 1, 1}), k = floats({1, 2, 4}, {0, 0, 0, 0, 1, 0, 0, 0}),
                   v = floats({1, 2, 1}, {0, 1});
  EXPECT_THAT(result(sdpa, {q, k, v}), Pointwise(near(), {1 / (1 + std::exp(-0.5))}));
  EXPECT_THAT(result(sdpa, {q, k, v}, {{"scale", 1.0}}), Pointwise(near(), {1 / (1 + std::exp(-1.0))}));
}

TEST(Attention, CausalStartsAtTheFirstKey) {
  const HostTensor q = floats({1, 2, 1}, {0, 0}), k = floats({1, 3, 1}, {0, 0, 0}), v = floats({1, 3, 1}, {2, 4, 60});
  EXPECT_THAT(result(sdpa, {q, k, v}, {{"is_causal", true}}), Pointwise(near(), {2, 3}));
}

// Query heads that share a key head read it with stride 0; nothing is expanded.
TEST(Attention, GroupsHeadsByStride) {
  const int64_t heads = 6, key_heads = 2;
  HandCall call(sdpa, {counting({1, heads, 3, 4}), counting({1, key_heads, 5, 4}), counting({1, key_heads, 5, 4})},
                {{"enable_gqa", true}});
  const auto list = kernels(call);
  ASSERT_EQ(list.size(), 3u);
  EXPECT_EQ(list[0].space, (Shape{1, key_heads, heads / key_heads, 3, 5}));
  EXPECT_EQ(list[0].contraction->b.strides[2], 0);
  EXPECT_EQ(list[2].contraction->b.strides[2], 0);
  EXPECT_EQ(list[0].args[1].elements, key_heads * 5 * 4);
}

TEST(Attention, GroupsAnswerLikeRepeatedHeads) {
  HostTensor k = counting({1, 2, 3, 2}), v = counting({1, 2, 3, 1}), q = make_tensor({DType::f32, {1, 4, 2, 2}});
  for (int64_t i = 0; i < 16; ++i) store_double(q.data.data(), DType::f32, i, 0.1 * static_cast<double>(i % 5) - 0.2);
  HandCall wide_k("aten.repeat_interleave.self_int", {k}, {{"repeats", int64_t{2}}, {"dim", int64_t{1}}});
  HandCall wide_v("aten.repeat_interleave.self_int", {v}, {{"repeats", int64_t{2}}, {"dim", int64_t{1}}});
  const HostTensor mask =
      floats({4, 2, 3}, {0, 1, 2, 0, -inf, 1, 0, 0, 0, 1, 1, 2, 3, 0, 0, 0, 0, 1, -1, -1, 0, 0, 0, 0});
  const auto expected = result(sdpa, {q, wide_k.run()[0], wide_v.run()[0], mask});
  EXPECT_THAT(result(sdpa, {q, k, v, mask}, {{"enable_gqa", true}}), Pointwise(near(), expected));
}

// A mask smaller than the scores is broadcast by strides.
TEST(Attention, BroadcastsTheMask) {
  HandCall call(sdpa, {counting({2, 3, 5, 4}), counting({2, 3, 7, 4}), counting({2, 3, 7, 4}), counting({2, 1, 1, 7})});
  const auto list = kernels(call);
  EXPECT_EQ(list[1].args[1].elements, 14);
  EXPECT_THAT(problem(sdpa, {counting({2, 3, 5, 4}), counting({2, 3, 7, 4}), counting({2, 3, 7, 4}), counting({5, 6})}),
              HasSubstr("do not broadcast"));
}

// Any number of keys.
TEST(Attention, TakesLongContexts) {
  HandCall call(sdpa, {counting({1, 1, 1, 1}), make_tensor({DType::f32, {1, 1, 5000, 1}}), counting({1, 1, 5000, 1})});
  EXPECT_THAT(values(call.run()[0]), Pointwise(near(1e-2), {2499.5}));
}

TEST(Attention, RefusesDropout) {
  EXPECT_THAT(problem(sdpa, {counting({1, 2, 2}), counting({1, 2, 2}), counting({1, 2, 2})}, {{"dropout_p", 0.5}}),
              HasSubstr("dropout_p"));
}

TEST(Attention, Float64StaysWide) {
  HandCall call(sdpa,
                {counting({1, 2, 2}, DType::f64), counting({1, 2, 2}, DType::f64), counting({1, 2, 2}, DType::f64)});
  for (const Kernel& kernel : kernels(call)) EXPECT_FALSE(kernel.contraction);
  EXPECT_EQ(call.run()[0].type.dtype, DType::f64);
}

// Only for devices this build is not, so without a golden: rows of the log-sum padded to tiles of 32.
TEST(Attention, EfficientPadsItsLogSums) {
  HandCall call("aten._scaled_dot_product_efficient_attention.default",
                {counting({1, 1, 3, 2}), counting({1, 1, 4, 2}), counting({1, 1, 4, 2}), std::nullopt},
                {{"compute_log_sumexp", true}, {"scale", 0.0}});
  const auto results = call.run();
  ASSERT_EQ(results.size(), 4u);
  EXPECT_EQ(results[1].type.shape, (Shape{1, 1, 32}));
  EXPECT_NEAR(values(results[1])[2], std::log(4.0), 1e-6);
  EXPECT_EQ(values(results[1])[3], inf);
}

}  // namespace
}  // namespace npusim::testing_ops
