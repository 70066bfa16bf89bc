// Computed indices: updates in place, wrapping and trapping, the dimensions of x[indices], and orders.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <random>

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

// f32 cache, bf16 rows; and a result declared in another dtype than self.
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

// An id keeps every digit.
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

TEST(Sort, OrdersRowsOfAnyLength) {
  std::vector<double> falling;
  for (int i = 0; i < 5000; ++i) falling.push_back(5000 - i / 2);
  HandCall call("aten.sort.default", {floats({5000, 1}, falling)}, {{"dim", int64_t{0}}});
  const auto results = call.run();
  EXPECT_THAT(values(results[0]), testing::WhenSorted(testing::ElementsAreArray(values(results[0]))));
  EXPECT_EQ(values(results[1])[0], 4998);
  EXPECT_EQ(values(results[1])[1], 4999);
  HandCall topk("aten.topk.default", {floats({5000}, falling)}, {{"k", int64_t{3}}});
  EXPECT_THAT(values(topk.run()[1]), ElementsAre(0, 1, 2));
  EXPECT_THAT(result("aten.median.default", {floats({2, 2500}, falling)}), ElementsAre(3750));
}

TEST(Sort, KeepsNothingOfARow) {
  HandCall call("aten.topk.default", {counting({3, 4})}, {{"k", int64_t{0}}});
  expect_sound(call.lowered());
  EXPECT_EQ(call.run()[0].type.shape, (Shape{3, 0}));
}

// The same numbers element by element: one after the other into what is there.
double combined(const std::string& how, double self, bool include_self, const std::vector<double>& sources) {
  if (sources.empty()) return self;
  std::vector<double> all = sources;
  if (include_self) all.insert(all.begin(), self);
  double x = all[0];
  for (size_t i = 1; i < all.size(); ++i)
    x = how == "prod"   ? x * all[i]
        : how == "amin" ? std::min(x, all[i])
        : how == "amax" ? std::max(x, all[i])
                        : x + all[i];
  return how == "mean" ? x / static_cast<double>(all.size()) : x;
}

TEST(ScatterReduce, CombinesWhatFallsOnAnElement) {
  std::mt19937 random(5);
  for (int n = 0; n < 120; ++n) {
    const std::string how = std::vector<std::string>{"sum", "prod", "mean", "amin", "amax"}[random() % 5];
    const bool include_self = random() % 2, along_rows = random() % 2, vector = random() % 2 && how != "sum";
    const int64_t rows = 1 + random() % 5, columns = 1 + random() % 4, count = random() % 9;
    const auto whole = [&] { return static_cast<double>(random() % 7) - 3; };
    const int64_t extent = along_rows ? rows : columns;
    Shape source{along_rows ? count : rows, along_rows ? columns : count};
    std::vector<double> self_values, index, values_of;
    for (int64_t i = 0; i < rows * columns; ++i) self_values.push_back(whole());
    for (int64_t i = 0; i < source[0] * source[1]; ++i) values_of.push_back(whole());
    const int64_t indices_count = vector ? count : source[0] * source[1];
    for (int64_t i = 0; i < indices_count; ++i) index.push_back(static_cast<double>(random() % extent));
    std::vector<std::vector<double>> fallen(self_values.size());
    for (int64_t i = 0; i < source[0]; ++i)
      for (int64_t j = 0; j < source[1]; ++j) {
        const auto at =
            static_cast<int64_t>(index[static_cast<size_t>(vector ? (along_rows ? i : j) : i * source[1] + j)]);
        fallen[static_cast<size_t>(along_rows ? at * columns + j : i * columns + at)].push_back(
            values_of[static_cast<size_t>(i * source[1] + j)]);
      }
    std::vector<double> expected;
    for (size_t i = 0; i < fallen.size(); ++i)
      expected.push_back(combined(how, self_values[i], include_self, fallen[i]));
    HandCall call(vector ? "aten.index_reduce.default" : "aten.scatter_reduce.two",
                  {floats({rows, columns}, self_values), indices(vector ? Shape{count} : source, index),
                   floats(source, values_of)},
                  {{"dim", int64_t{along_rows ? 0 : 1}}, {"reduce", how}, {"include_self", include_self}});
    expect_sound(call.lowered());
    EXPECT_THAT(values(call.run()[0]), testing::Pointwise(testing::FloatNear(1e-5F), expected)) << how << include_self;
  }
}

// Each operator has names of its own.
TEST(ScatterReduce, HasTheReductionsThatAtenHas) {
  const std::map<std::string, std::vector<std::string>> names{
      {"aten.scatter.reduce", {"add", "multiply"}},
      {"aten.scatter_reduce.two", {"sum", "prod", "mean", "amax", "amin"}},
      {"aten.index_reduce.default", {"prod", "mean", "amax", "amin"}}};
  for (const auto& [op, known] : names)
    for (const std::string how : {"add", "multiply", "sum", "prod", "mean", "amax", "amin", "", "max"}) {
      HandCall call(op, {counting({3}), indices({3}, {0, 1, 1}), counting({3})},
                    {{"dim", int64_t{0}}, {"reduce", how}});
      if (std::find(known.begin(), known.end(), how) != known.end())
        EXPECT_NO_THROW(call.lowered()) << op << " " << how;
      else
        EXPECT_THROW(call.lowered(), Error) << op << " " << how;
    }
}

