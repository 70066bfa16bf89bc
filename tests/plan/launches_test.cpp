// Launches of a program from what a target makes of them.
#include "plan/launches.h"

#include <gtest/gtest.h>

#include "kernel/builder.h"

namespace npusim {
namespace {

Program with_launches() {
  Program p;
  KernelBuilder b({4});
  const int x = b.input({DType::f32, {4}}), y = b.output({DType::f32, {4}});
  b.store(y, b.load(x, std::vector<Coord>{b.dim(0)}));
  p.kernels = {b.finish("first"), b.finish("second")};
  for (const char* name : {"one", "two", "three"}) p.origins.emplace_back().node = name;
  p.recipes.steps = {{0, {0, 1}, 0, {0}}};
  p.recipes.launches.emplace_back().count = 1;
  Method& m = p.methods.emplace_back();
  m.steps = {{0, {1, 2}, 0, {1}}, {1, {2, 3}, 0, {2}}, {1, {3, 4}, 0, {2}}};
  m.launches.resize(2);
  m.launches[0].count = 2;
  m.launches[1].first = 2, m.launches[1].count = 1;
  return p;
}

TEST(Launches, AreFilledInAndFunctionsFoundOnce) {
  Program p = with_launches();
  const auto one = std::make_shared<plan::GeneratedKernel>();
  one->symbol = "one", one->functions = "text", one->shape = {3, 64}, one->shared_bytes = 17, one->how = "rows";
  one->early = true, one->declined = {{"pair", "of other steps"}};
  std::vector<std::pair<ptrdiff_t, size_t>> asked;
  const auto functions = plan::fill_launches(p, [&](const Sequence& s, const Launch& l, plan::LaunchPosition at) {
    asked.emplace_back(at.method, at.number);
    const std::span steps = plan::steps_of(s, l);
    if (steps.size() == 1)
      return plan::LaunchedBy{one, steps[0].buffers, {{"pair", at.method < 0 ? "of the recipe" : "of the method"}}};
    const auto two = std::make_shared<plan::GeneratedKernel>();
    two->symbol = "two", two->own_bytes = 32, two->traps = {"a", "b"}, two->trap_steps = {1, 0};
    return plan::LaunchedBy{two, {7, 8}};
  });
  EXPECT_EQ(asked, (std::vector<std::pair<ptrdiff_t, size_t>>{{-1, 0}, {0, 0}, {0, 1}}));
  ASSERT_EQ(functions.size(), 2U);
  EXPECT_EQ(functions[0].made, one);
  EXPECT_EQ(functions[0].launches, (std::vector<Launch*>{&p.recipes.launches[0], &p.methods[0].launches[1]}));
  const Launch &first = p.recipes.launches[0], &both = p.methods[0].launches[0];
  EXPECT_EQ(first.symbol, "one");
  EXPECT_EQ(first.grid[0], 3U);
  EXPECT_EQ(first.block[0], 64U);
  EXPECT_EQ(first.shared_bytes, 17U);
  EXPECT_EQ(first.how, "rows");
  EXPECT_TRUE(first.early);
  ASSERT_EQ(first.declined.size(), 1U);
  EXPECT_EQ(first.declined[0].reason, "of the recipe") << "equal kernels have other neighbours";
  ASSERT_EQ(p.methods[0].launches[1].declined.size(), 1U);
  EXPECT_EQ(p.methods[0].launches[1].declined[0].reason, "of the method");
  EXPECT_TRUE(both.declined.empty());
  EXPECT_EQ(first.args, (std::vector<int32_t>{0, 1}));
  EXPECT_TRUE(first.traps.empty());
  EXPECT_EQ(first.code, -1);
  EXPECT_EQ(both.args, (std::vector<int32_t>{7, 8, trap_word, own_memory}));
  EXPECT_EQ(both.own_bytes, 32U);
  EXPECT_EQ(both.traps, (std::vector<std::string>{"node three: a", "node two: b"}));
}

}  // namespace
}  // namespace npusim
