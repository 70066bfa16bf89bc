// Ops without a golden file: assertions, tokens and unwritten memory; and what records refuse or find wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "ops/call.h"

namespace npusim {
namespace {

using namespace testing_ops;
using testing::HasSubstr;
using Ints = std::vector<int64_t>;
using Reals = std::vector<double>;

TEST(Checks, LowerToNothing) {
  HandCall metadata("aten._assert_tensor_metadata.default", {counting({2, 3})},
                    {{"size", Ints{2, 3}}, {"dtype", DType::f32}});
  EXPECT_TRUE(metadata.lowered().calls.empty());
  EXPECT_TRUE(metadata.run().empty());
  for (const char* name : {"aten._assert_async.default", "aten._assert_async.msg"}) {
    HandCall call(name, {counting({1})}, {{"assert_msg", std::string("no")}});
    EXPECT_TRUE(call.call().op->record.is_check);
    EXPECT_TRUE(call.lowered().calls.empty());
  }
  for (const char* name : {"aten._assert_scalar.default", "aten.sym_constrain_range.default",
                           "aten.sym_constrain_range_for_size.default"}) {
    HandCall call(name, {}, {{"self", int64_t{1}}, {"size", int64_t{1}}});
    EXPECT_TRUE(call.lowered().calls.empty());
  }
}

TEST(Checks, MetadataThatDoesNotFitIsNamed) {
  const char* name = "aten._assert_tensor_metadata.default";
  EXPECT_THAT(problem(name, {counting({2, 3})}, {{"dtype", DType::bf16}}),
              HasSubstr("expected bfloat16, found float32[2, 3]"));
  EXPECT_THAT(problem(name, {counting({2, 3})}, {{"size", Ints{3, 2}}}),
              HasSubstr("expected shape [3, 2], found [2, 3]"));
}

TEST(Checks, TokensPassThrough) {
  EXPECT_EQ(result("aten._functional_assert_async.msg", {floats({1}, {2}), floats({}, {3})}), std::vector<double>{3});
  EXPECT_THROW(result("aten._functional_assert_async.msg", {floats({}, {0}), floats({}, {3})}), Error);
  EXPECT_THROW(result("aten._functional_assert_async.msg", {floats({2}, {1, 1}), floats({}, {3})}), Error);
  EXPECT_EQ(result("aten._functional_sym_constrain_range.default", {floats({}, {4})}, {{"size", int64_t{1}}}),
            std::vector<double>{4});
}

TEST(Unwritten, MemoryIsZero) {
  const HandCall::Attrs attrs{
      {"size", Ints{2, 2}}, {"stride", Ints{2, 1}}, {"physical_layout", Ints{0, 1}}, {"dtype", DType::i32}};
  const std::vector<double> zeros(4);
  for (const char* name : {"aten.empty.memory_format", "aten.empty_strided.default", "aten.empty_permuted.default"})
    EXPECT_EQ(result(name, {}, attrs), zeros) << name;
  for (const char* name : {"aten.new_empty.default", "aten.new_empty_strided.default"})
    EXPECT_EQ(result(name, {counting({3})}, attrs), zeros) << name;
  EXPECT_EQ(result("aten.empty_like.default", {counting({4})}), zeros);
}

// Attributes that a schema allows and PyTorch does not.
TEST(Refusals, AttributesThatPyTorchRefuses) {
  const double none = std::numeric_limits<double>::quiet_NaN(), infinite = std::numeric_limits<double>::infinity();
  const HostTensor sorted = floats({3}, {1, 2, 2}), x = floats({1, 4, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  const auto expect = [](const std::string& name, const std::vector<std::optional<HostTensor>>& inputs,
                         const HandCall::Attrs& attrs, const std::string& text) {
    EXPECT_THAT(problem(name, inputs, attrs), HasSubstr(text)) << name;
  };
  for (const char* side : {"rigth", "", "LEFT"})
    expect("aten.searchsorted.Tensor", {sorted, sorted}, {{"side", std::string(side)}}, "is not left or right");
  expect("aten.searchsorted.Tensor", {sorted, sorted}, {{"side", std::string("left")}, {"right", true}},
         "side is left");
  EXPECT_EQ(result("aten.searchsorted.Tensor", {sorted, sorted}, {{"side", std::string("right")}}), (Reals{1, 3, 3}));
  for (const auto& [low, high] : {std::pair{2.0, 1.0}, {none, 1.0}, {0.0, none}, {-infinite, 1.0}, {0.0, infinite}})
    expect("aten.histc.default", {sorted}, {{"bins", int64_t{4}}, {"min", low}, {"max", high}}, "bins from min");
  for (const double lambd : {-1.0, none})
    expect("aten.softshrink.default", {sorted}, {{"lambd", lambd}}, "is not 0 or more");
  expect("aten.celu.default", {sorted}, {{"alpha", 0.0}}, "no inverse");
  for (const Ints& sizes : {Ints{-1, 4, 2}, Ints{1, 0, 2}, Ints{1, 4, int64_t{1} << 50}, Ints{1, 2, 4}, Ints{1, 4, 3}})
    expect("aten.native_group_norm.default", {x, {}, {}},
           {{"N", sizes[0]}, {"C", sizes[1]}, {"HxW", sizes[2]}, {"group", int64_t{2}}, {"eps", 1e-5}},
           "are not those of");
  for (const char* name : {"aten.mean.default", "aten.softmax.int", "aten._safe_softmax.default"})
    expect(name, {sorted}, {{"dtype", DType::i32}, {"dim", int64_t{0}}}, "expected a floating one");
  for (const char* name : {"aten._softmax.default", "aten._log_softmax.default"})
    expect(name, {sorted}, {{"dim", int64_t{0}}, {"half_to_float", true}}, "expected 16 bits");
  expect("aten._cdist_forward.default", {floats({1, 2}, {1, 5}), floats({1, 2}, {3, -7})},
         {{"p", 2.0}, {"compute_mode", int64_t{1} << 31}}, "expected compute_mode 0, 1 or 2");
}

// What only training does is refused, never aliased.
TEST(Refusals, TrainingIsRefusedByName) {
  for (const char* name :
       {"aten.dropout.default", "aten.feature_dropout.default", "aten.alpha_dropout.default",
        "aten.feature_alpha_dropout.default", "aten.native_dropout.default", "aten.dropout_.default"}) {
    EXPECT_THAT(problem(name, {counting({4, 1})}, {{"p", 1.5}, {"train", true}}), HasSubstr("p <= 1")) << name;
    EXPECT_THAT(problem(name, {counting({4, 1}, DType::i64)}, {{"p", 0.5}, {"train", true}}), HasSubstr("int64"))
        << name;
    EXPECT_EQ(problem(name, {counting({4})}, {{"p", 0.5}, {"train", false}}), "") << name;
    EXPECT_EQ(problem(name, {counting({4})}, {{"p", 0.0}, {"train", true}}), "") << name;
  }
  HandCall::Attrs norm{{"training", true}, {"momentum", 0.1}, {"eps", 1e-5}, {"cudnn_enabled", true}};
  const HostTensor x = counting({2, 3, 4}), c = counting({3});
  for (const char* name : {"aten.batch_norm.default", "aten.native_batch_norm.default"}) {
    norm["training"] = true;
    EXPECT_THAT(problem(name, {x, c, c, c, c}, norm), HasSubstr("training=true")) << name;
    norm["training"] = false;
    EXPECT_EQ(problem(name, {x, c, c, c, c}, norm), "") << name;
    EXPECT_THAT(problem(name, {x, c, c}, norm), HasSubstr("running statistics")) << name;
  }
  EXPECT_THAT(problem("aten.rrelu.default", {x}, {{"training", true}}), HasSubstr("training=true"));
  EXPECT_THAT(problem("aten.instance_norm.default", {x}, {{"use_input_stats", false}, {"eps", 1e-5}}),
              HasSubstr("use_input_stats=false"));
}

TEST(Refusals, IntegersToANegativePowerAreRefused) {
  const std::string name = "aten.pow.Tensor_Scalar";
  for (const DType dtype : {DType::i64, DType::i32, DType::u8, DType::boolean}) {
    const HostTensor x = make_tensor({dtype, {3}});
    EXPECT_THAT(problem(name, {x}, {{"exponent", int64_t{-1}}}), HasSubstr("integers to a negative power"));
    EXPECT_EQ(problem(name, {x}, {{"exponent", -1.0}}), "");
    EXPECT_EQ(problem(name, {x}, {{"exponent", int64_t{2}}}), "");
  }
  EXPECT_EQ(problem(name, {counting({3})}, {{"exponent", int64_t{-1}}}), "");
}

// Whether an operator can be compiled depends on its attributes.
TEST(Refusals, AttributesWithoutAMeaningAreNamed) {
  const HostTensor x = counting({2, 3});
  EXPECT_THAT(problem("aten.gelu.default", {x}, {{"approximate", std::string("fast")}}), HasSubstr("'fast'"));
  EXPECT_THAT(problem("aten.div.Tensor_mode", {x, x}, {{"rounding_mode", std::string("up")}}), HasSubstr("'up'"));
  EXPECT_THAT(problem("aten.histc.default", {x}), HasSubstr("min equals max"));
  EXPECT_THAT(problem("aten.one_hot.default", {counting({2}, DType::i64)}), HasSubstr("num_classes=-1"));
  EXPECT_THAT(problem("aten.avg_pool2d.default", {counting({1, 1, 4, 4})},
                      {{"kernel_size", Ints{2}}, {"divisor_override", int64_t{0}}}),
              HasSubstr("divisor_override=0"));
}

TEST(Shapes, WhatDoesNotFitIsNamed) {
  const HostTensor x = counting({2, 3}), y = counting({4});
  EXPECT_THAT(problem("aten.add.Tensor", {x, y}), HasSubstr("[2, 3] and [4] do not broadcast"));
  EXPECT_THAT(problem("aten.sum.dim_IntList", {x}, {{"dim", Ints{2}}}),
              HasSubstr("dimension 2 is out of range for rank 2"));
  EXPECT_THAT(problem("aten.sum.dim_IntList", {x}, {{"dim", Ints{1, -1}}}), HasSubstr("dimension -1 is named twice"));
  EXPECT_THAT(problem("aten.softmax.int", {x}, {{"dim", int64_t{-3}}}), HasSubstr("dimension -3 is out of range"));
  EXPECT_THAT(problem("aten.amax.default", {counting({0, 3})}, {{"dim", Ints{0}}}), HasSubstr("no identity"));
  EXPECT_THAT(problem("aten.argmax.default", {counting({0, 3})}), HasSubstr("no identity"));
  EXPECT_THAT(problem("aten.layer_norm.default", {x}, {{"normalized_shape", Ints{2}}}),
              HasSubstr("normalized_shape [2] does not end input [2, 3]"));
  EXPECT_THAT(problem("aten.layer_norm.default", {x, y}, {{"normalized_shape", Ints{3}}}),
              HasSubstr("weight [4] is not normalized_shape [3]"));
  EXPECT_THAT(problem("aten.group_norm.default", {counting({1, 4, 2})}, {{"num_groups", int64_t{3}}}),
              HasSubstr("do not form 3 groups"));
  EXPECT_THAT(problem("aten.max_pool2d.default", {counting({1, 1, 2, 2})}, {{"kernel_size", Ints{3}}}),
              HasSubstr("a window of 3 does not fit the extent 2"));
  EXPECT_THAT(problem("aten.avg_pool2d.default", {counting({4, 4})}, {{"kernel_size", Ints{2}}}),
              HasSubstr("must have 3 or 4 dimensions"));
  EXPECT_THAT(problem("aten.glu.default", {x}), HasSubstr("cannot halve a dimension of 3"));
  EXPECT_THAT(problem("aten.upsample_nearest2d.vec", {counting({1, 1, 2, 2})}),
              HasSubstr("needs output_size or 2 scale_factors"));
  EXPECT_THAT(problem("aten.upsample_nearest2d.vec", {counting({1, 1, 2, 2})},
                      {{"output_size", Ints{4, 4}}, {"scale_factors", Reals{1e-300, 2}}}),
              HasSubstr("cannot resize by a factor of 1e-300"));
  EXPECT_THAT(problem("aten.upsample_nearest2d.vec", {counting({1, 1, 2, 2})}, {{"scale_factors", Reals{1e300, 2}}}),
              HasSubstr("cannot resize 2 elements to -9223372036854775808"));
  for (const char* name : {"aten.upsample_bilinear2d.vec", "aten._upsample_bicubic2d_aa.vec"})
    EXPECT_THAT(
        problem(name, {counting({1, 1, 2, 2}, DType::u8)}, {{"output_size", Ints{4, 4}}, {"align_corners", false}}),
        HasSubstr("cannot interpolate uint8"));
  EXPECT_THAT(problem("aten.softmax.int", {x}, {{"dim", 8e51}}), HasSubstr("an integer"));
  EXPECT_THAT(problem("aten.chunk.default", {counting({0})}, {{"chunks", int64_t{1} << 60}}),
              HasSubstr("expected at most"));
  EXPECT_THAT(
      problem("aten.split_with_sizes.default", {x}, {{"split_sizes", Ints{3, INT64_MAX, 1}}, {"dim", int64_t{1}}}),
      HasSubstr("a piece of 9223372036854775807 elements from 3 on, of 3"));
  EXPECT_THAT(problem("aten.prelu.default", {counting({1, 3, 2}), y}),
              HasSubstr("weight [4] does not fit input [1, 3, 2]"));
}

}  // namespace
}  // namespace npusim