TEST(ScatterReduce, TrapsOutsideTheDimension) {
  for (const double bad : {-1, 3})
    for (const auto& [op, how] : {std::pair{"aten.scatter_reduce.two", "amax"},
                                  {"aten.scatter_reduce.two", "mean"},
                                  {"aten.index_reduce.default", "prod"},
                                  {"aten.scatter.reduce", "add"}}) {
      HandCall call(op, {counting({3}), indices({3}, {0, bad, 1}), counting({3})},
                    {{"dim", int64_t{0}}, {"reduce", std::string(how)}});
      call.lowered();
      try {
        call.run();
        ADD_FAILURE() << op << " takes " << bad;
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::bad_input);
        EXPECT_THAT(error.what(), HasSubstr(fmt::format("index {} is out of range for a dimension of 3", bad)));
      }
    }
}

// Each element of a column added to the pixel that it was taken from, whatever kernels, strides and dilations divide.
TEST(Col2im, SumsTheWindows) {
  std::mt19937 random(6);
  for (int n = 0; n < 150;) {
    const auto number = [&](int64_t low, int64_t high) {
      return std::uniform_int_distribution<int64_t>(low, high)(random);
    };
    const auto pair = [&](int64_t low, int64_t high) {
      return std::vector<int64_t>{number(low, high), number(low, high)};
    };
    const auto kernel = pair(1, 5), dilation = pair(1, 4), padding = pair(0, 2), stride = pair(1, 6),
               image = pair(1, 12);
    int64_t out[2];
    bool fits = true;
    for (size_t d : {0, 1}) {
      const int64_t free = image[d] + 2 * padding[d] - dilation[d] * (kernel[d] - 1) - 1;
      fits = fits && free >= 0;
      out[d] = free / stride[d] + 1;
    }
    if (!fits) continue;
    ++n;
    const HostTensor columns = counting({2, 2 * kernel[0] * kernel[1], out[0] * out[1]});
    std::vector<double> expected(static_cast<size_t>(4 * image[0] * image[1]));
    int64_t at = 0;
    for (int64_t c = 0; c < 4; ++c)
      for (int64_t i = 0; i < kernel[0]; ++i)
        for (int64_t j = 0; j < kernel[1]; ++j)
          for (int64_t y = 0; y < out[0]; ++y)
            for (int64_t x = 0; x < out[1]; ++x, ++at) {
              const int64_t row = y * stride[0] + i * dilation[0] - padding[0],
                            column = x * stride[1] + j * dilation[1] - padding[1];
              if (row >= 0 && row < image[0] && column >= 0 && column < image[1])
                expected[static_cast<size_t>((c * image[0] + row) * image[1] + column)] += static_cast<double>(at);
            }
    HandCall call("aten.col2im.default", {columns},
                  {{"output_size", image},
                   {"kernel_size", kernel},
                   {"dilation", dilation},
                   {"padding", padding},
                   {"stride", stride}});
    const Lowering lowering = call.lowered();
    expect_sound(lowering);
    EXPECT_EQ(values(call.run()[0]), expected);
    // Few places are asked for each pixel.
    const Kernel& k = lowering.calls.back().kernel;
    for (size_t d : {0, 1}) EXPECT_LE(k.space[k.space.size() - 2 + d], kernel[d]);
  }
}

TEST(Search, FollowsTheSorter) {
  HandCall call("aten.searchsorted.Tensor",
                {floats({3}, {2, -1, 0.5}), floats({2}, {0, 0.5}), indices({3}, {1, 2, 0})});
  EXPECT_THAT(values(call.run()[0]), ElementsAre(1, 1));
}

TEST(Search, FindsWhatCountingFinds) {
  std::mt19937 random(7);
  for (int n = 0; n < 100; ++n) {
    std::vector<double> sorted(random() % 40), sought{std::nan(""), -100, 100};
    for (double& x : sorted) x = static_cast<double>(random() % 12) - 6;
    std::sort(sorted.begin(), sorted.end());
    for (int i = 0; i < 9; ++i) sought.push_back((static_cast<double>(random() % 26) - 13) / 2);
    const bool right = random() % 2;
    std::vector<double> expected, present;
    for (const double x : sought) {
      expected.push_back(static_cast<double>(
          std::count_if(sorted.begin(), sorted.end(), [&](double b) { return right ? !(x < b) : !(x <= b); })));
      present.push_back(std::count(sorted.begin(), sorted.end(), x) > 0);
    }
    const HostTensor row = floats({static_cast<int64_t>(sorted.size())}, sorted), of = floats({3, 4}, sought);
    EXPECT_EQ(result("aten.bucketize.Tensor", {of, row}, {{"right", right}}), expected);
    std::shuffle(sorted.begin(), sorted.end(), random);
    EXPECT_EQ(result("aten.isin.Tensor_Tensor", {of, floats(row.type.shape, sorted)}), present);
  }
}

}  // namespace
}  // namespace npusim::testing_ops
