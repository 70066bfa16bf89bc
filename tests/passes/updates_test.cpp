// Buffers that are updated in place: by steps, and by recipes, which run once at load.
#include <fmt/format.h>

#include <functional>

#include "passes/run_graph.h"

namespace npusim {
namespace {

using test::GraphRun;
using test::run_graph;
using testing::TestWithParam;

struct Box {
  int top, bottom, left, right;
};

// `base`, an [8, 8] tensor, with every box filled through two slices by what `fill` says, plus x.
std::string filled(const std::string& base, const std::vector<Box>& boxes, const std::function<double(size_t)>& fill) {
  std::string text = "input %x: float32[8, 8]\n" + base;
  for (size_t i = 0; i < boxes.size(); ++i) {
    const Box& b = boxes[i];
    text += fmt::format(
        "%s{0}: float32[{1}, 8] = aten.slice.Tensor(%base, dim=0, start={3}, end={4})\n"
        "%t{0}: float32[{1}, {2}] = aten.slice.Tensor(%s{0}, dim=1, start={5}, end={6})\n"
        "%f{0}: float32[{1}, {2}] = aten.fill_.Scalar(%t{0}, value={7:.1f})\n",
        i, b.bottom - b.top, b.right - b.left, b.top, b.bottom, b.left, b.right, fill(i));
  }
  return text + "%y: float32[8, 8] = aten.add.Tensor(%base, %x)\noutput %y\n";
}

const std::string zeros = "%base: float32[8, 8] = aten.zeros.default(size=[8, 8])\n";
const std::string copy_of_x = "%base: float32[8, 8] = aten.clone.default(%x)\n";

// Boxes of one size and one number have one kernel over one buffer: not the same recipe, for the buffer has another
// content each time.
class Fills : public TestWithParam<size_t> {};
TEST_P(Fills, OfOneBufferAreAllDone) {
  const std::vector<Box> all{{0, 3, 0, 3}, {0, 3, 3, 5}, {0, 3, 5, 8}, {3, 5, 0, 3}, {3, 5, 3, 5}, {3, 5, 5, 8}};
  const std::vector<Box> boxes{all.begin(), all.begin() + static_cast<std::ptrdiff_t>(GetParam())};
  for (const std::string& base : {zeros, copy_of_x})
    for (const bool passes : {true, false}) {
      const std::set<std::string> disabled = passes ? std::set<std::string>{} : std::set<std::string>{"all"};
      run_graph(filled(base, boxes, [](size_t i) { return static_cast<double>(i + 1); }), {.disabled = disabled});
      run_graph(filled(base, boxes, [](size_t) { return 2.0; }), {.disabled = disabled});
    }
}
INSTANTIATE_TEST_SUITE_P(Slices, Fills, testing::Values(1, 2, 3, 6));

TEST(Updates, TheSameBoxTwiceKeepsTheLast) {
  const GraphRun run = run_graph(
      filled(zeros, {{0, 2, 0, 8}, {1, 3, 0, 8}, {0, 2, 0, 8}}, [](size_t i) { return static_cast<double>(i + 1); }),
      {.given = {{"x", make_tensor({DType::f32, {8, 8}})}}});
  ASSERT_EQ(run.outputs.size(), 1U);
  EXPECT_EQ(test::values_of(run.outputs[0])[0], 3);
  EXPECT_EQ(test::values_of(run.outputs[0])[16], 2);
}

// A value that is read before its update and after it.
TEST(Updates, OldAndNewAreBothRead) {
  run_graph(
      "input %x: float32[4, 6]\n"
      "%a: float32[4, 6] = aten.mul.Tensor(%x, 2.0)\n"
      "%before: float32[4, 6] = aten.exp.default(%a)\n"
      "%s: float32[2, 6] = aten.slice.Tensor(%a, dim=0, start=1, end=3)\n"
      "%f: float32[2, 6] = aten.fill_.Scalar(%s, value=7.0)\n"
      "%y: float32[4, 6] = aten.add.Tensor(%a, %before)\n"
      "output %y\noutput %before\noutput %a\n");
}

// What is added up at computed places comes from rows: each row counts once, however long it is.
TEST(Updates, RowsAreAddedOnce) {
  run_graph(
      "input %x: float32[5, 7]\n"
      "input %to: float32[6]\n"
      "input %at: int64[5]\n"
      "%sum: float32[5] = aten.sum.dim_IntList(%x, dim=[1])\n"
      "%y: float32[6] = aten.index_add.default(%to, %at, %sum, dim=0)\n"
      "output %y\n");
}

}  // namespace
}  // namespace npusim
