// Views and joins: their kernels are plain copies, dimensions count from the end, and cat keeps every operand.
#include <gtest/gtest.h>

#include <limits>

#include "kernel/facts/memory.h"
#include "ops/call.h"

namespace npusim::testing_ops {
namespace {

using Ints = std::vector<int64_t>;
using Numbers = std::vector<double>;

Kernel only_kernel(HandCall& call) {
  Lowering lowering = call.lowered();
  EXPECT_EQ(lowering.calls.size(), 1u);
  EXPECT_TRUE(check_kernel(lowering.calls.at(0).kernel).empty());
  return lowering.calls.at(0).kernel;
}

TEST(View, MovesNoElementWhenOnlyTheShapeChanges) {
  for (auto [name, attrs] : std::initializer_list<std::pair<const char*, HandCall::Attrs>>{
           {"aten.view.default", {{"size", Ints{-1, 2}}}},
           {"aten.reshape.default", {{"shape", Ints{6, 1, 4}}}},
           {"aten.flatten.using_ints", {{"start_dim", int64_t{-2}}}},
           {"aten.unflatten.int", {{"dim", int64_t{-1}}, {"sizes", Ints{2, -1}}}},
           {"aten.squeeze.default", {}},
           {"aten.unsqueeze.default", {{"dim", int64_t{-1}}}}}) {
    HandCall call(name, {counting({2, 3, 4})}, attrs);
    EXPECT_TRUE(is_identity(only_kernel(call))) << name;
  }
}

TEST(View, IsACopyOfStrides) {
  for (auto [name, attrs] : std::initializer_list<std::pair<const char*, HandCall::Attrs>>{
           {"aten.transpose.int", {{"dim0", int64_t{-1}}, {"dim1", int64_t{0}}}},
           {"aten.permute.default", {{"dims", Ints{2, 0, -2}}}},
           {"aten.slice.Tensor", {{"dim", int64_t{-1}}, {"start", int64_t{1}}}},
           {"aten.select.int", {{"dim", int64_t{1}}, {"index", int64_t{-1}}}},
           {"aten.flip.default", {{"dims", Ints{0, -1}}}},
           {"aten.unfold.default", {{"dimension", int64_t{2}}, {"size", int64_t{2}}, {"step", int64_t{1}}}},
           {"aten.repeat.default", {{"repeats", Ints{2, 1, 1, 3}}}},
           {"aten.repeat_interleave.self_int", {{"repeats", int64_t{2}}, {"dim", int64_t{1}}}}}) {
    HandCall call(name, {counting({2, 3, 4})}, attrs);
    EXPECT_TRUE(is_copy(only_kernel(call))) << name;
  }
}

// Null and negative bounds.
TEST(View, SliceTakesOpenAndNegativeBounds) {
  HandCall all("aten.slice.Tensor", {counting({5})});
  EXPECT_EQ(values(all.run()[0]), (Numbers{0, 1, 2, 3, 4}));
  HandCall tail("aten.slice.Tensor", {counting({5})}, {{"start", int64_t{-2}}, {"end", int64_t{9223372036854775807}}});
  EXPECT_EQ(values(tail.run()[0]), (Numbers{3, 4}));
  HandCall crossed("aten.slice.Tensor", {counting({5})}, {{"start", int64_t{4}}, {"end", int64_t{-3}}});
  EXPECT_EQ(crossed.run()[0].type.shape, Shape{0});
}

// Exchanging dimensions across one of extent 1 moves elements.
TEST(View, TransposeAcrossAUnitDimensionMoves) {
  HandCall call("aten.transpose.int", {counting({2, 1, 3})}, {{"dim0", int64_t{0}}, {"dim1", int64_t{2}}});
  EXPECT_FALSE(is_identity(only_kernel(call)));
  EXPECT_EQ(values(call.run()[0]), (Numbers{0, 3, 1, 4, 2, 5}));
  HandCall unit("aten.transpose.int", {counting({2, 1, 3})}, {{"dim0", int64_t{1}}, {"dim1", int64_t{0}}});
  EXPECT_TRUE(is_identity(only_kernel(unit)));
}

TEST(View, SplitsCoverTheDimension) {
  HandCall split("aten.split.Tensor", {counting({7})}, {{"split_size", int64_t{3}}});
  const auto pieces = split.run();
  ASSERT_EQ(pieces.size(), 3u);
  EXPECT_EQ(values(pieces[2]), Numbers{6});
  HandCall chunk("aten.chunk.default", {counting({5})}, {{"chunks", int64_t{4}}});
  EXPECT_EQ(chunk.run().size(), 3u);  // pieces of 2
  HandCall sizes("aten.split_with_sizes.default", {counting({5})}, {{"split_sizes", Ints{2, 2}}});
  EXPECT_NE(sizes.problem().find("pieces of 4 elements for a dimension of 5"), std::string::npos) << sizes.problem();
}

TEST(View, BadShapesAreNamed) {
  HandCall view("aten.view.default", {counting({2, 3})}, {{"size", Ints{4, -1}}});
  EXPECT_NE(view.problem().find("[4, -1] does not have the elements of [2, 3]"), std::string::npos) << view.problem();
  HandCall select("aten.select.int", {counting({3})}, {{"dim", int64_t{0}}, {"index", int64_t{3}}});
  EXPECT_NE(select.problem().find("index 3 is out of range"), std::string::npos) << select.problem();
}

// Every operand counts, empty ones anywhere, and [0] ones of any rank's company are skipped.
TEST(Cat, KeepsEveryOperand) {
  HandCall call(
      "aten.cat.default",
      {floats({0}, {}), floats({1, 2}, {1, 2}), floats({0, 2}, {}), floats({2, 2}, {3, 4, 5, 6}), floats({0}, {})}, {},
      {5});
  EXPECT_EQ(only_kernel(call).stores.size(), 1u);
  const HostTensor result = call.run()[0];
  EXPECT_EQ(result.type.shape, (Shape{3, 2}));
  EXPECT_EQ(values(result), (Numbers{1, 2, 3, 4, 5, 6}));
}

TEST(Cat, JoinsManyOperands) {
  std::vector<std::optional<HostTensor>> operands;
  Numbers expected;
  for (int i = 0; i < 300; ++i) {
    operands.emplace_back(floats({1}, {static_cast<double>(i)}));
    expected.push_back(i);
  }
  HandCall call("aten.cat.default", std::move(operands), {}, {300});
  EXPECT_EQ(values(call.run()[0]), expected);
}

TEST(Cat, PromotesItsOperands) {
  HandCall call("aten.cat.default", {tensor(DType::i64, {1}, {3}), tensor(DType::f16, {1}, {0.5})}, {}, {2});
  const HostTensor result = call.run()[0];
  EXPECT_EQ(result.type.dtype, DType::f16);
  EXPECT_EQ(values(result), (Numbers{3, 0.5}));
}

TEST(Cat, NamesTheOperandThatDoesNotFit) {
  HandCall call("aten.cat.default", {counting({2, 3}), counting({2, 4})}, {}, {2});
  EXPECT_NE(call.problem().find("operand 1 of shape [2, 4]"), std::string::npos) << call.problem();
}

TEST(Pad, IsOneKernelAndCropsToo) {
  HandCall call("aten.constant_pad_nd.default", {counting({2, 3})}, {{"pad", Ints{1, -1, 0, 1}}, {"value", 9.0}});
  only_kernel(call);
  EXPECT_EQ(values(call.run()[0]), (Numbers{9, 0, 1, 9, 3, 4, 9, 9, 9}));
  HandCall reflected("aten.pad.default", {counting({3})}, {{"pad", Ints{2, 2}}, {"mode", std::string("reflect")}});
  EXPECT_EQ(values(reflected.run()[0]), (Numbers{2, 1, 0, 1, 2, 1, 0}));
  HandCall large("aten.pad.default", {counting({3})}, {{"pad", Ints{3, 0}}, {"mode", std::string("reflect")}});
  EXPECT_NE(large.problem().find("padding 3 is too large for [3]"), std::string::npos) << large.problem();
}

TEST(Roll, OverManyDimensions) {
  HandCall call("aten.roll.default", {counting({2, 2, 2, 2})},
                {{"shifts", Ints{1, 1, 1, 1}}, {"dims", Ints{0, 1, 2, -1}}});
  EXPECT_EQ(values(call.run()[0]), (Numbers{15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0}));
}

TEST(Roll, CountsModuloTheExtent) {
  constexpr int64_t least = std::numeric_limits<int64_t>::min(), most = std::numeric_limits<int64_t>::max();
  const auto rolled = [](Ints shifts, Ints dims) {
    return values(HandCall("aten.roll.default", {counting({3})}, {{"shifts", shifts}, {"dims", dims}}).run()[0]);
  };
  for (const Ints& flat_or_not : {Ints{}, Ints{0}}) {
    EXPECT_EQ(rolled({int64_t{1} << 32}, flat_or_not), (Numbers{2, 0, 1}));  // by 1
    EXPECT_EQ(rolled({most}, flat_or_not), (Numbers{2, 0, 1}));              // by 1
    EXPECT_EQ(rolled({least}, flat_or_not), (Numbers{2, 0, 1}));             // by -2
  }
  EXPECT_EQ(rolled({most, most}, {0, 0}), (Numbers{1, 2, 0}));     // by 2
  EXPECT_EQ(rolled({least, least}, {0, -1}), (Numbers{1, 2, 0}));  // by -4
  EXPECT_EQ(
      values(HandCall("aten.roll.default", {counting({0})}, {{"shifts", Ints{least}}, {"dims", Ints{0}}}).run()[0]),
      Numbers{});
}

}  // namespace
}  // namespace npusim::testing_ops
